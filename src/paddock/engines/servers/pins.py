"""Definitions of tools are pinned at their first use: a changed definition counts once a person approved it.

A server that was harmless when a person looked can change its tools tomorrow: a description to persuade a model, or a
schema to receive more data. Therefore the first definition of every tool is stored. If the server then changes the tool
or no longer lists it, Paddock does not call it and shows the pinned definition until the change is approved.

    listed definition == an approved one      call it, show the approved one
    equal but for the order of sets           the same (`schema.set_order`)
    other text, text accepted as unstable     call it, show the approved text: a model never reads another one
    anything else                             refuse; `pending` holds it for `servers diff`

Approvals add up: a tool keeps its last MAX_APPROVED definitions, each approved as a whole. The approval applies to the
definition that `servers diff` showed or, without it, to the one that was refused last. A tool whose removal was
approved keeps its pin, because it would otherwise return as a new tool with any definition.

A definition with invisible characters is never pinned unchanged. The pin spells them out, and the server's own
definition waits for approval like a change.
"""

import difflib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from paddock.engines.servers.config import Server, StdioServer
from paddock.engines.servers.result import ToolInfo
from paddock.foundation.files import JsonFile, Kept
from paddock.foundation.schema.set_order import sort_sets
from paddock.foundation.side_by_side import LinePair, pair_lines
from paddock.model.base import Json
from paddock.model.invisible import has_invisible, spell_invisible_in_json

MAX_DEFINITION_CHARS = 128 * 1024
"""Maximum length of a stored definition, in characters; of a longer one only the hash is stored."""
MAX_APPROVED = 8
"""Maximum number of approved definitions of a tool. A further approval replaces the oldest."""
_MANY_DEFINITIONS = 3
"""From this number of different definitions on, a note says that a tool differs at each start."""
_FIELD_NAMES = {
    "description": "text",
    "inputSchema": "input schema",
    "outputSchema": "output schema",
    "annotations": "annotations",
}
_SCHEMA_FIELDS = ("inputSchema", "outputSchema")


class PinCheck(NamedTuple):
    """A pinned tool, and whether the server's current definition differs."""

    tool: ToolInfo
    changed: bool = False
    hides: bool = False
    """No unchanged definition was ever pinned: it has invisible characters that no person has accepted."""


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """A change that waits for approval. `after` is None when the server no longer lists the tool."""

    server: str
    tool: str
    before: Mapping[str, Json]
    """The approved definition that is most similar to `after`."""
    after: Mapping[str, Json] | None
    is_new: bool = False
    """No definition of the tool was ever accepted: `before` is `after` with its invisible characters spelled out."""
    is_frequent: bool = False
    """The server sent several different definitions already."""

    @property
    def changed_fields(self) -> tuple[str, ...]:
        """Names of the fields of the definition that changed; empty if the tool is gone or was too long to store."""
        if self.after is None or not self.before.keys() >= _FIELD_NAMES.keys() <= self.after.keys():
            return ()
        before, after = _sort_definition(self.before), _sort_definition(self.after)
        return tuple(field for field in _FIELD_NAMES if before[field] != after[field])

    @property
    def digest(self) -> str:
        """SHA-256 of what waits for approval, with the name of the tool."""
        return _hash_json([self.tool, self.after])

    def pair_lines(self) -> list[LinePair]:
        """Return the definitions side by side, without differences that count as none."""
        return pair_lines(_render_lines(self.before), _render_lines(self.after))

    def render_diff(self) -> str:
        """Return the change as a unified diff, without differences that count as none."""
        name = f"{self.server}/{self.tool}"
        old, new = ("spelled out", "as sent") if self.is_new else ("pinned", "now")
        before, after = _render_lines(self.before), _render_lines(self.after)
        lines = difflib.unified_diff(before, after, f"{name} {old}", f"{name} {new}", lineterm="")
        return "\n".join(lines)

    def explain(self) -> str:
        """Return a note for a tool that differs at each start, with the remedy; empty for any other change."""
        fields = self.changed_fields
        if not self.is_frequent or not fields:
            return ""
        what = f"{self.server}.{self.tool} differs at each start, this time in its "
        what += " and its ".join(_FIELD_NAMES[field] for field in fields)
        if fields == ("description",):
            accept = f"paddock servers approve {self.server} {self.tool} --unstable-text"
            return (
                f"{what}. `{accept}` accepts any text of this tool, and models read only the approved one; "
                "its schemas and annotations stay pinned"
            )
        return f"{what}. A schema or annotation cannot be accepted as unstable: ask the author of the server"


