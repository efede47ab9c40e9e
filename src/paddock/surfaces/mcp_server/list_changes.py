"""Notify connected clients that the tools changed; each revision has its own way."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    NotificationParams,
    PromptsCapability,
    ServerCapabilities,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    UnsubscribeRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from paddock.model.base import Json

if TYPE_CHECKING:
    from mcp.server.session import ServerSession

MAX_CLIENTS = 64
"""Maximum number of notified clients of 2025-11-25 (the latest ones), and of streams of 2026-07-28."""
_MAX_WATCHED_RESOURCES = 100
"""Maximum number of resources that one client watches."""
_MAX_URI_CHARS = 4096
_SEND_TIMEOUT_S = 1.0

Context = ServerRequestContext[Any, Any]


def read_session_id(context: Context) -> str:
    """Return the session id of a request of 2025-11-25; empty over stdio, which has one session."""
    return context.request.headers.get("mcp-session-id", "") if context.request else ""


def call_at_session_end(context: Context, forget: Callable[[str], object]) -> None:
    """Call `forget` when a session ends, so that ended sessions do not count towards the limit."""
    connection = context.session._connection  # pyright: ignore[reportPrivateUsage] # noqa: SLF001 - it has no other name
    connection.exit_stack.callback(forget, read_session_id(context))


class ChangeNotifier:
    """Notifies clients of 2025-11-25 that shook hands, and streams that clients of 2026-07-28 opened."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._sessions: dict[str, ServerSession] = {}
        self._watched: dict[str, tuple[ServerSession, set[str]]] = {}

    def attach(self, server: "Server[Any]") -> None:
        """Register the handlers of a server."""
        listen = ListenHandler(self._bus, max_subscriptions=MAX_CLIENTS)
        server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, listen)
        server.add_request_handler("resources/subscribe", SubscribeRequestParams, self._on_subscribe)
        server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self._on_unsubscribe)
        server.add_notification_handler("notifications/initialized", NotificationParams, self._on_initialized)

    async def announce_tools(self) -> None:
        """Notify all clients that the tools changed. Does not wait for a client that does not read."""
        await self._bus.publish(ToolsListChanged())
        await asyncio.gather(
            *(_send_in_time(session.send_tool_list_changed()) for session in tuple(self._sessions.values()))
        )

    async def announce_resources(self) -> None:
        """Notify streams that listen for it; clients of 2025-11-25 are not offered this."""
        await self._bus.publish(ResourcesListChanged())

    async def announce_resource_update(self, uri: str) -> None:
        """Notify the clients that watch a resource that it has changed."""
        await self._bus.publish(ResourceUpdated(uri=uri))
        watching = [session for session, uris in self._watched.values() if uri in uris]
        await asyncio.gather(*(_send_in_time(session.send_resource_updated(uri)) for session in watching))

    async def _on_subscribe(self, context: Context, params: SubscribeRequestParams) -> dict[str, Json]:
        """Let a client watch a resource, which may not exist yet."""
        if read_session_id(context) not in self._watched:
            call_at_session_end(context, lambda session: self._watched.pop(session, None))
        _, uris = self._watched.pop(read_session_id(context), (None, set[str]()))
        self._watched[read_session_id(context)] = (context.session, uris)
        if len(self._watched) > MAX_CLIENTS:
            del self._watched[next(iter(self._watched))]
        if len(uris) >= _MAX_WATCHED_RESOURCES or len(params.uri) > _MAX_URI_CHARS:
            text = f"a client watches {_MAX_WATCHED_RESOURCES} resources at most, with {_MAX_URI_CHARS} characters each"
            raise MCPError(code=INVALID_PARAMS, message=text)
        uris.add(params.uri)
        return {}

    async def _on_unsubscribe(self, context: Context, params: UnsubscribeRequestParams) -> dict[str, Json]:
        if read_session_id(context) in self._watched:
            self._watched[read_session_id(context)][1].discard(params.uri)
        return {}

    async def _on_initialized(self, context: Context, _params: NotificationParams) -> None:
        if read_session_id(context) not in self._sessions:
            call_at_session_end(context, lambda session: self._sessions.pop(session, None))
        self._sessions[read_session_id(context)] = context.session
        if len(self._sessions) > MAX_CLIENTS:
            del self._sessions[next(iter(self._sessions))]


async def _send_in_time(sending: Coroutine[Any, Any, None]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_SEND_TIMEOUT_S):
            await sending


class AnnouncingServer(Server[Any]):
    """A server that declares, over every transport and in both revisions, that tools may change and prompts do not."""

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> ServerCapabilities:
        """Return the library's capabilities of the handlers, without those that are never announced."""
        announced = NotificationOptions(tools_changed=True)
        found = super().get_capabilities(
            announced, experimental_capabilities, extensions, protocol_version=protocol_version
        )
        own: dict[str, Any] = {"prompts": PromptsCapability(list_changed=False)}
        if protocol_version not in MODERN_PROTOCOL_VERSIONS:
            own["extensions"] = None  # 2025-11-25 has none
        return found.model_copy(update=own)
