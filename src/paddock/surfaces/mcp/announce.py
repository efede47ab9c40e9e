"""Tell connected clients that the tools are others now: each era has a way of its own."""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ToolsListChanged,
)
from mcp_types import NotificationParams, SubscriptionsListenRequestParams

_CLIENTS = 64
"""Clients of 2025-11-25 that are told, the latest ones, and streams of 2026-07-28."""
_PATIENCE_SECONDS = 1.0


class Announcer:
    """Who is told of changes: clients of 2025-11-25 that shook hands, and streams that clients of 2026-07-28 opened."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._sessions: deque[ServerSession] = deque(maxlen=_CLIENTS)

    def attach(self, server: "Server[Any]") -> None:
        """Have a server tell its clients."""
        listen = ListenHandler(self._bus, max_subscriptions=_CLIENTS)
        server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, listen)
        server.add_notification_handler("notifications/initialized", NotificationParams, self._meet)

    async def tools_changed(self) -> None:
        """Tell everybody. A client that does not read is not waited for."""
        await self._bus.publish(ToolsListChanged())
        await asyncio.gather(*map(_tell, tuple(self._sessions)))

    async def resources_changed(self) -> None:
        """Tell those who listen for it; clients of 2025-11-25 are not told that they could."""
        await self._bus.publish(ResourcesListChanged())

    async def _meet(self, context: ServerRequestContext[Any, Any], _params: NotificationParams) -> None:
        self._sessions.append(context.session)


async def _tell(session: ServerSession) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await session.send_tool_list_changed()


class AnnouncingServer(Server[Any]):
    """A server that says, over every transport, that its tools may change."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return the options of the library, with changes of the tools announced."""
        told = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(told, experimental_capabilities, extensions)
