"""Requests to Paddock. Each request contains one kind of work."""

import hashlib
import re
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from paddock.model.base import Json, Value, kind
from paddock.model.canonical import canonical
from paddock.model.directories import MAX_DIRECTORIES, GrantedDirectory
from paddock.model.ids import mint_id
from paddock.model.json_check import check_json
from paddock.model.limits import Calls, LimitOverrides
from paddock.model.network import NetworkRequest
from paddock.model.program import (
    ARGUMENT_BYTES,
    ARGUMENTS_BYTES,
    CODE_CHARS,
    MAX_ARGUMENTS,
    MAX_TIMEOUT_MS,
    MAX_VARIABLES,
    MIN_TIMEOUT_MS,
    STDIN_BYTES,
    Access,
    OutputOptions,
    Runtime,
)
from paddock.model.requirements import INSTALLERS, MAX_PACKAGES, Requirement, check_requirements
from paddock.model.session import Kernel, SessionHandle
from paddock.model.work_files import MAX_INPUT_FILES, MAX_PATTERNS, InputFile, Pattern, check_input_files

Profile = Literal["script", "execute", "compute"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
Language = Literal["auto", "javascript", "typescript"]
Check = Literal["types", "warn", "off"]
"""What the types of a program decide: whether it starts, only warnings, or nothing."""


class GuestRun(Value):
    """A JavaScript or TypeScript program for the V8 guest."""

    kind: Literal["guest"] = "guest"
    source: str
    name: str = "program"
    """The name of the program in error texts; never a path of the host."""
    language: Language = "auto"
    profile: Profile = "execute"
    input: Json = None
    """JSON value that the program reads as `input`."""
    vars: dict[str, str] = Field(default_factory=dict)
    """Read-only strings that the program reads as `paddock.vars`."""
    raw_results: bool = False
    """Whether it is a program of the compat profile, whose `servers.x.call()` resolves to the raw CallToolResult."""
    deterministic: bool = True
    """Computations: whether clock and randomness are fixed by program and input, so that equal ones emit the same."""
    partial: bool = False
    """Computations: whether output before an error is returned."""

    exact: bool = True
    """Computations: whether numbers that no double represents keep their digits in JSON."""
    session: SessionHandle | None = None
    """The session that runs the program after what ran in it before, or `new`; None for a worker that ends with it."""
    check: Check | None = None
    """What its types decide before its first call; None for what the settings say of its language."""
    record: bool = False
    """Whether it is recorded, so that it can be repeated."""

    @property
    def computes(self) -> bool:
        """Whether this is a pure computation: it has no effects and no grants."""
        return self.profile == "compute"

    @field_validator("input")
    @classmethod
    def _is_json(cls, value: Json) -> Json:
        if not isinstance(value, str | bool | int | None):
            try:
                check_json(value)
            except (TypeError, ValueError, RecursionError) as problem:
                raise ValueError(f"the input is not a JSON value: {problem}") from None
        return value

    @model_validator(mode="after")
    def _fits_a_session(self) -> Self:
        if self.session is not None and self.profile != "execute":
            raise ValueError("only programs of the profile `execute` have sessions")
        if self.session is not None and (self.vars or self.raw_results):
            raise ValueError("a program in a session takes no `vars` and no `raw_results`")
        return self

    @model_validator(mode="after")
    def _can_be_recorded(self) -> Self:
        if self.record and (self.computes or self.session is not None):
            raise ValueError("computations and programs of sessions are not recorded: leave out `record`")
        return self

    @model_validator(mode="after")
    def _computes_a_text(self) -> Self:
        if not self.computes:
            return self
        if not isinstance(self.input, str | None):
            raise ValueError(  # noqa: TRY004 - pydantic reports a ValueError
                f"the `input` of a computation is a text, not {kind(self.input)}; give it as JSON, and let the program "
                "parse it with JSON.parse(read_input())"
            )
        if self.vars or self.raw_results or self.language == "typescript" or self.check is not None:
            raise ValueError(
                "a computation takes JavaScript and one text, not `vars`, `raw_results` or `check`"
            )
        return self


JsonPaths = tuple[tuple[str, ...], ...]
"""Paths to places in a JSON value: names and numbers from the outside in."""


class ServerCall(Value):
    """One call of one tool of an upstream MCP server, or of another method of the protocol."""

    kind: Literal["server"] = "server"
    server: str
    tool: str
    arguments: dict[str, Json] = Field(default_factory=dict)
    raw: bool = False
    """Whether the value is the whole CallToolResult, in which `isError` is an ordinary member."""
    encoded: JsonPaths = ()
    """Paths in the arguments to bytes that are written as base64; the tool's schema must declare base64 there."""
    read_only: bool | None = None
    """Whether the server marks the tool as read-only. The gate asks if it matters; None means not asked."""
    is_method: bool = False
    """Whether `tool` is a method that reads resources or prompts, such as `resources/read`, and `arguments` are its
    parameters. Rules name it like a tool."""

    @property
    def only_reads(self) -> bool:
        """Whether the call changes nothing, as far as its server declares."""
        return self.is_method or self.read_only is True


@cache
def _usual_wishes() -> OutputOptions:
    return OutputOptions()


_VARIABLE_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SHELL_NEEDS_CODE = (
    "Shell runtime requires the code parameter. Direct args execution is not supported for security reasons."
)


class RuntimeRun(NetworkRequest):
    """A program in one of the language runtimes or, with arguments only, a call of its executable.

    With `code`, the arguments belong to the program. Raises ValueError with the exceeded limit.
    """

    kind: Literal["runtime"] = "runtime"
    runtime: Runtime
    code: Annotated[str, Field(max_length=CODE_CHARS)] | None = None
    args: Annotated[tuple[str, ...], Field(max_length=MAX_ARGUMENTS)] = ()
    executable: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    """The executable to use instead of the runtime's first choice; policy knows the compatible ones."""
    cwd: Annotated[str, Field(min_length=1, max_length=4096)] = "."
    """Working directory, relative to the workspace."""
    file: Annotated[str, Field(max_length=4096)] = ""
    """The file of the workspace from which `code` was read, relative to the workspace. An interpreted program runs in
    place, beside its other files, if the workspace is granted and the file still contains `code`."""
    stdin: Annotated[bytes, Field(max_length=STDIN_BYTES)] | None = None
    access: Access = "read-only"
    """Access to the workspace; by default `none` if nothing is granted."""
    directories: Annotated[tuple[GrantedDirectory, ...], Field(max_length=MAX_DIRECTORIES)] = ()
    """Directories beside the workspace. The settings (`workspace.directory`) give them to every program with access to
    its workspace, and no surface lets a caller name others."""
    output: OutputOptions = Field(default_factory=_usual_wishes)
    files: Annotated[tuple[InputFile, ...], Field(max_length=MAX_INPUT_FILES)] = ()
    """Files that are written into the separate working directory."""
    outputs: Annotated[tuple[Pattern, ...], Field(max_length=MAX_PATTERNS)] | None = None
    """Patterns of files in that directory to keep, such as `*.csv`; by default images. Given, the program has such a
    directory without files, too."""
    env: Annotated[dict[str, str], Field(max_length=MAX_VARIABLES)] = Field(default_factory=dict[str, str])
    """Environment variables for this program. Policy grants their names; values are never recorded."""
    session: SessionHandle | None = None
    """The session that runs the program after what ran in it before, or `new`; None for a process that ends with it."""
    kernel: Kernel = "plain"
    """What runs the programs of a new session of Python."""
    background: bool = False
    """Whether a new session runs between two executions, too, within its limits."""
    packages: Annotated[tuple[Requirement, ...], Field(max_length=MAX_PACKAGES)] = ()
    """Packages to run it with, in the language's notation: `pandas>=2`, `left-pad@^1`."""
    own_packages: bool = True
    """Whether the packages and the version of Python that the program names itself are taken into account."""

    @property
    def has_workdir(self) -> bool:
        """Whether the program works in a separate directory and not in the workspace."""
        in_workspace = bool(self.file) or self.cwd != "."
        given = bool(self.files) or self.outputs is not None or self.session is not None
        return given or (bool(self.packages) and not in_workspace)

    @property
    def sha256(self) -> str:
        """SHA-256 (hex) over everything that determines what runs; the display of its output does not count."""
        stdin = None if self.stdin is None else hashlib.sha256(self.stdin).hexdigest()
        what = (
            self.runtime,
            self.code,
            self.args,
            self.executable,
            self.cwd,
            stdin,
            self.access,
            self.network,
            *([self.file] if self.file else []),
            *([[file.identify() for file in self.files]] if self.files else []),
            *([self.outputs] if self.outputs is not None else []),
            *([self.env] if self.env else []),
            *([self.session] if self.session else []),
            *([["packages", *self.packages]] if self.packages else []),
            *([["hosts", *self.hosts]] if self.hosts is not None else []),
            *([["kernel", self.kernel]] if self.kernel != "plain" else []),
            *([["background"]] if self.background else []),
            *([["plain text"]] if not self.own_packages else []),
            *([["directories", *map(str, self.directories)]] if self.directories else []),
        )
        return hashlib.sha256(canonical(what)).hexdigest()

    @model_validator(mode="after")
    def _has_packages_of_its_language(self) -> Self:
        check_requirements(self.runtime, self.packages)
        if self.packages and self.file and INSTALLERS[self.runtime] == "npm":
            raise ValueError(
                "`node_modules` is beside the program: with `packages` give its text as `code`, and no `file`"
            )
        return self

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.code is None and self.runtime == "shell":
            raise ValueError(SHELL_NEEDS_CODE)
        if self.code is None and not self.args:
            raise ValueError("there is nothing to run: give `code`, or `args` for the executable itself")
        if self.file and (self.code is None or self.file[0] == "/" or ".." in PurePosixPath(self.file).parts):
            raise ValueError("`file` must be the path, within the workspace, of the file with `code`")
        check_input_files(self.files)
        self._check_workdir()
        for name, value in self.env.items():
            if not _VARIABLE_PATTERN.fullmatch(name) or "\0" in value:
                raise ValueError(f"{name!r} is not the name of an environment variable with a value")
        if "\0" in "".join((*self.args, self.executable or "", self.cwd, self.file)):
            raise ValueError(
                "an argument, the executable, the working directory or the file holds a NUL character"
            )
        self._check_sizes()
        return self

    def _check_sizes(self) -> None:
        """Raise ValueError for arguments and variables that the kernel would not start a program with (execve(2))."""
        sizes = [_count_bytes(text) for text in self.args]
        if max(sizes, default=0) > ARGUMENT_BYTES:
            raise ValueError(f"an argument is over {ARGUMENT_BYTES} bytes; pass it on standard input")
        for name, value in self.env.items():
            sizes.append(_count_bytes(f"{name}={value}"))
            if sizes[-1] > ARGUMENT_BYTES:
                raise ValueError(
                    f"the variable {name} is over {ARGUMENT_BYTES} bytes; pass its value as a file or on standard input"
                )
        if sum(sizes) > ARGUMENTS_BYTES:
            given = "arguments and variables" if self.env else "arguments"
            raise ValueError(f"the {given} are over {ARGUMENTS_BYTES} bytes; pass them on standard input")

    def _check_workdir(self) -> None:
        if self.has_workdir and (self.file or self.cwd != "."):
            raise ValueError(
                "with `files`, `outputs` or `session` the program works in a separate directory: give its text as "
                "`code`, no `file` and no `cwd`"
            )
        if self.session is not None and (self.code is None or self.args):
            raise ValueError("a session runs `code`, and takes no `args`")
        if self.session is None and (self.background or self.kernel != "plain"):
            raise ValueError('`kernel` and `background` are for sessions: give `session`, for example "new"')
        if self.kernel != "plain" and self.runtime != "python":
            raise ValueError(f"{self.runtime} has no kernel {self.kernel}; python has it")


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


_READING_METHODS = frozenset(
    {
        *("cir.contradictions", "cir.query", "cir.search", "cir.stats", "health.check", "ledger.verify"),
        *("output.query", "sequence.list", "temporal.list", "vault.get", "vault.list", "webhook.list"),
    }
)


class SdkCall(Value):
    """One method of the SDK that Paddock itself answers, such as `vault.get`."""

    kind: Literal["sdk"] = "sdk"
    method: str
    arguments: tuple[Json, ...] = ()

    @property
    def reads(self) -> bool:
        """Whether the method changes nothing."""
        return self.method in _READING_METHODS


class ToolRun(NetworkRequest):
    """A script tool: its id, its inputs, and the needs that its `tool.yaml` declares."""

    kind: Literal["tool"] = "tool"
    tool: str
    """Id in lower case."""
    prompt: str = ""
    """Id of the prompt that runs it; the prompt's own tools take precedence over others with the same id."""
    inputs: dict[str, Json] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)
    """Variables that take precedence over the tool's own."""
    timeout_ms: Annotated[float, Field(gt=0)] | None = None
    """The limits that the tool declares; limits of the request take precedence."""
    access: Access = "none"
    script_sha256: str = ""
    """SHA-256 (hex) of the script at the time of the request, empty without one; no other script is run."""


