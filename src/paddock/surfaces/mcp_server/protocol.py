"""The MCP protocol around the table of tools, both eras: 2025-11-25 with sessions, 2026-07-28 without."""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, Icon, PaginatedRequestParams
from mcp_types.methods import is_input_required
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from paddock._version import __version__
from paddock.model.base import Json
from paddock.model.canonical import canonical
from paddock.model.request import RequestKey
from paddock.surfaces.mcp_server.client_questions import Context, ElicitationRounds, read_actor
from paddock.surfaces.mcp_server.list_changes import AnnouncingServer, ChangeNotifier
from paddock.surfaces.mcp_server.progress import Logs, create_progress_sink, stream_console
from paddock.surfaces.mcp_server.prompts_resources import (
    COMPLETE_RESULT,
    PromptsAndResources,
    build_page,
    offer_prompts_and_resources,
)
from paddock.surfaces.mcp_server.tasks import Tasks
from paddock.surfaces.mcp_server.toolbox import ToolAnswer, Toolbox

if TYPE_CHECKING:
    from mcp.server.request_state import RequestStateBoundary

INSTRUCTIONS = (
    "Paddock runs programs that call tools of MCP servers. Prefer one program over many single calls: loop, filter "
    "and join inside it, and return only what you need."
)
_ICON = (
    "data:image/svg+xml;base64,PHN2ZyB4bWxucz0naHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmcnIHZpZXdCb3g9JzAgMCA5IDknPjxw"
    "YXRoIGQ9J00yIDF2N001IDF2N004IDF2N00wIDNoOU0wIDZoOScgc3Ryb2tlPScjMjg2Jy8+PC9zdmc+"
)
"""A fence, on a grid of nine by nine."""
_LINKS_SINCE = "2025-06-18"
"""First protocol revision with links."""
_KEY_FIELD = "paddock/key"
"""The name of a call's key in `_meta` of `tools/call`."""
_KEY_PATTERN = re.compile(r"[!-~]{1,255}", re.ASCII)
_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000


def build_protocol_server(
    toolbox: Toolbox,
    offers: PromptsAndResources,
    rounds: ElicitationRounds,
    announcer: ChangeNotifier | None = None,
    mark: str = "",
    *,
    tasks: Tasks | None = None,
) -> "Server[Any]":
    """Return a protocol server for the tools of `toolbox`, prompts and resources.

    `rounds` asks clients and their people. With an announcer, clients are notified when the tools change.
    `mark` names this replica of a server with several, in `requestState`. Long calls become `tasks` of clients that
    have the extension.
    """
    logs = Logs()

    async def list_tools(_context: Context, params: PaginatedRequestParams) -> dict[str, Json]:
        return build_page("tools", [tool.entry for tool in await toolbox.list_tools()], params)

    async def call_tool(context: Context, params: CallToolRequestParams) -> dict[str, Json]:
        key = _read_call_key(context.meta, params.name, params.arguments)
        reports = (context.meta or {}).get("progress_token") is not None
        work = partial(toolbox.call_tool, params.name, params.arguments, key=key, reports=reports)
        sinks = [logs.create_sink(context)]
        if reports:
            sinks.append(create_progress_sink(context.session.report_progress))
        finish = partial(finish_answer, context.protocol_version)
        offer = None if tasks is None else tasks.offer(context, params.name, finish)
        asking = partial(rounds.call_tool, context, params, read_actor(context), work, offer=offer)
        if wanted := [sink for sink in sinks if sink is not None]:
            async with stream_console(*wanted) as listen:
                answer = await asking(listen)
        else:
            answer = await asking(None)
        return await finish(answer) if isinstance(answer, ToolAnswer) else answer

    async def finish_answer(version: str, answer: ToolAnswer) -> dict[str, Json]:
        if announcer is not None and any(block["type"] == "resource_link" for block in answer.content):
            await announcer.announce_resources()
        result = {**answer.to_result(), **COMPLETE_RESULT}
        if version < _LINKS_SINCE:
            result["content"] = [block for block in answer.content if block["type"] != "resource_link"]
        if version not in MODERN_PROTOCOL_VERSIONS and not isinstance(
            result.get("structuredContent", {}), dict
        ):
            del result["structuredContent"]  # up to 2025-11-25 structured data must be an object
        return result

    kind: type[Server[Any]] = AnnouncingServer if announcer else Server
    server = kind(
        "paddock",
        version=__version__,
        title="Paddock",
        instructions=INSTRUCTIONS,
        icons=[Icon(src=_ICON, mime_type="image/svg+xml", sizes=["any"])],
        cache_hints={
            "tools/list": CacheHint(ttl_ms=_MINUTE_MS if announcer else _HOUR_MS, scope="private"),
            "prompts/list": CacheHint(ttl_ms=_HOUR_MS, scope="private"),
            "resources/list": CacheHint(ttl_ms=0, scope="private"),
            "resources/templates/list": CacheHint(ttl_ms=_HOUR_MS, scope="private"),
            "resources/read": CacheHint(ttl_ms=_MINUTE_MS, scope="private"),
        },
        get_tool_input_schema=toolbox.input_schema,
    )
    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)
    offer_prompts_and_resources(server, offers, rounds)
    logs.attach(server)
    if announcer is not None:
        announcer.attach(server)
    if tasks is not None:
        tasks.attach(server)
    _seal_request_state(server, rounds.wait_ms, mark)
    return server