NoteChange = Callable[[DefinitionChange], None]
"""Records what a person approves, just before it counts. If it raises, nothing is approved."""


def _note_nothing(_approved: object) -> None:
    """Record nothing."""


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
        listed = {tool.name: _Listed.from_tool(tool) for tool in tools}
        entry = self._find_entry(self._kept.look(), server)
        if entry is None or _differs_from_entry(entry, listed):
            entry = self._kept.update(lambda held: self._note_listing(held, server, listed))
        pinned: dict[str, Any] = entry["tools"]
        pending: dict[str, Any] = entry["pending"]
        return {
            name: PinCheck(
                _make_tool(name, pin, listed.get(name)),
                changed=name in pending,
                hides=name in pending and _differs_invisibly(pin, pending[name]),
            )
            for name, pin in pinned.items()
            if not pin.get("gone")
        }

    def list_names(self, server: Server) -> tuple[str, ...]:
        """Return the names of a server's pinned tools, as this process knows them: a database is not asked for them.

        Raises ConfigurationError.
        """
        entry = self._find_entry(self._kept.recall(), server)
        if entry is None:
            return ()
        return tuple(name for name, pin in entry["tools"].items() if not pin.get("gone"))

    def list_pinned(self, server: Server) -> tuple[PinCheck, ...]:
        """Return a server's pinned tools, and whether the definition that it listed last differs.

        Raises ConfigurationError.
        """
        entry = self._find_entry(self._kept.look(), server)
        if entry is None:
            return ()
        pending: dict[str, Any] = entry["pending"]
        return tuple(
            PinCheck(
                _make_tool(name, pin, None),
                changed=name in pending,
                hides=name in pending and _differs_invisibly(pin, pending[name]),
            )
            for name, pin in entry["tools"].items()
            if not pin.get("gone")
        )

    def is_silent(self, server: Server) -> bool:
        """Return whether a server is known not to answer `server/discover`. Raises ConfigurationError."""
        entry = self._find_entry(self._kept.look(), server)
        return entry is not None and entry.get("silent") is True

    def note_silent(self, server: Server, *, silent: bool) -> None:
        """Record whether a server answers `server/discover`, for later processes. Raises ConfigurationError."""

        def change(pins: dict[str, Any]) -> None:
            entry = self._open_entry(pins, server)
            entry.pop("silent", None)
            if silent:
                entry["silent"] = True

        self._kept.update(change)

    def list_changes(self, server: str | None = None) -> tuple[DefinitionChange, ...]:
        """Return the changes that wait for approval, based on the last listings, to a person who may approve them.

        The next approval applies to exactly these, even if the server lists something else meanwhile. Raises
        ConfigurationError.
        """

        def change(pins: dict[str, Any]) -> dict[str, Any]:
            found = {name: each for name, each in pins.get("servers", {}).items() if server in (None, name)}
            for entry in found.values():
                entry["shown"] = dict(entry["pending"])
            return found

        entries = self._find_entries(server)
        if any(entry.get("shown", {}) != entry["pending"] for entry in entries.values()):
            entries = self._kept.update(change)
        return _list_pending(entries)

    def list_pending(self, server: str) -> tuple[DefinitionChange, ...]:
        """Return the changes of a server that wait for approval, for `approve_exactly`. Raises ConfigurationError."""
        return _list_pending(self._find_entries(server))

    def count_pending(self, server: str) -> int:
        """Return the number of a server's changes that wait for approval. Raises ConfigurationError."""
        return sum(len(entry["pending"]) for entry in self._find_entries(server).values())

    def _find_entries(self, server: str | None) -> dict[str, Any]:
        held: dict[str, Any] = self._kept.look().get("servers", {})
        return {name: entry for name, entry in held.items() if server in (None, name)}

    def approve_changes(
        self, server: str, tools: Sequence[str] | None = None, note: NoteChange = _note_nothing
    ) -> tuple[DefinitionChange, ...]:
        """Pin the changes of a server, or of some of its tools, and return them. Raises ConfigurationError."""

        def change(pins: dict[str, Any]) -> tuple[DefinitionChange, ...]:
            entry = pins.get("servers", {}).get(server, {"tools": {}, "pending": {}})
            waiting: dict[str, Any] = {**entry["pending"], **entry.get("shown", {})}
            chosen = [name for name in waiting if tools is None or name in tools]
            return tuple(_approve(server, entry, name, waiting[name], note) for name in chosen)

        return self._kept.update(change)

    def approve_exactly(self, server: str, digest: str, note: NoteChange = _note_nothing) -> bool:
        """Pin the change with this digest if it still waits. Return whether it did. Raises ConfigurationError."""

        def change(pins: dict[str, Any]) -> bool:
            entry = pins.get("servers", {}).get(server, {"tools": {}, "pending": {}})
            for each in _list_pending({server: entry}):
                if each.digest == digest:
                    _approve(server, entry, each.tool, entry["pending"][each.tool], note)
                    return True
            return False

        return self._kept.update(change)

    def accept_unstable_text(
        self,
        server: str,
        tools: Sequence[str],
        *,
        unstable: bool,
        note: Callable[[str], None] = _note_nothing,
    ) -> Mapping[str, str]:
        """Accept any text of these tools from now on, or pin their text again. Raises ConfigurationError.

        `note` records the name of each tool, just before. Returns by tool why it was not done.
        """

        def change(pins: dict[str, Any]) -> dict[str, str]:
            entry = pins.get("servers", {}).get(server, {"tools": {}, "pending": {}})
            faults: dict[str, str] = {}
            for name in tools:
                pin: dict[str, Any] | None = entry["tools"].get(name)
                after: dict[str, Any] | None = entry["pending"].get(name)
                if pin is None:
                    faults[name] = "the tool is not pinned; see `paddock servers tools`"
                elif "inputSchema" not in pin["definition"]:
                    faults[name] = "its definition is too long to be stored, so its text cannot be told apart"
                elif not unstable:
                    note(name)
                    pin.pop("unstable", None)
                else:
                    note(name)
                    pin["unstable"] = True
                    if after is not None and _find_approved(pin, _Listed.from_pin(after)) is None:
                        fields = _make_change(server, name, pin, after).changed_fields
                        more = " and its ".join(
                            _FIELD_NAMES[field] for field in fields if field != "description"
                        )
                        faults[name] = f"its {more} changed as well: see `paddock servers diff {server}`"
                    elif after is not None:
                        del entry["pending"][name]
                        entry.get("shown", {}).pop(name, None)
            return faults

        return self._kept.update(change)

    def _find_entry(self, pins: Mapping[str, Any], server: Server) -> dict[str, Any] | None:
        entry = pins.get("servers", {}).get(server.name)
        return entry if entry is not None and entry["identity"] == _hash_identity(server) else None

    def _open_entry(self, pins: dict[str, Any], server: Server) -> dict[str, Any]:
        """Return a server's entry for changes; a new one for a new server."""
        pins["file"] = self._file
        new: dict[str, Any] = {"identity": _hash_identity(server), "tools": {}, "pending": {}}
        entry = self._find_entry(pins, server) or new
        pins.setdefault("servers", {})[server.name] = entry
        return entry

    def _note_listing(
        self, pins: dict[str, Any], server: Server, listed: Mapping[str, "_Listed"]
    ) -> dict[str, Any]:
        """Record a server's listing in the file, and return its entry."""
        entry = self._open_entry(pins, server)
        pinned: dict[str, Any] = entry["tools"]
        for name, tool in listed.items():
            if name not in pinned:
                text = _dump_definition(tool.definition)
                # Invisible characters are never pinned: the pin spells them out.
                spelled = spell_invisible_in_json(text) if has_invisible(text) else None
                pinned[name] = (tool if spelled is None else _Listed.of(json.loads(spelled))).make_pin()
        pending: dict[str, Any] = {}
        for name, pin in pinned.items():
            tool = listed.get(name)
            if tool is None:
                if not pin.get("gone"):
                    pending[name] = None
                continue
            pin.pop("gone", None)
            if _find_approved(pin, tool) is None:
                pending[name] = tool.make_pin()
                refused = [each for each in pin.get("refused", []) if each != tool.sorted_hash]
                pin["refused"] = [*refused, tool.sorted_hash][-MAX_APPROVED:]
        entry["pending"] = pending
        return entry


