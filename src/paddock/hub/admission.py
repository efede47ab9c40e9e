"""What a call must satisfy before it goes to a server.

Its tool is listed and is the one that was pinned, and the arguments are what its schema asks for. When a call is
refused here, nothing was sent, and the refusal says what to do.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from paddock.hub.config import Server
from paddock.hub.encoded import misplaced
from paddock.hub.pins import Pins, Standing
from paddock.hub.result import ToolInfo
from paddock.hub.search import CatalogTool
from paddock.hub.signatures import signature
from paddock.model.base import Json
from paddock.model.errors import InvalidArguments, ToolChanged, UnknownTool
from paddock.model.request import Places

if TYPE_CHECKING:
    from paddock.model.schema import Schema

_SCHEMAS = 256
"""Compiled schemas that are kept."""
_LARGEST = 64 * 1024
"""Characters of a schema that is compiled; the arguments of a tool with a larger one are the server's to check."""
_NAME = 100
_SHOWN = 10
"""Tools that are named where none is like the one that was asked for."""


class Admission:
    """Admits calls to tools. Servers are known by their names in `servers`."""

    def __init__(self, servers: Mapping[str, Server], pins: Pins) -> None:
        self._servers = servers
        self._pins = pins
        self._listed: dict[str, tuple[ToolInfo, ...]] = {}
        self._standings: dict[str, dict[str, Standing]] = {}
        self._schemas: OrderedDict[tuple[str, str], Schema | None] = OrderedDict()

    def learn(self, server: str, tools: Sequence[ToolInfo]) -> None:
        """Take note of what a server lists. Raises ConfigurationError when the pins cannot be kept."""
        self._listed[server] = tuple(tools)
        self._standings[server] = self._pins.review(self._servers[server], tools)
        for key in [key for key in self._schemas if key[0] == server]:
            del self._schemas[key]

    def shown(self, server: str) -> tuple[CatalogTool, ...]:
        """Return the tools of a server as they were pinned, in the order of its listing."""
        standings = self._standings.get(server, {})
        order = [tool.name for tool in self._listed.get(server, ()) if tool.name in standings]
        return tuple(CatalogTool(server, standings[name].tool, standings[name].changed) for name in order)

    def definition(self, server: str, tool: str) -> ToolInfo | None:
        """Return the pinned definition of a tool that was listed."""
        standing = self._standings.get(server, {}).get(tool)
        return standing.tool if standing is not None else None

    def reads_only(self, server: str, tool: str) -> bool:
        """Tell whether a server marked a tool as one that only reads when it last listed it, whatever is pinned."""
        marks = [each.annotations.get("readOnlyHint") for each in self._listed[server] if each.name == tool]
        return bool(marks) and all(mark is True for mark in marks)

    def admit(self, server: str, tool: str, arguments: Mapping[str, Json]) -> None:
        """Let a call pass. Raises UnknownTool, ToolChanged or InvalidArguments.

        A server that lists nothing at all has nothing to check against.
        """
        standings = self._standings[server]
        if not standings:
            return
        standing = standings.get(tool)
        if standing is not None and standing.changed:
            # Somebody may have approved it in another process.
            self.learn(server, self._listed[server])
            standing = self._standings[server].get(tool)
        if standing is None:
            raise UnknownTool(f"Server {server} has no tool {tool[:_NAME]!r}{_nearest(tool, standings)}")
        if standing.changed:
            raise ToolChanged(
                f"Tool {server}.{tool} is not what it was when it was first used, so it was not called. "
                f"A person can see what changed with `paddock servers diff {server}` and accept it with "
                f"`paddock servers approve {server} {tool}`."
            )
        problems = self._problems(server, standing.tool, arguments)
        if problems:
            shape = signature(CatalogTool(server, standing.tool)).partition(" // ")[0]
            raise InvalidArguments(
                f"{server}.{tool} was not called: {'; '.join(problems)}. Its signature: {shape}"
            )

    def admit_bytes(self, server: str, tool: str, places: Places) -> None:
        """Let bytes pass as base64. Raises InvalidArguments where the tool's schema does not say that it reads such."""
        definition = self.definition(server, tool)
        if definition is None and self._standings[server]:
            return  # `admit` says that there is no such tool
        if place := misplaced(definition.input_schema if definition is not None else {}, places):
            raise InvalidArguments(
                f"{server}.{tool} was not called: `{place}` holds bytes, and its schema does not say that they go as "
                "base64 (`contentEncoding: base64` or `format: byte`): write bytes.toBase64(), or [...bytes]"
            )

    def _problems(self, server: str, tool: ToolInfo, arguments: Mapping[str, Json]) -> tuple[str, ...]:
        key = (server, tool.name)
        if key not in self._schemas:
            self._schemas[key] = _compiled(tool)
            if len(self._schemas) > _SCHEMAS:
                self._schemas.popitem(last=False)
        schema = self._schemas[key]
        return schema.problems(dict(arguments)) if schema is not None else ()


def _compiled(tool: ToolInfo) -> "Schema | None":
    """Return the schema of a tool's arguments; None when it is none that can be checked with."""
    from paddock.model.schema import Schema  # noqa: PLC0415 - only calls of servers pay for it

    if len(str(tool.input_schema)) > _LARGEST:
        return None
    try:
        return Schema(tool.input_schema)
    except ValueError:
        return None


def _nearest(name: str, standings: Mapping[str, Standing]) -> str:
    """Return which of the tools is meant, or which may be called."""
    if near := get_close_matches(name[:_NAME], standings, n=1):
        return f"; did you mean `{near[0]}`?"
    known = [each[:_NAME] for each, standing in standings.items() if not standing.changed]
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"; it has {', '.join(known[:_SHOWN]) or 'none'}{more}."
