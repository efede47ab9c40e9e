"""The answer of `Paddock.search_tools`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock.model.errors import UnknownServer
from paddock.surfaces.client.arguments import read_text, read_texts

if TYPE_CHECKING:
    from paddock.gate.servers import ServerService


@dataclass(frozen=True, slots=True)
class FoundTool:
    """A tool of an upstream server."""

    server: str
    """Its server."""
    tool: str
    """Its name."""
    score: float
    """How well it suits the query: larger is better. Scores of different queries do not compare."""
    signature: str
    """Its name, arguments and result as one line of TypeScript, with its description."""


@dataclass(frozen=True, slots=True)
class FoundTools:
    """The found tools, best first, and what is missing."""

    tools: tuple[FoundTool, ...]
    """The tools, the best first."""
    notes: tuple[str, ...]
    """Servers that could not be asked, tools that were left out or have suspicious definitions, and the reasons."""


async def find_tools(
    servers: "ServerService", queries: str | Sequence[str], *, server: str | None, limit: int | None
) -> FoundTools:
    """Search the tools of the servers. Raises UnknownServer."""
    from paddock.engines.servers.typescript import render_signature

    if not isinstance(queries, str):
        read_texts(queries, "queries")
    if server is not None and read_text(server, "server") not in servers.servers_by_name:
        raise UnknownServer(server, servers.servers_by_name, servers.config.absent)
    hits, listing = await servers.catalog.search_tools(queries, server=server, limit=limit)
    return FoundTools(
        tuple(
            FoundTool(
                hit.tool.server,
                hit.tool.tool.name,
                hit.score,
                render_signature(hit.tool, servers.catalog.find_observed_type(hit.tool)),
            )
            for hit in hits
        ),
        (*(hit.tool.warning for hit in hits if hit.tool.warning), *listing.list_missing()),
    )
