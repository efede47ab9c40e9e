"""The last moments before a job's program: a forked child gives up what it must not have, and becomes the program.

    session, files      setsid, every descriptor but the channel to the supervisor closed
    the room            how to confine the program: the supervisor says so now or much later
    control group, jail directories of its own, when it was born in a jail, whose paths then count
    Landlock ruleset    built while the paths can be opened with the old user's rights; the supervisor does so outside
                        of jails
    user, capabilities  then nothing is left that could undo the rest
    no_new_privs, Landlock, seccomp
    the program         what to run, with which streams and limits: the supervisor says so now or much later
    rlimits, directory, exec; in a jail the program is its child (`paddock.sandbox.child.jail`)

A fork costs more than all the rest, so supervisors make shims ahead, when they have nothing else to do.
"""

import contextlib
import gc
import json
import os
import resource
import select
import socket
from collections import deque
from collections.abc import Mapping
from typing import Any, NoReturn

from paddock.sandbox.child import canary, jail, landlock, lockdown, seccomp
from paddock.sandbox.child.jail import JailReport
from paddock.sandbox.child.messages import STREAM_COUNT, JobSpec
from paddock.sandbox.child.namespaces import MountRoot

_OTHER_JOBS_THREADS = 256
"""Threads that other jobs of the same user may start meanwhile: RLIMIT_NPROC counts users, not jobs."""
_HANDLES = ("cgroup", "ruleset")
"""What a program may need: its control group's `cgroup.procs`, `ruleset_of` it."""
_MESSAGE_BYTES = 256

_SHARED_PROC = [
    path
    for name in (
        "cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version", "sys/kernel/osrelease",
        "sys/kernel/ostype", "sys/kernel/pid_max", "sys/kernel/random", "sys/kernel/threads-max",
        "sys/kernel/ngroups_max", "sys/kernel/cap_last_cap", "sys/vm/overcommit_memory", "sys/vm/max_map_count",
        "sys/fs/file-max", "sys/net/core/somaxconn",
    )
    if os.path.exists(path := f"/proc/{name}")
]  # fmt: skip
"""What runtimes read below /proc about the machine, and what says nothing about any process."""

os.get_exec_path()  # loads what execvpe needs while files can still be read


def ruleset_of(order: JobSpec) -> int:
    """Return a Landlock ruleset for a program with no jail, but for its own process; -1 without Landlock.

    The supervisor makes it: each page that a new fork uses for the first time costs more than a rule. Raises OSError.
    """
    if not order.landlock_abi or order.jail:
        return -1
    ruleset = landlock.build_ruleset(
        order.landlock_abi, _build_rules(order), network=order.network, fixed=frozenset(order.fixed)
    )
    for path in order.pieces:
        with contextlib.suppress(OSError):  # others are at work in a home
            landlock.allow_path(ruleset, path, landlock.READ, fixed=True)
    return ruleset


def is_idle(connection: socket.socket, seconds: float = 0.002) -> bool:
    """Tell whether nothing comes for some time, so that there is time to rehearse."""
    return not select.select([connection], [], [], seconds)[0]


def rehearse_start(order: JobSpec) -> None:
    """Do without effect what a start does: memory that a fork shares is copied now rather than then."""
    with contextlib.suppress(OSError):  # scratch of that order is gone
        again = JobSpec.from_file(order.to_file())
        os.close(landlock.build_ruleset(again.landlock_abi, _build_rules(again)))


