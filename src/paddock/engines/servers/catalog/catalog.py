"""The catalog: the tools of all servers that can be asked, and searches over them.

If a server cannot be asked, its own tools are missing and a line says why; the other servers are not affected.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from paddock.engines.servers.catalog.queries import plan_queries
from paddock.engines.servers.catalog.search import (
    MAX_SEARCHED_CHARS,
    MAX_SEARCHED_PARAMETERS,
    Hit,
    ToolIndex,
    is_searched_in_part,
)
from paddock.engines.servers.catalog.semantic_choice import SemanticSettings
from paddock.engines.servers.methods import list_declarations
from paddock.engines.servers.result import CatalogTool
from paddock.engines.servers.typescript import Described, describe_methods, describe_tool
from paddock.model.base import Json, count
from paddock.model.errors import ConfigurationError, ServerError
from paddock.model.texts import find_nearest

FRESH_S = 3_600.0
"""Seconds for which a listing is valid, unless the server reports that its tools changed."""
RETRY_S = 30.0
"""Seconds before a server that could not be asked is asked again."""
MAX_CONCURRENT_SERVERS = 8
"""Maximum number of servers that are asked concurrently."""
MAX_TOOLS_PER_SERVER = 20_000
"""Maximum number of tools of one server; a note reports how many are left out."""
MAX_TOOL_NAME_CHARS = 200
"""Maximum length of a tool's name, in characters; a tool with a longer name is left out."""