def _seal_request_state(server: "Server[Any]", wait_ms: int, mark: str) -> None:
    """Encrypt `requestState`, and accept it only for this request of this client, for a limited time.

    The mark before it is not encrypted: other replicas pass the request on to the one with this mark.
    """

    @cache
    def get_boundary() -> "RequestStateBoundary":
        from mcp.server.request_state import (  # 30 ms, needed only for clients that can be asked
            RequestStateBoundary,
            RequestStateSecurity,
        )

        keys = [os.urandom(32)]
        security = RequestStateSecurity(keys=keys, ttl=wait_ms / 1000, bind_principal=read_actor)
        return RequestStateBoundary(security, default_audience="paddock")

    async def seal_state(ctx: Context, call_next: CallNext) -> HandlerResult:
        params = ctx.params or {}
        if isinstance(state := params.get("requestState"), str):
            ctx = replace(ctx, params={**params, "requestState": state.removeprefix(mark)})
        if state is not None:
            return _mark_state(await get_boundary()(ctx, call_next), mark)
        result = await call_next(ctx)
        if not is_input_required(result):
            return result

        async def return_result(_ctx: Context) -> HandlerResult:
            return result

        return _mark_state(await get_boundary()(ctx, return_result), mark)

    server.middleware.append(seal_state)


def _read_call_key(meta: Mapping[str, Any] | None, name: str, arguments: Json) -> RequestKey | None:
    """Return the key of a call of a tool; None without one. Raises MCPError if it is not valid.

    The same key starts at most once among all replicas of a cluster.
    """
    key = (meta or {}).get(_KEY_FIELD)
    if key is None:
        return None
    if not isinstance(key, str) or not _KEY_PATTERN.fullmatch(key):
        raise MCPError(
            code=INVALID_PARAMS,
            message=f"`{_KEY_FIELD}` is 1 to 255 printable ASCII characters without spaces. Send a new random one, "
            "such as a UUID, for each new call.",
        )
    return RequestKey(name=key, digest=hashlib.sha256(canonical(["mcp", name, arguments])).digest())


def _mark_state(result: HandlerResult, mark: str) -> HandlerResult:
    """Return a result with the mark before its `requestState`, if it has one."""
    if isinstance(result, Mapping) and isinstance(state := result.get("requestState"), str):
        return {**result, "requestState": f"{mark}{state}"}
    return result
