"""Definitions of tools are pinned at their first use: a changed definition counts once a person approved it.

A server that was harmless when a person looked can change its tools tomorrow: a description to persuade a model, or a
schema to receive more data. Therefore the first definition of every tool is stored. If the server then changes the tool
or no longer lists it, Paddock does not call it and shows the pinned definition until the change is approved. The
approval applies to the definition that was refused, not to a later one.

A definition with invisible characters is never pinned unchanged. The pin spells them out, and the server's own
definition waits for approval like a change.
"""

import difflib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from paddock.files import JsonFile, Kept
from paddock.hub.config import Server, StdioServer
from paddock.hub.result import ToolInfo
from paddock.model.base import Json
from paddock.model.invisible import has_invisible, spell_invisible_in_json

MAX_DEFINITION_CHARS = 128 * 1024
"""Maximum length of a stored definition, in characters; of a longer one only the hash is stored."""


class PinCheck(NamedTuple):
    """A pinned tool, and whether the server's current definition differs."""

    tool: ToolInfo
    changed: bool = False
    hides: bool = False
    """No unchanged definition was ever pinned: it has invisible characters that no person has accepted."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change that waits for approval. `after` is None when the server no longer lists the tool."""

    server: str
    tool: str
    before: Mapping[str, Json]
    after: Mapping[str, Json] | None
    is_new: bool = False
    """No definition of the tool was ever accepted: `before` is `after` with its invisible characters spelled out."""

    def render_diff(self) -> str:
        """Return the change as a unified diff."""
        name = f"{self.server}/{self.tool}"
        old, new = ("spelled out", "as sent") if self.is_new else ("pinned", "now")
        before, after = _render_lines(self.before), _render_lines(self.after)
        lines = difflib.unified_diff(before, after, f"{name} {old}", f"{name} {new}", lineterm="")
        return "\n".join(lines)


class Pins:
    """The pinned definitions of the servers in one servers file, shared by all processes that use it."""

    def __init__(self, state: Path, servers_file: Path, kept: Kept | None = None) -> None:
        """Use `state`, Paddock's directory for facts about servers; or `kept`, which other machines may share."""
        self._kept = kept or JsonFile(memory_of(state, servers_file) / "pins.json", is_sound)
        self._file = str(servers_file)

    def review_listing(self, server: Server, tools: Sequence[ToolInfo]) -> dict[str, PinCheck]:
        """Compare a server's listing with the pins, and pin new tools. Raises ConfigurationError.

        An entry with another command or address than the pinned one counts as a new server.
        """
        listed = {tool.name: tool for tool in tools}
        hashes = {name: _hash_json(_make_definition(tool)) for name, tool in listed.items()}
        entry = self._find_entry(self._kept.look(), server)
        if entry is None or _differs_from_entry(entry, hashes):
            entry = self._kept.update(lambda held: self._note_listing(held, server, listed, hashes))
        pinned: dict[str, Any] = entry["tools"]
        pending: dict[str, Any] = entry["pending"]
        return {
            name: PinCheck(
                _make_tool(name, pin["definition"], listed.get(name)),
                changed=name in pending,
                hides=name in pending and _differs_invisibly(pin, pending[name]),
            )
            for name, pin in pinned.items()
        }

    def list_names(self, server: Server) -> tuple[str, ...]:
        """Return the names of a server's pinned tools, as this process knows them: a database is not asked for them.

        Raises ConfigurationError.
        """
        entry = self._find_entry(self._kept.recall(), server)
        return tuple(entry["tools"]) if entry is not None else ()

    def is_silent(self, server: Server) -> bool:
        """Return whether a server is known not to answer `server/discover`. Raises ConfigurationError."""
        entry = self._find_entry(self._kept.look(), server)
        return entry is not None and entry.get("silent") is True

    def note_silent(self, server: Server, *, silent: bool) -> None:
        """Record whether a server answers `server/discover`, for later processes. Raises ConfigurationError."""

        def change(pins: dict[str, Any]) -> None:
            pins["file"] = self._file
            entry = self._find_entry(pins, server) or {
                "identity": _hash_identity(server),
                "tools": {},
                "pending": {},
            }
            pins.setdefault("servers", {})[server.name] = entry
            entry.pop("silent", None)
            if silent:
                entry["silent"] = True

        self._kept.update(change)

    def list_changes(self, server: str | None = None) -> tuple[Change, ...]:
        """Return the changes that wait for approval, based on the last listings. Raises ConfigurationError."""
        held: dict[str, Any] = self._kept.look().get("servers", {})
        return tuple(
            _make_change(name, tool, entry["tools"][tool], after)
            for name, entry in held.items()
            if server in (None, name)
            for tool, after in entry["pending"].items()
        )

    def approve_changes(self, server: str, tools: Sequence[str] | None = None) -> tuple[Change, ...]:
        """Pin the changes of a server, or of some of its tools, and return them. Raises ConfigurationError."""

        def change(pins: dict[str, Any]) -> tuple[Change, ...]:
            entry: dict[str, Any] = pins.get("servers", {}).get(server, {"tools": {}, "pending": {}})
            approved: list[Change] = []
            for name in [name for name in entry["pending"] if tools is None or name in tools]:
                before, after = entry["tools"].pop(name), entry["pending"].pop(name)
                approved.append(_make_change(server, name, before, after))
                if after is not None:
                    entry["tools"][name] = after
            return tuple(approved)

        return self._kept.update(change)

    def _find_entry(self, pins: Mapping[str, Any], server: Server) -> dict[str, Any] | None:
        entry = pins.get("servers", {}).get(server.name)
        return entry if entry is not None and entry["identity"] == _hash_identity(server) else None

    def _note_listing(
        self, pins: dict[str, Any], server: Server, listed: Mapping[str, ToolInfo], hashes: Mapping[str, str]
    ) -> dict[str, Any]:
        """Record a server's listing in the file, and return its entry."""
        pins["file"] = self._file
        entry = self._find_entry(pins, server) or {
            "identity": _hash_identity(server),
            "tools": {},
            "pending": {},
        }
        pins.setdefault("servers", {})[server.name] = entry
        pinned: dict[str, Any] = entry["tools"]
        now: dict[str, Any] = {
            name: {"hash": hashes[name], "definition": _bound_definition(_make_definition(tool))}
            for name, tool in listed.items()
        }
        pinned |= {
            name: _spell_out_pin(tool)
            for name, tool in listed.items()
            if name not in pinned and has_invisible(_dump_definition(_make_definition(tool)))
        }
        entry["pending"] = {
            name: now.get(name)
            for name, pin in pinned.items()
            if name not in now or now[name]["hash"] != pin["hash"]
        }
        pinned |= {name: pin for name, pin in now.items() if name not in pinned}
        return entry