@dataclass(frozen=True, slots=True)
class ToolListing:
    """The tools of the servers that could be asked, and why the others are missing."""

    tools: tuple[CatalogTool, ...]
    failures: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By server: why its tools are missing, or which of them are left out."""
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """By server: what else is missing from its tools, or from the searched text."""
    ranking: str = ""
    """Why a search ranked tools by words only, although it should also have used their meaning."""

    def list_missing(self) -> list[str]:
        """Return a line for each missing part."""
        notes = [f"{name}: {note}" for name, notes in self.notes.items() for note in notes]
        failures = [f"{name}: {why}" for name, why in self.failures.items()]
        return [*failures, *notes, *([self.ranking] if self.ranking else [])]


@dataclass(frozen=True, slots=True)
class UnmatchedName:
    """A name that no tool has, with the nearest existing names."""

    name: str
    nearest: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _KnownTools:
    tools: tuple[CatalogTool, ...]
    failure: str
    until: float
    version: int
    notes: tuple[str, ...] = ()


class Catalog:
    """Asks servers for their tools at the first use, and caches their listings.

    `ask` returns the tools of one server or raises ServerError. `version` returns how often a server has reported that
    its tools changed; with another number it is asked again. `notes` returns what is missing from its last listing,
    `observed` the type of a tool's results so far, `unchecked` which of its arguments are not checked, `capabilities`
    what a server declares. `meaning` ranks tools by more than their words. `clock` returns seconds.
    """

    def __init__(
        self,
        servers: Collection[str],
        ask: Callable[[str], Awaitable[Sequence[CatalogTool]]],
        *,
        version: Callable[[str], int] = lambda _: 0,
        notes: Callable[[str], Sequence[str]] = lambda _: (),
        observed: Callable[[str, str], Mapping[str, Json] | None] = lambda _server, _tool: None,
        unchecked: Callable[[str, str], str] = lambda _server, _tool: "",
        capabilities: Callable[[str], Collection[str]] = lambda _: (),
        meaning: SemanticSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._servers = tuple(servers)
        self._ask = ask
        self._version = version
        self._notes = notes
        self._observed = observed
        self._unchecked = unchecked
        self._capabilities = capabilities
        self._meaning = meaning
        self._clock = clock
        self._known: dict[str, _KnownTools] = {}
        self._asking: dict[str, tuple[asyncio.Task[_KnownTools], float]] = {}
        """The running requests by server, with their start by the clock of the event loop."""
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_SERVERS)
        self._index: tuple[tuple[CatalogTool, ...], ToolIndex] | None = None

    def add_server(self, name: str) -> None:
        """Ask a further server for its tools, from now on."""
        self._servers = (*self._servers, name)

    def forget(self, server: str) -> None:
        """Ask a server again at the next use, also if it failed or answered just now."""
        self._known.pop(server, None)

    async def list_tools(self, server: str | None = None, *, patience_s: float | None = None) -> ToolListing:
        """Return the tools of a server, or of all in the order of their configuration. Raises nothing.

        A server that has not answered within `patience_s` counts as failed for this call; it continues to start.
        """
        return await self._list_tools(self._servers if server is None else (server,), patience_s)

    async def _list_tools(self, names: Sequence[str], patience_s: float | None) -> ToolListing:
        known = await asyncio.gather(*(self._ask_within(patience_s, name) for name in names))
        return ToolListing(
            tuple(tool for each in known for tool in each.tools),
            {name: each.failure for name, each in zip(names, known, strict=True) if each.failure},
            {name: each.notes for name, each in zip(names, known, strict=True) if each.notes},
        )

    async def search_tools(
        self,
        queries: str | Sequence[str],
        *,
        server: str | None = None,
        limit: int | None = None,
        patience_s: float | None = None,
        is_single: bool = False,
    ) -> tuple[tuple[Hit, ...], ToolListing]:
        """Return the best tools for a query, or for several queries, and the listing that was searched.

        See `ToolIndex.search_tools`. Tools whose vectors are not ready are ranked by their words only
        (`SemanticSettings.find_mixer`). Raises ValueError for too many queries, and ConfigurationError or EngineError
        if `servers.semantic_search` is "on" but not possible.
        """
        texts = list(dict.fromkeys(piece for pieces in plan_queries(queries) for piece in pieces))
        listing = await self.list_tools(server, patience_s=patience_s)
        if self._index is None or self._index[0] != listing.tools:
            self._index = (listing.tools, ToolIndex(listing.tools))
        index, mix = self._index[1], None
        if self._meaning is not None and listing.tools and any(text.strip() for text in texts):
            mix, ranking = await self._meaning.find_mixer(
                listing.tools, texts, patience_s=patience_s, is_single=is_single
            )
            listing = replace(listing, ranking=ranking)
        return index.search_tools(queries, server=server, limit=limit, mix=mix), listing

    async def describe_tools(
        self, names: Sequence[str], *, limit: int | None = None, patience_s: float | None = None
    ) -> tuple[tuple[Described | UnmatchedName, ...], ToolListing, int]:
        """Return the declarations of tools, the searched listing, and the number of tools above `limit`.

        A name is `server.tool`, `server/tool`, or a server, which stands for all its tools, and for `server.resources`
        and `server.prompts` if it has them. All servers are asked only if a name begins with no server's name.
        """
        wanted = [
            {each for each in self._servers if name == each or name.startswith((f"{each}.", f"{each}/"))}
            for name in names
        ]
        asked = set[str]().union(*wanted) if all(wanted) else set(self._servers)
        listing = await self._list_tools([server for server in self._servers if server in asked], patience_s)
        tools = {f"{tool.server}.{tool.alias}": tool for tool in listing.tools if tool.alias}
        tools |= {tool.name: tool for tool in listing.tools}
        groups = {
            f"{server}.{each}": (server, each) for server in asked for each in self._capabilities(server)
        }
        of_servers = {
            name: [tool.name for tool in listing.tools if tool.server == name]
            + [key for key, (server, _) in groups.items() if server == name and key not in tools]
            for name in names
        }
        chosen = [each for name in names for each in (of_servers[name] or [name])]
        described = tuple(
            describe_methods(*groups[name])
            if name in groups and name not in tools
            else self._describe_tool(name, tools, has_methods=name in groups)
            for name in chosen[:limit]
        )
        return described, listing, len(chosen) - len(described)

    def find_observed_type(self, tool: CatalogTool) -> Mapping[str, Json] | None:
        """Return the observed type of a tool's results, as a JSON Schema."""
        return self._observed(tool.server, tool.tool.name)

    def _describe_tool(
        self, name: str, tools: Mapping[str, CatalogTool], *, has_methods: bool
    ) -> Described | UnmatchedName:
        spelled = (f"{name[:at]}.{name[at + 1 :]}" for at, part in enumerate(name) if part == "/")
        found = tools.get(name) or next(filter(None, map(tools.get, spelled)), None)
        if found is None:
            return UnmatchedName(name, tuple(find_nearest(name, tools, limit=3, cutoff=0.5)))
        unchecked = self._unchecked(found.server, found.tool.name)
        shown = describe_tool(found, self.find_observed_type(found), unchecked=unchecked)
        if not has_methods:
            return shown
        also = " ".join(list_declarations(found.tool.name))
        return replace(shown, notes=(*shown.notes, f"{shown.server}.{found.tool.name} also has {also}"))

    async def _ask_within(self, patience_s: float | None, server: str) -> _KnownTools:
        known = self._known.get(server)
        if known is not None and self._clock() < known.until and known.version == self._version(server):
            return known
        if server not in self._asking:
            task = asyncio.create_task(self._ask_server(server))
            self._asking[server] = task, asyncio.get_running_loop().time()
            task.add_done_callback(lambda _: self._asking.pop(server, None))
        task, since = self._asking[server]
        try:
            async with asyncio.timeout_at(None if patience_s is None else since + patience_s):
                # A caller that stops waiting must not cancel the request for the others.
                return await asyncio.shield(task)
        except TimeoutError:
            return _KnownTools((), f"it has not answered within {patience_s:g} s; ask again later", 0, 0)

    async def _ask_server(self, server: str) -> _KnownTools:
        version, tools, failure, lasts = self._version(server), (), "", FRESH_S
        notes: tuple[str, ...] = ()
        try:
            async with self._slots:
                tools, failure = _bound_tools(await self._ask(server))
                notes = tuple(self._notes(server))
                if cut := sum(is_searched_in_part(tool.tool) for tool in tools):
                    what = (
                        f"{MAX_SEARCHED_CHARS} characters of a text or {MAX_SEARCHED_PARAMETERS} parameters"
                    )
                    notes += (f"of {cut} tool{'s'[: cut != 1]} only the first {what} are searched",)
        except (ServerError, ConfigurationError) as error:
            failure, lasts = str(error), RETRY_S
        known = _KnownTools(tools, failure, self._clock() + lasts, version, notes)
        if server in self._servers:
            self._known[server] = known
        return known


def _bound_tools(tools: Sequence[CatalogTool]) -> tuple[tuple[CatalogTool, ...], str]:
    """Return the tools within the limits, and a note on those left out."""
    named = {
        tool.tool.name: tool
        for tool in reversed(tools[:MAX_TOOLS_PER_SERVER])
        if len(tool.tool.name) <= MAX_TOOL_NAME_CHARS
    }
    kept = tuple(reversed(named.values()))
    left_out = len(tools) - len(kept)
    what = f"{count(left_out, 'tool')} {'is' if left_out == 1 else 'are'} left out"
    long = f"with a name of over {MAX_TOOL_NAME_CHARS} characters"
    why = f"{what}: beyond {MAX_TOOLS_PER_SERVER}, listed twice, or {long}"
    return kept, why if left_out else ""
