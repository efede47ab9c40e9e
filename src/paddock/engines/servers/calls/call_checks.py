"""Checks that a call must pass before it is sent to a server.

The server must list the tool, the tool must equal its pin, and the arguments must match its schema. A call that is
refused here was not sent, and the error says what to do.
"""

import json
import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import cast

from paddock.engines.servers.calls.argument_schema import ArgumentSchema, compile_arguments
from paddock.engines.servers.config import Server
from paddock.engines.servers.local_server import LocalServer
from paddock.engines.servers.pins import PinCheck, Pins
from paddock.engines.servers.result import CatalogTool, ToolInfo
from paddock.engines.servers.typescript import render_signature
from paddock.foundation.schema.inline_refs import unfold_schema
from paddock.model.aliases import write_alias
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
_NAME_PATTERN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")
_MAX_PATH_CHARS = 200


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

    def review_again(self, server: str) -> None:
        """Compare the last listing of a server with the pins again, which have changed. Raises ConfigurationError."""
        if server in self._listed:
            self.record_listing(server, self._listed[server])

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

    def has_listed(self, server: str) -> bool:
        """Return whether a server has listed its tools to this process."""
        return server in self._listed

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
        found = self._servers.get(server)
        if found is None:
            return tool
        try:
            names = tuple(found.tools) if isinstance(found, LocalServer) else self._pins.list_names(found)
        except ConfigurationError:  # the call itself reports it
            return tool
        return tool if tool in names else make_aliases(names).get(tool, tool)

    def find_definition(self, server: str, tool: str) -> ToolInfo | None:
        """Return the pinned definition of a listed tool."""
        standing = self._standings.get(server, {}).get(tool)
        return standing.tool if standing is not None else None

    def reads_only(self, server: str, tool: str) -> bool:
        """Return whether the server's last listing marks a tool as read-only, whatever is pinned."""
        marks = [each.annotations.get("readOnlyHint") for each in self._listed[server] if each.name == tool]
        return bool(marks) and all(mark is True for mark in marks)

    def reaches_outside(self, server: str, tool: str) -> bool:
        """Return whether a tool may reach other systems: the server's last listing does not deny it."""
        marks = [each.annotations.get("openWorldHint") for each in self._listed[server] if each.name == tool]
        return not marks or any(mark is not False for mark in marks)

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
            hint = suggest(tool, standings)
            if not hint:
                known = [each[:_MAX_NAME_CHARS] for each, found in standings.items() if not found.changed]
                more = f" and {len(known) - _MAX_LISTED_TOOLS} more" if len(known) > _MAX_LISTED_TOOLS else ""
                hint = f"; it has {', '.join(known[:_MAX_LISTED_TOOLS]) or 'none'}{more}."
            text = f"Server {server} has no tool {tool[:_MAX_NAME_CHARS]!r}{hint}"
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


def make_aliases(names: Iterable[str]) -> dict[str, str]:
    """Return the tools of one server by alias: a program may write `servers.g.get_sum(...)` for a tool `get-sum`.

    Each alias is an identifier. A tool gets one if its name is printable ASCII, no other tool has the alias as its
    name, and no other tool would get the same alias.
    """
    known = dict.fromkeys(names)
    found = {name: alias for name in known if (alias := write_alias(name)) and alias not in known}
    shared = Counter(found.values())
    return {alias: name for name, alias in found.items() if shared[alias] == 1}


def find_misplaced(schema: Mapping[str, Json], places: Sequence[Sequence[str]]) -> str:
    """Return the first place, in a program's notation, that a schema does not declare as base64; empty if none."""
    tree = unfold_schema(schema)
    for place in places:
        nodes = [tree]
        for step in place:
            nodes = [
                below
                for node in nodes
                for each in _iterate_same_place(node)
                for below in _iterate_below(each, step)
            ]
        if not any(
            each.get("contentEncoding") == "base64" or each.get("format") == "byte"
            for node in nodes
            for each in _iterate_same_place(node)
        ):
            steps = (
                f"[{step}]"
                if step.isdecimal()
                else f".{step}"
                if _NAME_PATTERN.match(step)
                else f"[{json.dumps(step)}]"
                for step in place
            )
            return f"arguments{''.join(steps)}"[:_MAX_PATH_CHARS]
    return ""


def _iterate_same_place(node: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    """Yield a schema and the schemas that it combines for the same value."""
    yield node
    for keyword in ("allOf", "anyOf", "oneOf"):
        members = node.get(keyword)
        for each in cast("list[Json]", members) if isinstance(members, list) else []:
            if isinstance(each, dict):
                yield from _iterate_same_place(cast("dict[str, Json]", each))


def _iterate_below(node: Mapping[str, Json], step: str) -> Iterator[dict[str, Json]]:
    """Yield the schemas of a member or element."""
    named, items = node.get("properties"), node.get("items")
    first: Json = cast("Json", items) if isinstance(items, list) else node.get("prefixItems")
    found: list[Json] = []
    if isinstance(named, dict) and step in named:
        found.append(cast("dict[str, Json]", named)[step])
    elif isinstance(first, list) and step.isdecimal() and int(step[:9]) < len(cast("list[Json]", first)):
        found.append(cast("list[Json]", first)[int(step[:9])])
    else:
        found += [items if step.isdecimal() else None, node.get("additionalProperties")]
    yield from (cast("dict[str, Json]", each) for each in found if isinstance(each, dict))
