"""Turn an `Outcome` into text. Every surface uses this module, so that they all print the same."""

import json
import math
import re
from collections.abc import Iterator
from decimal import Decimal

import orjson

from paddock.model.base import Json
from paddock.model.numbers import ExactFloat, dumps
from paddock.model.outcome import (
    UNCERTAIN_ENDS,
    CallRecord,
    ConsoleLine,
    ErrorInfo,
    Outcome,
    PlannedCall,
    Status,
)
from paddock.model.texts import cut_text
from paddock.model.tool import ToolEnd

_BLAMES_THE_PROGRAM = frozenset(
    {
        Status.FAILED,
        Status.TIMEOUT,
        Status.MEMORY_LIMIT,
        Status.OUTPUT_LIMIT,
        Status.PROCESS_LIMIT,
        Status.CANCELLED,
    }
)

_JSON_ENCODER = json.JSONEncoder(ensure_ascii=False)
_EXPONENT_PATTERN = re.compile(r"e([+-])0*(\d+)$")

_MAX_DATA_CHARS = 500
"""Maximum printed length of a server's error data, in characters."""


def compact(value: Json) -> str:
    """Return a value as JSON on one line, with the digits of all numbers."""
    try:
        return orjson.dumps(
            value
        ).decode()  # takes a tenth of the time of `dumps`, which blocks the event loop
    except TypeError:
        return dumps(value, ensure_ascii=False, separators=(",", ":"))


def console_text(line: ConsoleLine) -> str:
    """Return a console line as it is printed: it starts with its level, except for `log`."""
    return line.printed


def value_text(value: Json) -> str:
    """Return a result for people: a string unchanged, anything else as JSON.

    The JSON equals that of `JSON.stringify(value, null, 2)`, including numbers.
    """
    return value if isinstance(value, str) else "".join(_write_pretty(value))


def output_text(outcome: Outcome) -> str:
    """Return console lines and then the value, one below the other; empty if there is neither."""
    blocks = [console_text(line) for line in outcome.console]
    if outcome.has_value and outcome.ok:
        blocks.append(value_text(outcome.value))
    return "\n".join(blocks)


def error_text(outcome: Outcome) -> str:
    """Return why an outcome is not ok: the message, the place in the program, completed calls, and a hint.

    The text starts with `Sandbox error: ` if the running program failed, but not for a refusal, a program that does not
    parse, or a fault of Paddock. Empty if the outcome is ok.
    """
    if outcome.ok:
        return ""
    ran = outcome.status in _BLAMES_THE_PROGRAM and (outcome.error is None or outcome.error.phase == "run")
    return ("Sandbox error: " if ran else "") + explain_outcome(outcome)


def plan_text(outcome: Outcome) -> str:
    """Return the calls that a rehearsal did not make, one per line; empty if there are none."""
    if not outcome.planned:
        return ""
    calls = [f"  {render_planned_call(call, arguments_text(call))}" for call in outcome.planned]
    return "\n".join([f"planned, not called ({len(calls)}):", *calls])


def render_planned_call(call: PlannedCall, arguments: str) -> str:
    """Return a planned call, and why a person would have been asked first."""
    asks = f" - a person would be asked: {'; '.join(call.asks)}" if call.asks else ""
    return f"{call.server}.{call.tool}({arguments}){asks}"


def arguments_text(call: PlannedCall) -> str:
    """Return the arguments of a planned call; dots if they were too large to keep."""
    return "..." if call.arguments is None else compact(call.arguments)


def tool_end(outcome: Outcome) -> ToolEnd:
    """Return the end of a script tool, also of one that policy refused."""
    return outcome.tool or ToolEnd(success=False, error=error_text(outcome))


