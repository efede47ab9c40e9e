"""Messages between the parent (`sandbox.process`) and a supervisor (`child.supervisor`).

    parent -> supervisor   "prepare" or "run" with a job spec, in a memory file, because its environment may be large;
                           then the verbs of `sandbox/__init__`, at any time:
                             "kill:<reason>"                       becomes `ended_by` of the last report
                             "interrupt"
                             "pause", "resume"                     while a person is asked
                             "end_turn"                            answered by a report of the turn
                             "begin_turn:<timeout_ms>,<cpu_ms>"    only after that report
                           "release" when scratch is not needed any more
    supervisor -> parent   a `JobReport`, JSON in one message: when the proxy's socket is there, when a turn exceeds its
                           limit, at the end of a turn, and at the end of the job (`JobReport.event`)

A process reads its job spec right after it has been forked, when the first use of each page of memory costs a
microsecond or two. `marshal` uses few pages. It is safe, because the spec comes from our parent with the same
interpreter.
"""

import json
import marshal
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self

STREAM_COUNT = 3
"""Standard input, output and error."""
MAX_GUARDED = 40
"""Maximum number of writable folders whose protected paths are watched: each one takes a descriptor."""
EXTRA_THREADS = 256
"""Maximum threads of a job, in addition to its maximum processes."""
MESSAGE_BYTES = 256
"""Maximum size of a message of the parent, with the reason why it kills the job."""
OUT_OF_MEMORY = "the kernel ended it at the limit of its control group"
"""The reason in the report of a job that got no more memory."""

# No dataclasses here: their imports would make the fork server, and so each fork, larger.


class Ceilings(NamedTuple):
    """The limits that the supervisor and the kernel enforce. The parent limits output."""

    timeout_ms: int = 0
    cpu_ms: int = 0
    memory_bytes: int = 0
    stack_bytes: int = 0
    """0 for as much as the memory allows."""
    processes: int = 0
    open_files: int = 0
    file_bytes: int = 0
    scratch_bytes: int = 0


class GuardedFolder(NamedTuple):
    """A writable folder whose protected paths are watched."""

    path: str
    shown: str = ""
    """What precedes its paths in reports; empty for the workspace."""
    rules: Sequence[Any] = ()
    """What is protected there: the fields of `child.protection.ProtectionRules`."""


class JobSpec(NamedTuple):
    """Everything that is needed to start one job. A slot is prepared with a spec that lacks the program."""

    scratch: str
    """Directory that the job may fill; the supervisor makes it, and removes it when the job has ended."""
    user: int | None = None
    """User to become before the program starts; None keeps the supervisor's."""
    landlock_abi: int = 0
    """0 means no Landlock: in the tier `unconfined`, and in a jail on a kernel without it."""
    filter: str = ""
    """Name of the system call filter; empty only in the tier `unconfined`."""
    supervised: str = ""
    """Name of the filter that notifies of the calls which a broker does (`child.supervised_calls`); empty for none."""
    network: str = "none"
    """`none`, `loopback`, `hosts` or `full` (`model.network.Network`)."""
    readable: Sequence[str] = ()
    writable: Sequence[str] = ()
    listed: Sequence[str] = ()
    """Directories in which the job can list names, at any depth; not used in a jail."""
    pieces: Sequence[str] = ()
    """Paths in them that the job can read. A path that has been removed or replaced by a link is skipped."""
    written: Sequence[str] = ()
    """Paths in them that the job can also change."""
    searched: Sequence[str] = ()
    """Granted folders in which the supervisor looks for files to hide, when the job starts."""
    hiding: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """What is hidden there: the fields of `child.hiding.HidingRules`."""
    shown: Sequence[str] = ()
    """Paths in them that are not hidden, because they are granted themselves."""
    hidden: Sequence[tuple[str, int, int, bool]] = ()
    """What the supervisor has found there: the fields of `child.hiding.HiddenPath`."""
    devices: Sequence[str] = ()
    guarded: Sequence[GuardedFolder] = ()
    """Writable folders whose protected paths are watched, such as the workspace."""
    jail: str = ""
    """Command that builds the root of its jail, with NULs between its arguments; empty in the other tiers."""
    carried: Sequence[str] = ()
    """Granted paths, outer ones first, below a directory that is private to each jail."""
    overlays: Sequence[str] = ()
    """Directories that get an overlay in the jail (`child.overlay`), such as the workspace; none in another one."""
    fixed: Sequence[str] = ()
    """Granted paths that must not lead through a link, because others may write beside them; else the job fails."""
    group: str = ""
    """Control group in which the job gets its own group (`cgroup.py`); empty for none."""
    argv: Sequence[str] = ()
    environment: Mapping[str, str] = {}
    cwd: str = "/"
    canary: str = ""
    """Target of the canary (`canary.py`), which then runs instead of `argv`."""
    ceilings: Ceilings = Ceilings()

    def to_file(self) -> int:
        """Write this spec to a new memory file and return its descriptor."""
        file = os.memfd_create("job-spec", os.MFD_CLOEXEC)
        plain = self._replace(guarded=tuple((*each[:2], tuple(each.rules)) for each in self.guarded))
        fields: list[Any] = [*plain[:-1], tuple(self.ceilings)]
        data = marshal.dumps(fields)
        while data:
            data = data[os.write(file, data) :]
        return file

    @classmethod
    def from_file(cls, file: int) -> Self:
        """Read a spec and close the descriptor. The file offset stays, so that others can read the same file."""
        *fields, ceilings = marshal.loads(os.pread(file, os.fstat(file).st_size, 0))  # noqa: S302 - our parent's own
        os.close(file)
        spec = cls._make((*fields, Ceilings._make(ceilings)))
        return spec._replace(guarded=tuple(map(GuardedFolder._make, spec.guarded)))


