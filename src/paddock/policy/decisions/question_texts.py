"""What a question shows of a request: without secrets, bounded, and with hidden characters escaped.

The texts come from a program that wants a yes. Therefore everything that a terminal or a chat could display as
something else is escaped: control characters, line ends, characters without a width, and those that change the
direction of writing.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from paddock.model.approval import Question, Scope
from paddock.model.base import Json
from paddock.model.canonical import canonical
from paddock.model.ids import new_id
from paddock.model.numbers import dumps
from paddock.model.outcome import Decision
from paddock.model.printable import make_printable
from paddock.model.request import ExecutionRequest
from paddock.model.texts import cut_middle
from paddock.policy.redaction.outgoing import OutgoingRedaction

_MAX_PATH_CHARS = 800
_MAX_TEXT_CHARS = 400
"""Maximum length of one argument in a question, in characters."""
_MAX_DETAILS_CHARS = 4000
"""Maximum length of all arguments in a question, in characters."""


class Subject(NamedTuple):
    """What a request would do, as its kind of work describes it."""

    what: str
    arguments: Mapping[str, Json]
    fields: Mapping[str, Json]
    """All fields that determine what is done."""
    is_repeatable: bool
    """Whether a yes may hold for the rest of a run."""


def make_question(
    request: ExecutionRequest,
    decision: Decision,
    subject: Subject,
    outgoing: OutgoingRedaction,
    *,
    wait_ms: int,
) -> Question:
    """Return the question about a request whose decision asks."""
    scopes: tuple[Scope, ...] = ("once", "run") if request.parent and subject.is_repeatable else ("once",)
    evidence = () if decision.flow is None else decision.flow.shown
    return Question(
        id=new_id(),
        request=request.id,
        run=request.root or request.id,
        actor=make_printable(request.actor),
        surface=make_printable(request.surface),
        workspace=make_printable(str(request.workspace), _MAX_PATH_CHARS),
        what=make_printable(outgoing.text(subject.what)),
        details=format_details(subject.arguments, outgoing),
        reasons=tuple(
            make_printable(outgoing.text(reason), _MAX_TEXT_CHARS) for reason in (*decision.asks, *evidence)
        ),
        rule=make_printable(decision.rule),
        sha256=hash_request(request, subject.fields),
        scopes=scopes,
        wait_ms=wait_ms,
    )


def make_act_question(
    request: str,
    what: str,
    arguments: Mapping[str, Json],
    reason: str,
    outgoing: OutgoingRedaction,
    *,
    wait_ms: int,
) -> Question:
    """Return the question about an act that is no request to the gate."""
    return Question(
        id=new_id(),
        request=request,
        run=request,
        what=make_printable(outgoing.text(what)),
        details=format_details(arguments, outgoing),
        reasons=(make_printable(outgoing.text(reason), _MAX_TEXT_CHARS),),
        sha256=hashlib.sha256(canonical({"what": what, "arguments": dict(arguments)})).hexdigest(),
        wait_ms=wait_ms,
    )


def hash_request(request: ExecutionRequest, fields: Mapping[str, Json]) -> str:
    """Return the hash (hex) over everything that determines what is done, and for whom; `fields` describe the work."""
    rest = {"workspace": str(request.workspace), "actor": request.actor, "jit": request.jit}
    limits = request.limits.model_dump()
    return hashlib.sha256(canonical({"work": dict(fields), "limits": limits, **rest})).hexdigest()


def format_details(arguments: Mapping[str, Json], outgoing: OutgoingRedaction) -> str:
    """Return arguments for display, as one line of JSON, with long strings and the whole shortened."""
    try:
        text = dumps(_shorten_texts(outgoing.json(dict(arguments))), ensure_ascii=False)
    except RecursionError:
        text = "(nested too deeply to be shown)"
    return make_printable(text, _MAX_DETAILS_CHARS)


def _shorten_texts(value: Json) -> Json:
    """Return a value whose long strings say how many characters are left out."""
    match value:
        case str():
            return cut_middle(value, _MAX_TEXT_CHARS)
        case list():
            return [_shorten_texts(item) for item in cast("list[Any]", value)]
        case dict():
            return {str(name): _shorten_texts(item) for name, item in cast("dict[str, Any]", value).items()}
        case _:
            return value
