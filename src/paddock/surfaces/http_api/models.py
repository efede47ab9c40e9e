"""The JSON of requests and answers, apart from outcomes."""

from base64 import b64decode
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import ConfigDict, Field, field_validator, model_validator

from paddock.model.approval import Question
from paddock.model.base import Json, Value
from paddock.model.changes import OverlayMethod
from paddock.model.fields import list_fields
from paddock.model.languages import GUEST_LANGUAGE_PATTERN, read_guest_language
from paddock.model.limits import Calls
from paddock.model.outcome import Outcome
from paddock.model.program import CODE_CHARS, MAX_ARGUMENTS, STDIN_BYTES, Access
from paddock.model.request import Check
from paddock.model.session import Kernel, SessionHandle, SessionInfo
from paddock.model.work_files import GivenFiles, OutputFile
from paddock.record.changes.state import ChangesStatus
from paddock.surfaces.http_server.problems import ProblemDocument

WorkKind = Literal["run", "exec", "compute", "call", "tool"]
WORK_KINDS: tuple[WorkKind, ...] = get_args(WorkKind)

_FIELDS: dict[WorkKind, frozenset[str]] = {
    "run": frozenset({"code", "input", "session", "mode", "jit", "check", "record", "timeout_ms"}),
    "exec": frozenset({"code", "stdin_base64", *list_fields("http")}),
    "compute": frozenset({"code", "input", "deterministic", "partial", "jit", "timeout_ms", "output_bytes"}),
    "call": frozenset({"server", "tool", "arguments", "timeout_ms"}),
    "tool": frozenset({"tool", "inputs", "timeout_ms"}),
}
"""The fields of each kind of work, besides `kind` and `language`."""

REQUIRED: dict[WorkKind, tuple[str, ...]] = {
    "run": ("code",),
    "exec": (),
    "compute": ("code",),
    "call": ("server", "tool"),
    "tool": ("tool",),
}
"""Fields that a kind of work cannot do without; the library checks everything else."""


def _describe_kinds(*, has_session: bool) -> dict[str, Any]:
    """Return the part of a body's schema that says which fields each kind of work has, and which it needs.

    `infer_kind` says which kind a body without `kind` asks for.
    """
    everything = frozenset[str]().union(*_FIELDS.values())
    guest = _describe_given("language", type="string", pattern=GUEST_LANGUAGE_PATTERN)
    inferred: dict[WorkKind, dict[str, Any]] = {
        "call": _describe_given("server"),
        "tool": _describe_given("tool"),
        "run": guest,
        "exec": _describe_given("language"),
    }
    schema: dict[str, Any] = (
        {} if has_session else _describe_given("session", **{"not": {"enum": ["new", None]}})
    )
    session = schema
    for kind, condition in reversed(inferred.items()):
        schema = {"if": condition, "then": _describe_kind(kind, everything), "else": schema}
    for kind in WORK_KINDS:
        named = _describe_given("kind", const=kind)
        described = _describe_kind(kind, everything)
        if kind == "exec":
            described = {"allOf": [described, {"anyOf": [_describe_given("language"), session]}]}
        schema = {"if": named, "then": described, "else": schema}
    return schema


def _describe_given(name: str, **schema: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"required": [name], "properties": {name: schema or {"not": {"type": "null"}}}}