@dataclass(frozen=True, slots=True)
class _Listed:
    """A definition as a server lists it, with its hashes."""

    definition: Mapping[str, Json]
    exact_hash: str
    sorted_hash: str
    """Hash that ignores the order of sets."""

    @classmethod
    def from_tool(cls, tool: ToolInfo) -> "_Listed":
        return cls.of(
            {
                "name": tool.name,
                "description": tool.description,
                "inputSchema": tool.input_schema,
                "outputSchema": tool.output_schema,
                "annotations": tool.annotations,
            }
        )

    @classmethod
    def of(cls, definition: Mapping[str, Json]) -> "_Listed":
        return cls(definition, _hash_json(definition), _hash_json(_sort_definition(definition)))

    @classmethod
    def from_pin(cls, pin: Mapping[str, Any]) -> "_Listed":
        return cls(pin["definition"], pin["hash"], _hash_sorted(pin))

    def make_pin(self) -> dict[str, Json]:
        """Return the definition as it is stored."""
        definition = dict(self.definition)
        text = json.dumps(definition)
        if len(text) > MAX_DEFINITION_CHARS:
            definition = {"name": definition["name"], "hash": self.sorted_hash, "characters": len(text)}
        return {"hash": self.exact_hash, "definition": definition}


def _iterate_approved(pin: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the approved definitions of a tool, the last approved one first."""
    yield pin
    yield from pin.get("others", ())


def _find_approved(pin: Mapping[str, Any], listed: _Listed) -> Mapping[str, Any] | None:
    """Return the approved definition that a listed one equals; None to refuse it."""
    approved = tuple(_iterate_approved(pin))
    for each in approved:
        if each["hash"] == listed.exact_hash or _hash_sorted(each) == listed.sorted_hash:
            return each
    if pin.get("unstable") is True and "inputSchema" in listed.definition:
        fixed = _sort_definition({**listed.definition, "description": ""})
        for each in approved:
            if _sort_definition({**each["definition"], "description": ""}) == fixed:
                return each
    return None


def _add_approved(pin: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pin of a tool with one more approved definition, which is the one to show."""
    known = () if _differs_invisibly(pin, after) else tuple(_iterate_approved(pin))
    others = [
        {"hash": each["hash"], "definition": each["definition"]}
        for each in known
        if each["hash"] != after["hash"]
    ]
    added: dict[str, Any] = {"hash": after["hash"], "definition": after["definition"]}
    kept = {"others": others[: MAX_APPROVED - 1]} if others else {}
    refused = [each for each in pin.get("refused", []) if each != _hash_sorted(after)]
    unstable = {"unstable": True} if pin.get("unstable") is True else {}
    return added | kept | ({"refused": refused} if refused else {}) | unstable


def _list_pending(entries: Mapping[str, Any]) -> tuple[DefinitionChange, ...]:
    return tuple(
        _make_change(name, tool, entry["tools"][tool], after)
        for name, entry in entries.items()
        for tool, after in entry["pending"].items()
    )


def _approve(
    server: str,
    entry: dict[str, Any],
    tool: str,
    after: Any,  # noqa: ANN401
    note: NoteChange,
) -> DefinitionChange:
    """Pin a definition of a tool in the entry of its server; None for a tool that is gone. Return the change."""
    pin = entry["tools"][tool]
    made = _make_change(server, tool, pin, after)
    note(made)
    if after is None:
        pin["gone"] = True
    else:
        entry["tools"][tool] = _add_approved(pin, after)
    if after is None or entry["pending"].get(tool) == after:
        entry["pending"].pop(tool, None)
    entry.get("shown", {}).pop(tool, None)
    return made


def _make_change(
    server: str, tool: str, pin: Mapping[str, Any], after: Mapping[str, Any] | None
) -> DefinitionChange:
    """Return the change beside a pin. With `after` None, the tool is no longer listed."""
    approved = tuple(_iterate_approved(pin))
    definitions = {*map(_hash_sorted, approved), *pin.get("refused", ())}
    is_frequent = len(definitions) >= _MANY_DEFINITIONS
    if after is None:
        return DefinitionChange(server, tool, pin["definition"], None, is_frequent=is_frequent)
    nearest = min(approved, key=lambda each: _count_differences(each["definition"], after["definition"]))
    is_new = _differs_invisibly(pin, after)
    return DefinitionChange(server, tool, nearest["definition"], after["definition"], is_new, is_frequent)


def _count_differences(one: Mapping[str, Json], other: Mapping[str, Json]) -> int:
    one, other = _sort_definition(one), _sort_definition(other)
    return sum(one.get(field) != other.get(field) for field in _FIELD_NAMES)


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
            waiting = [entry["pending"], entry.get("shown", {})]
            return all(map(_is_pin, tools.values())) and all(
                isinstance(each, dict)
                and each.keys() <= tools.keys()
                and all(pin is None or _is_definition(pin) for pin in cast("dict[str, Any]", each).values())
                for each in waiting
            )
        case _:
            return False


def _is_pin(pin: Json) -> bool:
    if not isinstance(pin, dict):
        return False
    fields = cast("dict[str, Any]", pin)
    others, refused = fields.get("others", []), fields.get("refused", [])
    return (
        _is_definition(fields)
        and isinstance(others, list)
        and all(map(_is_definition, cast("list[Json]", others)))
        and isinstance(refused, list)
        and all(isinstance(each, str) for each in cast("list[Json]", refused))
        and isinstance(fields.get("unstable", False), bool)
        and isinstance(fields.get("gone", False), bool)
    )


def _is_definition(pin: Json) -> bool:
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


def _differs_from_entry(entry: Mapping[str, Any], listed: Mapping[str, _Listed]) -> bool:
    pinned, pending = entry["tools"], entry["pending"]
    if not listed.keys() <= pinned.keys():
        return True
    for name, pin in pinned.items():
        tool = listed.get(name)
        if tool is None:
            same = pin.get("gone") is True or (name in pending and pending[name] is None)
        elif pin.get("gone"):
            same = False
        elif name in pending:
            same = pending[name] is not None and _hash_sorted(pending[name]) == tool.sorted_hash
        else:
            same = _find_approved(pin, tool) is not None
        if not same:
            return True
    return False


def _sort_definition(definition: Mapping[str, Json]) -> dict[str, Json]:
    """Return a definition with one order for the parts whose order means nothing."""
    schemas = {name: sort_sets(definition[name]) for name in _SCHEMA_FIELDS if name in definition}
    return {**definition, **schemas}


def _make_tool(name: str, pin: Mapping[str, Any], listed: _Listed | None) -> ToolInfo:
    """Return the approved definition that is listed, otherwise the last approved one.

    If it was too long to store: the listed one if equal, otherwise the name.
    """
    approved = None if listed is None else _find_approved(pin, listed)
    definition = (approved or pin)["definition"]
    if "inputSchema" not in definition:
        if approved is None or listed is None:
            return ToolInfo(name, "", {"type": "object"}, None, {})
        definition = listed.definition
    fields = (definition[key] for key in ("description", "inputSchema", "outputSchema", "annotations"))
    return ToolInfo(name, *fields)


def _hash_sorted(pin: Mapping[str, Any]) -> str:
    """Return the hash of a stored definition that ignores the order of sets."""
    definition = pin["definition"]
    return _hash_json(_sort_definition(definition)) if "inputSchema" in definition else definition["hash"]


def _hash_json(value: Json) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _render_lines(definition: Mapping[str, Json] | None) -> list[str]:
    if definition is None:
        return []
    ordered = {
        field: json.loads(json.dumps(value, sort_keys=True))
        for field, value in _sort_definition(definition).items()
    }
    return json.dumps(ordered, indent=2).splitlines()
