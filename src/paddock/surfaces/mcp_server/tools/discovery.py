"""The tools with which agents find upstream tools and learn to call them."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated, NotRequired, TypedDict

from paddock.engines.servers.catalog.queries import MAX_QUERIES, default_limit
from paddock.engines.servers.typescript import Described, Output, render_signature
from paddock.model.base import count
from paddock.model.errors import UnknownServer
from paddock.model.outcome import Status
from paddock.model.texts import cut_text
from paddock.surfaces.mcp_server.output_schemas import build_schema
from paddock.surfaces.mcp_server.toolbox import (
    Arguments,
    McpCaller,
    McpTool,
    ToolAnswer,
    build_refusal,
    object_schema,
    text_block,
)
from paddock.surfaces.rendering import answers

if TYPE_CHECKING:
    from paddock.engines.servers.catalog.catalog import ToolListing, UnmatchedName
    from paddock.engines.servers.config import ServersConfig
    from paddock.gate.servers import ServerService

SEARCH_TOOLS = (
    "Use this first to find tools: one short query per step in `queries`. Gives TypeScript signatures."
)
DESCRIBE_TOOLS = "Use this when unsure of a tool's arguments. Gives TypeScript declarations."
SEARCH_WAIT_S = 30.0
"""Maximum time for servers without a known listing, in seconds; clients give up on an answer after a minute."""
_MAX_MATCHES = 50


class DiscoveredTool(TypedDict):
    """A tool that a search found."""

    server: str
    tool: str
    signature: Annotated[str, "TypeScript, on one line."]


class DescribedTool(TypedDict):
    """The declaration of a tool."""

    name: str
    declaration: Annotated[str, "TypeScript."]
    output: Annotated[Output, "Source of the result's type."]


class LookupAnswer(TypedDict):
    """What both answers have besides the tools."""

    status: answers.LookupStatus
    notes: NotRequired[Annotated[list[str], "What is missing or wrong, and why."]]
    error: NotRequired[answers.ErrorFields]


class DiscoveredTools(LookupAnswer):
    """The answer of `search_tools`."""

    tools: NotRequired[list[DiscoveredTool]]


class DescribedTools(LookupAnswer):
    """The answer of `describe_tools`."""

    tools: NotRequired[list[DescribedTool]]


class _Discovery:
    """The two tools, on the servers of a session; results have at most `cap` characters."""

    def __init__(self, servers: "ServerService", cap: int) -> None:
        self._servers = servers
        self._cap = cap

    async def search_tools(self, arguments: Arguments, _caller: McpCaller) -> ToolAnswer:
        """Find tools by their purpose."""
        catalog, server = self._servers.catalog, arguments.get("server")
        config = self._servers.config
        if server is not None and server not in config.servers:
            unknown = UnknownServer(server[:200], config.servers, config.absent)
            message = "\n".join(filter(None, (str(unknown), unknown.hint)))
            return build_refusal(Status.INVALID, "UnknownServer", message)
        queries = [*([arguments["query"]] if "query" in arguments else []), *arguments.get("queries", [])]
        if not queries:
            message = "search_tools: `queries` is missing: give one short query for each step of the task"
            return build_refusal(Status.INVALID, "InvalidArguments", message)
        if len(queries) > MAX_QUERIES:
            message = (
                f"search_tools: {len(queries)} queries are too many: give at most {MAX_QUERIES} at a time"
            )
            return build_refusal(Status.INVALID, "InvalidArguments", message)
        asked = arguments.get("limit", default_limit(queries))
        limit = min(asked, _MAX_MATCHES)
        hits, listing = await catalog.search_tools(
            queries, server=server, limit=limit, patience_s=SEARCH_WAIT_S
        )
        lines = [render_signature(hit.tool, catalog.find_observed_type(hit.tool)) for hit in hits]
        found: list[DiscoveredTool] = [
            {"server": hit.tool.server, "tool": hit.tool.tool.name, "signature": line}
            for hit, line in zip(hits, lines, strict=True)
        ]
        lines = lines or [_explain_no_match(listing, server)]
        notes = [f"warning: {hit.tool.warning}" for hit in hits if hit.tool.warning]
        if asked > limit == len(hits):
            notes.append(
                f"note: an answer lists at most {_MAX_MATCHES} tools; use a more precise query for others"
            )
        notes += _list_notes(listing)
        return _build_answer(
            f"{len(hits)} of {count(len(listing.tools), 'tool')}", lines, found, notes, self._cap
        )

    async def describe_tools(self, arguments: Arguments, _caller: McpCaller) -> ToolAnswer:
        """Return the declarations of tools by name."""
        names: list[str] = arguments["names"]
        entries, listing, left = await self._servers.catalog.describe_tools(
            names, limit=_MAX_MATCHES, patience_s=SEARCH_WAIT_S
        )
        config = self._servers.config
        known = [entry for entry in entries if isinstance(entry, Described)]
        texts = [write_declaration(entry, config) for entry in known]
        found: list[DescribedTool] = [
            {"name": entry.name, "declaration": text, "output": entry.output}
            for entry, text in zip(known, texts, strict=True)
        ]
        notes = [write_declaration(entry, config) for entry in entries if not isinstance(entry, Described)]
        notes += _list_notes(listing)
        notes += [f"[{left} more left out; ask for fewer]"] if left else []
        if not found:
            message = cut_text("\n".join([*texts, *notes]) or "`names` is empty", self._cap)
            return build_refusal(Status.INVALID, "UnknownTools", message)
        return _build_answer(
            f"{len(found)} of {count(len(entries) + left, 'tool')}", texts, found, notes, self._cap
        )


def build_discovery_tools(servers: "ServerService", cap: int) -> list[McpTool]:
    """Return `search_tools` and `describe_tools`; results have at most `cap` characters."""
    discovery = _Discovery(servers, cap)
    return [
        McpTool(
            name="search_tools",
            title="Find tools",
            description=SEARCH_TOOLS,
            input_schema=object_schema(
                [],
                queries={"type": "array", "items": {"type": "string"}},
                query={"type": "string"},
                server={"type": "string"},
                limit={"type": "integer", "minimum": 1},
            ),
            run=discovery.search_tools,
            phrases=frozenset({"queries"}),
            output_schema=build_schema(DiscoveredTools),
            annotations={"readOnlyHint": True, "openWorldHint": False},
        ),
        McpTool(
            name="describe_tools",
            title="Describe tools",
            description=DESCRIBE_TOOLS,
            input_schema=object_schema(
                ["names"],
                names={
                    "type": "array",
                    "items": {"type": "string"},
                    "description": '"server.tool" or "server"',
                },
            ),
            run=discovery.describe_tools,
            output_schema=build_schema(DescribedTools),
            annotations={"readOnlyHint": True, "openWorldHint": False},
        ),
    ]


def _build_answer(
    headline: str,
    texts: list[str],
    found: list[DiscoveredTool] | list[DescribedTool],
    notes: list[str],
    cap: int,
) -> ToolAnswer:
    """Return entries as text and as data; entries at the end that do not fit are left out of both.

    Notes are always included, within a quarter of `cap`.
    """
    notes = [cut_text("\n".join(notes), cap // 4)] if notes else []
    kept, room = 0, cap - sum(map(len, notes))
    for text in texts:
        room -= len(text) + 1
        if room < 0:
            break
        kept += 1
    lines = texts[:kept]
    if kept < len(texts):
        lines.append(f"[{len(texts) - kept} more left out; ask for fewer]")
    text = "\n".join([f"ok · {headline}", *lines, *notes])
    data = {"status": "ok", "tools": found[:kept]}
    return ToolAnswer([text_block(text)], data | ({"notes": "\n".join(notes).split("\n")} if notes else {}))


def _list_notes(listing: "ToolListing") -> list[str]:
    """Return which tools are missing, and why."""
    notes = [f"not available: {name}: {cut_text(why, 200)}" for name, why in listing.failures.items()]
    notes += [f"note: {cut_text(listing.ranking, 500)}"] if listing.ranking else []
    return notes + [
        f"note: {name}: {cut_text(why, 200)}" for name, each in listing.notes.items() for why in each
    ]


def _explain_no_match(listing: "ToolListing", server: str | None) -> str:
    servers = Counter(tool.server for tool in listing.tools)
    known = ", ".join(f"{name} ({count(number, 'tool')})" for name, number in servers.items())
    if known:
        return f"nothing found; try other words. Servers: {known}"
    return f"server {server} offers no tool" if server else "no server offers any tool"


_TOOL_CHANGED = "its server changed it after it was approved: calls are refused"
_TOOL_HIDES = (
    "calls are refused until a person accepts it (`paddock servers diff`, `paddock servers approve`)"
)


def write_declaration(entry: "Described | UnmatchedName", config: "ServersConfig") -> str:
    """Return a declaration for an agent, or why there is none."""
    if not isinstance(entry, Described):
        return _explain_unknown(entry, config)
    notes = [*entry.notes, *([_TOOL_CHANGED] if entry.changed and not entry.hides else [])]
    notes += [_TOOL_HIDES] if entry.hides else []
    return "\n".join([f"// {entry.server}", entry.declaration, *(f"// {note}" for note in notes)])


def _explain_unknown(entry: "UnmatchedName", config: "ServersConfig") -> str:
    """Return why a name has no declaration, and what to use instead."""
    name = entry.name[:200]
    near = f"; did you mean {' or '.join(entry.nearest)}?" if entry.nearest else ""
    if name in config.servers:
        return f"// {name}: this server lists no tools"
    for server, why in config.absent.items():
        if name.startswith((f"{server}.", f"{server}/")) or name == server:
            return f"// {name}: {why}"
    if near or any(name.startswith((f"{server}.", f"{server}/")) for server in config.servers):
        return f"// {name}: unknown{near}"
    return f"// {name}: unknown; a name is SERVER.TOOL, and the servers are {', '.join(config.servers) or 'none'}"
