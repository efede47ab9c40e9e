"""The MCP protocol around the table of tools, both eras: 2025-11-25 with sessions, 2026-07-28 without."""

from typing import Any

from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CompleteRequestParams,
    GetPromptRequestParams,
    Icon,
    PaginatedRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from paddock import __version__
from paddock.model.base import Json
from paddock.surfaces.mcp.announce import Announcer, AnnouncingServer
from paddock.surfaces.mcp.progress import streamed
from paddock.surfaces.mcp.prompts import Prompts, UnknownPromptError
from paddock.surfaces.mcp.tools import Answer, Caller, Toolbox

Context = ServerRequestContext[Any, Any]

INSTRUCTIONS = (
    "Paddock runs programs that call tools of MCP servers. Prefer one program over many single calls: loop, filter "
    "and join inside it, and return only what you need."
)
PAGE = 100
_ICON = (
    "data:image/svg+xml;base64,PHN2ZyB4bWxucz0naHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmcnIHZpZXdCb3g9JzAgMCA5IDknPjxw"
    "YXRoIGQ9J00yIDF2N001IDF2N004IDF2N00wIDNoOU0wIDZoOScgc3Ryb2tlPScjMjg2Jy8+PC9zdmc+"
)
"""A fence, nine by nine."""
_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000
_COMPLETE: dict[str, Json] = {"resultType": "complete"}
"""What 2026-07-28 wants of every result; the library removes it for clients of earlier versions."""


def protocol_server(
    toolbox: Toolbox, prompts: Prompts | None = None, announcer: Announcer | None = None
) -> "Server[Any]":
    """Return the protocol's side of a server that offers the tools of `toolbox`, and prompts.

    With an announcer clients are told that the tools may change, and when they do.
    """

    async def list_tools(_context: Context, params: PaginatedRequestParams) -> dict[str, Json]:
        return _page("tools", [tool.entry for tool in await toolbox.listed()], params)

    async def call_tool(context: Context, params: CallToolRequestParams) -> dict[str, Json]:
        if (context.meta or {}).get("progress_token") is None:
            answer = await toolbox.call(params.name, params.arguments, Caller(_actor(context)))
        else:
            async with streamed(context.session.report_progress) as listen:
                answer = await toolbox.call(params.name, params.arguments, Caller(_actor(context), listen))
        return _result(answer, context.protocol_version)

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
        },
        get_tool_input_schema=toolbox.input_schema,
    )
    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)
    if prompts is not None:
        _offer(server, prompts)
    if announcer is not None:
        announcer.attach(server)
    return server


def _offer(server: "Server[Any]", prompts: Prompts) -> None:
    """Have a server offer prompts and complete their arguments."""

    async def list_prompts(_context: Context, params: PaginatedRequestParams) -> dict[str, Json]:
        return _page("prompts", prompts.entries(), params)

    async def get_prompt(_context: Context, params: GetPromptRequestParams) -> dict[str, Json]:
        try:
            text = await prompts.text(params.name, params.arguments or {})
        except UnknownPromptError as error:
            raise MCPError(code=INVALID_PARAMS, message=str(error)) from None
        message = {"role": "user", "content": {"type": "text", "text": text}}
        return {"messages": [message], **_COMPLETE}

    async def complete(_context: Context, params: CompleteRequestParams) -> dict[str, Json]:
        values = prompts.completions(params.argument.name, params.argument.value)
        return {"completion": {"values": values, "hasMore": False}, **_COMPLETE}

    server.add_request_handler("prompts/list", PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", GetPromptRequestParams, get_prompt)
    server.add_request_handler("completion/complete", CompleteRequestParams, complete)


def _page(key: str, entries: list[dict[str, Json]], params: PaginatedRequestParams) -> dict[str, Json]:
    """Return one page of a listing. The cursor is the number of the first entry."""
    cursor = params.cursor
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < len(str(PAGE**4))):
        raise MCPError(
            code=INVALID_PARAMS, message=f"unknown cursor {cursor[:50]!r}; leave it out to begin again"
        )
    first = int(cursor or 0)
    page: dict[str, Json] = {key: entries[first : first + PAGE], **_COMPLETE}
    if first + PAGE < len(entries):
        page["nextCursor"] = str(first + PAGE)
    return page


def _result(answer: Answer, version: str) -> dict[str, Json]:
    """Return an answer as the result of a call: up to 2025-11-25 its data must be an object."""
    result = {**answer.result(), **_COMPLETE}
    if version not in MODERN_PROTOCOL_VERSIONS and not isinstance(result.get("structuredContent", {}), dict):
        del result["structuredContent"]
    return result


def _actor(context: Context) -> str:
    """Return who calls: what the client says it is, which is for the record and grants nothing."""
    params = context.session.client_params
    if params is None:
        return "mcp client"
    return f"{params.client_info.name} {params.client_info.version}".strip()