def explain_outcome(outcome: Outcome) -> str:
    """Return why an outcome is not ok, without a prefix."""
    error = outcome.error or ErrorInfo(name="Error", message="; ".join(outcome.decision.reasons))
    named = outcome.status is Status.FAILED and error.name not in {"", "Error", "Thrown"}
    message = f"{error.name}: {error.message}" if named and error.message else error.message or error.thrown
    lines = [message or outcome.status.value]
    if error.line is not None:
        column = "" if error.column is None else f", column {error.column}"
        lines.append(f"  at line {error.line}{column}")
    lines += [f"    {line}" for line in error.excerpt.splitlines()]
    if len(error.frames) > 1:
        callers: list[str] = []
        for frame in error.frames[1:]:
            place = f"line {frame.line}, column {frame.column}"
            callers.append(f"{frame.function} ({place})" if frame.function else place)
        lines.append(f"  called from {', '.join(callers)}")
    if error.code is not None:
        data = "" if error.data is None else f", data {cut_text(compact(error.data), _MAX_DATA_CHARS)}"
        lines.append(f"  the server's error: code {error.code}{data}")
    if outcome.calls or outcome.in_flight:
        lines.append(f"  {_calls_text(outcome.calls, outcome.in_flight)}")
    if error.hint:
        lines.append(f"  hint: {error.hint}")
    return "\n".join(lines)


def _calls_text(calls: tuple[CallRecord, ...], in_flight: int) -> str:
    """Return which calls were completed before the error, so that they are not repeated blindly."""
    shown = [f"{call.server}.{call.tool} {call.status.value}" for call in calls[:3]]
    if len(calls) > len(shown):
        shown.append(f"and {len(calls) - len(shown)} more")
    done = f"calls completed before the error: {len(calls)}" + (f" ({', '.join(shown)})" if shown else "")
    flying = f"{in_flight} in flight, their effect is unknown" if in_flight else "nothing is in flight"
    unseen = sum(call.status in UNCERTAIN_ENDS for call in calls)
    unknown = f"; of {unseen} that ended without an answer the effect is unknown" if unseen else ""
    return f"{done}; {flying}{unknown}"


def _write_pretty(value: Json) -> Iterator[str]:
    """Yield the pieces of a JSON text, two spaces per level. Iterative, because the program chooses the depth."""
    frames: list[tuple[Iterator[tuple[str, Json]], str]] = [(iter([("", value)]), "")]
    while frames:
        members, closer = frames[-1]
        member = next(members, None)
        if member is None:
            frames.pop()
            yield closer
            continue
        lead, child = member
        yield lead
        if child and isinstance(child, dict | list | tuple):
            opening, closing = "{}" if isinstance(child, dict) else "[]"
            yield opening
            outer = "\n" + "  " * (len(frames) - 1)
            frames.append((_write_members(child, outer + "  "), outer + closing))  # pyright: ignore[reportUnknownArgumentType]
        else:
            yield _write_number(child) if isinstance(child, float) else _quote_scalar(child)


def _write_members(
    container: dict[str, Json] | list[Json] | tuple[Json, ...], newline: str
) -> Iterator[tuple[str, Json]]:
    """Yield each member with the text before it."""
    comma = ""
    if isinstance(container, dict):
        for name, child in container.items():
            yield f"{comma}{newline}{_quote_scalar(name)}: ", child
            comma = ","
    else:
        for child in container:
            yield comma + newline, child
            comma = ","


def _quote_scalar(scalar: Json) -> str:
    if type(scalar) is int:
        return str(scalar)
    text = _JSON_ENCODER.encode(scalar)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _write_number(value: float) -> str:
    """Return a number in JavaScript's notation: 1, 0.000001, 1e-7, 1e+21; NaN and infinities are null.

    A number that no double represents keeps its own digits.
    """
    if isinstance(value, ExactFloat):
        return value.digits
    if not math.isfinite(value):
        return "null"
    if value == 0:
        return "0"
    if 1e-6 <= abs(value) < 1e21:  # ECMA-262, Number::toString
        return format(Decimal(repr(value)), "f").removesuffix(".0")
    return _EXPONENT_PATTERN.sub(r"e\1\2", repr(value))