class ReplayRun(Value):
    """A recorded program that is run again, and compared with its recording."""

    kind: Literal["replay"] = "replay"
    run: str = ""
    """Id of the recorded run; empty for the recording in `recording`."""
    recording: str = ""
    """A recording as JSON, such as that of a test of a script."""
    source: str | None = None
    """The program to run in place of the recorded one."""
    language: Language = "auto"
    """The language of `source`."""
    against: Literal["recorded", "live"] = "recorded"
    """What answers its calls: the recording, without any call outside, or the gate."""
    owner: str = ""
    """Actor of the recorded run, if it is another one; only a person at the command line may name one."""
    profile: Profile = "execute"
    """Profile of the recorded program. The gate reads it from the recording."""

    @model_validator(mode="after")
    def _names_one_recording(self) -> Self:
        if bool(self.run) == bool(self.recording):
            raise ValueError("give the id of a recorded run as `run`, or else a `recording`")
        return self


ChangesAction = Literal["accept", "discard", "undo"]
_CHANGES_ID_PATTERN = re.compile(r"changes-[0-9a-f]{32}")


def _check_changes_id(text: str) -> str:
    if not text:
        raise PydanticCustomError("changes_id", "is empty; a run that changed nothing has no change set")
    if _CHANGES_ID_PATTERN.fullmatch(text) is None:
        raise PydanticCustomError(
            "changes_id", "expected the whole ID of a change set, `changes-` with 32 hexadecimal digits"
        )
    return text


