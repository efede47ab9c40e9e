"""Checks that a call must pass before it is sent to a server.

The server must list the tool, the tool must equal its pin, and the arguments must match its schema. A call that is
refused here was not sent, and the error says what to do.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress

from paddock.engines.servers.aliases import make_aliases
from paddock.engines.servers.calls.argument_schema import ArgumentSchema, compile_arguments
from paddock.engines.servers.calls.encoded import find_misplaced
from paddock.engines.servers.catalog_tool import CatalogTool
from paddock.engines.servers.config import Server
from paddock.engines.servers.local_server import LocalServer
from paddock.engines.servers.pins import PinCheck, Pins
from paddock.engines.servers.result import ToolInfo
from paddock.engines.servers.typescript import render_signature
from paddock.model.base import Json
from paddock.model.errors import ConfigurationError, InvalidArguments, ToolChanged, UnknownTool
from paddock.model.invisible import spell_invisible
from paddock.model.request import JsonPaths
from paddock.model.texts import suggest

_MAX_CACHED_SCHEMAS = 256
"""Maximum number of compiled schemas in the cache."""
_MAX_NAME_CHARS = 100
_MAX_LISTED_TOOLS = 10
"""Maximum number of tools in the error for an unknown tool, if none has a similar name."""


class CallChecks:
    """Checks calls to tools of the servers in `servers`."""

    def __init__(self, servers: Mapping[str, Server | LocalServer], pins: Pins) -> None:
        self._servers = servers
        self._pins = pins
        self._listed: dict[str, tuple[ToolInfo, ...]] = {}
        self._standings: dict[str, dict[str, PinCheck]] = {}
        self._aliases: dict[str, dict[str, str]] = {}
        self._schemas: OrderedDict[tuple[str, str], ArgumentSchema] = OrderedDict()

    def record_listing(self, server: str, tools: Sequence[ToolInfo]) -> None:
        """Record the tools that a server lists. Raises ConfigurationError when the pins cannot be stored."""
        self._listed[server] = tuple(tools)
        found = self._servers[server]
        self._standings[server] = (
            {
                tool.name: PinCheck(tool) for tool in tools
            }  # the caller defines these functions, so that no pin is needed
            if isinstance(found, LocalServer)
            else self._pins.review_listing(found, tools)
        )
        self._aliases[server] = make_aliases(self._standings[server])
        for key in [key for key in list(self._schemas) if key[0] == server]:
            self._schemas.pop(key, None)

    def is_silent(self, server: str) -> bool:
        """Return whether a server is known not to answer `server/discover`."""
        found = self._servers[server]
        with suppress(ConfigurationError):  # `record_listing` reports it
            return not isinstance(found, LocalServer) and self._pins.is_silent(found)
        return False

    def note_silent(self, server: str, *, silent: bool) -> None:
        """Record whether a server answers `server/discover`: waiting for an answer takes ten seconds."""
        found = self._servers[server]
        with suppress(ConfigurationError):
            if not isinstance(found, LocalServer):
                self._pins.note_silent(found, silent=silent)

    def list_pinned_tools(self, server: str) -> tuple[CatalogTool, ...]:
        """Return the pinned tools of a server, in the order of its listing."""
        standings = self._standings.get(server, {})
        order = [tool.name for tool in self._listed.get(server, ()) if tool.name in standings]
        second = {name: alias for alias, name in self._aliases.get(server, {}).items()}
        return tuple(CatalogTool(server, *standings[name], second.get(name, "")) for name in order)

    def resolve_alias(self, server: str, tool: str) -> str:
        """Return the tool's own name for an alias, if its server has listed its tools; otherwise the name itself."""
        if server not in self._standings:
            return self.resolve_remembered_tool(server, tool)
        return tool if tool in self._standings[server] else self._aliases[server].get(tool, tool)

    def resolve_remembered_tool(self, server: str, tool: str) -> str:
        """Return the tool's own name for an alias of a server that has not listed its tools yet, based on its pins."""
        try:
            names = self._list_known_names(server) if server in self._servers else ()
        except ConfigurationError:  # the call itself reports it
            return tool
        return tool if tool in names else make_aliases(names).get(tool, tool)

    def _list_known_names(self, server: str) -> tuple[str, ...]:
        """Return the tools of a server that has listed nothing yet. Raises ConfigurationError."""
        found = self._servers[server]
        return tuple(found.tools) if isinstance(found, LocalServer) else self._pins.list_names(found)

    def find_definition(self, server: str, tool: str) -> ToolInfo | None:
        """Return the pinned definition of a listed tool."""
        standing = self._standings.get(server, {}).get(tool)
        return standing.tool if standing is not None else None

    def reads_only(self, server: str, tool: str) -> bool:
        """Return whether the server's last listing marks a tool as read-only, whatever is pinned."""
        marks = [each.annotations.get("readOnlyHint") for each in self._listed[server] if each.name == tool]
        return bool(marks) and all(mark is True for mark in marks)

    def asks_pins(self, server: str, tool: str) -> bool:
        """Return whether `check_call` reads the pins again: another process may have approved a change."""
        standing = self._standings[server].get(tool)
        return standing is not None and standing.changed

    def check_call(self, server: str, tool: str, arguments: Mapping[str, Json]) -> None:
        """Check a call. Raises UnknownTool, ToolChanged or InvalidArguments. May be called in a thread.

        For a server that lists no tools at all, every call passes.
        """
        standings = self._standings[server]
        if not standings:
            return
        standing = standings.get(tool)
        if self.asks_pins(server, tool):
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

    def check_bytes(self, server: str, tool: str, places: JsonPaths) -> None:
        """Check that a tool reads bytes as base64. Raises InvalidArguments if its schema does not say so."""
        definition = self.find_definition(server, tool)
        if definition is None and self._standings[server]:
            return  # `check_call` reports an unknown tool
        if place := find_misplaced(definition.input_schema if definition is not None else {}, places):
            raise InvalidArguments(
                f"{server}.{tool} was not called: `{place}` holds bytes, but its schema does not declare them as "
                "base64 (`contentEncoding: base64` or `format: byte`): write bytes.toBase64(), or [...bytes]"
            )

    def list_unchecked_arguments(self, server: str, tool: str) -> str:
        """Return which arguments of a tool are not checked, and why; empty if all are."""
        definition = self.find_definition(server, tool)
        return self.list_unchecked_by_definition(server, definition) if definition is not None else ""

    def list_unchecked_by_definition(self, server: str, tool: ToolInfo) -> str:
        """Return which arguments of a tool with this definition are not checked, and why; empty if all are."""
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
    """Return the most similar tool name, or a list of the callable tools."""
    if hint := suggest(name, standings):
        return hint
    known = [each[:_MAX_NAME_CHARS] for each, standing in standings.items() if not standing.changed]
    more = f" and {len(known) - _MAX_LISTED_TOOLS} more" if len(known) > _MAX_LISTED_TOOLS else ""
    return f"; it has {', '.join(known[:_MAX_LISTED_TOOLS]) or 'none'}{more}."
