"""Render an outcome for an agent: one text and the same data, both within one limit.

ok · 142 ms · 12 calls (github 12) · run 01J...
{"open":17,"titles":["..."]}
--- console (3 lines)
...
"""

import base64
import binascii
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict, cast

from paddock.model.base import Json, count
from paddock.model.outcome import UNCERTAIN_ENDS, Frame, Outcome, PlannedCall, Status
from paddock.model.session import SessionEnd
from paddock.model.texts import cut_text
from paddock.surfaces.mcp_server.toolbox import ToolAnswer, text_block
from paddock.surfaces.rendering import answers, render
from paddock.surfaces.rendering.render import compact
from paddock.surfaces.rendering.terminal import make_encodable

_NOT_STARTED = frozenset({Status.DENIED, Status.INVALID, Status.UNAVAILABLE})

MAX_MEDIA_BLOCKS = 16
MAX_MEDIA_BYTES = 8 * 1024 * 1024
"""Maximum characters of base64 in one answer, over all blocks."""
_MAX_MEDIA_DEPTH = 32
_MEDIA_FAMILIES = {"image": "image/", "audio": "audio/"}

Effects = Literal["not_started", "no_calls", "calls_completed", "in_flight_unknown"]


class CodeError(answers.ErrorFields):
    """Why a program in JavaScript is not ok."""

    line: NotRequired[Annotated[int, "Line of the program, from 1."]]
    column: NotRequired[Annotated[int, "Column of the line, from 1."]]
    hint: NotRequired[Annotated[str, "What to write instead."]]
    code: NotRequired[Annotated[int, "JSON-RPC code of a server's error."]]
    data: NotRequired[Annotated[Json, "Data of the server's error."]]
    frames: NotRequired[
        Annotated[
            list[Annotated[dict[str, Json], Frame]], "The program's call stack, innermost function first."
        ]
    ]


class PlannedFacts(TypedDict):
    """A call that a rehearsal did not make."""

    server: str
    tool: str
    asks: NotRequired[Annotated[list[str], "Reasons why a person would be asked first."]]
    args: NotRequired[Annotated[dict[str, Json] | None, "The arguments, if they fit."]]


class CodeAnswer(answers.RunAnswer, TypedDict, total=False):
    """The answer of `execute_code`, and of single calls that failed."""

    ms: Annotated[int, "Wall time in milliseconds."]
    session: answers.Session
    redactions: answers.Redactions
    calls: Annotated[dict[str, int], "Number of tool calls, by server."]
    value: Annotated[Json, "The program's result, any JSON; missing if it returned nothing."]
    excerpt: Annotated[str, "The beginning of a value that is too large, as text."]
    artifactHandle: answers.Handle
    console: Annotated[list[str], "Console lines."]
    planned: Annotated[list[PlannedFacts], "In the mode `dry_run`: the calls that were not made."]
    error: CodeError
    happened: Annotated[Effects, "After a failure: which effects the program already had."]