class Shim:
    """The supervisor's end of a process that will be a program: told first how it is confined, then what it is."""

    def __init__(
        self, order: JobSpec, root: MountRoot | None = None, handles: Mapping[str, int] | None = None
    ) -> None:
        """Make it, in a jail where there is a `root`. Without `handles` it rehearses the order and waits for another.

        Raises OSError, and StartError when there can be no jail.
        """
        self.root = root
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._words: deque[bytes] = deque()
        self._handles: list[int] = []
        with theirs:
            if root is not None:
                self.pid = root.fork_jail(theirs)
            else:
                self.pid = os.fork()
                if self.pid == 0:
                    _become_program(theirs, order, handles)

    def confine(self, order: int, handles: Mapping[str, int]) -> None:
        """Hand over the file of an order to one that waits for it, and what is open for it (`_HANDLES`)."""
        self._send(" ".join(handles), (order, *handles.values()))

    def start(self, others: int, files: tuple[int, ...]) -> None:
        """Hand over the streams, before them another order when there is one; `others` are its user's threads."""
        self._send(str(others), files)

    def read_message(self) -> dict[str, Any]:
        """Return what it says, nothing when the program runs, or when it is gone."""
        said = self._words.popleft() if self._words else self._receive_message()
        return json.loads(said) if said else {}

    def read_jail_report(self) -> JailReport | None:
        """Return what a jail's first process said in the end; None before, and when it ended otherwise."""
        return JailReport.from_bytes(self._receive_message()) if self._says else None

    def fileno(self) -> int:
        """Return what can be read when it says something, its end included."""
        return self._channel.fileno()

    @property
    def alive(self) -> bool:
        """Tell whether it has not ended."""
        while self._says:
            if not (said := self._receive_message()):
                return False
            self._words.append(said)
        return True

    def close(self) -> None:
        """Have it end unless it is the program; the caller reaps it."""
        self._channel.close()
        for file in self._handles:
            os.close(file)

    def end(self) -> None:
        """Have one that is not the program end, and reap it."""
        self.close()
        os.waitpid(self.pid, 0)

    @property
    def _says(self) -> bool:
        """Tell whether there is something to hear, its end included."""
        return bool(select.select([self._channel], [], [], 0)[0])

    def _receive_message(self) -> bytes:
        """Return the next message, nothing at the end."""
        try:
            said, files, _, _ = socket.recv_fds(self._channel, _MESSAGE_BYTES, 1)
        except ConnectionResetError:  # it ended before it read its order
            return b""
        self._handles += files
        return said

    def _send(self, text: str, files: tuple[int, ...]) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # what it said last tells why
            socket.send_fds(self._channel, [text.encode() or b" "], files)


def live_in_jail(channel: socket.socket, order: JobSpec) -> NoReturn:
    """Be the first process of a jail, whose root was built for `order`: wait for another one, and carry it out."""
    _become_program(channel, order, None, jailed=True)


def _become_program(
    channel: socket.socket, order: JobSpec, handles: Mapping[str, int] | None, *, jailed: bool = False
) -> NoReturn:
    """Turn this forked process into a program. Never returns; what fails goes to `channel` as JSON."""
    progress = ["session"]
    try:
        gc.disable()  # it would touch every object, and so copy the memory that forks share
        os.setsid()
        if jailed:
            _show_mounts(channel)
        else:
            lockdown.close_all_except(channel.fileno(), *(handles or {}).values())
            lockdown.forbid_capabilities()
        if handles is None:
            progress.append("order")
            if is_idle(channel):
                rehearse_start(order)
            order, handles = _receive_room(channel)
        _confine_process(order, handles, progress, jailed=jailed)
        progress.append("program")
        order, others = _receive_program(channel, order)
        progress.append("resource limits")
        _set_limits(order, others)
        progress.append("working directory")
        os.chdir(order.cwd)
        if order.canary:
            progress.append("canary")
            os.write(1, canary.attempt_all(order.canary))
            os._exit(0)
        progress.append("exec")
        if jailed:
            jail.run_first_process(order, channel)
        os.execvpe(order.argv[0], list(order.argv), order.environment)  # noqa: S606 - no shell is the point
    except BaseException as error:  # noqa: BLE001 - nothing may return into the supervisor's code
        step = progress[-1]
        why = os.strerror(error.errno or 0) if step == "exec" and isinstance(error, OSError) else str(error)
        with contextlib.suppress(OSError):  # the supervisor is gone
            channel.send(json.dumps({"step": step, "why": why}).encode())
    finally:
        os._exit(127)


