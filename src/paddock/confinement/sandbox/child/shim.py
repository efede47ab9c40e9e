"""The shim: a forked child that gives up the powers that a job must not have, and then becomes the job's program.

    session, files      setsid; close every descriptor except the channel to the supervisor
    receive             how to confine the program; the supervisor sends it at once or much later
    control group, jail in a jail, mount the private directories; all paths below mean those of the jail. If the job
                        may reach hosts, open the socket of its proxy and send it to the supervisor
    Landlock ruleset    built while the paths can be opened with the old user's rights; outside of a jail by the
                        supervisor
    user, capabilities  nothing that could undo the rest is left afterwards
    no_new_privs, Landlock, seccomp
    supervised calls    the supervisor gets the listener of a second filter (seccomp_unotify(2)): outside of a jail
                        for calls on metadata, in a jail for sockets
    receive             the program, its streams and limits; the supervisor sends them at once or much later
    rlimits, directory, exec; in a jail the program is a child of the shim (`jail.py`)

A fork costs more than all other steps, so supervisors start shims ahead while they are idle.
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

from paddock.confinement.sandbox.child import (
    canary,
    jail,
    landlock,
    lockdown,
    loopback,
    network_canary,
    overlay,
    seccomp,
)
from paddock.confinement.sandbox.child.jail import JailReport
from paddock.confinement.sandbox.child.messages import STREAM_COUNT, JobSpec
from paddock.confinement.sandbox.child.namespaces import MountRoot
from paddock.confinement.sandbox.child.supervised_calls import METADATA_FILTER, send_listener
from paddock.confinement.sandbox.child.system_calls import make_dumpable

_OTHER_JOBS_THREADS = 256
"""Allowance for threads that other jobs of the same user start: RLIMIT_NPROC counts by user, not by job."""
_HANDLES = ("cgroup", "ruleset")
"""Descriptors that a shim may get: its control group's `cgroup.procs`, and the result of `ruleset_of`."""
_MESSAGE_BYTES = 256
_LISTENS = b'{"listens": true}'
"""The message that carries the socket of the job's proxy."""

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
"""Files below /proc about the machine that runtimes read and that reveal nothing about any process."""

os.get_exec_path()  # imports what execvpe needs, while files can still be read


def ruleset_of(spec: JobSpec) -> int:
    """Return a Landlock ruleset for a program without a jail; -1 without Landlock. Raises OSError.

    The rule for the program's own process is added later. The supervisor builds the ruleset, because a new fork pays
    for the first use of each page of memory.
    """
    if not spec.landlock_abi or spec.jail:
        return -1
    ruleset = landlock.build_ruleset(
        spec.landlock_abi, _build_rules(spec), network=spec.network != "none", fixed=frozenset(spec.fixed)
    )
    further = [(path, landlock.READ) for path in spec.pieces]
    further += [(path, landlock.READ | landlock.WRITE) for path in spec.written]
    for path, rights in further:
        with contextlib.suppress(OSError):  # another process may have removed it
            landlock.allow_path(ruleset, path, rights, fixed=True)
    return ruleset


def is_idle(connection: socket.socket, seconds: float = 0.002) -> bool:
    """Return whether no message arrives for some time, so that there is time to rehearse."""
    return not select.select([connection], [], [], seconds)[0]


def rehearse_start(spec: JobSpec) -> None:
    """Take the steps of a start without effect, so that memory shared by the fork is copied before the real start."""
    with contextlib.suppress(OSError):  # scratch of that job has been removed
        again = JobSpec.from_file(spec.to_file())
        os.close(landlock.build_ruleset(again.landlock_abi, _build_rules(again)))