def build_answer(outcome: Outcome, cap: int, *, single: bool = False) -> ToolAnswer:
    """Return the answer for a program; value, console and error have at most `cap` characters together.

    `single` means that the outcome itself is one call, of a server's tool or of a script tool.
    """
    data: CodeAnswer = {
        "status": outcome.status.value,
        "run": outcome.id,
        "ms": round(outcome.usage.wall_ms),
    }
    if outcome.session is not None:
        data["session"] = outcome.session.model_dump()
    if outcome.redactions:
        data["redactions"] = outcome.redactions
    if outcome.calls:
        data["calls"] = dict(Counter(call.server for call in outcome.calls))
    parts = [_build_headline(outcome), *render_session(outcome.session)]
    if not outcome.ok:
        explained = cut_text(render.explain_outcome(outcome), cap // 2)
        parts.append(explained)
        data["error"] = _build_error(outcome, explained, cap // 4)
        if explained != render.explain_outcome(outcome):
            data["truncated"] = True
        data["happened"] = describe_effects(outcome, single=single)
    room = cap - sum(map(len, parts))
    blocks: list[dict[str, Json]] = []
    if outcome.has_value and outcome.ok:
        value, text = outcome.value, render_value_text(outcome.value)
        if any(f'"{kind}"' in text for kind in (*_MEDIA_FAMILIES, "resource")):  # fast, with false positives
            media = _MediaCollector()
            value, blocks = media.replace_media(value, 0), media.blocks
            text = render_value_text(value)
        shown = cut_text(text, room)
        parts.append(shown)
        if shown == text:
            data["value"] = value
        else:
            data["excerpt"], data["truncated"] = shown, True
        room -= len(shown)
    elif outcome.ok:
        parts.append("(the program returned nothing)")
    if outcome.planned:
        lines = _add_plan(data, outcome.planned, max(room, cap // 4))
        parts += lines
        room -= sum(map(len, lines))
    if outcome.console:
        whole = [make_encodable(render.console_text(line)) for line in outcome.console]
        lines = _shorten_lines(whole, max(room, cap // 4))
        parts += [f"--- console ({count(len(whole), 'line')})", *lines]
        data["console"] = lines
        if lines != whole:
            data["truncated"] = True
    return ToolAnswer([text_block("\n".join(parts)), *blocks], data, is_error=not outcome.ok)


def render_value_text(value: Json) -> str:
    """Return a value for agents: a string unchanged, anything else as compact JSON."""
    return make_encodable(value if isinstance(value, str) else compact(value))


def describe_effects(outcome: Outcome, *, single: bool = False) -> Effects:
    """Return which effects a failed program already had, so that it is not repeated blindly.

    Calls that were refused, invalid or never sent had no effect. `single` means that the outcome itself is one call.
    """
    if outcome.status in _NOT_STARTED or (outcome.error and outcome.error.phase in {"decide", "parse"}):
        return "not_started"
    ends = {outcome.status} if single else {call.status for call in outcome.calls}
    if outcome.in_flight or ends & UNCERTAIN_ENDS:
        return "in_flight_unknown"
    return "calls_completed" if ends - _NOT_STARTED else "no_calls"


def _build_headline(outcome: Outcome) -> str:
    facts = [outcome.status.value, f"{outcome.usage.wall_ms:.0f} ms"]
    if outcome.calls:
        servers = Counter(call.server for call in outcome.calls)
        named = ", ".join(f"{name} {number}" for name, number in servers.most_common())
        failed = sum(call.status is not Status.OK for call in outcome.calls)
        named += f"; {failed} failed" if failed else ""
        facts.append(f"{count(len(outcome.calls), 'call')} ({named})")
    return " · ".join([*facts, f"run {outcome.id}"])


def render_session(session: SessionEnd | None) -> list[str]:
    """Return the line that tells of a session after an execution; nothing without one."""
    if session is None:
        return []
    if session.state == "lost":
        return [f"session lost: {session.reason}"]
    return [f"session {session.id}: kept, expires in {round(session.expires_in_s)} s without use"]


def _build_error(outcome: Outcome, explained: str, room: int) -> CodeError:
    """Return an error as data. The data of a server's error is included if it fits into `room`."""
    error = outcome.error
    if error is None:
        return {"name": "Error", "message": explained}
    fields: CodeError = {
        "name": error.name,
        "message": cut_text(error.message or error.thrown, len(explained)),
    }
    if error.line:
        fields["line"] = error.line
    if error.column:
        fields["column"] = error.column
    if error.hint:
        fields["hint"] = error.hint
    if len(error.frames) > 1:  # `line` and `column` already show a single one
        fields["frames"] = [each.model_dump() for each in error.frames]
    if error.code is not None:
        fields["code"] = error.code
    if error.data is not None and len(compact(error.data)) <= room:
        fields["data"] = error.data
    return fields


def _add_plan(data: CodeAnswer, calls: Sequence[PlannedCall], room: int) -> list[str]:
    """Add the planned calls to the data, which says whether something was left out; return them as lines."""
    whole = [make_encodable(render.render_planned_call(call, render.arguments_text(call))) for call in calls]
    lines = _shorten_lines(whole, room)
    planned: list[PlannedFacts] = []
    for call in calls:
        fields: PlannedFacts = {"server": call.server, "tool": call.tool}
        if call.asks:
            fields["asks"] = list(call.asks)
        complete: PlannedFacts = {**fields, "args": call.arguments}
        kept = complete if len(compact(complete)) <= room else fields
        room -= len(compact(kept))
        if room < 0:
            break
        planned.append(kept)
    data["planned"] = planned
    if lines != whole or len(planned) < len(calls) or any("args" not in each for each in planned):
        data["truncated"] = True
    return [f"--- planned, not called ({len(calls)})", *lines]


def _shorten_lines(texts: list[str], room: int) -> list[str]:
    """Return the lines of head and tail that fit, and the number of the others between them."""
    if sum(map(len, texts)) + len(texts) <= room:
        return texts
    head = _take_fitting_lines(texts, room // 2)
    rest = texts[len(head) :]
    tail = _take_fitting_lines(rest[::-1], room // 2)[::-1]
    left_out = len(rest) - len(tail)
    return [*head, f"[{count(left_out, 'line')} left out]", *tail] if left_out else [*head, *tail]


def _take_fitting_lines(texts: list[str], room: int) -> list[str]:
    kept: list[str] = []
    for text in texts:
        if room <= 0:
            break
        kept.append(cut_text(text, room))
        room -= len(text) + 1
    return kept


class _MediaCollector:
    """Replaces each medium in a value by a description, and keeps the media as content blocks.

    Media that are too large or too many are left out, and their description says so. Look-alikes stay unchanged.
    """

    def __init__(self) -> None:
        self.blocks: list[dict[str, Json]] = []
        self._room = MAX_MEDIA_BYTES

    def replace_media(self, value: Json, depth: int) -> Json:
        if depth > _MAX_MEDIA_DEPTH:
            return value
        if isinstance(value, list | tuple):
            items = cast("list[Json]", value)
            return [self.replace_media(each, depth + 1) for each in items]
        if not isinstance(value, dict):
            return value
        fields = cast("dict[str, Json]", value)
        if (size := _measure_block(fields)) is not None:
            return self._take_block(fields, *size)
        return {name: self.replace_media(each, depth + 1) for name, each in fields.items()}

    def _take_block(self, block: dict[str, Json], encoded: int, size: int) -> Json:
        holder = cast("dict[str, Json]", block["resource"]) if block["type"] == "resource" else block
        shown: dict[str, Json] = {"type": block["type"], "mimeType": holder.get("mimeType"), "bytes": size}
        if "uri" in holder:
            shown["uri"] = holder["uri"]
        if len(self.blocks) >= MAX_MEDIA_BLOCKS or encoded > self._room:
            return {
                **shown,
                "omitted": f"an answer has at most {MAX_MEDIA_BLOCKS} blocks of {MAX_MEDIA_BYTES} characters",
            }
        self._room -= encoded
        self.blocks.append(block)
        return {**shown, "block": len(self.blocks)}


def _measure_block(fields: dict[str, Json]) -> tuple[int, int] | None:
    """Return the characters and bytes of a media block; None for another value."""
    kind = fields.get("type")
    holder: Any = fields.get("resource") if kind == "resource" else fields
    if not isinstance(holder, dict):
        return None
    content = cast("dict[str, Json]", holder)
    data, mime = content.get("blob" if kind == "resource" else "data"), content.get("mimeType")
    if kind == "resource":
        fits = isinstance(content.get("uri"), str) and isinstance(mime, str | None)
    else:
        family = _MEDIA_FAMILIES.get(kind) if isinstance(kind, str) else None
        fits = family is not None and isinstance(mime, str) and mime.startswith(family)
    if not fits or not isinstance(data, str):
        return None
    try:
        return len(data), len(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return None
