"""Freeze the processes of a job, so that only their supervisor continues them.

    freeze    trace each thread (PTRACE_SEIZE) and stop it (PTRACE_INTERRUPT), until no thread runs
    thaw      let each thread go (PTRACE_DETACH), which then continues where it was

SIGCONT continues what SIGSTOP has stopped, and a program can have the kernel send it: by a timer, by a descriptor, or
when another process ends (timer_create(2), F_SETSIG, PR_SET_PDEATHSIG). It does not continue a traced thread
(ptrace(2)). If the supervisor dies, the kernel kills what it traces (PTRACE_O_EXITKILL).

A process that may not be traced is stopped by SIGSTOP, and then the supervisor has to look whether it runs. That is so
where Yama forbids to trace, and for a process that hides from its user (PR_SET_DUMPABLE), unless the supervisor has
CAP_SYS_PTRACE over it, as it has over a jail.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import signal
import struct
import time
from collections.abc import Generator, Iterator, Sequence

from paddock.confinement.sandbox.child import process_tree
from paddock.confinement.sandbox.child.messages import JobSpec
from paddock.confinement.sandbox.child.process_tree import PPID, THREADS, Reaped, list_below, read_stat
from paddock.confinement.sandbox.child.system_calls import check_result, copy_descriptor

_DETACH, _SEIZE, _INTERRUPT, _EXITKILL = 17, 0x4206, 0x4207, 0x00100000
_WALL = 0x40000000
"""Wait for threads, too (waitpid(2))."""
_ENDED = frozenset({b"Z", b"X"})
_STOPPED = frozenset({b"T", b"t", b"D"})
"""States of a thread that was told to stop, and executes none of the program's instructions (proc_pid_stat(5)).

