"""The result of a request. Everything that a person sees is a rendering of an `Outcome`."""

import reprlib
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field

from paddock.model.approval import Verdict
from paddock.model.base import Json, Value, count
from paddock.model.changes import ChangesSummary, DirectoryChanges
from paddock.model.errors import PaddockError
from paddock.model.flow import FlowFinding
from paddock.model.limits import Grants, GuestLimits
from paddock.model.network import Connection
from paddock.model.numbers import dumps, loads
from paddock.model.program import ProgramEnd, ProgramTerms
from paddock.model.session import Result, SessionEnd
from paddock.model.status import Status
from paddock.model.tool import ToolEnd, ToolTerms
from paddock.model.work_files import OutputFile

_MAX_REPR_CHARS = 80
"""Maximum length of a value in `repr`, in characters."""
UNCERTAIN_ENDS = frozenset({Status.TIMEOUT, Status.CANCELLED, Status.LOST, Status.ERROR})
"""Statuses of a tool call after which its effects are unknown."""


class Decision(Value):
    """The decision of policy: effective limits and grants, reasons, and the hash for the ledger."""

    allowed: bool
    """Whether it may run now; false while a required answer of a person is missing."""
    reasons: tuple[str, ...] = ()
    """Reasons for a refusal."""
    asks: tuple[str, ...] = ()
    """Reasons why a person must be asked first; empty if not, or after the answer."""
    answer: Verdict | None = None
    """The person's answer, if one was asked."""
    limits: GuestLimits = GuestLimits()
    """Effective limits."""
    grants: Grants = Grants()
    """Effective grants."""
    program: ProgramTerms | None = None
    """Limits and grants of a program in a language runtime, in place of the two above."""
    tool: ToolTerms | None = None
    """The same for a script tool."""
    rule: str = "default"
    """The deciding rule."""
    audit_hash: str = ""
    """SHA-256 over the decision and the identity of the request."""
    flow: FlowFinding | None = Field(default=None, exclude=True, repr=False)
    """What flow rules found, inside of Paddock only: it may quote results."""

    def list_absent(self) -> dict[str, Any]:
        """Return newer members without a value. They are left out where a decision is stored or hashed, as before."""
        is_plain = self.program is not None and not self.program.grants.directories
        return {"program": {"grants": {"directories": True}}} if is_plain else {}


ConsoleLevel = Literal["log", "warn", "error", "info", "debug"]


class ConsoleLine(Value):
    """One console call of the program, in order."""

    level: ConsoleLevel
    """The method of the console that was called."""
    text: str
    """The arguments as the console prints them."""

    @property
    def printed(self) -> str:
        """The printed line: it starts with its level, except for `log`."""
        return self.text if self.level == "log" else f"[{self.level}] {self.text}"


OnConsole = Callable[[ConsoleLine], None]
"""Called with each line of a program's console while the program runs."""


class CallProgress(NamedTuple):
    """What a server reports of a running call. A server may report anything."""

    server: str
    tool: str
    progress: float
    total: float | None = None
    message: str = ""

    @property
    def text(self) -> str:
        """The report in one line: `notes.build: 3 of 10: compiling`."""
        of = "" if self.total is None else f" of {self.total:g}"
        message = f": {self.message}" if self.message else ""
        return f"{self.server}.{self.tool}: {self.progress:g}{of}{message}"


OnProgress = Callable[[CallProgress], None]
"""Called with what a server reports of a call while the call runs, without secrets."""


class Frame(Value):
    """One function on the program's call stack."""

    function: str
    """Its name; empty for the program itself, and for an anonymous function."""
    line: int
    """1-based line in the user's source."""
    column: int
    """1-based column in the user's source, in UTF-16 units."""


