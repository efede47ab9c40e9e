"""Give each job an equal share of the processors, and measure how long others kept it from them.

The kernel shares processors among threads, or among sessions if it groups them (sched(7), autogroup), not among jobs: a
job with twenty threads, or twenty sessions, gets twenty shares. A control group with the controller `cpu` mends that,
because equal groups get equal shares. Without one, a supervisor lowers the weight of each thread by the number of
threads that want a processor, and the weight of each session by the number of its sessions.

A supervisor of root itself has real-time priority over its job while the job runs.

    every 100 ms   schedstat of all threads (proc(5)): time on a processor, time in a run queue
                   -> time that the job was stalled
                   -> mean number of threads, and of sessions, that wanted a processor -> nice values

A job is *stalled* while a thread of it waits for a processor and none of it runs. Its own threads
keep each other waiting only while one of them runs. A job can pretend it only by many short children that it does not
wait for: without a control group, the kernel counts their time nowhere.
"""

import contextlib
import functools
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from paddock.confinement.sandbox.child.process_tree import Sample
from paddock.confinement.sandbox.child.system_calls import write_file

WINDOW_S = 0.1
"""Minimum time between two measurements, in seconds."""
_MEMORY_S = 1.0
"""Time over which the load of a job is averaged, in seconds."""
_WEIGHTS = (1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15)
"""Weight of a thread by its nice value from 0 on (`sched_prio_to_weight` in the kernel)."""
_TOLERANCE = 1.12
"""How much more than one share a job may get: half of a step between two nice values."""
_NEEDED_CAPABILITY = 1 << 23
"""CAP_SYS_NICE, which raises a priority again."""


class ThreadTimes(NamedTuple):
    """Time of one thread since it began, in milliseconds."""

    cpu_ms: float
    wait_ms: float
    """Time in a run queue."""
    session: int = 0

    @property
    def wanted_ms(self) -> float:
        """Time in which it wanted a processor."""
        return self.cpu_ms + self.wait_ms

    def since(self, earlier: "ThreadTimes | None") -> "ThreadTimes":
        """Return the increase since `earlier`, unless that was an ended thread whose number was used again."""
        if earlier is None or self.cpu_ms < earlier.cpu_ms:
            return self
        return ThreadTimes(self.cpu_ms - earlier.cpu_ms, self.wait_ms - earlier.wait_ms, self.session)


def measure_stall(wanted_ms: Sequence[float], cpu_ms: float, window_ms: float) -> float:
    """Return for how much of a window a job was stalled at least, in milliseconds.

    `wanted_ms` has the time in which each of its threads wanted a processor, and `cpu_ms` is the time that all of them
    together had one. While the thread that wanted one longest had none, it waited for the others or was stalled.
    """
    return max(0.0, min(window_ms, max(wanted_ms, default=0.0)) - cpu_ms)


def find_nice(load: float) -> int:
    """Return the nice value at which `load` threads together weigh as much as one of nice 0; at most 19."""
    for nice, weight in enumerate(_WEIGHTS):
        if weight * load <= _WEIGHTS[0] * _TOLERANCE:
            return nice
    return len(_WEIGHTS) - 1


def measure_load(sample: Sample, spent: Iterable[ThreadTimes], window_ms: float) -> tuple[float, float]:
    """Return the mean number of threads that wanted a processor in a window, and of their sessions.

    Processes that lived only for a part of the window count if they want one now: others took their place before.
    """
    by_session: dict[int, float] = {}
    for times in spent:
        wanted = min(1.0, times.wanted_ms / window_ms)
        by_session[times.session] = by_session.get(times.session, 0.0) + wanted
    running = [process.session for process in sample.processes if process.is_running]
    sessions = sum(min(1.0, load) for load in by_session.values())
    return max(sum(by_session.values()), len(running)), max(sessions, len(set(running)))


