"""The warden of one job: starts it, watches it, ends it to the last process, and reports what it cost.

    server --order--> warden --fork--> shim, which becomes the program
       |                 |  looks at the tree every few milliseconds: deadline, CPU, memory, processes, scratch
       |                 |  the program ends, or a ceiling is hit, or the server says stop or is gone
       |                 |  sweep: kill and reap until there is no child left (`paddock.confine.tree`)
       |                 |  put protected paths back
       <----report-------+  the server lets go: remove scratch, end

The warden adopts every orphan of its job, so nothing escapes by double forks or sessions of its own. It does not die
with its parent: the end of the server shows as the end of the socket, and then there is a job to be killed first.
Time goes by CLOCK_MONOTONIC; a result reaches the server within the wall limit and the time of one sweep.

Only the standard library may be imported here: the module runs as a fork of the zygote.
"""

import contextlib
import json
import os
import resource
import select
import signal
import socket
import time

from paddock.confine import lockdown, protected, scratch, seccomp, shim, tree
from paddock.confine.order import Order, Report

FILTERS = ("job", "job-network")
"""The system call filters that orders may name."""

_MESSAGE_BYTES = 256
_FIRST_LOOK_S, _LOOK_GROWTH, _LONGEST_LOOK_S = 0.002, 1.5, 0.02
_FAST_GROWTH = 8
"""So many more processes at one look than ever before, and the next look comes soon."""
_REPORT_WITHIN_S = 0.18
"""Processes that the kernel has not let die so long after the deadline are reported as survivors, and killed on."""
_PATIENCE_S = 30.0
_SCRATCH_EVERY_S = 0.1
_JAIL_START_S = 10.0
_STREAMS = 3


class StartError(Exception):
    """The program never ran. `missing`: it is not there, as opposed to a step of the confinement that failed."""

    def __init__(self, why: str, *, missing: bool = False) -> None:
        super().__init__(why)
        self.missing = missing


