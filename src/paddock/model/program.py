"""Programs in language runtimes: their limits and grants, and their end."""

import signal
from functools import cache
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field

from paddock.model.base import PositiveInt, Value, WholeNumber
from paddock.model.directories import GrantedDirectory
from paddock.model.languages import read_language
from paddock.model.limits import KIB, MIB
from paddock.model.network import HostGrant, Network
from paddock.model.work_files import OutputFile

RUNTIMES = (
    "node", "typescript", "python", "shell", "powershell", "go", "java", "kotlin", "rust",
    "c", "cpp", "csharp", "ruby", "php", "perl", "r", "elixir",
)  # fmt: skip
"""The built-in runtimes, in the order of help and errors. Settings may add others (`[runtimes.recipes]`)."""


def _read_runtime(value: object) -> object:
    return read_language(value) if isinstance(value, str) else value


Runtime = Annotated[str, Field(pattern=r"^[!-~]{1,64}$"), BeforeValidator(_read_runtime)]
"""The name of a runtime, or a name that no runtime has, which the gate rejects. An alias becomes the name."""

Access = Literal["none", "read-only", "overlay", "workspace-write"]
ACCESSES: tuple[Access, ...] = get_args(Access)
"""Access to the workspace, weakest first. With `overlay` a program writes to an overlay, and the workspace stays."""

Phase = Literal["compile", "run"]
OutputMode = Literal["minimal", "summary", "intent", "digest"]
OUTPUT_MODES: tuple[OutputMode, ...] = get_args(OutputMode)

CODE_CHARS = 1024 * KIB
STDIN_BYTES = 16 * MIB
MAX_ARGUMENTS = 100
MAX_VARIABLES = 1000
"""Maximum number of environment variables of a request. Policy decides each of them."""
ARGUMENT_BYTES = 128 * KIB - 1
"""MAX_ARG_STRLEN of Linux without the NUL, execve(2)."""
ARGUMENTS_BYTES = 1024 * KIB
"""Half of the limit of execve(2) under the usual stack limit; the other half is for the environment."""
MIN_TIMEOUT_MS, MAX_TIMEOUT_MS = 100, 600_000
"""Range of the wall time that a request may ask for."""


class OutputOptions(Value):
    """Which part of the output the answer shows, and whether the rest is stored."""

    mode: OutputMode = "minimal"
    query_terms: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=1000)], ...], Field(max_length=10)
    ] = ()
    """Lines that contain any of these, ignoring case, are shown as excerpts."""
    max_lines: Annotated[WholeNumber, Field(ge=10, le=1000)] = 100
    """Maximum number of lines of standard output in a summary."""
    context_lines: Annotated[WholeNumber, Field(ge=0, le=20)] = 3
    """Lines around each match of an excerpt."""
    persist: bool = True
    """Whether the whole output is stored, for `paddock output`."""
    kept_bytes: PositiveInt | None = None
    """Maximum bytes of each stream that are kept for the answer; None for the maximum of policy."""
    combined: bool = False
    """Whether both streams are combined as with `2>&1`: then standard output contains both, in the order of writing."""
    live: bool = True
    """Whether output leaves the program line by line, where somebody listens to it. Without a listener it does so only
    if the streams are `combined`: otherwise the language buffers it as it does in a pipe."""


class ProgramLimits(Value):
    """Limits of one program, including its compile step."""

    timeout_ms: PositiveInt = 30_000
    """Wall time of compile step and program together, in milliseconds."""
    compile_timeout_ms: PositiveInt | None = None
    """Wall time of the compile step, in milliseconds, in addition to `timeout_ms`. None if they share `timeout_ms`."""
    cpu_ms: PositiveInt | None = None
    """CPU time of each step with all that it starts, in milliseconds; None for the wall time on each processor."""
    memory_bytes: PositiveInt = 1024 * MIB
    """Resident memory of the program and everything that it starts."""
    compile_memory_bytes: PositiveInt | None = None
    """Resident memory of the compiler; None for `memory_bytes`."""
    stack_bytes: PositiveInt | None = None
    """Stack of the first thread of each process, in bytes; None for as much as the memory allows."""
    output_bytes: PositiveInt | None = None
    """Maximum output on each stream, in bytes; beyond it the program ends. None for the maximum of any process."""
    stdout_bytes: PositiveInt = MIB
    """Bytes of standard output that are kept for the answer; more output does not end the program."""
    stderr_bytes: PositiveInt = 256 * KIB
    """Bytes of standard error that are kept for the answer."""