class Shim:
    """The supervisor's handle of a process that becomes a program. It gets its confinement first, then the program."""

    def __init__(
        self, spec: JobSpec, root: MountRoot | None = None, handles: Mapping[str, int] | None = None
    ) -> None:
        """Start the shim, in a jail if there is a `root`. Without `handles` it rehearses, and waits for `confine`.

        Raises OSError; StartError if the jail cannot be made.
        """
        self.root = root
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._words: deque[bytes] = deque()
        self._handles: list[int] = []
        self._proxy_socket: socket.socket | None = None
        with theirs:
            if root is not None:
                self.pid = root.fork_jail(theirs)
            else:
                self.pid = os.fork()
                if self.pid == 0:
                    _become_program(theirs, spec, handles)

    def confine(self, spec: int, handles: Mapping[str, int]) -> None:
        """Send a waiting shim the file of a job spec, and descriptors by name (`_HANDLES`)."""
        self._send(" ".join(handles), (spec, *handles.values()))

    def start(self, others: int, files: tuple[int, ...]) -> None:
        """Send the streams, preceded by another job spec if there is one; `others` is the thread count of its user."""
        self._send(str(others), files)

    def read_message(self) -> dict[str, Any]:
        """Return the next message; empty if the program runs or the shim has ended."""
        message = self._words.popleft() if self._words else self._receive_message()
        return json.loads(message) if message else {}

    def take_handle(self) -> int:
        """Return the descriptor that came with the last message, other than a proxy's socket; the caller closes it."""
        return self._handles.pop()

    @property
    def mounts(self) -> int:
        """Return a descriptor of the jail's mounts, the first that a jail's shim sends."""
        return self._handles[0]

    def take_proxy_socket(self) -> socket.socket | None:
        """Return the socket of the job's proxy, which the caller closes; None if it has none."""
        taken, self._proxy_socket = self._proxy_socket, None
        return taken

    def read_jail_report(self) -> JailReport | None:
        """Return the report of a jail's first process; None if it has not sent one."""
        return JailReport.from_bytes(self._receive_message()) if self._says else None

    def fileno(self) -> int:
        """Return the descriptor of the channel, which becomes readable at a message and at the end."""
        return self._channel.fileno()

    @property
    def alive(self) -> bool:
        """Return whether the shim has not ended."""
        while self._says:
            if not (message := self._receive_message()):
                return False
            self._words.append(message)
        return True

    def close(self) -> None:
        """End the shim unless it has become the program; the caller reaps it."""
        self._channel.close()
        if self._proxy_socket is not None:
            self._proxy_socket.close()
        for file in self._handles:
            os.close(file)

    def end(self) -> None:
        """End and reap a shim that has not become the program."""
        self.close()
        os.waitpid(self.pid, 0)

    @property
    def _says(self) -> bool:
        """Return whether a message, or the end, can be read."""
        return bool(select.select([self._channel], [], [], 0)[0])

    def _receive_message(self) -> bytes:
        """Return the next message; empty at the end."""
        try:
            message, files, _, _ = socket.recv_fds(self._channel, _MESSAGE_BYTES, 1)
        except ConnectionResetError:
            # It ended before it read all. What it has sent, such as the reason, is next.
            message, files, _, _ = socket.recv_fds(self._channel, _MESSAGE_BYTES, 1)
        if message == _LISTENS and files:
            self._proxy_socket = socket.socket(fileno=files.pop())
        self._handles += files
        return message

    def _send(self, text: str, files: tuple[int, ...]) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its last message has the reason
            socket.send_fds(self._channel, [text.encode() or b" "], files)


def live_in_jail(channel: socket.socket, spec: JobSpec) -> NoReturn:
    """Run as the first process of a jail whose root was built for `spec`: wait for a job, and carry it out."""
    _become_program(channel, spec, None, in_jail=True)


def _become_program(
    channel: socket.socket, spec: JobSpec, handles: Mapping[str, int] | None, *, in_jail: bool = False
) -> NoReturn:
    """Turn this forked process into a program. Never returns; sends a failed step to `channel` as JSON."""
    progress = ["session"]
    try:
        gc.disable()  # a collection touches every object, which copies the memory that forks share
        os.setsid()
        if in_jail:
            # The supervisor keeps the mounts, so that the jail's last process need not wait until they are removed.
            mounts = jail.open_up()
            socket.send_fds(channel, [b'{"jail": true}'], [mounts])
            os.close(mounts)
        else:
            lockdown.close_all_except(channel.fileno(), *(handles or {}).values())
            lockdown.forbid_capabilities()
        if handles is None:
            progress.append("job spec")
            if is_idle(channel):
                rehearse_start(spec)
            names, files = _receive_message(channel, 1 + len(_HANDLES))
            spec, handles = JobSpec.from_file(files[0]), dict(zip(names.split(), files[1:], strict=True))
        _confine_process(spec, handles, progress, channel if in_jail else None)
        if spec.supervised:
            progress.append("supervised calls")
            is_needed = spec.supervised == METADATA_FILTER or spec.network in loopback.OWN_NETWORKS
            send_listener(channel, spec.supervised, is_needed=is_needed)
        progress.append("program")
        others, files = _receive_message(channel, 1 + STREAM_COUNT)
        if len(files) > STREAM_COUNT:
            del spec  # the next one then uses the same memory
            spec = JobSpec.from_file(files.pop(0))
        for number, stream in enumerate(files):
            os.dup2(stream, number)
            os.close(stream)
        progress.append("resource limits")
        set_limits(spec, int(others))
        progress.append("working directory")
        os.chdir(spec.cwd)
        if spec.canary:
            progress.append("canary")
            if in_jail:
                make_dumpable()  # a broker reads the addresses of calls
                channel.send(jail.STARTED)
            else:
                channel.close()  # as an exec does
            facts = json.loads(spec.canary)
            if "network" in facts:
                os.write(1, network_canary.attempt_network(facts["network"]))
            else:
                os.write(1, canary.attempt_all(spec.canary))
            os._exit(0)
        progress.append("exec")
        if in_jail:
            jail.run_first_process(spec, channel)
        os.execvpe(spec.argv[0], list(spec.argv), spec.environment)  # noqa: S606 - no shell is the point
    except BaseException as error:  # noqa: BLE001 - nothing may return into the supervisor's code
        failure: dict[str, Any] = {"step": progress[-1], "why": str(error)}
        if progress[-1] == "exec" and isinstance(error, OSError):
            failure |= {"why": os.strerror(error.errno or 0), "errno": error.errno}
        with contextlib.suppress(OSError):  # the supervisor has died
            channel.send(json.dumps(failure).encode())
    finally:
        os._exit(127)