class Warden:
    """The life of one job."""

    def __init__(self, server: socket.socket, order: Order, threads: dict[int, int]) -> None:
        self._threads = threads
        self._server = server
        self._order = order
        self._report = Report()
        self._statuses: dict[int, int] = {}
        self._pid = 0
        self._jail: Jail | None = None
        self._before: protected.Record | None = None
        self._scratch_walk = scratch.usage(order.scratch)
        self._scratch_due = 0.0
        self._deadline = 0.0
        self._look = _FIRST_LOOK_S

    def prepare(self) -> None:
        """Do what can be done before the streams are known: build the jail."""
        if self._order.jail:
            self._jail = Jail(self._order)

    def take(self, order: Order) -> None:
        """Learn what to run in the jail that was prepared."""
        self._order = order

    def run(self, streams: tuple[int, int, int]) -> Report:
        """Run the job to its end and return the report; no process of it is left, or `survivors` says so."""
        started = time.monotonic()
        report = self._report
        try:
            if self._order.workspace:
                self._before = protected.record(self._order.workspace)
            if self._jail is not None:
                self._jail.wait()
            started = time.monotonic()
            handle = self._start(streams)
            for stream in streams:
                os.close(stream)
            report.ended_by = self._watch(handle, started)
            os.close(handle)
        except (OSError, StartError) as error:
            report.ended_by, report.why = "start", str(error)
            report.missing = isinstance(error, StartError) and error.missing
        report.wall_ms = (time.monotonic() - started) * 1000
        self._end()
        return report

    def bury(self) -> None:
        """End the last processes, for which the report did not wait."""
        tree.sweep(seconds=_PATIENCE_S, reaped=self._reaped)

    def clean_up(self) -> None:
        """Remove scratch, after the last process."""
        self.bury()
        with contextlib.suppress(OSError):
            scratch.remove(self._order.scratch)

    def _start(self, streams: tuple[int, int, int]) -> int:
        """Fork the shim; return a pidfd of the program once it runs. Raises StartError."""
        program = seccomp.read_filter(self._order.filter) if self._order.filter else b""
        listen, report = os.pipe2(os.O_CLOEXEC)
        jail = self._jail.handle() if self._jail is not None else -1
        self._pid = os.fork()
        if self._pid == 0:
            os.close(listen)
            shim.become_program(
                self._order, streams, report=report, jail=jail, program=program, threads=self._threads
            )
        os.close(report)
        if jail >= 0:
            os.close(jail)
        with open(listen, "rb") as stream:  # noqa: PTH123 - a descriptor; its end is the exec
            for line in stream:
                word = json.loads(line)
                if "pid" in word:
                    self._pid = word["pid"]
                elif word["step"] == "exec":
                    raise StartError(f"{self._order.argv[0]}: {word['why']}", missing=True)
                else:
                    raise StartError(f"{word['step']}: {word['why']}")
        return os.pidfd_open(self._pid)

    def _watch(self, handle: int, started: float) -> str:
        """Wait until the program ends or has to end; return why."""
        with contextlib.suppress(
            OSError
        ):  # root can see to it that no flood of processes keeps the warden waiting
            os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.register(self._server, select.POLLIN)
        self._deadline = deadline = started + self._order.ceilings.wall_ms / 1000
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return "wall"
            ready = dict(poll.poll(1000 * min(self._look, left)))
            if handle in ready:
                return "exit"
            if ready:
                return self._stop_reason()
            if hit := self._ceiling_hit():
                return hit

    def _stop_reason(self) -> str:
        with contextlib.suppress(OSError):
            word, _, reason = self._server.recv(_MESSAGE_BYTES).decode("ascii", "replace").partition(":")
            if word == "stop":
                return reason
        return "cancelled"

    def _ceiling_hit(self) -> str:
        ceilings = self._order.ceilings
        sample = tree.measure(os.getpid())
        processes = len(sample.processes) - (self._jail.processes if self._jail is not None else 0)
        report = self._report
        grown = processes > report.processes_peak + _FAST_GROWTH
        report.processes_peak = max(report.processes_peak, processes)
        if processes > ceilings.processes:
            return "processes"
        resident = sample.resident_bytes
        if resident > ceilings.memory_bytes and len(sample.processes) > 1:
            resident = tree.proportional_bytes(sample.processes) or resident
        report.peak_bytes = max(report.peak_bytes, resident)
        if resident > ceilings.memory_bytes:
            return "memory"
        tree.reap_orphans(self._pid, self._reaped)
        gone = resource.getrusage(resource.RUSAGE_CHILDREN)
        if sample.cpu_ms + (gone.ru_utime + gone.ru_stime) * 1000 > ceilings.cpu_ms:
            return "cpu"
        self._look = _FIRST_LOOK_S if grown else min(self._look * _LOOK_GROWTH, _LONGEST_LOOK_S)
        return "scratch" if self._scratch_full() else ""

    def _scratch_full(self) -> bool:
        """Go on with measuring scratch by one step, so that a huge tree never delays the deadline."""
        now = time.monotonic()
        if now < self._scratch_due:
            return False
        try:
            total = next(self._scratch_walk)
        except StopIteration:
            self._scratch_walk = scratch.usage(self._order.scratch)
            return False
        if total is None:
            return False
        self._scratch_due = now + _SCRATCH_EVERY_S
        return total > self._order.ceilings.scratch_bytes

    def _end(self) -> None:
        """Kill and reap all, then account for all."""
        report = self._report
        alive = bool(self._pid) and self._pid not in self._statuses
        if alive:  # its number is its own, so its group is too
            with contextlib.suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)
        if self._jail is not None:
            self._jail.kill()
        killed, report.survivors = tree.sweep(
            seconds=max(0.0, self._deadline - time.monotonic()) + _REPORT_WITHIN_S, reaped=self._reaped
        )
        # The sweep may find nothing left of what the group kill hit; who ended by himself was not killed.
        report.killed = killed or int(alive and report.ended_by != "exit")
        status = self._statuses.get(self._pid)
        if report.ended_by != "start" and status is not None:
            code = os.waitstatus_to_exitcode(status)
            report.code, report.signal = (code, None) if code >= 0 else (None, -code)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        report.cpu_user_ms, report.cpu_system_ms = used.ru_utime * 1000, used.ru_stime * 1000
        report.peak_bytes = max(report.peak_bytes, used.ru_maxrss * 1024)
        report.processes_peak = max(report.processes_peak, 1)
        if self._before is not None:
            report.violations = protected.restore(self._order.workspace, self._before)

    def _reaped(self, pid: int, status: int) -> None:
        self._statuses[pid] = status


