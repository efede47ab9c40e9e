"""The processes below a supervisor: find them, measure them, kill all of them.

A supervisor adopts orphans. Therefore every process of its job stays a descendant, also after setsid or a double fork.
Killing is a loop that ends when `wait` reports no child: the next round finds a process that was forked between listing
and killing. A process whose parent was killed becomes a direct child.
"""

import contextlib
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from paddock.confinement.sandbox.child.system_calls import read_file, read_if_there

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PPID, _GROUP, _SESSION, _USER_TIME, _SYSTEM_TIME, THREADS, _RESIDENT = 1, 2, 3, 11, 14, 17, 21
"""Fields of /proc/<pid>/stat after the name: ppid, pgrp, session, utime to cstime, num_threads, rss (proc(5))."""
_LINKS = 2
"""Links of a directory without directories in it."""
_PAUSE_S = 0.0005
_END_S = 0.02
_COUNT_EVERY_S = 10.0

Reaped = Callable[[int, int, resource.struct_rusage], None]
"""Receives pid, wait status and cost of a reaped child; the cost includes the children that the child reaped."""


class Process(NamedTuple):
    """One living process."""

    folder: str
    """Its folder below /proc, or that of another thread if the first one has ended (pthread_exit(3))."""
    resident_bytes: int
    session: int
    is_running: bool
    """Whether its first thread has a processor or waits for one."""


class Sample(NamedTuple):
    """The usage of a process tree at one moment."""

    processes: tuple[Process, ...]
    threads: int
    """Threads of these processes, including each first one, and zombies."""
    cpu_ms: float
    """CPU time of the living processes and of the children that they have reaped."""
    user_ms: float
    system_ms: float
    """The same, without the time of a jail's first process."""


def list_children(pid: int, threads: int = 0) -> list[int]:
    """Return the children of all threads of a process; none if it has ended.

    Does not list the threads if the caller knows that there is 1.
    """
    found: list[int] = []
    try:
        names = [str(pid)] if threads == 1 else os.listdir(f"/proc/{pid}/task")  # called in a tight loop
    except OSError:
        return found
    for name in names:
        found += map(int, read_if_there(f"/proc/{pid}/task/{name}/children").split())
    return found


def measure_tree(*, spare: frozenset[int] = frozenset(), first: int = 0) -> Sample:
    """Sample the processes below this one, without children in `spare`; of a jail's `first`, only its CPU time."""
    processes: list[Process] = []
    threads, ticks = 0, 0
    user = system = 0
    below = [pid for pid in list_children(os.getpid(), 1) if pid not in spare]
    for pid in below:  # grows during the loop
        fields = read_stat(pid)
        if fields is None:
            continue
        below += list_children(pid, int(fields[THREADS]))
        if (process := _read_process(pid, fields)) is None:
            threads += 1
            continue
        own = [int(field) for field in fields[_USER_TIME : _SYSTEM_TIME + 1]]
        ticks += sum(own)
        if pid != first:
            processes.append(process)
            threads += int(fields[THREADS])
            user, system = user + own[0] + own[2], system + own[1] + own[3]
    of_tick = 1000 / _TICKS_PER_SECOND
    return Sample(tuple(processes), threads, ticks * of_tick, user * of_tick, system * of_tick)


def _read_process(pid: int, fields: list[bytes]) -> Process | None:
    """Return a process by the fields of its /proc/<pid>/stat; None for a zombie."""
    if fields[0] != b"Z":
        return _make_process(f"/proc/{pid}", fields)
    if int(fields[THREADS]) > 1:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                own = read_stat(f"{pid}/task/{thread}")
                if own is not None and own[0] not in {b"Z", b"X"}:
                    return _make_process(f"/proc/{pid}/task/{thread}", own)
    return None


def _make_process(folder: str, fields: list[bytes]) -> Process:
    return Process(folder, int(fields[_RESIDENT]) * _PAGE_BYTES, int(fields[_SESSION]), fields[0] == b"R")


def resident_bytes(processes: Sequence[Process], enough: int) -> int:
    """Return the memory of processes; if that is more than `enough`, count shared memory only once.

    The latter reads smaps_rollup (proc_pid_smaps(5)). A process that is not dumpable counts with all of its memory.
    """
    total = sum(process.resident_bytes for process in processes)
    if total <= enough or len(processes) == 1:
        return total
    total = 0
    for process in processes:
        try:
            text = read_file(f"{process.folder}/smaps_rollup")
            total += int(text[text.index(b"\nPss:") + 5 :].split(None, 1)[0]) * 1024
        except (OSError, ValueError):
            total += process.resident_bytes
    return total


