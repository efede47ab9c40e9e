"""What a recording holds, and its form as JSON. Its secrets were removed before.

Texts and values have marks in place of secrets. `redacted` names each part that has one: a repeated program gets the
marks, too, so that its results are compared without secrets on both sides.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from paddock.model.base import Json, Value
from paddock.model.errors import RecordingError
from paddock.model.limits import Calls
from paddock.model.nesting import MAX_DEPTH, is_deeper
from paddock.model.numbers import dumps, loads
from paddock.model.outcome import ConsoleLine
from paddock.model.request import JsonPaths, Language, Profile
from paddock.model.status import Status
from paddock.model.texts import explain

_ENVELOPE_LEVELS = 8
_WORD = Annotated[int, Field(ge=0, lt=2**32)]
_Milliseconds = Annotated[float, Field(ge=0, le=1e15)]


class RecordedProgram(Value):
    """A program and what it was given."""

    name: str = "program"
    """Name in error texts; of a saved script, its name."""
    source: str | None = None
    """None in a test of a saved script, which has the text."""
    language: Language = "auto"
    profile: Profile = "execute"
    input: Json = None
    vars: dict[str, str] = Field(default_factory=dict)
    raw_results: bool = False
    jit: bool = False
    calls: Calls = "run"


class RecordedStart(Value):
    """The program's clock and the seeds of its random numbers."""

    instant: Annotated[int, Field(ge=0, le=8_640_000_000_000_000)]
    """Milliseconds since 1970."""
    seed: tuple[_WORD, _WORD, _WORD, _WORD]
    entropy: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """32 bytes, in hexadecimal."""


class RecordedCall(Value):
    """One call of the program, and its reply."""

    number: Annotated[int, Field(gt=0)]
    server: str
    """The server; `paddock` with `sdk`."""
    tool: str
    """The tool, or the method of the SDK."""
    sdk: bool = False
    arguments: Json = None
    """None for a call that was refused before its arguments were read."""
    raw: bool = False
    method: bool = False
    """Whether it is a method of the server, such as reading a resource, and not a tool."""
    encoded: JsonPaths = ()
    status: Status | None = None
    """None without a reply: the run ended first, or the call was refused unread."""
    value: Json = None
    error: Json = None
    """The fields of the error that the program could catch; None for a result."""
    warning: str = ""
    redacted: tuple[Literal["name", "arguments", "result"], ...] = ()
    """The parts from which secrets were removed."""


class RecordedEvent(Value):
    """A message that the program received."""

    call: Annotated[int, Field(ge=0)] = 0
    """Number of the call that it answers; 0 if it only moved the clock."""
    at: _Milliseconds
    """Milliseconds since the program began."""


class RecordedAction(Value):
    """One thing that the program did: a call, or a line on the console."""

    call: Annotated[int, Field(ge=0)] = 0
    """Number of the call; 0 for a line."""
    line: ConsoleLine | None = None


class RecordedError(Value):
    """How the program failed."""

    name: str
    message: str
    line: int | None = None
    column: int | None = None


class RecordedRun(Value):
    """The recording of one run."""

    format: Literal[1] = 1
    run: str
    """Id of the run."""
    actor: str = ""
    """Empty in a test of a saved script."""
    workspace: str
    recorded: str
    """Time of the run: ISO 8601, UTC."""
    program: RecordedProgram
    start: RecordedStart
    calls: tuple[RecordedCall, ...] = ()
    """In the order in which the program made them."""
    events: tuple[RecordedEvent, ...] = ()
    """In the order in which the program received them."""
    actions: tuple[RecordedAction, ...] = ()
    """In the order in which the program did them."""
    status: Status
    value: Json = None
    has_value: bool = False
    error: RecordedError | None = None
    redacted: tuple[str, ...] = ()
    """Parts besides calls from which secrets were removed: `source`, `input`, `vars`, `value`, `error`, `console`."""

    @model_validator(mode="after")
    def _names_its_calls(self) -> Self:
        numbers = {call.number for call in self.calls}
        if len(numbers) < len(self.calls):
            raise ValueError("two calls have the same number")
        for action in self.actions:
            if (action.call == 0) == (action.line is None) or (action.call and action.call not in numbers):
                raise ValueError("an action is neither one of the calls nor a line")
        return self

    @property
    def is_whole(self) -> bool:
        """Whether the program itself reached its end."""
        return self.status in (Status.OK, Status.FAILED, Status.OUTPUT_LIMIT)

    @property
    def hidden(self) -> list[str]:
        """Every part from which secrets were removed, such as `source` or `call 3: result`."""
        calls = (f"call {call.number}: {part}" for call in self.calls for part in call.redacted)
        return [*self.redacted, *calls]


_PAYLOADS = {
    "value": True,
    "program": {"input": True},
    "calls": {"__all__": {"arguments": True, "value": True, "error": True}},
}
"""Fields that pydantic must not write: it fails on deep values, and rounds numbers."""


def write_run(run: RecordedRun, *, indent: int | None = None) -> str:
    """Return a recording as JSON, with the digits of all numbers."""
    fields = run.model_dump(mode="json", exclude=_PAYLOADS, exclude_defaults=True)
    fields |= {"value": run.value} if run.has_value else {}
    if run.program.input is not None:
        fields["program"]["input"] = run.program.input
    for written, call in zip(fields.get("calls", ()), run.calls, strict=True):
        given = {"arguments": call.arguments, "value": call.value, "error": call.error}
        written |= {name: value for name, value in given.items() if value is not None}
    return dumps({"format": run.format, **fields}, indent=indent, ensure_ascii=False)


def read_run(text: str) -> RecordedRun:
    """Return the recording of JSON that `write_run` made, perhaps changed by hand. Raises RecordingError."""
    try:
        fields = loads(text)
        if is_deeper(fields, MAX_DEPTH + _ENVELOPE_LEVELS):
            raise RecordingError(f"the recording is nested more than {MAX_DEPTH} levels deep")
        return RecordedRun.model_validate(fields)
    except ValidationError as problem:
        raise RecordingError("the recording is not valid: " + "; ".join(explain(problem))) from None
    except (ValueError, RecursionError):
        raise RecordingError("the recording is not valid: it is not JSON") from None
