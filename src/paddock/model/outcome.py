"""What became of a request. Everything a person sees is a rendering of an `Outcome`."""

from collections.abc import Iterator
from functools import cache
from typing import Literal, Self

from pydantic import Field

from paddock.model.approval import Verdict
from paddock.model.base import Json, Value
from paddock.model.errors import PaddockError
from paddock.model.limits import Grants, GuestLimits
from paddock.model.numbers import dumps
from paddock.model.program import ProgramEnd, ProgramTerms
from paddock.model.status import Status
from paddock.model.tool import ToolEnd, ToolTerms
from paddock.model.work_files import OutputFile

_MAX_HTML_CHARS = 10_000
"""Characters that a notebook shows of each part."""
UNCERTAIN_ENDS = frozenset({Status.TIMEOUT, Status.CANCELLED, Status.LOST, Status.ERROR})
"""Ends of a call of a tool that do not tell what it did to the world."""


class Decision(Value):
    """What policy answered: the effective limits and grants, why, and the hash that the ledger keeps."""

    allowed: bool
    """Whether it may run now; false as long as a person has not been asked who must be."""
    reasons: tuple[str, ...] = ()
    """Why it is refused."""
    asks: tuple[str, ...] = ()
    """Why a person is to be asked first; empty when nobody is, or somebody has been."""
    answer: Verdict | None = None
    """What the person said, where one was asked."""
    limits: GuestLimits = GuestLimits()
    """Effective limits."""
    grants: Grants = Grants()
    """Effective grants."""
    program: ProgramTerms | None = None
    """Limits and grants of a program in a language runtime, in the place of the two above."""
    tool: ToolTerms | None = None
    """The same of a script tool."""
    rule: str = "default"
    """Which rule decided."""
    audit_hash: str = ""
    """SHA-256 over the decision and the identity of the request."""


ConsoleLevel = Literal["log", "warn", "error", "info", "debug"]


class ConsoleLine(Value):
    """One console call of the program, in order."""

    level: ConsoleLevel
    """Which method of the console was called."""
    text: str
    """The arguments as the console prints them."""

    @property
    def printed(self) -> str:
        """The line as it is printed: all levels except `log` are named before it."""
        return self.text if self.level == "log" else f"[{self.level}] {self.text}"


class Frame(Value):
    """One function of the program that was running."""

    function: str
    """Its name; empty for the program itself, and for a function without a name."""
    line: int
    """1-based line in the user's source."""
    column: int
    """1-based column in the user's source, in UTF-16 units."""


class ErrorInfo(Value):
    """Why an outcome is not ok, in the program's own coordinates. Never a host path, never a host stack."""

    name: str
    """`TypeError`, `SyntaxError`, `Timeout`, ..."""
    message: str
    """What happened."""
    line: int | None = None
    """1-based line in the user's source."""
    column: int | None = None
    """1-based column in the user's source, in UTF-16 units."""
    excerpt: str = ""
    """The source line with a caret under the column; empty when unknown."""
    thrown: str = ""
    """`String(thrown value)` for a value that is not an Error."""
    hint: str = ""
    """What may help; empty when nothing is known."""
    code: int | None = None
    """JSON-RPC code of the error with which an MCP server answered a call; None for other errors."""
    data: Json = None
    """What the server said beside it, at most 16 KiB of JSON."""
    frames: tuple[Frame, ...] = ()
    """The program's own functions that were running, innermost first, five at most."""
    phase: Literal["decide", "parse", "run", "call"] = "run"
    """`decide` and `parse` mean that nothing of the program ran."""


class CallRecord(Value):
    """One host call of the program, as the record of what was done."""

    server: str
    """The server, or `paddock` for a method of the SDK."""
    tool: str
    """The tool or the method."""
    status: Status
    """How it ended."""
    ms: float
    """Wall time in milliseconds."""


class PlannedCall(Value):
    """One call that a rehearsal did not make."""

    server: str
    """The server."""
    tool: str
    """The tool."""
    arguments: dict[str, Json] | None
    """None when they are too large to keep."""
    asks: tuple[str, ...] = ()
    """Why a person would have been asked first."""


class Usage(Value):
    """What the execution cost."""

    wall_ms: float = 0.0
    """Wall time in milliseconds."""
    cpu_ms: float = 0.0
    """Processor time in milliseconds, user and system."""
    peak_bytes: int = 0
    """Most memory at a time."""
    host_calls: int = 0
    """Calls of tools and methods."""
    console_bytes: int = 0
    """Bytes of console lines that are kept."""
    emitted_bytes: int = 0
    """What a computation emitted, as UTF-8."""