class ErrorInfo(Value):
    """Why an outcome is not ok, in the program's own coordinates. Never contains a path or a stack of the host."""

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
    """A remedy; empty if none is known."""
    code: int | None = None
    """JSON-RPC code of the error with which an MCP server answered a call; None for other errors."""
    data: Json = None
    """The data of the server's error, at most 16 KiB of JSON."""
    frames: tuple[Frame, ...] = ()
    """The program's own call stack, innermost function first, at most five."""
    phase: Literal["decide", "parse", "run", "call"] = "run"
    """`decide` and `parse` mean that the program did not start."""


class CallRecord(Value):
    """One host call of the program, for the record."""

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
    """None if they are too large to keep."""
    asks: tuple[str, ...] = ()
    """Reasons why a person would have been asked first."""


class Usage(Value):
    """The resources that the execution used."""

    wall_ms: float = 0.0
    """Wall time in milliseconds."""
    cpu_ms: float = 0.0
    """Processor time in milliseconds, user and system."""
    peak_bytes: int = 0
    """Maximum memory, in bytes."""
    host_calls: int = 0
    """Number of calls of tools and methods."""
    console_bytes: int = 0
    """Size of the kept console lines, in bytes."""
    emitted_bytes: int = 0
    """Size of a computation's output, in bytes of UTF-8."""


class SandboxFacts(Value):
    """The layers that confined the execution (proved, not assumed), and what they leave open."""

    tier: str = "none"
    """`namespaces`, `landlock`, `unconfined`; `none` if nothing ran."""
    layers: tuple[str, ...] = ()
    """The confinement, by layer."""
    residual: tuple[str, ...] = ()
    """What these layers do not confine."""


@cache
def _nothing_ran() -> SandboxFacts:
    return SandboxFacts()


class RawResult(Value):
    """An engine's report: the facts of one execution, before redaction and audit."""

    status: Status
    """How it ended, and so who is at fault."""
    value: Json = None
    """The program's result, as JSON."""
    has_value: bool = False
    """False if the program returned undefined."""
    artifact: str | None = None
    """Handle of the stored result if it exceeded its limit, with the console as its standard error; otherwise None. The
    output of a program in a language runtime is in `program.artifact`."""
    recording: str | None = None
    """SHA-256 (hex) of its recording, which `paddock replay` reads; None for a program that is not recorded."""
    console: tuple[ConsoleLine, ...] = ()
    """Its console output, in order."""
    console_truncated: bool = False
    """Whether lines beyond the limit are missing."""
    error: ErrorInfo | None = None
    """Why it is not ok; None if it is."""
    calls: tuple[CallRecord, ...] = ()
    """Its tool calls, in the order in which they ended."""
    in_flight: int = 0
    """Number of host calls whose end the program did not see; their effect is unknown."""
    program: ProgramEnd | None = None
    """How a program in a language runtime ended; None for other work, and if none was started."""
    session: SessionEnd | None = None
    """The session that ran it; None without one."""
    results: tuple[Result, ...] = ()
    """The values that a program in a session shows, in order."""
    network: tuple[Connection, ...] = ()
    """The connections of a program to hosts that have ended or were refused, in order; equal refusals once."""
    planned: tuple[PlannedCall, ...] = ()
    """The calls that a rehearsal (`dry_run`) did not make, in order."""
    changes: ChangesSummary | None = None
    """What a program with the access `overlay` changed; None without one, and if it did not start."""
    directory_changes: tuple[DirectoryChanges, ...] = ()
    """What a program changed in directories beside the workspace that it had as overlays."""
    tool: ToolEnd | None = None
    """The end of a script tool; None for other work."""
    redactions: int = 0
    """Number of secrets that were removed from output, value, console and error."""
    usage: Usage = Usage()
    """The used resources."""
    sandbox: SandboxFacts = Field(default_factory=_nothing_ran)
    """The confinement."""

    @property
    def ok(self) -> bool:
        """Whether it ran to its end without an error."""
        return self.status is Status.OK