class ChangeSetRun(Value):
    """What becomes of the changes of a program with the access `overlay`."""

    kind: Literal["changes"] = "changes"
    action: ChangesAction
    """Whether the changes are written to the workspace, removed from the store, or taken back."""
    id: Annotated[str, AfterValidator(_check_changes_id)]
    """ID of the change set."""
    paths: Annotated[tuple[str, ...], Field(max_length=10_000)] = ()
    """Paths to accept or to undo, with all below them; empty for all that need no naming."""
    merge: bool = False
    """Whether text files that were changed since are merged."""
    shown: tuple[str, ...] = ()
    """The beginning of the difference, which the person who is asked sees. The gate reads it from the set. The request
    fails if it would do something else by the time of the answer."""


Work = Annotated[
    GuestRun | ServerCall | RuntimeRun | ToolRun | SdkCall | ReplayRun | ChangeSetRun,
    Field(discriminator="kind"),
]


class Caller(Value):
    """The program that made a child request through its SDK."""

    method: str
    """The method that it called, such as `exec` or `vault.get`."""
    profile: Profile
    """Its profile, whose grants limit its calls."""


KEY_REUSED = "KeyReused"
"""Name of the error of a request whose key belongs to another request."""
UNKEPT_OUTCOME = "OutcomeNotKept"
"""Name of the error in the outcome of a request that ran before, whose own outcome is not kept."""


