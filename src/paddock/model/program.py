"""Programs in language runtimes: what they may use, and what is known of their end."""

import signal
from functools import cache
from typing import Annotated, Literal, get_args

from pydantic import Field

from paddock.model.base import PositiveInt, Value, WholeNumber
from paddock.model.limits import KIB, MIB

RUNTIMES = (
    "node", "typescript", "python", "shell", "powershell", "go", "java", "kotlin", "rust",
    "c", "cpp", "csharp", "ruby", "php", "perl", "r", "elixir",
)  # fmt: skip
"""The built-in runtimes, in the order of help and errors. Settings may add others (`[runtimes.recipes]`)."""
Runtime = Annotated[str, Field(pattern=r"^[!-~]{1,64}$")]
"""The name of a runtime, or what somebody takes for one; the gate says which there are."""

Access = Literal["none", "read-only", "workspace-write"]
ACCESSES: tuple[Access, ...] = get_args(Access)
"""How a program may use the workspace, least first."""

Network = Literal["none", "full"]
NETWORKS: tuple[Network, ...] = get_args(Network)
"""How a program may use the network, least first."""

Phase = Literal["compile", "run"]
OutputMode = Literal["minimal", "summary", "intent", "digest"]
OUTPUT_MODES: tuple[OutputMode, ...] = get_args(OutputMode)

CODE_CHARS = 1024 * KIB
STDIN_BYTES = 512 * KIB
MAX_ARGUMENTS = 100
ARGUMENT_BYTES = 128 * KIB - 1
"""MAX_ARG_STRLEN of Linux without the NUL, execve(2)."""
ARGUMENTS_BYTES = 1024 * KIB
"""Half of what execve(2) takes under the usual stack limit; the other half is the environment's."""
MIN_TIMEOUT_MS, MAX_TIMEOUT_MS = 100, 600_000
"""Bounds of a wall time that a request may ask for."""


class OutputOptions(Value):
    """What of the output the answer shows, and whether the rest is kept."""

    mode: OutputMode = "minimal"
    query_terms: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=1000)], ...], Field(max_length=10)
    ] = ()
    """Lines with any of these, in either case, are shown as excerpts."""
    max_lines: Annotated[WholeNumber, Field(ge=10, le=1000)] = 100
    """Most lines of standard output that a summary shows."""
    context_lines: Annotated[WholeNumber, Field(ge=0, le=20)] = 3
    """Lines around each match of an excerpt."""
    persist: bool = True
    """Whether the whole output is kept, for `paddock output`."""
    combined: bool = False
    """Whether both streams are one, as with `2>&1`: standard output then has all of it, in the order of writing."""


class ProgramLimits(Value):
    """Ceilings of one program, its compile step included."""

    timeout_ms: PositiveInt = 30_000
    """Wall time of compile step and program together, in milliseconds."""
    memory_bytes: PositiveInt = 1024 * MIB
    """Resident memory of the program and all it starts."""
    stdout_bytes: PositiveInt = MIB
    """Bytes of standard output kept for the answer; more does not end the program."""
    stderr_bytes: PositiveInt = 256 * KIB
    """Bytes of standard error kept for the answer."""


class ProgramGrants(Value):
    """What one program may reach."""

    access: Access = "read-only"
    """How it may use the workspace."""
    network: Network = "none"
    """How it may use the network."""
    executables: tuple[str, ...] = ()
    """Names of what may run the program, the preferred one first."""
    environment: tuple[str, ...] = ()
    """Variables of Paddock's own environment that the program gets."""


class ProgramTerms(Value):
    """The effective limits and grants of one program, as policy decided."""

    limits: ProgramLimits = Field(default_factory=ProgramLimits)
    """Its ceilings."""
    grants: ProgramGrants = Field(default_factory=ProgramGrants)
    """What it may reach."""


class CapturedStream(Value):
    """What is left of one output stream: its start and its end."""

    head: str = ""
    """The start of the stream, or all of it."""
    tail: str = ""
    """Empty when all fits into `head`."""
    total_bytes: int = 0
    """Bytes that the process wrote."""
    omitted_bytes: int = 0
    """Bytes between head and tail."""
    omitted_line_ends: int = 0
    """Line ends between head and tail, so that the lines of the tail can be numbered."""

    @property
    def truncated(self) -> bool:
        """Whether something is missing."""
        return self.omitted_bytes > 0

    @property
    def text(self) -> str:
        """The whole stream; where its middle is missing, a line in its place says how many bytes those were."""
        gap = f"\n[... {self.omitted_bytes} bytes omitted ...]\n" if self.truncated else ""
        return f"{self.head}{gap}{self.tail}"


@cache
def _nothing_captured() -> CapturedStream:
    return CapturedStream()


class ProgramEnd(Value):
    """How a program ended and what it printed."""

    runtime: Runtime
    """The language runtime."""
    executable: str = ""
    """Name of what ran the program, without its directory; empty when there is none."""
    phase: Phase = "run"
    """`compile` means that the program itself did not run, and exit code and streams are the compiler's."""
    exit_code: int | None = None
    """Its exit code; None when a signal ended it or it never ran."""
    signal: int | None = None
    """Number of the signal that ended it; None when none did."""
    limit: str | None = None
    """The ceiling that ended it: `wall`, `memory`, `processes`, ..."""
    stdout: CapturedStream = Field(default_factory=_nothing_captured)
    """Standard output."""
    stderr: CapturedStream = Field(default_factory=_nothing_captured)
    """Standard error."""
    combined: bool = False
    """Whether `stdout` is both streams in the order of writing, and `stderr` empty. The order between two separate
    streams is not known."""
    artifact: str | None = None
    """Handle of the whole output; None when it is not kept."""
    not_kept: str = ""
    """Why there is no artifact, though one was asked for."""
    compile_ms: float = 0.0
    """Wall time of the compile step; 0 when there is none."""
    cached: bool = False
    """Whether the compiled program came out of the cache."""
    stdin_bytes: int = 0
    """Bytes of standard input that it was given."""
    stdin_sha256: str = ""
    """SHA-256 (hex) of standard input; empty when there was none."""
    processes_peak: int = 0
    """Most processes alive at a time, sampled."""
    kill: Literal["none", "sweep", "namespace"] = "none"
    """How what still lived was ended; `none` when everything had ended by itself."""
    survivors: int = 0
    """Processes that the kernel had not let die when the report was due; anything but 0 is a fault."""
    violations: tuple[str, ...] = ()
    """Protected paths of the workspace that were changed, and have been put back."""


def file_name(executable: str) -> str:
    """Return the name by which executables are compared: no quotes, no directories, lower case."""
    return executable.strip().strip("\"'").replace("\\", "/").rpartition("/")[2].lower()


def signal_name(number: int) -> str:
    """Return the name of a signal: `SIGKILL`, or `signal 64` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Executables(Value):
    """What can run the programs of a runtime, by file name in lower case."""

    candidates: tuple[str, ...]
    """What is tried, in this order, when a request names nothing."""
    compatible: frozenset[str]
    """What a request may name."""