def kill_descendants(
    *, seconds: float, reaped: Reaped = lambda _pid, _status, _cost: None, spare: frozenset[int] = frozenset()
) -> tuple[int, int]:
    """Kill and reap every descendant of this process; return how many were killed and how many are left.

    First kills process groups, which the kernel kills as a whole. Then stops all others before it kills any, so that
    none can fork replacements. Processes are left only if the kernel does not let them die within `seconds`. Leaves
    children in `spare` and their descendants alone.
    """
    own = os.getpid()
    killed: set[int] = set()
    deadline = time.monotonic() + seconds
    while not reap_children(reaped):
        if _kill_groups(list_below(own, spare), killed):
            continue
        known = {own}
        while fresh := [pid for pid in list_below(own, spare) if pid not in known]:
            for pid in fresh:
                send_signal(pid, signal.SIGSTOP, known)
            if time.monotonic() > deadline:
                break
        known.discard(own)
        if spare and not known:
            break
        killed |= {pid for pid in known if (fields := read_stat(pid)) is not None and fields[0] != b"Z"}
        everyone = {own, *known}
        for pid in known:
            send_signal(pid, signal.SIGKILL, everyone)
        if time.monotonic() > deadline:
            reap_children(reaped)
            return len(killed), len(list_below(own, spare))
        time.sleep(_PAUSE_S)
    return len(killed), 0


def interrupt_group(first: int, *, in_jail: bool) -> None:
    """Send SIGINT to the process group of a job's program, as a terminal does at Ctrl-C.

    `first` is the program itself, or the first process of its jail, whose oldest child the program is.
    """
    program = next(iter(list_children(first)), 0) if in_jail else first
    fields = read_stat(program) if program else None
    # The program leads its own group; another process in its place could name any group of its session.
    if fields is not None and int(fields[_GROUP]) == program:
        with contextlib.suppress(OSError):
            os.killpg(program, signal.SIGINT)


def _kill_groups(pids: list[int], killed: set[int]) -> bool:
    """Kill the process groups of `pids` except our own; return whether one had several living members.

    A group never spans sessions, and a job has its own sessions, so that its groups contain no other process.
    """
    groups: dict[int, list[int]] = {}
    for pid in pids:
        fields = read_stat(pid)
        if fields is not None and fields[0] not in {b"Z", b"X"}:
            groups.setdefault(int(fields[_GROUP]), []).append(pid)
    groups.pop(os.getpgrp(), None)
    many = {
        group: members
        for group, members in groups.items()
        if len(members) > 1 and not killed.issuperset(members)
    }
    for group, members in many.items():
        killed.update(members)
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
    return bool(many)


def threads_by_user() -> dict[int, int]:
    """Return the number of threads of each user that /proc shows, as RLIMIT_NPROC counts them."""
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                threads = os.stat(f"/proc/{name}/task")
                found[threads.st_uid] = found.get(threads.st_uid, 0) + threads.st_nlink - _LINKS
    return found


class OtherThreads:
    """Counts the threads of each user outside of the job, because RLIMIT_NPROC counts by user, not by job."""

    def __init__(self) -> None:
        self._threads: dict[int, int] = {}
        self._due = 0.0

    def count_processes(self, user: int | None) -> int:
        """Return the count of a user, or of this process's user for None; at most ten seconds old."""
        if (now := time.monotonic()) > self._due:
            self._threads, self._due = threads_by_user(), now + _COUNT_EVERY_S
        return self._threads.get(os.geteuid() if user is None else user, 0)


def list_below(own: int, spare: frozenset[int]) -> list[int]:
    """Return the descendants of this process, which has one thread, without its children in `spare`.

    Leaves out what is below those, too.
    """
    found = [pid for pid in list_children(own, 1) if pid not in spare]
    for pid in found:  # grows during the loop
        found += list_children(pid)
    return found


def reap_orphans(main: int, reaped: Reaped) -> None:
    """Reap every child that has ended, except `main`: its pid must not be reused before the end."""
    with contextlib.suppress(ChildProcessError):
        if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:  # none has ended, as usual
            return
    for child in list_children(os.getpid(), 1):
        if child != main:
            with contextlib.suppress(ChildProcessError):
                pid, status, cost = os.wait4(child, os.WNOHANG)
                if pid and not os.WIFSTOPPED(status):
                    reaped(pid, status, cost)


def reap_children(reaped: Reaped) -> bool:
    """Reap every child that has ended; return whether no child is left."""
    while True:
        try:
            pid, status, cost = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return False
        if not os.WIFSTOPPED(status):  # a thread that could not be let go (`freeze`)
            reaped(pid, status, cost)


def send_signal(pid: int, number: signal.Signals, known: set[int]) -> None:
    """Signal a process if its parent is in `known`, and add it to `known`; else its pid belongs to another process."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    fields = read_stat(pid)
    if fields is not None and int(fields[PPID]) in known:
        known.add(pid)
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(handle, number)
    os.close(handle)


def read_stat(pid: int | str) -> list[bytes] | None:
    """Return the fields of /proc/<pid>/stat after the name; None if there is no such process."""
    return read_if_there(f"/proc/{pid}/stat").rpartition(b")")[2].split() or None


def wait_for_end(first: int) -> None:
    """Wait until the kernel has ended a broker, or the jail of a first process, but only for a short time."""
    with contextlib.suppress(OSError):  # there is none
        handle = os.pidfd_open(first)
        select.select([handle], [], [], _END_S)
        os.close(handle)