def _describe_kind(kind: WorkKind, everything: frozenset[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {name: {"type": "null"} for name in sorted(everything - _FIELDS[kind])}
    fields |= {name: {"not": {"type": "null"}} for name in REQUIRED[kind]}
    if kind == "compute":
        fields["input"] = {"type": ["string", "null"]}
    return {"properties": fields, "required": [*REQUIRED[kind]]}


Limit = Annotated[int, Field(gt=0)]
Text = Annotated[str, Field(max_length=4096)]


class SessionOptions(Value):
    """What an interpreter is opened with, and a program without a session, too."""

    model_config = ConfigDict(strict=True)

    executable: Text | None = None
    """The executable to use instead of the language's first choice."""
    access: Access | None = None
    """Access to the workspace; by default reading, if that is granted."""
    network: Literal["none", "loopback", "hosts", "full"] | list[Text] | None = None
    """Access to the network; a list names the only hosts."""
    files: GivenFiles | None = None
    """Files that are written into its working directory first."""
    env: dict[str, str] | None = None
    """Environment variables. Policy grants their names; values are never recorded."""
    packages: list[Text] | None = None
    """Packages to run it with, in the language's notation: `pandas>=2`, `left-pad@^1`."""
    kernel: Kernel | None = None
    """What runs the programs of a new Python session."""
    background: bool | None = None
    """Whether a new session runs between two executions, too."""
    memory_bytes: Limit | None = None
    """Maximum memory, in bytes."""


class SessionBody(SessionOptions):
    """A session to open."""

    language: Text
    """The language of its interpreter, for example `python`, or `javascript` for the V8 guest."""


class SessionExecutionBody(SessionOptions):
    """One execution in a session."""

    model_config = ConfigDict(json_schema_extra=_describe_kinds(has_session=True))

    kind: WorkKind | None = None
    """The kind of work; by default from the language."""
    language: Text | None = None
    """`javascript` and `typescript` are programs of the V8 guest; other languages are programs in their runtimes."""
    code: Annotated[str, Field(max_length=CODE_CHARS)] | None = None
    """The program."""
    input: Json = None
    """V8 guest: the JSON value that the program reads as `input`. Computations: a text."""
    stdin: Annotated[str, Field(max_length=STDIN_BYTES)] | None = None
    """Standard input, as text."""
    stdin_base64: Annotated[str, Field(max_length=2 * STDIN_BYTES)] | None = None
    """Standard input, as bytes in base64 (RFC 4648, section 4)."""
    args: Annotated[list[str], Field(max_length=MAX_ARGUMENTS)] | None = None
    """Arguments of the program; without `code`, of the executable itself."""
    cwd: Text | None = None
    """Working directory, relative to the workspace."""
    outputs: list[Text] | None = None
    """Patterns of files to keep, such as `*.csv`; by default images."""
    combined: bool | None = None
    """Whether standard error is merged into standard output, in the order of writing."""
    keep: bool | None = None
    """Whether output and files are stored; by default they are."""
    timeout_ms: Limit | None = None
    """Maximum wall time, in milliseconds."""
    cpu_ms: Limit | None = None
    """Maximum processor time, in milliseconds."""
    output_bytes: Limit | None = None
    """Computations: maximum size of the emitted text, in bytes."""
    mode: Calls | None = None
    """V8 guest: which calls the program may make."""
    jit: bool | None = None
    """V8 guest: whether it asks for just-in-time compilation."""
    check: Check | None = None
    """V8 guest: what the types of the program decide before its first call; by default what the settings say."""
    record: bool | None = None
    """V8 guest: whether it is recorded for a replay, where `record.payloads` allows that."""
    deterministic: bool | None = None
    """Computations: whether clock and randomness are fixed."""
    partial: bool | None = None
    """Computations: whether output before an error is returned."""
    server: Text | None = None
    """Calls: the upstream MCP server."""
    tool: Text | None = None
    """Calls: the tool of the server. Script tools: the id of the tool."""
    arguments: dict[str, Json] | None = None
    """Calls: the arguments of the tool."""
    inputs: dict[str, Json] | None = None
    """Script tools: the inputs."""

    @field_validator("stdin_base64")
    @classmethod
    def _check_base64(cls, text: str | None) -> str | None:
        if text is not None:
            _decode_base64(text)
        return text

    @model_validator(mode="after")
    def _has_one_stdin(self) -> Self:
        if self.stdin is not None and self.stdin_base64 is not None:
            raise ValueError("give either `stdin` or `stdin_base64`")
        return self

    @property
    def given(self) -> dict[str, Any]:
        """The fields that are not null."""
        found = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def stdin_bytes(self) -> bytes | None:
        """Standard input."""
        if self.stdin_base64 is not None:
            return _decode_base64(self.stdin_base64)
        return None if self.stdin is None else self.stdin.encode()


class ExecutionBody(SessionExecutionBody):
    """One execution."""

    model_config = ConfigDict(json_schema_extra=_describe_kinds(has_session=False))

    session: SessionHandle | None = None
    """The session that runs it, or `new` for a new one."""


def _decode_base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise ValueError("it is not base64 (RFC 4648, section 4)") from None


def infer_kind(body: SessionExecutionBody) -> WorkKind | None:
    """Return the kind of work that a body asks for; None if it names neither kind nor language."""
    if body.kind is not None:
        return body.kind
    if body.server is not None:
        return "call"
    if body.tool is not None:
        return "tool"
    if body.language is not None:
        return "exec" if read_guest_language(body.language) is None else "run"
    return None


def list_misplaced(kind: WorkKind, given: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the faults of fields that a kind of work does not have."""
    known = _FIELDS[kind]
    return [
        (name, f"work of the kind `{kind}` does not have this field; it has {', '.join(sorted(known))}")
        for name in given
        if name not in known and name not in {"kind", "language"}
    ]


class AnswerBody(Value):
    """The answer to a question."""

    model_config = ConfigDict(strict=True)

    verdict: Literal["once", "run", "denied"]
    """Yes to this call, yes to all such calls of its run, or no."""


class ExecutionState(Value):
    """One execution and what is known about it."""

    id: str
    """Its id, which is also that of the request in the record."""
    state: Literal["running", "finished"]
    """Whether it has ended."""
    created_at: str
    """When it was requested (RFC 3339)."""
    question: Question | None = None
    """The question that it waits for; null if it does not wait for a person."""
    outcome: Outcome | None = None
    """Its outcome; null while it runs, and for an execution that ended with a problem."""
    problem: ProblemDocument | None = None
    """Why it ended without an outcome; null otherwise."""


class ExecutionSummary(Value):
    """One execution in a list."""

    id: str
    """Its id."""
    state: Literal["running", "finished"]
    """Whether it has ended."""
    created_at: str
    """When it was requested (RFC 3339)."""
    status: str | None = None
    """The status of its outcome; null without one."""


class ListedEverywhere(Value):
    """A list of what all replicas of a server have."""

    partial: list[str]
    """Names of the replicas that did not answer: what they have is missing in the list."""


class ExecutionList(ListedEverywhere):
    """The executions of a caller that run, or whose outcome is kept."""

    executions: list[ExecutionSummary]
    """The oldest first."""


class SessionList(ListedEverywhere):
    """The open sessions of a caller."""

    sessions: list[SessionInfo]
    """The oldest first."""


class FileList(Value):
    """The files of a session."""

    files: list[OutputFile]
    """By path."""


class WaitingApproval(Value):
    """A question that waits for a person."""

    question: Question
    """What is asked."""
    expires_ms: int
    """Time until it counts as refused, in milliseconds."""
    may_answer: bool
    """Whether this caller may answer it. Nobody answers questions of their own."""


class ApprovalList(Value):
    """The questions that a caller may see."""

    approvals: list[WaitingApproval]
    """The oldest first."""


class GivenVerdict(Value):
    """The answer that was given."""

    id: str
    """Id of the question."""
    verdict: Literal["once", "run", "denied"]
    """The answer."""
    by: str
    """Who answered."""


class ServerInfo(Value):
    """The server, as a caller sees it."""

    version: str
    """Version of Paddock."""
    actor: str
    """The caller, as the record names it."""


class ChangesBody(Value):
    """Which changes to accept or to undo."""

    model_config = ConfigDict(strict=True)

    paths: Annotated[list[Annotated[str, Field(max_length=4096)]], Field(max_length=10_000)] = []  # noqa: RUF012
    """Paths with all below them; empty for all that need no naming."""
    merge: bool = False
    """Whether text files that were changed since are merged. Only for `accept`."""


class ChangesEntry(Value):
    """A change set of the workspace."""

    id: str
    """Its ID, which is made of the digest of what it contains."""
    request: str
    """Id of the request or session whose changes they are."""
    ended: str
    """When that ended (RFC 3339)."""
    method: OverlayMethod
    """How the workspace was overlaid."""
    state: ChangesStatus
    """What became of it."""
    paths: int
    """Number of changed paths."""
    accepted: list[str]
    """Paths whose changes are in the workspace."""
    incomplete: str = ""
    """Why it cannot be accepted; empty if it can."""


class ChangesList(Value):
    """The change sets of the workspace."""

    changes: list[ChangesEntry]
    """The newest first."""


class ChangeSetDetails(ChangesEntry):
    """A change set with its paths."""

    changes: list[dict[str, Json]]
    """What changed at each path: `path`, `kind`, `before`, `after`, and why it is accepted only by name."""
    left_out: list[str]
    """Paths that can never be accepted: devices, pipes and sockets."""