def _confine_process(
    order: JobSpec, handles: Mapping[str, int], progress: list[str], *, jailed: bool
) -> None:
    """Give up every power that the order does not name; `progress` tells which step is taken. Raises OSError."""
    if "cgroup" in handles:
        progress.append("control group")
        os.write(handles["cgroup"], b"0")
        os.close(handles["cgroup"])
    if jailed:
        progress.append("namespaces")
        jail.furnish_jail(order)
    progress.append("Landlock rules")
    ruleset = _own_ruleset(order, handles)
    progress.append("user and capabilities")
    _leave_privileges(order)
    progress.append("no_new_privs")
    lockdown.refuse_new_privileges()
    if ruleset >= 0:
        progress.append("Landlock")
        landlock.enforce_ruleset(ruleset)
    lockdown.dump_no_core()  # the filter keeps it
    if order.filter:
        progress.append("system call filter")
        seccomp.install_filter(seccomp.read_filter(order.filter))


def _show_mounts(channel: socket.socket) -> None:
    """Have the supervisor hold the mounts: then the last process in them need not wait until they are cleared away."""
    mounts = jail.open_up()
    socket.send_fds(channel, [b'{"jail": true}'], [mounts])
    os.close(mounts)


def _receive_order(channel: socket.socket, most: int) -> tuple[str, list[int]]:
    try:
        text, files, _, _ = socket.recv_fds(channel, _MESSAGE_BYTES, most)
    except ConnectionResetError:
        text, files = b"", []
    if not text:  # the supervisor has no program for us any more, or is gone
        os._exit(0)
    return text.decode(), files


def _receive_room(channel: socket.socket) -> tuple[JobSpec, dict[str, int]]:
    """Wait for an order; return it with the handles that came with it, by name."""
    names, files = _receive_order(channel, 1 + len(_HANDLES))
    return JobSpec.from_file(files[0]), dict(zip(names.split(), files[1:], strict=True))


def _receive_program(channel: socket.socket, order: JobSpec) -> tuple[JobSpec, int]:
    """Wait for the streams, and for another order; return the last one and how many threads its user has without it."""
    if is_idle(channel):
        JobSpec.from_file(order.to_file())  # likewise a rehearsal: another order is to come
    others, files = _receive_order(channel, 1 + STREAM_COUNT)
    if len(files) > STREAM_COUNT:
        order = JobSpec.from_file(files.pop(0))
    for number, stream in enumerate(files):
        os.dup2(stream, number)
        os.close(stream)
    return order, int(others)


def _own_ruleset(order: JobSpec, handles: Mapping[str, int]) -> int:
    """Return the ruleset of this process, -1 for none: paths in a jail can be opened only there."""
    if order.jail and order.landlock_abi:
        return landlock.build_ruleset(order.landlock_abi, _build_rules(order), network=order.network)
    ruleset = handles.get("ruleset", -1)
    if ruleset >= 0:
        landlock.allow_path(ruleset, f"/proc/{os.getpid()}", landlock.READ)
    return ruleset


def _set_limits(order: JobSpec, others: int) -> None:
    ceilings = order.ceilings
    # A backstop: the supervisor counts the whole tree, and in milliseconds.
    cpu_s = -(-ceilings.cpu_ms // 1000) + 1
    for kind, value in (
        (resource.RLIMIT_FSIZE, ceilings.file_bytes),
        (resource.RLIMIT_NOFILE, ceilings.open_files),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_NPROC, others + ceilings.processes + _OTHER_JOBS_THREADS),
        (resource.RLIMIT_DATA, 2 * ceilings.memory_bytes),  # likewise
        (
            resource.RLIMIT_RTPRIO,
            0,
        ),  # a user may have the right to go before all others, supervisors included
        (resource.RLIMIT_NICE, 0),
    ):
        most = resource.getrlimit(kind)[1]
        value = value if most == resource.RLIM_INFINITY else min(value, most)  # noqa: PLW2901
        resource.setrlimit(kind, (value, value))


def _build_rules(order: JobSpec) -> list[tuple[str, int]]:
    rules = [(path, landlock.READ) for path in order.readable]
    rules += [(path, landlock.READ | landlock.WRITE) for path in order.writable]
    rules += [(path, landlock.DEVICE) for path in order.devices]
    rules += [(path, landlock.LIST) for path in order.listed]
    if not order.jail:
        rules += [(path, landlock.READ) for path in _SHARED_PROC]
    return rules


def _leave_privileges(order: JobSpec) -> None:
    """Lose every capability, and root where the order says so; in `unconfined` too."""
    if order.user is not None and os.geteuid() != order.user:
        lockdown.become_user(order.user)
    lockdown.drop_capabilities()
