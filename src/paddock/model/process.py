"""One confined process: what it may use, what it may reach, and what became of it."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from paddock.model.base import PositiveInt, Value
from paddock.model.limits import KIB, MIB
from paddock.model.outcome import SandboxFacts, Status
from paddock.model.program import Access, CapturedStream, Network

GIB = 1024 * MIB

Ceiling = Literal[
    "wall", "cpu", "memory", "processes", "file_size", "scratch", "stdout", "stderr", "stdin", "protected"
]
"""What a process went beyond; `protected` is a set of protected paths too large to watch."""


class ProcessLimits(Value):
    """Ceilings of one process and of everything it starts."""

    timeout_ms: PositiveInt = 30_000
    """Wall time from the program's start, in milliseconds."""
    cpu_ms: PositiveInt = 60_000
    """CPU time of the whole tree, user and system, in milliseconds; looked at every 20 ms."""
    memory_bytes: PositiveInt = 1 * GIB
    """Resident memory of the whole tree; looked at every 20 ms. A single process may not map twice as much."""
    processes: PositiveInt = 256
    """Processes alive at a time."""
    open_files: PositiveInt = 1024
    """Descriptors of one process; one more is the program's own EMFILE."""
    file_bytes: PositiveInt = 256 * MIB
    """Size of one file."""
    scratch_bytes: PositiveInt = 512 * MIB
    """Bytes on disk in the scratch directory; looked at every 100 ms."""
    stdout_bytes: PositiveInt = 256 * MIB
    """Bytes of standard output; one more ends the process."""
    stderr_bytes: PositiveInt = 64 * MIB
    """Bytes of standard error; one more ends the process."""
    stdin_bytes: PositiveInt = 16 * MIB
    """Bytes of standard input; with more, nothing is started."""
    kept_bytes: PositiveInt = 256 * KIB
    """Bytes of each output stream that stay in memory: one half from its start, one half from its end."""


class ProcessGrants(Value):
    """What one process may reach. Everything not named here is refused."""

    workspace: Path | None = None
    """Directory that the request belongs to; the working directory unless `cwd` says otherwise."""
    access: Access = "none"
    """How the workspace may be used."""
    cwd: Path | None = None
    """Working directory, inside of what is granted; without it and without a workspace it is scratch."""
    network: Network = "none"
    """How the network may be used."""
    readable: tuple[Path, ...] = ()
    """Further files and directories to read and execute, for instance the prefix of a toolchain."""
    writable: tuple[Path, ...] = ()
    """Further directories to write to."""
    fixed: tuple[Path, ...] = ()
    """Of all these, real paths beside which others may write: where one leads through a link by now, nothing starts."""
    still: tuple[Path, ...] = ()
    """Real directories in writable ones that this process does not change; the tier `landlock` cannot keep them so."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Every variable the process gets, apart from those that point into scratch, PATH and LANG."""


class ProcessUsage(Value):
    """What the process and everything it started have cost."""

    wall_ms: float = 0.0
    """Wall time, in milliseconds."""
    cpu_user_ms: float = 0.0
    """CPU time in user mode, in milliseconds."""
    cpu_system_ms: float = 0.0
    """CPU time in the kernel, in milliseconds."""
    peak_bytes: int = 0
    """Largest resident memory of the tree, sampled, and no less than that of its largest process; at least the
    10 MiB of the fork that became the program."""
    processes_peak: int = 0
    """Most processes alive at a time, sampled."""


class ProcessResult(Value):
    """The end of one process. Nothing of it is alive any more unless `survivors` says so."""

    status: Status
    """How it ended."""
    limit: Ceiling | None = None
    """The ceiling that ended it or that refused to start it."""
    reason: str = ""
    """Why it is not ok, when the exit code does not say it."""
    exit_code: int | None = None
    """Its exit code; None when a signal ended it or it never ran."""
    signal: int | None = None
    """Number of the signal that ended it; None when none did."""
    stdout: CapturedStream = Field(default_factory=CapturedStream)
    """Standard output."""
    stderr: CapturedStream = Field(default_factory=CapturedStream)
    """Standard error."""
    usage: ProcessUsage = Field(default_factory=ProcessUsage)
    """Its cost."""
    kill: Literal["none", "sweep", "namespace"] = "none"
    """How what still lived was ended; `none` when everything had ended by itself."""
    survivors: Annotated[int, Field(ge=0)] = 0
    """Processes that the kernel had not let die when the report was due; anything but 0 is a fault."""
    violations: tuple[str, ...] = ()
    """Protected paths of the workspace that were changed, and have been put back."""
    sandbox: SandboxFacts = Field(default_factory=SandboxFacts)
    """What confined it."""
