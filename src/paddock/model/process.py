"""One confined process: its limits, its grants, and its end."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from paddock.model.base import PositiveInt, Value
from paddock.model.limits import KIB, MIB
from paddock.model.network import Network
from paddock.model.outcome import SandboxFacts, Status
from paddock.model.program import Access, CapturedStream
from paddock.model.starvation import Spent

GIB = 1024 * MIB

Ceiling = Literal[
    "wall", "cpu", "memory", "processes", "file_size", "scratch", "stdout", "stderr", "stdin", "protected"
]
"""Limits that a process can exceed; `protected` is a set of protected paths that is too large to watch."""


class ProcessLimits(Value):
    """Limits of one process and everything that it starts."""

    timeout_ms: PositiveInt = 30_000
    """Wall time from the program's start, in milliseconds."""
    cpu_ms: PositiveInt = 60_000
    """CPU time of the whole tree, user and system, in milliseconds; checked every 20 ms."""
    memory_bytes: PositiveInt = 1 * GIB
    """Resident memory of the whole tree; checked every 20 ms. A single process may not map twice as much."""
    stack_bytes: PositiveInt | None = None
    """Stack of the first thread of a process, in bytes, and by default of each further thread of C libraries. None for
    as much as the memory allows; further threads then have the default of their C library."""
    processes: PositiveInt = 256
    """Maximum number of processes at a time."""
    open_files: PositiveInt = 1024
    """Maximum number of descriptors of one process; beyond it the program gets EMFILE."""
    file_bytes: PositiveInt = 256 * MIB
    """Size of one file."""
    scratch_bytes: PositiveInt = 512 * MIB
    """Maximum size of the scratch directory, in bytes on disk; checked every 100 ms."""
    stdout_bytes: PositiveInt = 256 * MIB
    """Maximum standard output, in bytes; beyond it the process ends."""
    stderr_bytes: PositiveInt = 64 * MIB
    """Maximum standard error, in bytes; beyond it the process ends."""
    stdin_bytes: PositiveInt = 16 * MIB
    """Maximum standard input, in bytes; with more, nothing is started."""
    kept_bytes: PositiveInt = 256 * KIB
    """Bytes of each output stream that are kept in memory: half from its head, half from its tail."""


class ProcessGrants(Value):
    """What one process may reach. Everything that is not named here is refused."""

    workspace: Path | None = None
    """Directory of the request; also the working directory unless `cwd` differs."""
    access: Access = "none"
    """Access to the workspace."""
    cwd: Path | None = None
    """Working directory, within the granted directories; without it and without a workspace, the scratch directory."""
    folder: str = ""
    """Directory below scratch to work in, instead of `cwd`; it is there when the process starts."""
    network: Network = "none"
    """How the network may be used."""
    readable: tuple[Path, ...] = ()
    """Further files and directories to read and execute, for example the prefix of a toolchain."""
    writable: tuple[Path, ...] = ()
    """Further writable directories."""
    overlaid: tuple[Path, ...] = ()
    """Further directories that the process writes to in overlays, as to a workspace with the access `overlay`."""
    fixed: tuple[Path, ...] = ()
    """Granted real paths in directories that others may write. If one leads through a link at the start, nothing
    starts."""
    searched: tuple[Path, ...] = ()
    """Further granted directories in which files that hold secrets are hidden, as in the workspace."""
    still: tuple[Path, ...] = ()
    """Real directories within writable ones that the process must not change; `landlock` cannot protect them."""
    environment: dict[str, str] = Field(default_factory=dict)
    """All environment variables of the process, except those for the scratch directory, PATH and LANG."""


class ProcessUsage(Value):
    """The resources that the process and everything it started used."""

    wall_ms: float = 0.0
    """Wall time, in milliseconds."""
    cpu_user_ms: float = 0.0
    """CPU time in user mode, in milliseconds."""
    cpu_system_ms: float = 0.0
    """CPU time in the kernel, in milliseconds."""
    stalled_ms: float = 0.0
    """Time in which a thread of it waited for a processor and none of its threads had one, in milliseconds; measured
    every 100 ms, and at the wall limit."""
    peak_bytes: int = 0
    """Maximum resident memory of the tree, sampled, and at least that of its largest process; at least the 10 MiB of
    the fork that became the program."""
    processes_peak: int = 0
    """Maximum number of processes at a time, sampled."""

    @property
    def spent(self) -> Spent:
        """How it spent its wall time."""
        return Spent(self.wall_ms, self.cpu_user_ms + self.cpu_system_ms, self.stalled_ms)


class ProcessResult(Value):
    """The end of one process. Nothing of it is alive unless `survivors` says so."""

    status: Status
    """How it ended."""
    limit: Ceiling | None = None
    """The limit that ended it, or that prevented its start."""
    reason: str = ""
    """Why it is not ok, if the exit code does not show it."""
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
    """How remaining processes were ended; `none` if all had exited."""
    survivors: Annotated[int, Field(ge=0)] = 0
    """Number of processes that the kernel had not ended when the report was due; a value above 0 is a fault."""
    violations: tuple[str, ...] = ()
    """Protected paths of the workspace that were changed and have been restored."""
    hidden: tuple[str, ...] = ()
    """Names of files that were hidden from it (`workspace.hide`), up to a maximum."""
    withheld: str = ""
    """Why it could not use the git repository of its workspace, or could not write to it; empty if it could."""
    sandbox: SandboxFacts = Field(default_factory=SandboxFacts)
    """What confined it."""