def _confine_process(
    spec: JobSpec, handles: Mapping[str, int], progress: list[str], jail_channel: socket.socket | None
) -> None:
    """Give up every power that the job spec does not grant; append each step to `progress`. Raises OSError."""
    if "cgroup" in handles:
        progress.append("control group")
        os.write(handles["cgroup"], b"0")
        os.close(handles["cgroup"])
    if jail_channel is not None:
        progress.append("namespaces")
        try:
            jail.furnish_jail(spec)
        except OSError:
            if spec.overlays:
                overlay.mark_failure(spec.scratch)
            raise
        if spec.network == "hosts":  # pass on the socket of its proxy, and keep no descriptor of it
            progress.append("network")
            with loopback.open_proxy_socket() as proxy_socket:
                socket.send_fds(jail_channel, [_LISTENS], [proxy_socket.fileno()])
    progress.append("Landlock rules")
    ruleset = handles.get("ruleset", -1)
    if spec.jail and spec.landlock_abi:  # the paths of the rules are those of the jail
        ruleset = landlock.build_ruleset(
            spec.landlock_abi, _build_rules(spec), network=spec.network != "none"
        )
    elif ruleset >= 0:
        landlock.allow_path(ruleset, f"/proc/{os.getpid()}", landlock.READ)
    progress.append("user and capabilities")
    if spec.user is not None and os.geteuid() != spec.user:
        lockdown.become_user(spec.user)
    lockdown.drop_capabilities()
    progress.append("no_new_privs")
    lockdown.refuse_new_privileges()
    if ruleset >= 0:
        progress.append("Landlock")
        landlock.enforce_ruleset(ruleset)
    lockdown.dump_no_core()  # the filter then prevents a change of this limit
    if spec.filter:
        progress.append("system call filter")
        seccomp.install_filter(seccomp.read_filter(spec.filter))


def _receive_message(channel: socket.socket, max_files: int) -> tuple[str, list[int]]:
    try:
        text, files, _, _ = socket.recv_fds(channel, _MESSAGE_BYTES, max_files)
    except ConnectionResetError:
        text, files = b"", []
    if not text:  # the supervisor needs this shim no longer, or has died
        os._exit(0)
    return text.decode(), files


def set_limits(spec: JobSpec, others: int) -> None:
    """Set the kernel's limits of this process; `others` is the number of processes that its user runs already."""
    ceilings = spec.ceilings
    # A backstop: the supervisor counts the whole tree, and in milliseconds.
    cpu_s = -(-ceilings.cpu_ms // 1000) + 1
    for kind, value in (
        (resource.RLIMIT_FSIZE, ceilings.file_bytes),
        (resource.RLIMIT_NOFILE, ceilings.open_files),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_NPROC, others + ceilings.processes + _OTHER_JOBS_THREADS),
        (resource.RLIMIT_DATA, 2 * ceilings.memory_bytes),  # a backstop as well
        # Not a large number: C libraries give each thread a stack of the limit's size, unless there is none.
        (resource.RLIMIT_STACK, ceilings.stack_bytes or resource.RLIM_INFINITY),
        (resource.RLIMIT_RTPRIO, 0),  # a user's real-time priority would starve supervisors
        (resource.RLIMIT_NICE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        bounds = [each for each in (value, hard) if each != resource.RLIM_INFINITY]
        within = min(bounds, default=resource.RLIM_INFINITY)
        resource.setrlimit(kind, (within, within))


def _build_rules(spec: JobSpec) -> list[tuple[str, int]]:
    rules = [(path, landlock.READ) for path in spec.readable]
    rules += [(path, landlock.READ | landlock.WRITE) for path in spec.writable]
    rules += [(path, landlock.DEVICE) for path in spec.devices]
    rules += [(path, landlock.LIST) for path in spec.listed]
    if not spec.jail:
        rules += [(path, landlock.READ) for path in _SHARED_PROC]
    return rules
