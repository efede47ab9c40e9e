"""The tools with which agents find upstream tools and learn how to call them."""

from collections import Counter
from typing import TYPE_CHECKING

from paddock.hub.signatures import Described, signature
from paddock.model.base import Json
from paddock.model.errors import UnknownServer
from paddock.model.outcome import Status
from paddock.surfaces.mcp.reply import cut
from paddock.surfaces.mcp.tools import (
    Answer,
    Arguments,
    Caller,
    Tool,
    object_schema,
    refusal,
    text_block,
)

if TYPE_CHECKING:
    from paddock.hub.catalog import Listing, Unknown
    from paddock.wiring.servers import Servers

SEARCH_TOOLS = "Use this first to find tools by what they do. Gives TypeScript signatures for execute_code."
DESCRIBE_TOOLS = "Use this when unsure of a tool's arguments. Gives TypeScript declarations."
PATIENCE_S = 30.0
"""Seconds for servers that have not been asked before; clients give up on an answer after a minute."""
_MOST = 50
_FOUND: dict[str, Json] = {
    "type": "object",
    "properties": {"status": {"type": "string"}, "tools": {"type": "array", "items": {"type": "object"}}},
    "required": ["status"],
}


class _Discovery:
    """What the two tools do, on the servers of a session; results have at most `cap` characters."""

    def __init__(self, servers: "Servers", cap: int) -> None:
        self._servers = servers
        self._cap = cap

    async def search(self, arguments: Arguments, _caller: Caller) -> Answer:
        """Find tools by what they do."""
        catalog, server = self._servers.catalog, arguments.get("server")
        known = self._servers.config.servers
        if server is not None and server not in known:
            return refusal(Status.INVALID, "UnknownServer", str(UnknownServer(server[:200], known)))
        limit = min(arguments.get("limit", 8), _MOST)
        hits, listing = await catalog.search(
            arguments["query"], server=server, limit=limit, patience_s=PATIENCE_S
        )
        lines = [signature(hit.tool, catalog.observed(hit.tool)) for hit in hits]
        found: list[Json] = [
            {"server": hit.tool.server, "tool": hit.tool.tool.name, "signature": line}
            for hit, line in zip(hits, lines, strict=True)
        ]
        lines = lines or [_nothing(listing, server)]
        lines += [_unavailable(name, why) for name, why in listing.failures.items()]
        return _answer(f"{len(hits)} of {len(listing.tools)} tools", lines, "tools", found, self._cap)

    async def describe(self, arguments: Arguments, _caller: Caller) -> Answer:
        """Give the declarations of tools by name."""
        names: list[str] = arguments["names"]
        entries, listing = await self._servers.catalog.describe(names[:_MOST], patience_s=PATIENCE_S)
        texts = [declared(entry) for entry in entries]
        found: list[Json] = [
            {"name": entry.name, "declaration": text, "output": entry.output}
            for entry, text in zip(entries, texts, strict=True)
            if isinstance(entry, Described)
        ]
        texts += [_unavailable(name, why) for name, why in listing.failures.items()]
        texts += [f"[{left} more left out; ask for fewer]"] if (left := len(names) - len(entries)) else []
        if not found:
            told = cut("\n".join(texts) or "`names` is empty", self._cap)
            return refusal(Status.INVALID, "UnknownTools", told)
        return _answer(f"{len(found)} of {len(names)} tools", texts, "tools", found, self._cap)


def discovery_tools(servers: "Servers", cap: int) -> list[Tool]:
    """Return `search_tools` and `describe_tools`; results have at most `cap` characters."""
    discovery = _Discovery(servers, cap)
    return [
        Tool(
            name="search_tools",
            title="Find tools",
            description=SEARCH_TOOLS,
            input_schema=object_schema(
                ["query"],
                query={"type": "string"},
                server={"type": "string"},
                limit={"type": "integer", "minimum": 1},
            ),
            run=discovery.search,
            output_schema=_FOUND,
            annotations={"readOnlyHint": True, "openWorldHint": False},
        ),
        Tool(
            name="describe_tools",
            title="Describe tools",
            description=DESCRIBE_TOOLS,
            input_schema=object_schema(
                ["names"],
                names={"type": "array", "items": {"type": "string"}, "description": '"server.tool"'},
            ),
            run=discovery.describe,
            output_schema=_FOUND,
            annotations={"readOnlyHint": True, "openWorldHint": False},
        ),
    ]


def _answer(headline: str, texts: list[str], key: str, found: list[Json], cap: int) -> Answer:
    """Return entries as text and as data; those at the end that do not fit are left out of both."""
    kept, room = 0, cap
    for text in texts:
        room -= len(text) + 1
        if room < 0:
            break
        kept += 1
    lines = texts[:kept]
    if kept < len(texts):
        lines.append(f"[{len(texts) - kept} more left out; ask for fewer]")
    text = "\n".join([f"ok · {headline}", *lines])
    return Answer([text_block(text)], {"status": "ok", key: found[:kept]})


def _unavailable(server: str, why: str) -> str:
    return f"not available: {server}: {cut(why, 200)}"


def _nothing(listing: "Listing", server: str | None) -> str:
    servers = Counter(tool.server for tool in listing.tools)
    known = ", ".join(f"{name} ({count} tools)" for name, count in servers.items())
    if known:
        return f"nothing found; try other words. Servers: {known}"
    return f"server {server} offers no tool" if server else "no server offers any tool"


def declared(entry: "Described | Unknown") -> str:
    """Return a declaration as agents read it, or that there is none."""
    if isinstance(entry, Described):
        changed = (
            "\n// its server changed it after it was approved: calls are refused" if entry.changed else ""
        )
        return f"// {entry.server}\n{entry.declaration}{changed}"
    near = f"; did you mean {' or '.join(entry.nearest)}?" if entry.nearest else ""
    return f"// {entry.name[:200]}: unknown{near}"