class Shares:
    """The share of one job; `measure` it regularly."""

    def __init__(self, *, weighted: bool = False) -> None:
        """Only measure if the kernel has `weighted` the job's control group."""
        self._weighted = weighted
        self._restores = not weighted and may_restore()
        self._due = self._measured = 0.0
        self._began = 0.0
        self._cpu_ms = 0.0
        self._threads: dict[int, ThreadTimes] = {}
        self._load = self._sessions = 0.0
        self._nice = 0
        self._nice_of_sessions: dict[int, int] = {}
        self.stalled_ms = 0.0
        """Time that the job was stalled since `begin`, in milliseconds."""

    def begin(self, now: float, sample: Sample | None, cpu_ms: float) -> None:
        """Begin a turn of the job, of which the `sample` is the last one and `cpu_ms` its time on processors so far."""
        self._began = self._began or now
        self._measured, self._due, self._cpu_ms = now, now + WINDOW_S, cpu_ms
        self._threads = _read_threads(sample) if sample is not None else {}
        self.stalled_ms = 0.0

    def skip(self, seconds: float) -> None:
        """Leave out time in which the job was stopped."""
        self._measured += seconds
        self._due += seconds

    def measure(self, now: float, sample: Sample, cpu_ms: float, *, last: bool = False) -> None:
        """Measure a window that has ended, or for the `last` time, and adapt the weight of the job."""
        window_ms = 1000 * (now - self._measured)
        if (now < self._due and not last) or window_ms <= 0:
            return
        before, self._threads = self._threads, _read_threads(sample)
        spent = {thread: times.since(before.get(thread)) for thread, times in self._threads.items()}
        # The kernel counts ended threads and processes in ticks, and living threads exactly.
        used_ms = max(cpu_ms - self._cpu_ms, sum(times.cpu_ms for times in spent.values()))
        self.stalled_ms += measure_stall([times.wanted_ms for times in spent.values()], used_ms, window_ms)
        self._measured, self._due, self._cpu_ms = now, now + WINDOW_S, cpu_ms
        if self._weighted or last:
            return
        load, sessions = measure_load(sample, spent.values(), window_ms)
        self._load = self._average(self._load, load, now, window_ms)
        self._sessions = self._average(self._sessions, sessions, now, window_ms)
        self._adapt_threads()
        self._adapt_sessions(sample)

    def _average(self, mean: float, value: float, now: float, window_ms: float) -> float:
        """Return the mean of the last second; of the whole job if its priority could not be raised again."""
        past_s = now - self._began
        past_s = min(past_s, _MEMORY_S) if self._restores else past_s
        return mean + (value - mean) * min(1.0, window_ms / 1000 / past_s)

    def _adapt_threads(self) -> None:
        nice = find_nice(self._load)
        if nice == self._nice or (nice < self._nice and not self._restores):
            return
        self._nice = nice
        for thread in self._threads:
            with contextlib.suppress(OSError):  # it has ended, or belongs to another user than this process
                os.setpriority(os.PRIO_PROCESS, thread, nice)

    def _adapt_sessions(self, sample: Sample) -> None:
        """Set the nice value of each session, which new ones do not inherit. Without grouping this changes nothing."""
        nice = find_nice(self._sessions)
        members = {process.session: process.folder for process in sample.processes}
        self._nice_of_sessions = {
            session: value for session, value in self._nice_of_sessions.items() if session in members
        }
        for session, folder in members.items():
            if self._nice_of_sessions.get(session, 0) == nice:
                continue
            with contextlib.suppress(
                OSError
            ):  # it has ended, the kernel does not group, or it is asked too often
                write_file(f"{folder}/autogroup", b"%d" % nice)
                self._nice_of_sessions[session] = nice


def _read_threads(sample: Sample) -> dict[int, ThreadTimes]:
    found: dict[int, ThreadTimes] = {}
    for process in sample.processes:
        folder = "/".join(process.folder.split("/")[:3])
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"{folder}/task"):
                if (times := _read_times(f"{folder}/task/{thread}/schedstat", process.session)) is not None:
                    found[int(thread)] = times
    return found


def _read_times(path: str, session: int) -> ThreadTimes | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        cpu_ns, wait_ns, _ = os.read(file, 128).split()
    except OSError:
        return None
    finally:
        os.close(file)
    return ThreadTimes(int(cpu_ns) / 1e6, int(wait_ns) / 1e6, session)


def take_priority() -> None:
    """Take priority over a flood of processes; only root may."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def leave_priority() -> None:
    """Return to ordinary priority before reaping a program with few processes.

    The program's last thread may still need this process's processor in order to exit. With real-time priority,
    waitpid(2) would spin until the kernel throttles this process, after most of a second (sched(7)).
    """
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@functools.cache
def may_restore() -> bool:
    """Return whether this process may raise a priority that it has lowered (capabilities(7)).

    The kernel asks for CAP_SYS_NICE in the first user namespace, which maps all users to themselves.
    """
    with open("/proc/self/status") as file:
        effective = next((line for line in file if line.startswith("CapEff:")), "CapEff: 0")
    with open("/proc/self/uid_map") as file:
        is_first_namespace = file.read().split() == ["0", "0", "4294967295"]
    return is_first_namespace and bool(int(effective.split()[1], 16) & _NEEDED_CAPABILITY)