One that waits in the kernel without reacting to signals (D) stops before it returns from there.
"""
_PAUSE_S = 0.0005
NOTICE_BYTES = 128
"""Size of what a descriptor of `notice_of_ends` holds for one event, and of sigset_t."""
_LOCK = re.compile(rb"^lock:.*(?:FLOCK|OFDLCK)", re.MULTILINE)
"""Lines of /proc/<pid>/fdinfo (proc_pid_fdinfo(5))."""
_OFD_SETLK = 37
_PIDFD_THREAD = os.O_EXCL
_WHOLE_FILE = struct.pack("hhqqi4x", fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)
"""struct flock."""
_LIBC = ctypes.CDLL(None, use_errno=True)
_ptrace = _LIBC.ptrace
_ptrace.argtypes, _ptrace.restype = (*[ctypes.c_long] * 2, *[ctypes.c_void_p] * 2), ctypes.c_long


class FrozenTree:
    """The descendants of this process, which are frozen from `freeze` until `thaw`."""

    def __init__(self, user: int | None, reaped: Reaped) -> None:
        """Freeze processes that run as `user`, None for this process's user.

        `reaped` is called for each child of this process that ended while it was frozen.
        """
        self._user = user
        self._reaped = reaped
        self._traced: dict[int, int | None] = {}
        """For each thread, None until it stops, then the signal that it was about to take, or 0."""
        self._processes: set[int] = set()
        """The processes of these threads."""
        self._untraceable: set[int] = set()
        self._signalled: set[int] = set()
        """Those of them that got SIGSTOP, because they ran."""

    @property
    def is_traced(self) -> bool:
        """Return whether nothing but this process can continue a thread."""
        return not self._untraceable

    @property
    def is_settled(self) -> bool:
        """Return whether `is_traced` holds, and no thread has a system call to finish before it stops."""
        return self.is_traced and None not in self._traced.values()

    def freeze(self, *, seconds: float, spare: frozenset[int], first: int) -> bool:
        """Stop every thread; return whether all stopped within `seconds`.

        Leaves children in `spare` alone, and a jail's `first` process, which only waits. A thread can start or continue
        another one only until it is stopped itself, so the rounds end.
        """
        deadline = time.monotonic() + seconds
        while True:
            below = list_below(os.getpid(), spare)
            running = {thread: pid for pid in below if pid != first for thread in self._list_running(pid)}
            if not running:
                self.note_ends()
                return True
            if time.monotonic() > deadline:
                return False
            fresh = [
                thread
                for thread, pid in running.items()
                if thread not in self._traced and pid not in self._untraceable
            ]
            family = {os.getpid(), *below}
            for thread in fresh:
                self._stop_thread(running[thread], thread, family)
            if not fresh:  # they need a moment to stop
                time.sleep(_PAUSE_S)
                self.note_ends()

    def is_running(self, *, spare: frozenset[int], first: int) -> bool:
        """Return whether a thread runs."""
        below = list_below(os.getpid(), spare)
        return any(True for pid in below if pid != first for _ in self._list_running(pid))

    def note_ends(self) -> None:
        """Forget threads that have ended. Only then do their parents learn that they have."""
        children = process_tree.list_children(os.getpid())
        # The first thread of a process can be reaped after its others.
        for thread in sorted(self._traced, key=self._processes.__contains__):
            self._update(thread, is_child=thread in children)

    def thaw(self, *, stopped: bool = False) -> bool:
        """Continue every process, or leave it `stopped` by SIGSTOP; return whether no thread is left to let go.

        A thread that waits in the kernel cannot be let go. Call this again until it returns True.
        """
        if not self._traced and not self._untraceable:
            return True
        self.note_ends()
        if stopped:
            for pid in self._processes & self._traced.keys():
                os.kill(pid, signal.SIGSTOP)
            self._signalled.clear()
        for thread, held in [*self._traced.items()]:
            if _ptrace(_DETACH, thread, None, held or None) == 0:
                del self._traced[thread]
        for pid in self._signalled:
            process_tree.send_signal(
                pid, signal.SIGCONT, {os.getpid(), *list_below(os.getpid(), frozenset())}
            )
        self._processes &= self._traced.keys()
        self._untraceable.clear()
        self._signalled.clear()
        return not self._traced

    def _list_running(self, pid: int) -> Iterator[int]:
        """Yield the threads of a process that may execute instructions of the program, now or later."""
        fields = read_stat(pid)
        if fields is None:
            return
        if int(fields[THREADS]) == 1:
            states = {pid: fields[0]}
        else:
            states = {}
            with contextlib.suppress(OSError):
                for thread in map(int, os.listdir(f"/proc/{pid}/task")):
                    if (own := read_stat(f"{pid}/task/{thread}")) is not None:
                        states[thread] = own[0]
        for thread, state in states.items():
            was_told = thread in self._traced or pid in self._untraceable
            if state not in _ENDED and not (was_told and state in _STOPPED):
                yield thread

    def _stop_thread(self, pid: int, thread: int, family: set[int]) -> None:
        """Stop a thread of a process whose parent is in `family`; else its number is now that of another one."""
        path = f"{pid}/task/{thread}"
        if pid not in self._untraceable and self._seize(thread):
            if thread == pid:
                fields = read_stat(pid)
                is_known = fields is not None and int(fields[PPID]) in family
            else:
                is_known = os.path.exists(f"/proc/{path}")
            _ptrace(_INTERRUPT, thread, None, None)
            if not is_known:
                os.waitpid(thread, _WALL)
                _ptrace(_DETACH, thread, None, None)
                return
            self._traced[thread] = None
            self._processes.add(pid)
            return
        fields = read_stat(path)
        if fields is None or fields[0] in _ENDED:  # such a thread cannot be traced
            return
        self._untraceable.add(pid)
        if fields[0] not in {b"T", b"t"}:
            self._signalled.add(pid)
            process_tree.send_signal(pid, signal.SIGSTOP, family)

    def _seize(self, thread: int) -> bool:
        """Trace a thread; return whether that is allowed.

        Without CAP_SYS_PTRACE, as in a container of Docker, a tracer's real user must be that of the thread.
        """
        if _ptrace(_SEIZE, thread, None, _EXITKILL) == 0:
            return True
        own = os.getuid(), os.getgid()
        if ctypes.get_errno() != errno.EPERM or self._user is None or self._user == own[0]:
            return False
        os.setresgid(self._user, -1, -1)
        os.setresuid(self._user, -1, -1)
        try:
            return _ptrace(_SEIZE, thread, None, _EXITKILL) == 0
        finally:
            os.setresuid(own[0], -1, -1)
            os.setresgid(own[1], -1, -1)

    def _update(self, thread: int, *, is_child: bool) -> None:
        """Learn whether a traced thread has stopped or ended."""
        try:
            found, status, cost = os.wait4(thread, os.WNOHANG | _WALL)
        except ChildProcessError:  # it became another program, and its number is that of the process
            del self._traced[thread]
            return
        if found and os.WIFSTOPPED(status):
            is_event = bool(status >> 16)
            self._traced[thread] = 0 if is_event else os.WSTOPSIG(status)
        elif found:
            del self._traced[thread]
            if is_child:
                self._reaped(thread, status, cost)


@contextlib.contextmanager
def notice_of_ends() -> Generator[int]:
    """Return a descriptor that becomes readable when a traced thread stops or ends (signalfd(2))."""
    mask = ctypes.create_string_buffer((1 << (signal.SIGCHLD - 1)).to_bytes(NOTICE_BYTES, "little"))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    file = check_result("signalfd", _LIBC.signalfd(-1, mask, os.O_CLOEXEC | os.O_NONBLOCK))
    try:
        yield file
    finally:
        os.close(file)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def release_locks(folders: Sequence[str], spec: JobSpec) -> None:
    """Release locks that a frozen job holds on files which it may only read, because others would wait for them.

    `folders` are those of its processes below /proc; one that ends, or may not be looked into, is left alone. A lock of
    flock(2), or of an open file description (F_OFD_SETLK of fcntl(2)), belongs to a description, of which any process
    with a copy of the descriptor can release it. A lock of a process (F_SETLK) stays: on a file that is open for
    reading alone it can only be a shared one, as SQLite and DuckDB take.
    """
    roots = sorted({*spec.readable, *spec.carried, *spec.writable}, key=len, reverse=True)
    for folder in folders:
        with contextlib.suppress(OSError):
            _release_process(folder, roots, frozenset(spec.writable))


def _release_process(folder: str, roots: Sequence[str], writable: frozenset[str]) -> None:
    for number in os.listdir(f"{folder}/fd"):
        path = os.readlink(f"{folder}/fd/{number}")
        innermost = next((root for root in roots if f"{path}/".startswith(f"{root.rstrip('/')}/")), "")
        if not path.startswith("/") or innermost in writable:
            continue
        with open(f"{folder}/fdinfo/{number}", "rb") as file:
            if not _LOCK.search(file.read()):
                continue
        # A folder below `task` is that of a thread whose first thread has ended, with its descriptors. Before Linux
        # 6.9 there is no PIDFD_THREAD, so that this fails.
        pid, thread = folder.split("/")[2], folder.rpartition("/")[2]
        process = os.pidfd_open(int(thread), 0 if thread == pid else _PIDFD_THREAD)
        try:
            copy = copy_descriptor(process, int(number))
        finally:
            os.close(process)
        try:
            fcntl.flock(copy, fcntl.LOCK_UN)
            fcntl.fcntl(copy, _OFD_SETLK, _WHOLE_FILE)
        finally:
            os.close(copy)