class Jail:
    """Namespaces that wait for their one job: bubblewrap, and in it a `cat` that shows when they are ready."""

    processes = 3
    """bubblewrap's monitor, its first process inside, and `cat`."""

    def __init__(self, order: Order) -> None:
        theirs_in, self._wake = os.pipe2(os.O_CLOEXEC)
        self._ready, theirs_out = os.pipe2(os.O_CLOEXEC)
        self._info, theirs_info = os.pipe2(os.O_CLOEXEC)
        self._errors, theirs_errors = os.pipe2(os.O_CLOEXEC)
        self._inside = 0
        os.write(self._wake, b"\n")
        command = [part.replace("{info}", str(theirs_info)) for part in order.jail]
        if os.fork() == 0:
            try:
                os.dup2(theirs_in, 0)
                os.dup2(theirs_out, 1)
                os.dup2(theirs_errors, 2)
                lockdown.close_all_but(theirs_info)
                os.set_inheritable(theirs_info, True)  # noqa: FBT003
                lockdown.die_with_parent()
                if order.user is not None:
                    lockdown.become(order.user)
                    lockdown.die_with_parent()
                os.execve(command[0], command, {})  # noqa: S606 - no shell is the point
            finally:
                os._exit(127)
        for file in (theirs_in, theirs_out, theirs_info, theirs_errors):
            os.close(file)

    def wait(self) -> None:
        """Return when the namespaces stand. Raises StartError when they do not."""
        if self._inside:
            return
        if not select.select([self._ready], [], [], _JAIL_START_S)[0] or not os.read(self._ready, 1):
            os.set_blocking(self._errors, False)
            with contextlib.suppress(BlockingIOError):
                raise StartError(
                    f"namespaces: {os.read(self._errors, 4096).decode(errors='replace').strip()}"
                )
            raise StartError("namespaces: bubblewrap did not finish the jail")
        text = os.read(self._info, 4096)
        self._inside = int(json.loads(text)["child-pid"])

    def handle(self) -> int:
        """Return a pidfd of the first process inside."""
        return os.pidfd_open(self._inside)

    def kill(self) -> None:
        """Kill the first process inside, and with it, by the kernel, everything in the pid namespace."""
        if self._inside:
            with contextlib.suppress(OSError):
                os.kill(self._inside, signal.SIGKILL)


def serve(server: socket.socket, threads: dict[int, int]) -> None:
    """Be the warden of the job that comes over `server`: an order and three streams, or an order and later both.

    `threads` says how many threads each user has without the job.
    """
    lockdown.adopt_orphans()
    message, descriptors, _, _ = socket.recv_fds(server, _MESSAGE_BYTES, 1 + _STREAMS)
    if not message:
        return
    order = Order.from_file(descriptors[0])
    warden = Warden(server, order, threads)
    try:
        warden.prepare()
        streams = descriptors[1:]
        if not streams:
            message, streams, _, _ = socket.recv_fds(server, _MESSAGE_BYTES, 1 + _STREAMS)
            if message:
                warden.take(Order.from_file(streams[0]))
                streams = streams[1:]
        if streams:
            report = warden.run((streams[0], streams[1], streams[2]))
            with contextlib.suppress(OSError):  # the server may be gone
                server.send(report.to_bytes())
                warden.bury()
                while server.recv(_MESSAGE_BYTES):  # its end says that scratch is no longer needed
                    pass
    finally:
        server.close()
        warden.clean_up()
