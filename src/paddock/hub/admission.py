"""What a call must satisfy before it goes to a server.

Its tool is listed and is the one that was pinned, and the arguments are what its schema asks for. When a call is
refused here, nothing was sent, and the refusal says what to do.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress

from paddock.hub.aliases import make_aliases
from paddock.hub.argument_schema import ArgumentSchema, compile_arguments
from paddock.hub.catalog_tool import CatalogTool
from paddock.hub.config import Server
from paddock.hub.encoded import find_misplaced
from paddock.hub.local_server import LocalServer
from paddock.hub.pins import PinCheck, Pins
from paddock.hub.result import ToolInfo
from paddock.hub.typescript import render_signature
from paddock.model.base import Json
from paddock.model.errors import ConfigurationError, InvalidArguments, ToolChanged, UnknownTool
from paddock.model.invisible import spell_invisible
from paddock.model.request import Places
from paddock.texts import suggest

_MAX_CACHED_SCHEMAS = 256
"""Compiled schemas that are kept."""
_MAX_NAME_CHARS = 100
_MAX_LISTED_TOOLS = 10
"""Tools that are named where none is like the one that was asked for."""


class Admission:
    """Admits calls to tools. Servers are known by their names in `servers`."""

    def __init__(self, servers: Mapping[str, Server | LocalServer], pins: Pins) -> None:
        self._servers = servers
        self._pins = pins
        self._listed: dict[str, tuple[ToolInfo, ...]] = {}
        self._standings: dict[str, dict[str, PinCheck]] = {}
        self._aliases: dict[str, dict[str, str]] = {}
        self._schemas: OrderedDict[tuple[str, str], ArgumentSchema] = OrderedDict()

    def record_listing(self, server: str, tools: Sequence[ToolInfo]) -> None:
        """Take note of what a server lists. Raises ConfigurationError when the pins cannot be kept."""
        self._listed[server] = tuple(tools)
        found = self._servers[server]
        self._standings[server] = (
            {tool.name: PinCheck(tool) for tool in tools}  # nobody but the caller says what these are
            if isinstance(found, LocalServer)
            else self._pins.review_listing(found, tools)
        )
        self._aliases[server] = make_aliases(self._standings[server])
        for key in [key for key in list(self._schemas) if key[0] == server]:
            self._schemas.pop(key, None)

    def is_silent(self, server: str) -> bool:
        """Return whether a server was noted as one that does not answer `server/discover`."""
        found = self._servers[server]
        with suppress(ConfigurationError):  # `learn` reports it
            return not isinstance(found, LocalServer) and self._pins.is_silent(found)
        return False

    def note_silent(self, server: str, *, silent: bool) -> None:
        """Note whether a server answers `server/discover`: the wait for it takes ten seconds."""
        found = self._servers[server]
        with suppress(ConfigurationError):
            if not isinstance(found, LocalServer):
                self._pins.note_silent(found, silent=silent)

    def list_pinned_tools(self, server: str) -> tuple[CatalogTool, ...]:
        """Return the tools of a server as they were pinned, in the order of its listing."""
        standings = self._standings.get(server, {})
        order = [tool.name for tool in self._listed.get(server, ()) if tool.name in standings]
        second = {name: alias for alias, name in self._aliases.get(server, {}).items()}
        return tuple(CatalogTool(server, *standings[name], second.get(name, "")) for name in order)

    def resolve_alias(self, server: str, tool: str) -> str:
        """Return the tool that a name means: itself, or the one whose alias it is, as far as its server is known."""
        if server not in self._standings:
            return self.resolve_remembered_tool(server, tool)
        return tool if tool in self._standings[server] else self._aliases[server].get(tool, tool)

    def may_be_alias(self, server: str, tool: str) -> bool:
        """Tell whether a name may turn out to be an alias once its server has listed its tools."""
        if server in self._standings or server not in self._servers:
            return False
        try:
            return tool not in self._list_known_names(server)
        except ConfigurationError:  # the call itself tells
            return False

    def resolve_remembered_tool(self, server: str, tool: str) -> str:
        """Return the tool that a name means of a server that has listed nothing yet: by what is pinned of it."""
        try:
            names = self._list_known_names(server) if server in self._servers else ()
        except ConfigurationError:  # the call itself tells
            return tool
        return tool if tool in names else make_aliases(names).get(tool, tool)

    def _list_known_names(self, server: str) -> tuple[str, ...]:
        """Return the tools of a server that has listed nothing yet. Raises ConfigurationError."""
        found = self._servers[server]
        return tuple(found.tools) if isinstance(found, LocalServer) else self._pins.list_names(found)

    def find_definition(self, server: str, tool: str) -> ToolInfo | None:
        """Return the pinned definition of a tool that was listed."""
        standing = self._standings.get(server, {}).get(tool)
        return standing.tool if standing is not None else None

    def reads_only(self, server: str, tool: str) -> bool:
        """Tell whether a server marked a tool as one that only reads when it last listed it, whatever is pinned."""
        marks = [each.annotations.get("readOnlyHint") for each in self._listed[server] if each.name == tool]
        return bool(marks) and all(mark is True for mark in marks)

    def check_call(self, server: str, tool: str, arguments: Mapping[str, Json]) -> None:
        """Let a call pass. Raises UnknownTool, ToolChanged or InvalidArguments. May be called in a thread.

        A server that lists nothing at all has nothing to check against.
        """
        standings = self._standings[server]
        if not standings:
            return
        standing = standings.get(tool)
        if standing is not None and standing.changed:
            # Somebody may have approved it in another process.
            self.record_listing(server, self._listed[server])
            standing = self._standings[server].get(tool)
        if standing is None:
            text = f"Server {server} has no tool {tool[:_MAX_NAME_CHARS]!r}{_suggest_tools(tool, standings)}"
            raise UnknownTool(spell_invisible(text))
        if standing.hides:
            raise ToolChanged(
                f"Tool {server}.{tool} has invisible characters in its definition, so it was not called. "
                f"A person can see them with `paddock servers diff {server}` and accept the tool with "
                f"`paddock servers approve {server} {tool}`."
            )
        if standing.changed:
            raise ToolChanged(
                f"Tool {server}.{tool} is not what it was when it was first used, so it was not called. "
                f"A person can see what changed with `paddock servers diff {server}` and accept it with "
                f"`paddock servers approve {server} {tool}`."
            )
        schema = self._load_schema(server, standing.tool).schema
        if schema is not None and (problems := schema.list_problems(dict(arguments))):
            shape = render_signature(CatalogTool(server, standing.tool)).partition(" // ")[0]
            why = "; ".join(problems)
            text = f"{server}.{tool} was not called: {why}{'' if why.endswith('?') else '.'} Its signature: {shape}"
            raise InvalidArguments(spell_invisible(text))

    def admit_bytes(self, server: str, tool: str, places: Places) -> None:
        """Let bytes pass as base64. Raises InvalidArguments where the tool's schema does not say that it reads such."""
        definition = self.find_definition(server, tool)
        if definition is None and self._standings[server]:
            return  # `admit` says that there is no such tool
        if place := find_misplaced(definition.input_schema if definition is not None else {}, places):
            raise InvalidArguments(
                f"{server}.{tool} was not called: `{place}` holds bytes, and its schema does not say that they go as "
                "base64 (`contentEncoding: base64` or `format: byte`): write bytes.toBase64(), or [...bytes]"
            )

    def list_unchecked_arguments(self, server: str, tool: str) -> str:
        """Return what of a tool's arguments is not checked, and why; empty when all is."""
        definition = self.find_definition(server, tool)
        return self.list_unchecked_by_definition(server, definition) if definition is not None else ""

    def list_unchecked_by_definition(self, server: str, tool: ToolInfo) -> str:
        """Return what of the arguments of a tool of this definition is not checked, and why; empty when all is."""
        return self._load_schema(server, tool).unchecked

    def _load_schema(self, server: str, tool: ToolInfo) -> ArgumentSchema:
        key = (server, tool.name)
        try:
            schema = self._schemas[key]
        except KeyError:
            schema = self._schemas[key] = compile_arguments(tool.input_schema)
            if len(self._schemas) > _MAX_CACHED_SCHEMAS:
                self._schemas.popitem(last=False)
        return schema


def _suggest_tools(name: str, standings: Mapping[str, PinCheck]) -> str:
    """Return which of the tools is meant, or which may be called."""
    if hint := suggest(name, standings):
        return hint
    known = [each[:_MAX_NAME_CHARS] for each, standing in standings.items() if not standing.changed]
    more = f" and {len(known) - _MAX_LISTED_TOOLS} more" if len(known) > _MAX_LISTED_TOOLS else ""
    return f"; it has {', '.join(known[:_MAX_LISTED_TOOLS]) or 'none'}{more}."