class ProgramGrants(Value):
    """What one program may reach."""

    access: Access = "read-only"
    """Access to the workspace."""
    network: Network = "none"
    """Access to the network."""
    hosts: HostGrant | None = None
    """The hosts that it may connect to, with the network `hosts`."""
    executables: tuple[str, ...] = ()
    """Names of executables that may run the program, preferred ones first."""
    environment: tuple[str, ...] = ()
    """Variables of Paddock's own environment that the program gets."""
    background: bool = False
    """Whether its session runs between two executions, too."""
    directories: tuple[GrantedDirectory, ...] = ()
    """Directories beside the workspace, with the access to each."""

    @property
    def writes_files(self) -> bool:
        """Whether it may change files that outlive it: in the workspace or in a directory beside it."""
        accesses = [self.access, *(each.access for each in self.directories)]
        return "workspace-write" in accesses

    @property
    def has_overlay(self) -> bool:
        """Whether it writes to an overlay of the workspace or of a directory beside it."""
        return self.access == "overlay" or any(each.access == "overlay" for each in self.directories)


class ProgramTerms(Value):
    """The effective limits and grants of one program, as policy decided."""

    limits: ProgramLimits = Field(default_factory=ProgramLimits)
    """Its ceilings."""
    grants: ProgramGrants = Field(default_factory=ProgramGrants)
    """What it may reach."""


class CapturedStream(Value):
    """The kept head and tail of one output stream."""

    head: str = ""
    """The head of the stream, or all of it."""
    tail: str = ""
    """Empty if everything fits into `head`."""
    total_bytes: int = 0
    """Bytes that the process wrote."""
    omitted_bytes: int = 0
    """Bytes between head and tail."""
    omitted_line_ends: int = 0
    """Line ends between head and tail, to number the lines of the tail."""

    @property
    def truncated(self) -> bool:
        """Whether a part is missing."""
        return self.omitted_bytes > 0

    @property
    def text(self) -> str:
        """The whole stream; if its middle is missing, a line in its place reports the number of bytes."""
        gap = f"\n[... {self.omitted_bytes} bytes omitted ...]\n" if self.truncated else ""
        return f"{self.head}{gap}{self.tail}"


@cache
def _nothing_captured() -> CapturedStream:
    return CapturedStream()


class ProgramEnd(Value):
    """How a program ended, and its output."""

    runtime: Runtime
    """The language runtime."""
    executable: str = ""
    """Name of its executable, without the directory; empty if there is none."""
    phase: Phase = "run"
    """`compile` means that the program itself did not run; exit code and streams are the compiler's."""
    exit_code: int | None = None
    """Its exit code; None if a signal ended it or it never ran."""
    signal: int | None = None
    """Number of the signal that ended it; None if none did."""
    limit: str | None = None
    """The limit that ended it: `wall`, `memory`, `processes`, ..."""
    stdout: CapturedStream = Field(default_factory=_nothing_captured)
    """Standard output."""
    stderr: CapturedStream = Field(default_factory=_nothing_captured)
    """Standard error."""
    combined: bool = False
    """Whether `stdout` contains both streams in the order of writing, with an empty `stderr`. The order between two
    separate streams is unknown."""
    artifact: str | None = None
    """Handle of the whole output; None if it is not stored."""
    not_kept: str = ""
    """Why there is no artifact although one was requested."""
    compile_ms: float = 0.0
    """Wall time of the compile step; 0 without one."""
    cached: bool = False
    """Whether the compiled program came from the cache."""
    stdin_bytes: int = 0
    """Size of its standard input, in bytes."""
    stdin_sha256: str = ""
    """SHA-256 (hex) of standard input; empty without input."""
    processes_peak: int = 0
    """Maximum number of processes at a time, sampled."""
    kill: Literal["none", "sweep", "namespace"] = "none"
    """How remaining processes were ended; `none` if all had exited."""
    survivors: int = 0
    """Number of processes that the kernel had not ended when the report was due; a value above 0 is a fault."""
    files: tuple[OutputFile, ...] = ()
    """Files that it created or changed in a separate working directory."""
    packages: tuple[str, ...] = ()
    """Every package of its environment: `name==version`."""
    packages_lock: str = ""
    """SHA-256 (hex) of the lock of that environment; empty without packages."""
    violations: tuple[str, ...] = ()
    """Protected paths of the workspace that were changed and have been restored."""


def file_name(executable: str) -> str:
    """Return the name for comparisons of executables: no quotes, no directories, lower case."""
    return executable.strip().strip("\"'").replace("\\", "/").rpartition("/")[2].lower()


def signal_name(number: int) -> str:
    """Return the name of a signal: `SIGKILL`, or `signal 64` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Executables(Value):
    """The executables that can run programs of a runtime, by file name in lower case."""

    candidates: tuple[str, ...]
    """The executables to try in order, if a request names none."""
    compatible: frozenset[str]
    """The executables that a request may name."""