class SandboxFacts(Value):
    """Which layers confined the execution (proved, not hoped for) and what they leave open."""

    tier: str = "none"
    """`namespaces`, `landlock`, `unconfined`; `none` when nothing ran."""
    layers: tuple[str, ...] = ()
    """What confined it, by layer."""
    residual: tuple[str, ...] = ()
    """What these layers leave open."""


@cache
def _nothing_ran() -> SandboxFacts:
    return SandboxFacts()


class RawResult(Value):
    """What an engine reports: the facts of one execution, before policy, redaction and audit have their say."""

    status: Status
    """Who is to blame, if anybody."""
    value: Json = None
    """What the program returned, as JSON."""
    has_value: bool = False
    """False when the program returned undefined."""
    artifact: str | None = None
    """Handle of the stored result where it was over its limit, with the console as its standard error; None when there
    is none. The output of a program in a language runtime is in `program.artifact`."""
    console: tuple[ConsoleLine, ...] = ()
    """What it wrote to the console, in order."""
    console_truncated: bool = False
    """Whether lines beyond the limit are missing."""
    error: ErrorInfo | None = None
    """Why it is not ok; None when it is."""
    calls: tuple[CallRecord, ...] = ()
    """Its calls of tools, in the order in which they ended."""
    in_flight: int = 0
    """Host calls whose end the program did not see; their effect is unknown."""
    program: ProgramEnd | None = None
    """How a program in a language runtime ended; None for other work, and when none was started."""
    planned: tuple[PlannedCall, ...] = ()
    """What a rehearsal (`dry_run`) would have called, in order."""
    tool: ToolEnd | None = None
    """What a script tool gave; None for other work."""
    redactions: int = 0
    """How many secrets were removed from output, value, console and error."""
    usage: Usage = Usage()
    """What it cost."""
    sandbox: SandboxFacts = Field(default_factory=_nothing_ran)
    """What confined it."""

    @property
    def ok(self) -> bool:
        """Whether it ran to its end without an error."""
        return self.status is Status.OK


class Outcome(RawResult):
    """The end of a request."""

    id: str
    """Id of the request, as the record has it."""
    decision: Decision = Field(default_factory=lambda: Decision(allowed=False))
    """What policy answered."""
    audit: str = ""
    """Id of the ledger record of the end of this request."""

    @property
    def files(self) -> tuple[OutputFile, ...]:
        """Files that a program created or changed in a working directory of its own."""
        return self.program.files if self.program is not None else ()

    def check(self) -> Self:
        """Return this outcome if it is ok. Raises OutcomeError, whose `outcome` it is, for every other status."""
        if not self.ok:
            raise OutcomeError(self)
        return self

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return _render_html(self)


class OutcomeError(PaddockError):
    """An outcome is not ok: `outcome.check()` raises this. Its `outcome` has the status, the error and the rest."""

    def __init__(self, outcome: Outcome) -> None:
        error = outcome.error
        place = f" (line {error.line})" if error and error.line else ""
        super().__init__(
            f"{outcome.status}: {error.name}: {error.message}{place}" if error else outcome.status.value
        )
        self.outcome = outcome

    def __reduce__(self) -> tuple[type["OutcomeError"], tuple[Outcome]]:
        """Pickle it by its outcome."""
        return OutcomeError, (self.outcome,)


def _render_html(outcome: Outcome) -> str:
    """Return an outcome as HTML without scripts, styles or links; what the program made is escaped, and cut."""
    from html import escape  # notebooks alone pay for it

    facts = (
        f"<strong>{outcome.status}</strong> · {outcome.usage.wall_ms:.1f} ms · record {escape(outcome.audit)}"
    )
    return f"<div>{facts}</div>{''.join(_list_parts(outcome))}"


def _list_parts(outcome: Outcome) -> Iterator[str]:
    if outcome.error is not None:
        yield _render_block(f"{outcome.error.name}: {outcome.error.message}")
    if outcome.has_value:
        yield _render_block(_escape_text(outcome.value))
    if outcome.program is not None:
        for stream in (outcome.program.stdout, outcome.program.stderr):
            if stream.head:
                yield _render_block(f"{stream.head}{' […] ' if stream.truncated else ''}{stream.tail}")
    if outcome.console:
        lines = "\n".join(f"[{line.level}] {line.text}" for line in outcome.console)
        yield f"<details><summary>console</summary>{_render_block(lines)}</details>"


def _escape_text(value: Json) -> str:
    if isinstance(value, str):
        return value
    try:
        return dumps(value, indent=2, ensure_ascii=False)
    except RecursionError:
        return "(nested too deeply to be shown)"


def _render_block(text: str) -> str:
    from html import escape

    shown = text if len(text) <= _MAX_HTML_CHARS else f"{text[:_MAX_HTML_CHARS]} […]"
    return f"<pre>{escape(shown.encode('utf-8', 'replace').decode())}</pre>"
