"""Find the first difference between two recordings of a program."""

from collections.abc import Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from paddock.engines.servers.methods import name_method
from paddock.model.numbers import are_equal, dumps
from paddock.model.outcome import Status
from paddock.model.texts import ellipsis
from paddock.record.payloads.recorded_run import RecordedAction, RecordedCall, RecordedRun

if TYPE_CHECKING:
    from paddock.model.base import Json

_MAX_SHOWN_CHARS = 2000
"""Maximum length of a value in a difference, as JSON. A longer one is shown as text that is cut."""
INTERRUPTED = frozenset({Status.TIMEOUT, Status.CANCELLED, Status.LOST, Status.ERROR, Status.UNAVAILABLE})
"""Statuses of programs that did not reach their end."""


class Difference(NamedTuple):
    """The first place where two runs of a program differ."""

    kind: str
    """`call`, `result` (of a call), `console`, `status`, `error` or `value`."""
    number: int | None
    """1-based number of the call, or of the console line; None for the end of the program."""
    at: str
    """Where: `value.items[2].name`, `arguments.time`, `servers.time.get`; empty for a whole line."""
    recorded: "Json"
    """What the recording has there; None if it has nothing."""
    replayed: "Json"
    """What the other run has there."""

    def to_json(self) -> "dict[str, Json]":
        """Return it as people and programs read it."""
        shown = {"recorded": _shorten(self.recorded), "replayed": _shorten(self.replayed)}
        return {**self._asdict(), **shown}


def compare(recorded: RecordedRun, replayed: RecordedRun, *, reached_end: bool = False) -> Difference | None:
    """Return the first difference; None if both runs did the same.

    Calls and console lines come first, in the order in which the program made them. With `reached_end`, the other run
    stopped where the recording of an interrupted run ends.
    """
    ours = {call.number: call for call in recorded.calls}
    theirs = {call.number: call for call in replayed.calls}
    calls = lines = 0
    for one, other in zip_longest(recorded.actions, replayed.actions):
        first = one or other
        calls, lines = calls + bool(first.call), lines + (not first.call)
        if one is None or other is None or bool(one.call) != bool(other.call):
            kind, number = ("call", calls) if first.call else ("console", lines)
            return Difference(kind, number, "", _show_action(one, ours), _show_action(other, theirs))
        if one.call:
            found = _compare_calls(ours[one.call], theirs[other.call], calls)
            if found is not None:
                return found
        elif one.line != other.line:
            return Difference("console", lines, "", _show_action(one, ours), _show_action(other, theirs))
    if reached_end and recorded.status in INTERRUPTED:
        return None
    return _compare_ends(recorded, replayed)


def _compare_calls(one: RecordedCall, other: RecordedCall, number: int) -> Difference | None:
    if (one.server, one.tool, one.raw) != (other.server, other.tool, other.raw):
        return Difference("call", number, "", name_call(one), name_call(other))
    if found := find_difference(one.arguments, other.arguments, f"{name_call(one)}: arguments"):
        return Difference("call", number, *found)
    if one.status is None or other.status is None:  # one run ended before the reply
        return None
    if found := find_difference(_show_result(one), _show_result(other), f"{name_call(one)}: "):
        return Difference("result", number, *found)
    return None


def _show_result(call: RecordedCall) -> "dict[str, Json]":
    return {"result": call.value} if call.error is None else {"error": call.error}


def _compare_ends(one: RecordedRun, other: RecordedRun) -> Difference | None:
    if one.status is not other.status:
        return Difference("status", None, "", _show_end(one), _show_end(other))
    if found := find_difference(_show_error(one), _show_error(other), "error"):
        return Difference("error", None, *found)
    if one.has_value != other.has_value:
        return Difference("value", None, "value", one.value, other.value)
    found = find_difference(one.value, other.value, "value")
    return found and Difference("value", None, *found)


def find_difference(one: "Json", other: "Json", place: str) -> "tuple[str, Json, Json] | None":
    """Return where two JSON values first differ, below `place`, and what each has there; None if they are equal."""
    todo: list[tuple[Any, Any, str]] = [(one, other, place)]
    while todo:
        both_sides = todo.pop()
        mine, theirs, place = both_sides
        if isinstance(mine, dict) and isinstance(theirs, dict):
            ours, others = cast("dict[str, Any]", mine), cast("dict[str, Any]", theirs)
            names = dict.fromkeys([*ours, *others])
            pairs = [(ours.get(n, _MISSING), others.get(n, _MISSING), _join(place, n)) for n in names]
        elif isinstance(mine, list | tuple) and isinstance(theirs, list | tuple):
            both = cast("list[Any]", mine), cast("list[Any]", theirs)
            items = enumerate(zip_longest(*both, fillvalue=_MISSING))
            pairs = [(first, second, f"{place}[{index}]") for index, (first, second) in items]
        elif mine is _MISSING or theirs is _MISSING or not are_equal(mine, theirs):
            return place, _read_side(both_sides[0]), _read_side(both_sides[1])
        else:
            continue
        todo += reversed(pairs)
    return None


_MISSING: Any = object()


def _read_side(value: object) -> "Json":
    return None if value is _MISSING else value


def _join(place: str, name: str) -> str:
    if name.isidentifier():
        return f"{place}{name}" if place.endswith(" ") else f"{place}.{name}"
    return f"{place}[{dumps(name)}]"


def name_call(call: RecordedCall) -> str:
    """Return the name of a call as programs write it."""
    if call.method:
        return f"servers.{name_method(call.server, call.tool)}"
    return f"paddock.{call.tool}" if call.sdk else f"servers.{call.server}.{call.tool}"


def _show_action(action: RecordedAction | None, calls: Mapping[int, RecordedCall]) -> "Json":
    if action is None:
        return None
    if action.line is not None:
        return action.line.printed
    call = calls[action.call]
    return {"call": name_call(call), "arguments": call.arguments}


def _show_error(run: RecordedRun) -> "Json":
    return run.error and {"name": run.error.name, "message": run.error.message}


def _show_end(run: RecordedRun) -> str:
    return run.status.value + (f": {run.error.name}: {run.error.message}" if run.error else "")


def _shorten(value: "Json") -> "Json":
    text = value if isinstance(value, str) else dumps(value, ensure_ascii=False)
    return value if len(text) <= _MAX_SHOWN_CHARS else ellipsis(text, _MAX_SHOWN_CHARS)
