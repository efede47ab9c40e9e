"""What a person is shown of a request: without secrets, bounded, and unable to pass for anything but itself.

The texts come from whoever wants a yes. So whatever a terminal or a chat could show as something else is spelled out:
control characters, line ends, characters without a width, those that turn the direction of writing.
"""

import hashlib
import unicodedata
from collections.abc import Mapping
from typing import Any, cast

from paddock.model.approval import Question, Scope
from paddock.model.base import Json, count
from paddock.model.canonical import canonical
from paddock.model.ids import new_id
from paddock.model.numbers import dumps
from paddock.model.outcome import Decision
from paddock.model.request import ExecutionRequest, GuestRun, RuntimeRun, SdkCall, ServerCall, ToolRun
from paddock.redaction.outgoing import OutgoingRedaction

_MAX_NAME_CHARS = 200
_MAX_TEXT_CHARS = 400
"""Characters of one text among the arguments that are shown."""
_MAX_DETAILS_CHARS = 4000
"""Characters of all arguments that are shown."""
_MARKS = frozenset({"Mn", "Me", "Mc"})
"""Categories of characters that change the one before them."""


def make_question(
    request: ExecutionRequest, decision: Decision, outgoing: OutgoingRedaction, *, wait_ms: int
) -> Question:
    """Return what to ask about a request whose decision asks."""
    what, arguments = describe_request(request)
    scopes: tuple[Scope, ...] = ("once", "run") if request.parent and repeatable_name(request) else ("once",)
    return Question(
        id=new_id(),
        request=request.id,
        run=request.root or request.id,
        actor=make_printable(request.actor),
        surface=make_printable(request.surface),
        workspace=make_printable(str(request.workspace), 4 * _MAX_NAME_CHARS),
        what=make_printable(outgoing.text(what)),
        details=format_details(arguments, outgoing),
        reasons=tuple(make_printable(outgoing.text(reason), _MAX_TEXT_CHARS) for reason in decision.asks),
        rule=make_printable(decision.rule),
        sha256=hash_request(request),
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
    """Return what to ask about something that is no request to the gate."""
    return Question(
        id=new_id(),
        request=request,
        run=request,
        what=make_printable(what),
        details=format_details(arguments, outgoing),
        reasons=(make_printable(reason, _MAX_TEXT_CHARS),),
        sha256=hashlib.sha256(canonical({"what": what, "arguments": dict(arguments)})).hexdigest(),
        wait_ms=wait_ms,
    )


def hash_request(request: ExecutionRequest) -> str:
    """Return the hash (hex) over all that decides what is done, and for whom."""
    work = request.work
    fields = {name: getattr(work, name) for name in type(work).model_fields}
    if isinstance(work, RuntimeRun):
        fields = {"runtime": work.sha256}
    rest = {"workspace": str(request.workspace), "actor": request.actor, "jit": request.jit}
    limits = request.limits.model_dump()
    return hashlib.sha256(canonical({"work": fields, "limits": limits, **rest})).hexdigest()


def repeatable_name(request: ExecutionRequest) -> tuple[str, ...] | None:
    """Return the name under which a yes may hold for the rest of a run; None where each request is another matter."""
    match request.work:
        case ServerCall(server=server, tool=tool):
            return "server", server, tool
        case SdkCall(method=method):
            return "sdk", method
        case ToolRun() as work:
            return "tool", work.prompt, work.tool, work.script_sha256
        case GuestRun() | RuntimeRun():
            return None


def format_details(arguments: Mapping[str, Json], outgoing: OutgoingRedaction) -> str:
    """Return arguments as one line of JSON that may be shown: each text shortened, and the whole."""
    try:
        text = dumps(_shorten_texts(outgoing.json(dict(arguments))), ensure_ascii=False)
    except RecursionError:
        text = "(nested too deep to be shown)"
    return make_printable(text, _MAX_DETAILS_CHARS)


def make_printable(text: str, longest: int = _MAX_NAME_CHARS) -> str:
    """Return a text that shows as what it is: one line, printable, left to right; a long one without its middle."""
    if len(text) > longest:
        half = longest // 2
        text = f"{text[:half]} [... {count(len(text) - 2 * half, 'character')} not shown ...] {text[-half:]}"
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_escape_character, text))


def _escape_character(character: str) -> str:
    sane = character.isprintable() and unicodedata.category(character) not in _MARKS
    if sane and unicodedata.bidirectional(character) not in {"R", "AL", "AN"}:
        return character
    number = ord(character)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def _shorten_texts(value: Json) -> Json:
    """Return a value whose long texts say how much of them is not shown."""
    match value:
        case str() if len(value) > _MAX_TEXT_CHARS:
            half = _MAX_TEXT_CHARS // 2
            return f"{value[:half]} [... {count(len(value) - 2 * half, 'character')} not shown ...] {value[-half:]}"
        case list():
            return [_shorten_texts(item) for item in cast("list[Any]", value)]
        case dict():
            return {str(name): _shorten_texts(item) for name, item in cast("dict[str, Any]", value).items()}
        case _:
            return value


def describe_request(request: ExecutionRequest) -> tuple[str, dict[str, Json]]:
    """Return what would be done, in words, and with what."""
    match request.work:
        case ServerCall() as work:
            return f"call {work.server}/{work.tool}", work.arguments
        case SdkCall() as work:
            return f"call paddock.{work.method}", {"arguments": list(work.arguments)}
        case RuntimeRun() as work:
            terms = f"workspace {work.access}, network {work.network}"
            fields = {
                "code": work.code,
                "args": list(work.args),
                "executable": work.executable,
                "file": work.file,
            }
            stdin = None if work.stdin is None else work.stdin.decode("utf-8", "replace")
            given = {**fields, "cwd": work.cwd, "stdin": stdin}
            return f"run a {work.runtime} program ({terms})", {
                name: value for name, value in given.items() if value
            }
        case ToolRun() as work:
            terms = f"workspace {work.access}, network {work.network}"
            return f"run the script tool {work.tool} ({terms})", {"inputs": work.inputs, "env": work.env}
        case GuestRun() as work:
            jit = ", with just-in-time compilation" if request.jit else ""
            source = {"source": work.source, "input": work.input, "vars": work.vars}
            return f"run the JavaScript program {work.name}{jit}", {k: v for k, v in source.items() if v}
