"""The catalogue: every tool of every server, as far as servers can be asked, and what is found in it.

A server that cannot be asked costs its own tools and a line that says why, never the rest.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Protocol

from paddock.catalog.queries import plan_queries
from paddock.catalog.search import (
    MAX_SEARCHED_CHARS,
    MAX_SEARCHED_PARAMETERS,
    Hit,
    Index,
    Mix,
    is_searched_in_part,
)
from paddock.hub.catalog_tool import CatalogTool
from paddock.hub.typescript import Described, describe_tool
from paddock.model.base import Json, count
from paddock.model.errors import ConfigurationError, ServerError
from paddock.texts import find_nearest

FRESH_S = 3_600.0
"""Seconds for which the word of a server counts, unless it says that its tools changed."""
RETRY_S = 30.0
"""Seconds until a server that could not be asked is asked again."""
MAX_CONCURRENT_SERVERS = 8
"""Servers that are asked side by side."""
MAX_TOOLS_PER_SERVER = 20_000
"""Tools of one server; further ones are left out, which is said."""
MAX_TOOL_NAME_CHARS = 200
"""Characters of a tool's name; a longer one is no name."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of the servers that could be asked, and why the others could not."""

    tools: tuple[CatalogTool, ...]
    failures: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By server: why its tools are missing, or which of them are left out."""
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """By server: what else is missing of its tools, or of what is searched."""
    ranking: str = ""
    """Why a search ranked the tools by words alone, where their meaning should have counted, too."""

    def list_missing(self) -> list[str]:
        """Return a line for each thing that is missing."""
        notes = [f"{name}: {note}" for name, notes in self.notes.items() for note in notes]
        failures = [f"{name}: {why}" for name, why in self.failures.items()]
        return [*failures, *notes, *([self.ranking] if self.ranking else [])]


@dataclass(frozen=True, slots=True)
class UnmatchedName:
    """A name that no tool has, with the nearest names that there are."""

    name: str
    nearest: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Known:
    tools: tuple[CatalogTool, ...]
    failure: str
    until: float
    version: int
    notes: tuple[str, ...] = ()


class Ranking(Protocol):
    """Ranks tools by more than their words; `catalog/semantic_choice.py` says what its method returns."""

    async def find_mixer(
        self, tools: tuple[CatalogTool, ...], texts: Sequence[str], *, patience_s: float | None = None
    ) -> tuple[Mix | None, str]:
        """Return what mixes the scores of tools for texts, or None and why it is missing."""
        ...


class Catalog:
    """Asks servers for their tools at the first use and remembers what they said.

    `ask` returns the tools of one server or raises ServerError. `version` tells how often a server has said
    that its tools changed; with another number it is asked again. `notes` gives what is missing of its last listing,
    `observed` the type of a tool's results so far, `unchecked` what of its arguments is not checked. `meaning` ranks
    tools by more than their words. `clock` gives seconds.
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
        meaning: Ranking | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._servers = tuple(servers)
        self._ask = ask
        self._version = version
        self._notes = notes
        self._observed = observed
        self._unchecked = unchecked
        self._meaning = meaning
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._asking: dict[str, tuple[asyncio.Task[_Known], float]] = {}
        """Who is being asked, and since when, by the clock of the event loop."""
        self._places = asyncio.Semaphore(MAX_CONCURRENT_SERVERS)
        self._index: tuple[tuple[CatalogTool, ...], Index] | None = None

    def add_server(self, name: str) -> None:
        """Ask a further server for its tools, from now on."""
        self._servers = (*self._servers, name)

    async def list_tools(self, server: str | None = None, *, patience_s: float | None = None) -> Listing:
        """Return the tools of a server, or of all in the order of their configuration. Raises nothing.

        A server that has not answered `patience_s` after it was asked counts as one that failed, for now: it goes on
        starting.
        """
        return await self._list_tools(self._servers if server is None else (server,), patience_s)

    async def _list_tools(self, names: Sequence[str], patience_s: float | None) -> Listing:
        known = await asyncio.gather(*(self._ask_within(patience_s, name) for name in names))
        return Listing(
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
    ) -> tuple[tuple[Hit, ...], Listing]:
        """Return the tools that suit a query best, or several queries, and where they were looked for.

        See `Index.search_tools`. Tools whose meaning is not known after `patience_s` are ranked by their words. Raises
        ValueError for too many queries, ConfigurationError where `servers.semantic_search` is "on" and cannot be.
        """
        texts = list(dict.fromkeys(piece for pieces in plan_queries(queries) for piece in pieces))
        listing = await self.list_tools(server, patience_s=patience_s)
        if self._index is None or self._index[0] != listing.tools:
            self._index = (listing.tools, Index(listing.tools))
        index, mix = self._index[1], None
        if self._meaning is not None and listing.tools:
            mix, ranking = await self._meaning.find_mixer(listing.tools, texts, patience_s=patience_s)
            listing = replace(listing, ranking=ranking)
        return index.search_tools(queries, server=server, limit=limit, mix=mix), listing

    async def describe_tools(
        self, names: Sequence[str], *, patience_s: float | None = None
    ) -> tuple[tuple[Described | UnmatchedName, ...], Listing]:
        """Return the declarations of tools by name (`server.tool` or `server/tool`), and where they were looked for.

        Only for a name that means no server are all of them asked.
        """
        wanted = [
            {each for each in self._servers if name.startswith((f"{each}.", f"{each}/"))} for name in names
        ]
        asked = set[str]().union(*wanted) if all(wanted) else set(self._servers)
        listing = await self._list_tools([server for server in self._servers if server in asked], patience_s)
        tools = {f"{tool.server}.{tool.alias}": tool for tool in listing.tools if tool.alias}
        tools |= {tool.name: tool for tool in listing.tools}
        return tuple(self._describe_tool(name, tools) for name in names), listing

    def find_observed_type(self, tool: CatalogTool) -> Mapping[str, Json] | None:
        """Return the type that a tool's results had so far, as a JSON Schema."""
        return self._observed(tool.server, tool.tool.name)

    def _describe_tool(self, name: str, tools: Mapping[str, CatalogTool]) -> Described | UnmatchedName:
        spelled = (f"{name[:at]}.{name[at + 1 :]}" for at, part in enumerate(name) if part == "/")
        found = tools.get(name) or next(filter(None, map(tools.get, spelled)), None)
        if found is None:
            return UnmatchedName(name, tuple(find_nearest(name, tools, most=3, cutoff=0.5)))
        unchecked = self._unchecked(found.server, found.tool.name)
        return describe_tool(found, self.find_observed_type(found), unchecked=unchecked)

    async def _ask_within(self, patience_s: float | None, server: str) -> _Known:
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
                # Whoever gives up waiting does not take the answer from the others.
                return await asyncio.shield(task)
        except TimeoutError:
            return _Known((), f"it has not answered within {patience_s:g} s; ask again later", 0, 0)

    async def _ask_server(self, server: str) -> _Known:
        version, tools, failure, lasts = self._version(server), (), "", FRESH_S
        notes: tuple[str, ...] = ()
        try:
            async with self._places:
                tools, failure = _bound_tools(await self._ask(server))
                notes = (*self._notes(server), *_explain_partial_search(tools))
        except (ServerError, ConfigurationError) as error:
            failure, lasts = str(error), RETRY_S
        known = _Known(tools, failure, self._clock() + lasts, version, notes)
        if server in self._servers:
            self._known[server] = known
        return known


def _explain_partial_search(tools: Sequence[CatalogTool]) -> Iterator[str]:
    """Yield what is to be said where not all of some tools is searched."""
    if cut := sum(is_searched_in_part(tool.tool) for tool in tools):
        what = f"{MAX_SEARCHED_CHARS} characters of a text or {MAX_SEARCHED_PARAMETERS} parameters"
        yield f"of {cut} tool{'s'[: cut != 1]} only the first {what} are searched"


def _bound_tools(tools: Sequence[CatalogTool]) -> tuple[tuple[CatalogTool, ...], str]:
    """Return the tools that the catalogue takes, and what was left out."""
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