class RequestKey(Value):
    """What a caller calls a request, so that it starts at most once among all machines of a cluster."""

    name: str
    digest: bytes
    """SHA-256 over everything that the request asks for. A key belongs to one such request."""


class ExecutionRequest(Value):
    """One request to the gate. Child requests (host calls of a guest) name their parent."""

    id: str = Field(default_factory=mint_id)
    parent: str | None = None
    root: str | None = None
    """The request of a person or an agent from which this one descends; None if this is that request."""
    actor: str = "local"
    """Who sent it: a user, a client's name, a schedule."""
    surface: str = "library"
    """Its surface: `cli`, `mcp`, `http`, `library`, `web` for the owner's page, `sequence`, `temporal` for schedules,
    `webhook`, or `guest` for a program's own call."""
    workspace: Path
    work: Work
    caller: Caller | None = None
    """The calling program, if it used its SDK."""
    depth: Annotated[int, Field(ge=0)] = 0
    """Number of requests above this one, not counting calls of servers."""
    limits: LimitOverrides = LimitOverrides()
    jit: bool = False
    """Whether it asks for just-in-time compilation."""
    calls: Calls = "run"
    """Which calls the work may make; settings may grant less."""
    key: RequestKey | None = None
    """What its caller calls it; None for its id."""

    @model_validator(mode="after")
    def _has_a_wall_time_in_bounds(self) -> Self:
        timeout_ms = self.limits.timeout_ms
        if (
            isinstance(self.work, RuntimeRun)
            and timeout_ms is not None
            and not MIN_TIMEOUT_MS <= timeout_ms <= MAX_TIMEOUT_MS
        ):
            raise ValueError(
                f"a program's timeout is {MIN_TIMEOUT_MS} to {MAX_TIMEOUT_MS} ms, not {timeout_ms}"
            )
        return self