def _make_change(server: str, tool: str, pin: Mapping[str, Any], after: Mapping[str, Any] | None) -> Change:
    """Return the change beside a pin. With `after` None, the tool is no longer listed."""
    return Change(
        server, tool, pin["definition"], after and after["definition"], is_new=_differs_invisibly(pin, after)
    )


def _spell_out_pin(tool: ToolInfo) -> dict[str, Json]:
    """Return the pin of a definition, with its invisible characters spelled out."""
    definition = json.loads(spell_invisible_in_json(_dump_definition(_make_definition(tool))))
    return {"hash": _hash_json(definition), "definition": _bound_definition(definition)}


def _differs_invisibly(pin: Mapping[str, Any], after: Mapping[str, Any] | None) -> bool:
    """Return whether a waiting change differs from its pin only in invisible characters."""
    if after is None or "inputSchema" not in after["definition"]:
        return False
    spelled = json.loads(spell_invisible_in_json(_dump_definition(after["definition"])))
    return after["hash"] != pin["hash"] and _hash_json(spelled) == pin["hash"]


def _dump_definition(definition: Mapping[str, Json]) -> str:
    return json.dumps(definition, ensure_ascii=False)


def memory_of(state: Path, servers_file: Path) -> Path:
    """Return the directory with the facts about the servers of one file."""
    return state / hashlib.sha256(str(servers_file.absolute()).encode()).hexdigest()[:16]


def is_sound(pins: Mapping[str, Any]) -> bool:
    """Return whether pins are complete: half of a pin must not pass as no pin."""
    servers = pins.get("servers", {})
    return isinstance(servers, dict) and all(map(_is_entry, cast("dict[str, Any]", servers).values()))


def _is_entry(entry: Json) -> bool:
    match entry:
        case {"identity": str(), "tools": dict(), "pending": dict()}:
            tools = cast("dict[str, Any]", entry["tools"])
            pending = cast("dict[str, Any]", entry["pending"])
            return (
                pending.keys() <= tools.keys()
                and all(map(_is_pin, tools.values()))
                and all(pin is None or _is_pin(pin) for pin in pending.values())
            )
        case _:
            return False


def _is_pin(pin: Json) -> bool:
    match pin:
        case {
            "hash": str(),
            "definition": {"name": str(), "hash": str()}
            | {
                "name": str(),
                "description": str(),
                "inputSchema": dict(),
                "outputSchema": dict() | None,
                "annotations": dict(),
            },
        }:
            return True
        case _:
            return False


def _hash_identity(server: Server) -> str:
    where = [server.command, *server.args] if isinstance(server, StdioServer) else [server.url]
    return _hash_json({"where": where})


def _differs_from_entry(entry: Mapping[str, Any], hashes: Mapping[str, str]) -> bool:
    """Return whether a listing differs from the recorded one."""
    known = {name: pin["hash"] for name, pin in entry["tools"].items()}
    for name, pending in entry["pending"].items():
        if pending is None:
            del known[name]
        else:
            known[name] = pending["hash"]
    return known != dict(hashes)


def _make_definition(tool: ToolInfo) -> dict[str, Json]:
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "annotations": tool.annotations,
    }


def _make_tool(name: str, definition: Mapping[str, Any], listed: ToolInfo | None) -> ToolInfo:
    """Return a pinned definition. If it was too long to store: the listed one if equal, otherwise the name."""
    if "inputSchema" in definition:
        fields = (definition[key] for key in ("description", "inputSchema", "outputSchema", "annotations"))
        return ToolInfo(name, *fields)
    same = listed is not None and _hash_json(_make_definition(listed)) == definition["hash"]
    return listed if same and listed is not None else ToolInfo(name, "", {"type": "object"}, None, {})


def _bound_definition(definition: dict[str, Json]) -> dict[str, Json]:
    text = json.dumps(definition)
    if len(text) <= MAX_DEFINITION_CHARS:
        return definition
    return {"name": definition["name"], "hash": _hash_json(definition), "characters": len(text)}


def _hash_json(value: Json) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _render_lines(definition: Mapping[str, Json] | None) -> list[str]:
    return [] if definition is None else json.dumps(definition, indent=2).splitlines()
