"""What the server asks of a supervisor, and what it hears back: the wire between `process` and `supervisor`.

    server -> supervisor   an order, in a memory file, for it may hold a large environment; then "stop:<reason>"
    supervisor -> server   a report: JSON in one message

Orders are read by processes that have just been forked, where each page of memory that is used for the first time costs
a microsecond or two: so they are marshalled. They come from the processes' own server, and the same interpreter.
"""

import json
import marshal
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

STREAM_COUNT = 3
"""Standard input, output and error."""
EXTRA_THREADS = 256
"""How many more threads than processes a job may have."""
MESSAGE_BYTES = 256
"""The words of the server, and the reason of a stop."""

# No dataclasses here: every fork copies what the fork server has imported, and they import much.


class Ceilings(NamedTuple):
    """The limits that the supervisor and the kernel keep; output is the server's."""

    timeout_ms: int = 0
    cpu_ms: int = 0
    memory_bytes: int = 0
    processes: int = 0
    open_files: int = 0
    file_bytes: int = 0
    scratch_bytes: int = 0


class JobSpec(NamedTuple):
    """One job, ready to be started: every decision is taken. A place can be prepared before its program is known."""

    scratch: str
    """Directory that the job may fill; the supervisor makes it, and removes it when the job has ended."""
    user: int | None = None
    """User to become before the program starts; None keeps the supervisor's."""
    landlock_abi: int = 0
    """0 leaves Landlock out, in the tier `unconfined` alone."""
    filter: str = ""
    """Name of the system call filter; empty in the tier `unconfined` alone."""
    network: bool = False
    readable: Sequence[str] = ()
    writable: Sequence[str] = ()
    listed: Sequence[str] = ()
    """Directories in which names can be seen, at any depth; not in a jail."""
    pieces: Sequence[str] = ()
    """What can be read in them, unless it is gone or a link by now."""
    devices: Sequence[str] = ()
    workspace: str = ""
    """Writable workspace whose protected paths are watched; empty when there is none."""
    jail: str = ""
    """Command that builds the root of its jail, its parts between NULs; empty in the other tiers."""
    carried: Sequence[str] = ()
    """Granted paths, outer ones first, that lie where each jail has an empty directory of its own."""
    fixed: Sequence[str] = ()
    """Granted paths that lead through no link, or the job does not start: others may write beside them."""
    group: str = ""
    """Control group in which the job gets one of its own (`paddock.sandbox.child.cgroup`); empty for none."""
    argv: Sequence[str] = ()
    environment: Mapping[str, str] = {}
    cwd: str = "/"
    canary: str = ""
    """Target of the canary (`paddock.sandbox.child.canary`), which then runs in the place of `argv`."""
    ceilings: Ceilings = Ceilings()

    def to_file(self) -> int:
        """Return a descriptor of a memory file with this order, ready to be read."""
        file = os.memfd_create("order", os.MFD_CLOEXEC)
        fields: list[Any] = [*self[:-1], tuple(self.ceilings)]
        data = marshal.dumps(fields)
        while data:
            data = data[os.write(file, data) :]
        return file

    @classmethod
    def from_file(cls, file: int) -> Self:
        """Read an order and close its descriptor. Others may read the same file."""
        *fields, ceilings = marshal.loads(os.pread(file, os.fstat(file).st_size, 0))  # noqa: S302 - our server's own
        os.close(file)
        return cls._make((*fields, Ceilings._make(ceilings)))


class StartError(Exception):
    """The program never ran. `missing`: it is not there, as opposed to a step of the confinement that failed."""

    def __init__(self, why: str, *, missing: bool = False) -> None:
        super().__init__(why)
        self.missing = missing


class JobReport:
    """How a job ended. The wire carries what was set."""

    ended_by: str = "exit"
    """`exit`, `start` (the program never ran), `unborn` (nor was there a supervisor), the ceiling that was hit, or the
    reason of the server's stop."""
    code: int | None = None
    signal: int | None = None
    why: str = ""
    """What failed before the program could start."""
    missing: bool = False
    """Whether the program itself is not there or not executable, rather than a step of the confinement."""
    wall_ms: float = 0.0
    cpu_user_ms: float = 0.0
    cpu_system_ms: float = 0.0
    peak_bytes: int = 0
    processes_peak: int = 0
    killed: int = 0
    """Processes that had to be killed after the end."""
    survivors: int = 0
    violations: Sequence[str] = ()

    def __init__(self, **facts: Any) -> None:  # noqa: ANN401 - as JSON has them
        vars(self).update(facts)

    def to_bytes(self) -> bytes:
        """Return the message that carries this report."""
        return json.dumps(vars(self)).encode()

    @classmethod
    def from_bytes(cls, message: bytes) -> Self:
        """Read a report."""
        return cls(**json.loads(message))