class StartError(Exception):
    """The program never ran. `missing` means that it was not found or not executable, not that confinement failed.

    `ended_by` is a value of `JobReport.ended_by`.
    """

    def __init__(self, why: str, *, missing: bool = False, ended_by: str = "start") -> None:
        super().__init__(why)
        self.missing = missing
        self.ended_by = ended_by


class JobReport:
    """What happened to a job, and how it ended. A message carries only the attributes that were set."""

    event: Literal["end", "listening", "limit_exceeded", "measured", "turn_ended"] = "end"
    """What is reported. Only `end` is the end of the job. `listening` carries the socket of its proxy. `limit_exceeded`
    has the limit of the turn in `why`; the job goes on for a moment, so that the parent may interrupt it. `turn_ended`
    has the usage of the turn, and `measured` that of the whole job so far, with all CPU time in `cpu_user_ms`."""
    ended_by: str = "exit"
    """Why the job ended:

        exit            the program ended by itself, with `code` or `signal`
        start           the program never ran: `why`, and `missing`
        unborn          the supervisor could not be forked
        wall, cpu, memory, processes, scratch, file_size      it exceeded that limit
        protected       it was not started, because the protected paths of its workspace cannot be recorded
        unrestored      protected paths of its workspace could not be restored after it
        unfrozen        its processes could not be stopped at the end of a turn, or continued while they were stopped
        cancelled, wall, cpu, stdout, stderr, corrupted       the parent killed it, with this reason
        lost            the parent's own word: the supervisor sent no report, or a malformed one
    """
    code: int | None = None
    signal: int | None = None
    why: str = ""
    """What failed before the program could start."""
    missing: bool = False
    """Whether the start failed because the program was not found or not executable."""
    wall_ms: float = 0.0
    cpu_user_ms: float = 0.0
    cpu_system_ms: float = 0.0
    stalled_ms: float = 0.0
    """Time in which it waited for a processor and had none (`shares.py`)."""
    peak_bytes: int = 0
    resident_bytes: int = 0
    """Memory of the job at the end of a turn, and when it is measured."""
    processes_peak: int = 0
    killed: int = 0
    """Number of processes that were killed after the end."""
    survivors: int = 0
    violations: Sequence[str] = ()
    hidden: Sequence[str] = ()
    """Names of files that were hidden from the job."""

    def __init__(self, **facts: Any) -> None:  # noqa: ANN401 - any JSON value
        vars(self).update(facts)

    def to_bytes(self) -> bytes:
        """Return this report as a message."""
        return json.dumps(vars(self)).encode()

    @classmethod
    def from_bytes(cls, message: bytes) -> Self:
        """Return the report of a message."""
        return cls(**json.loads(message))