class Outcome(RawResult):
    """The end of a request."""

    id: str
    """Id of the request in the record."""
    decision: Decision = Field(default_factory=lambda: Decision(allowed=False))
    """The decision of policy."""
    audit: str = ""
    """Id of the ledger record of the end of this request."""
    labels: tuple[str, ...] = ()
    """What its run had read by its end, as flow rules label it: `private`, `untrusted`."""

    @property
    def text(self) -> str:
        """What a program in a language runtime wrote to standard output, and then to standard error."""
        if self.program is None:
            return ""
        return self.program.stdout.text + self.program.stderr.text

    @property
    def images(self) -> tuple[bytes, ...]:
        """The images among its results: PNG or JPEG."""
        forms = (result.png or result.jpeg for result in self.results)
        return tuple(image for image in forms if image is not None)

    @property
    def files(self) -> tuple[OutputFile, ...]:
        """Files that a program created or changed in a separate working directory."""
        return self.program.files if self.program is not None else ()

    def check(self) -> Self:
        """Return this outcome if it is ok. Otherwise raise OutcomeError, which contains it as `outcome`."""
        if not self.ok:
            raise OutcomeError(self)
        return self

    def _repr_html_(self) -> str:
        """Return the HTML for a notebook, with tables, images and the output."""
        from paddock.model import outcome_html as html  # only notebooks need it

        parts = [html.render_facts(str(self.status), self.usage.wall_ms, self.audit)]
        if self.error is not None:
            parts.append(html.render_text(f"{self.error.name}: {self.error.message}"))
        if self.has_value:
            parts.append(html.render_value(self.value))
        for stream in (self.program.stdout, self.program.stderr) if self.program is not None else ():
            if stream.head:
                text = f"{stream.head}{' […] ' if stream.truncated else ''}{stream.tail}"
                parts.append(html.render_text(text))
        parts += map(html.render_result, self.results)
        if self.console:
            parts.append(
                html.render_console("\n".join(f"[{line.level}] {line.text}" for line in self.console))
            )
        return "".join(parts)

    def __repr__(self) -> str:
        """Return one line: how it ended, and what it gave."""
        parts = [str(self.status), f"{self.usage.wall_ms:.1f} ms"]
        if self.error is not None:
            parts.append(f"{self.error.name}: {self.error.message[:_MAX_REPR_CHARS]!r}")
        if self.has_value:
            parts.append(f"value {reprlib.repr(self.value)}")
        if text := self.text[:_MAX_REPR_CHARS]:
            parts.append(f"text {text!r}")
        if self.results:
            parts.append(count(len(self.results), "result"))
        return f"<Outcome {' · '.join(parts)}>"

    __str__ = __repr__


def write_outcome(outcome: Outcome) -> str:
    """Return the whole outcome as one line of JSON."""
    # pydantic fails on values nested more than 255 levels deep, so that the value is added separately.
    # The version before refuses members that it does not know: it must read what its cluster stored of most runs.
    absent: dict[str, Any] = {"value": True, "decision": outcome.decision.list_absent()}
    absent |= {
        name: True
        for name in ("recording", "changes", "directory_changes", "labels")
        if not getattr(outcome, name)
    }
    fields = outcome.model_dump(mode="json", exclude=absent)
    # It also turns all numbers into doubles.
    if outcome.tool is not None:
        fields["tool"]["output"] = outcome.tool.output
    if outcome.error is not None:
        fields["error"]["data"] = outcome.error.data
    for shown, result in zip(fields["results"], outcome.results, strict=True):
        shown["data"] = result.data
    for planned, call in zip(fields["planned"], outcome.planned, strict=True):
        planned["arguments"] = call.arguments
    return dumps({**fields, "value": outcome.value}, separators=(",", ":"))


def read_outcome(data: bytes) -> Outcome:
    """Return the outcome of JSON that `write_outcome` made, with the digits of all numbers. Raises ValueError."""
    return Outcome.model_validate(loads(data.decode()))


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
