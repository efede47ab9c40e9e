"""The supervisor of one job at a time: starts it, enforces its limits, kills all of its processes, reports its cost.

    parent --job spec--> supervisor --fork--> shim, which becomes the program at once, or waits for it
       |                    |  samples the tree every few milliseconds: deadline, CPU, memory, processes, scratch
       |                    |  until the program ends, a limit is hit, or the parent kills it or disconnects
       |                    |  sweep: kill and reap until no child is left (`process_tree.py`)
       |                    |  restore protected paths
       <-----report---------+  after the parent's release: remove scratch, wait for the next job

The supervisor adopts every orphan of its job, so that no process escapes by a double fork or a new session. It
outlives the fork server that forked it. If the parent (Paddock) dies, the socket is closed, and the supervisor first
kills its job.
The parent may end a turn of a job: every process of it is stopped until the next turn, which has separate limits. It
may also pause a job while a person is asked: then the time limit stands still together with every process.
Times are of CLOCK_MONOTONIC. A report reaches the parent within the wall limit and the time of one sweep.
"""

import contextlib
import errno
import os
import resource
import select
import signal
import socket
import time
from typing import NamedTuple

from paddock.confinement.sandbox.child import (
    freeze,
    hiding,
    overlay,
    partial_grants,
    permissions,
    process_tree,
    protected_paths,
)
from paddock.confinement.sandbox.child.anonymous_memory import StorageMeter
from paddock.confinement.sandbox.child.cgroup import JobCgroup
from paddock.confinement.sandbox.child.messages import (
    EXTRA_THREADS,
    MESSAGE_BYTES,
    OUT_OF_MEMORY,
    JobReport,
    JobSpec,
    StartError,
)
from paddock.confinement.sandbox.child.namespaces import MountRoot, MountRootCache
from paddock.confinement.sandbox.child.post_mortem import find_limit
from paddock.confinement.sandbox.child.protection import ProtectionRules
from paddock.confinement.sandbox.child.shares import Shares, leave_priority, take_priority
from paddock.confinement.sandbox.child.shim import Shim, ruleset_of
from paddock.confinement.sandbox.child.snapshot import TooLargeError
from paddock.confinement.sandbox.child.supervised_calls import CallListener, SocketCalls

_FIRST_POLL_S, _POLL_GROWTH, _MAX_POLL_S = 0.005, 1.5, 0.02
_FAST_GROWTH, _SOON_S = 8, 0.002
"""If one sample finds so many more processes than ever before, the next sample follows soon."""
_MAX_FEW_PROCESSES = 16
"""Up to so many processes, the supervisor needs no priority over them to end them."""
REPORT_WITHIN_S = 0.18
"""Time after the deadline when processes that still live are reported as survivors; killing them continues."""
_STOP_WITHIN_S = 0.25
"""Maximum time until every process of a job has stopped."""
_MAX_CHECK_S = 1.0
"""Maximum time between two checks of a frozen job that may do something, in seconds."""
_FROZEN_CPU_MS = 50
"""Maximum CPU time of a frozen job that may be continued, in milliseconds."""
PATIENCE_S = 30.0
"""Maximum wait for the end of killed processes for which no report waits, in seconds."""
_EXTRA_CPU_MS = 2000
"""CPU time of a job after its turn exceeded the limit, in milliseconds, in which the parent interrupts it."""


class Turn(NamedTuple):
    """One turn of a job: when it began, its own limit, and what the job had used before."""

    started: float = 0.0
    cpu_ms: int = 0
    """0 for the limit of the whole job."""
    is_told: bool = False
    """Whether the parent knows that the limit is exceeded."""
    used_ms: float = 0.0
    user_ms: float = 0.0
    system_ms: float = 0.0


class Supervisor:
    """Starts, watches and ends one job. `server` is the socket to the parent."""

    def __init__(
        self, server: socket.socket, spec: JobSpec, roots: MountRootCache, shim: Shim | None
    ) -> None:
        self._parent = server
        self._given = self._spec = spec
        self._roots = roots
        self._shim = shim
        self._report = JobReport()
        self._failure: OSError | StartError | None = None
        self._statuses: dict[int, int] = {}
        self._pid = 0
        self._tree = freeze.FrozenTree(spec.user, self._record_reaped)
        self._ending: frozenset[int] = frozenset()
        """The first process of a jail that ends by itself."""
        self._calls: CallListener | SocketCalls | None = None
        self._sample: process_tree.Sample | None = None
        self._leaf: JobCgroup | None = None
        self._shares = Shares()
        self._before: list[protected_paths.ProtectedPaths] = []
        self._meter = StorageMeter(spec.scratch, spec.overlays)
        self._deadline = 0.0
        self._look = _FIRST_POLL_S
        self._turn = Turn()
        self.rubbish: list[str] = []
        """Folders that the job left and that are removed after its end."""

    def prepare_job(self, file: int) -> None:
        """Make what depends only on the grants: the jail and its shim. Close `file`, which holds the job spec."""
        try:
            root, self._spec = self._roots.get_root(self._spec), partial_grants.hide_files(self._spec)
            if self._spec.hidden:
                os.close(file)
                file = self._spec.to_file()
            if self._shim is not None and self._shim.root is not root:
                self._shim.end()
                self._shim = None
            self._confine_shim(file, root)
        except (OSError, StartError) as error:
            self._failure = error
            if self._spec.overlays:
                overlay.mark_failure(self._spec.scratch)
        finally:
            os.close(file)

    def renew_job(self) -> None:
        """Confine a prepared job anew if other files are to hide than when it was prepared."""
        try:
            found = partial_grants.hide_files(self._given).hidden
        except (OSError, StartError) as error:
            found, self._failure = self._spec.hidden, error
        if self._failure is None and found != self._spec.hidden:
            assert self._shim is not None
            self._shim.end()
            self._shim, self._spec = None, self._given
            self.prepare_job(self._given.to_file())

    def run_job(self, spec: JobSpec, files: list[int], others: int) -> JobReport:
        """Run the job, kill all of its processes and return the report, which counts the `survivors`.

        `files` are a job spec if it differs from the prepared one, the streams, and the shared file of each guarded
        folder (`protected_paths.ProtectedPaths`). `others` is the number of other threads of the job's user.
        """
        self._spec = spec = spec._replace(
            **{name: getattr(self._spec, name) for name in partial_grants.NARROWED}
        )
        started = time.monotonic()
        report = self._report
        report.hidden = hiding.spell_names(spec.hidden)
        try:
            if self._failure is not None:
                raise self._failure
            for folder in reversed(spec.guarded):
                rules = ProtectionRules._make(folder.rules)
                self._before.append(
                    protected_paths.ProtectedPaths(folder.path, files[-1], rules, folder.shown)
                )
                files.pop()
            if self._leaf is not None:
                self._leaf.limit(memory_bytes=spec.ceilings.memory_bytes, processes=spec.ceilings.processes)
                self._shares = Shares(weighted=self._leaf.is_weighted)
            # Read before the start: on a busy machine the first sample is late, and the job already uses memory.
            self._meter.begin()
            started = time.monotonic()
            handle = self._start_program(files, others)
            report.ended_by = self._watch_program(handle, started)
            if report.ended_by == "wall":
                self._measure_stall()
            os.close(handle)
        except (protected_paths.RecordError, TooLargeError) as error:
            report.ended_by, report.why = "protected", str(error)
        except OSError as error:
            report.ended_by, report.why = "start", str(error)
        except StartError as error:
            report.ended_by, report.why, report.missing = error.ended_by, str(error), error.missing
        _close(files)
        report.stalled_ms = self._shares.stalled_ms
        report.wall_ms = (time.monotonic() - (self._turn.started or started)) * 1000
        self._tree.thaw(stopped=True)
        if self._calls is not None:
            self._calls.close()
            # No call may change a protected path after its restoration.
            process_tree.wait_for_end(self._calls.broker)
        self._end_job()
        return report

    def end_survivors(self) -> bool:
        """Kill the survivors, for which the report did not wait. Return whether all processes have ended."""
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        for first in self._ending:
            process_tree.wait_for_end(first)
        _, left = process_tree.kill_descendants(
            seconds=PATIENCE_S, reaped=self._record_reaped, spare=self._roots.keepers
        )
        if self._shim is not None:
            self._shim.close()
        if self._leaf is not None:
            self._leaf.remove()
        for before in self._before:
            if self._report.survivors:  # they may have changed files after the first restoration
                before.restore()
            self.rubbish += before.close()
        return left == 0

    def _confine_shim(self, file: int, root: MountRoot | None) -> None:
        try:
            ruleset = ruleset_of(self._spec)
        except OSError as error:
            raise StartError(f"Landlock rules: {error}") from error
        if self._spec.group and self._leaf is None:
            self._leaf = JobCgroup(self._spec.group, os.urandom(8).hex())
        handles = {"ruleset": ruleset} if ruleset >= 0 else {}
        if self._leaf is not None:
            handles["cgroup"] = self._leaf.procs_file
        waits = self._shim is not None or root is not None
        if self._shim is None:  # as late as possible: memory written after a fork is copied
            self._shim = Shim(self._spec, root, None if waits else handles)
        if waits:
            self._shim.confine(file, handles)
        self._pid = self._shim.pid
        if ruleset >= 0:
            os.close(ruleset)

    def _start_program(self, files: list[int], others: int) -> int:
        """Send the program to the shim; return a descriptor that becomes readable at its end. Raises StartError."""
        assert self._shim is not None
        spec = self._spec
        self._shim.start(others, tuple(files))
        _close(files)
        is_answered = not spec.supervised
        while word := self._shim.read_message():
            if "calls" in word:
                is_answered = True
                if word["calls"]:
                    listener, root = self._shim.take_handle(), self._shim.root
                    self._calls = (
                        CallListener(listener, spec)
                        if root is None
                        else SocketCalls(listener, spec, self._shim.mounts, root.fork_broker)
                    )
            if "step" not in word:
                if proxy := self._shim.take_proxy_socket():
                    with proxy, contextlib.suppress(OSError):  # the parent may have died
                        message = JobReport(event="listening").to_bytes()
                        socket.send_fds(self._parent, [message], [proxy.fileno()])
                continue
            if word["step"] != "exec":
                raise StartError(f"{word['step']}: {word['why']}")
            if word.get("errno") == errno.ENOMEM:
                raise StartError("the program itself does not fit in its memory", ended_by="memory")
            reach = permissions.why_forbidden(spec.argv[0])
            if not reach and spec.user is not None:
                reach = permissions.why_missing(spec.argv[0], spec.environment, spec.user)
            raise StartError(f"{spec.argv[0]}: {word['why']}{reach}", missing=True)
        if not is_answered:  # its calls would wait for ever
            raise StartError("supervised calls: the program ended before it started")
        return os.dup(self._shim.fileno()) if spec.jail else os.pidfd_open(self._pid)

    def _watch_program(self, handle: int, started: float) -> str:
        """Wait until the program ends or must be ended; return the reason."""
        take_priority()
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.register(self._parent, select.POLLIN)
        if self._calls is not None:
            poll.register(self._calls, select.POLLIN)
        self._deadline = started + self._spec.ceilings.timeout_ms / 1000
        self._turn = Turn(started)
        self._shares.begin(started, None, 0.0)
        sample_due = time.monotonic() + self._look
        while True:
            now = time.monotonic()
            if now >= self._deadline:
                return "wall"
            ready = dict(poll.poll(1000 * max(0.0, min(sample_due, self._deadline) - now)))
            if handle in ready:
                leave_priority()
                return "exit"
            if self._parent.fileno() in ready and (reason := self._obey_parent(handle)):
                return reason
            event = ready.get(self._calls.fileno(), 0) if self._calls is not None else 0
            # At another event no process is left that could make a call.
            if self._calls is not None and event and not (event & select.POLLIN and self._calls.on_call()):
                poll.unregister(self._calls)
            if time.monotonic() >= sample_due:  # calls without end do not keep it from looking
                self._tree.thaw()
                if hit := self._ceiling_hit():
                    return hit
                sample_due = time.monotonic() + self._look

    def _obey_parent(self, handle: int) -> str:
        """Read a message of the parent and do what it says; return why the job ends, or ""."""
        word, argument = self._read_message()
        match word:
            case "interrupt":
                process_tree.interrupt_group(self._pid, in_jail=bool(self._spec.jail))
                return ""
            case "resume":  # the job could not be frozen
                return ""
            case "measure":
                self._report_use()
                return ""
            case "pause":
                return self._pause(handle)
            case "end_turn":
                return self._end_turn(handle)
            case _:
                return argument if word == "kill" else "cancelled"

    def _pause(self, handle: int) -> str:
        """Stop the job and its time limit until the parent resumes it; return why the job ends, or "".

        If not every process can be stopped, the job goes on, and so does its time.
        """
        began = time.monotonic()
        if self._freeze():
            self._sample = self._measure_usage()
            ended_by, _ = self._wait_while_frozen(handle, "resume")
            paused_s = time.monotonic() - began
            self._deadline += paused_s
            self._shares.skip(paused_s)
            self._turn = self._turn._replace(started=self._turn.started + paused_s)
            if ended_by:
                return ended_by
        self._tree.thaw()
        return ""

    def _end_turn(self, handle: int) -> str:
        """Stop the job until the parent begins another turn; return why the job ends, or ""."""
        if not self._freeze():
            self._report.why = "its processes could not be frozen"
            return "unfrozen"
        if hit := self._ceiling_hit():
            return hit
        self._measure_stall()
        self._report_turn()
        ended_by, argument = self._wait_while_frozen(handle, "begin_turn")
        if ended_by:
            return ended_by
        timeout_ms, cpu_ms = map(int, argument.split(","))
        now = time.monotonic()
        self._turn = self._turn._replace(started=now, cpu_ms=cpu_ms)
        self._deadline, self._look = now + timeout_ms / 1000, _FIRST_POLL_S
        self._shares.begin(now, self._sample, self._used_ms)
        self._report.peak_bytes = self._report.processes_peak = 0
        self._tree.thaw()
        return ""

    def _freeze(self) -> bool:
        # The broker stops, too: a call that waits for it is neither done nor answered before the job continues.
        return self._tree.freeze(seconds=_STOP_WITHIN_S, spare=self._roots.keepers, first=self._jails_first)

    @property
    def _jails_first(self) -> int:
        """The first process of a jail; 0 without a jail."""
        return self._pid if self._spec.jail else 0

    def _wait_while_frozen(self, handle: int, expected: str) -> tuple[str, str]:
        """Wait for the `expected` message of the parent. Return why the job ends instead, or "", and the argument."""
        leave_priority()
        assert self._sample is not None
        freeze.release_locks([process.folder for process in self._sample.processes], self._spec)
        frozen = select.poll()  # a stopped process makes no supervised call
        frozen.register(handle, select.POLLIN)
        frozen.register(self._parent, select.POLLIN)
        used_ms, check_s = self._used_ms, _FIRST_POLL_S
        word, argument = "interrupt", ""
        with freeze.notice_of_ends() as ends:
            frozen.register(ends, select.POLLIN)
            self._tree.note_ends()
            while word in {"interrupt", "measure"}:  # an interruption came too late
                ready = dict(frozen.poll(None if self._tree.is_settled else 1000 * check_s))
                if handle in ready:
                    return "exit", ""
                if self._parent.fileno() in ready:
                    word, argument = self._read_message()
                    if word == "measure":
                        self._report_use()
                elif ready:
                    os.read(ends, freeze.NOTICE_BYTES)
                    self._tree.note_ends()
                else:
                    check_s = min(check_s * _POLL_GROWTH, _MAX_CHECK_S)
                    if hit := self._check_frozen(used_ms):
                        return hit, ""
        if word != expected:
            return (argument if word == "kill" else "cancelled"), ""
        take_priority()
        return "", argument

    def _check_frozen(self, used_ms: float) -> str:
        """Look at a job that may do something while it is frozen; return why it ends, or ""."""
        hit = self._ceiling_hit()
        if self._tree.is_traced or hit:
            return hit
        runs = self._tree.is_running(spare=self._roots.keepers, first=self._jails_first)
        if not runs and self._used_ms <= used_ms + _FROZEN_CPU_MS:
            return ""
        self._report.why = "its processes continued while they were frozen"
        return "unfrozen"

    def _read_message(self) -> tuple[str, str]:
        """Return the word and the argument of the parent's next message; both are empty at its end."""
        with contextlib.suppress(OSError):
            word, _, argument = self._parent.recv(MESSAGE_BYTES).decode("ascii", "replace").partition(":")
            return word, argument
        return "", ""

    def _report_turn(self) -> None:
        """Report what the job has used in this turn. Its final report does not count this again."""
        report, sample = self._report, self._sample
        assert sample is not None
        user, system = sample.user_ms + report.cpu_user_ms, sample.system_ms + report.cpu_system_ms
        turn = JobReport(
            event="turn_ended",
            wall_ms=(time.monotonic() - self._turn.started) * 1000,
            cpu_user_ms=max(0.0, user - self._turn.user_ms),
            cpu_system_ms=max(0.0, system - self._turn.system_ms),
            stalled_ms=self._shares.stalled_ms,
            peak_bytes=report.peak_bytes,
            resident_bytes=sum(process.resident_bytes for process in sample.processes),
            processes_peak=report.processes_peak,
            hidden=report.hidden,
        )
        self._turn = Turn(used_ms=self._used_ms, user_ms=user, system_ms=system)
        with contextlib.suppress(OSError):  # the parent may have died
            self._parent.send(turn.to_bytes())

    def _report_use(self) -> None:
        """Report what the job uses now, for a person who looks at it."""
        self._sample = self._measure_usage()
        resident = process_tree.resident_bytes(self._sample.processes, self._spec.ceilings.memory_bytes)
        use = JobReport(event="measured", resident_bytes=resident, cpu_user_ms=self._used_ms)
        with contextlib.suppress(OSError):  # the parent may have died
            self._parent.send(use.to_bytes())

    def _ceiling_hit(self) -> str:
        ceilings = self._spec.ceilings
        sample = self._sample = self._measure_usage()
        processes = len(sample.processes)
        report = self._report
        grown = processes > report.processes_peak + _FAST_GROWTH
        report.processes_peak = max(report.processes_peak, processes)
        if processes > ceilings.processes or sample.threads > ceilings.processes + EXTRA_THREADS:
            return "processes"
        if self._leaf is None:
            resident = process_tree.resident_bytes(sample.processes, ceilings.memory_bytes)
            report.peak_bytes = max(report.peak_bytes, resident)
            if resident > ceilings.memory_bytes:
                return "memory"
        process_tree.reap_orphans(self._pid, self._record_reaped)
        if (
            self._used_ms - self._turn.used_ms > (self._turn.cpu_ms or ceilings.cpu_ms)
            and self._must_end_now()
        ):
            return "cpu"
        self._shares.measure(time.monotonic(), sample, self._used_ms)
        looks_on = self._meter.sample_memory(sample.processes, ceilings)
        self._look = _SOON_S if grown or looks_on else min(self._look * _POLL_GROWTH, _MAX_POLL_S)
        found = self._meter.anonymous
        report.peak_bytes = max(report.peak_bytes, found.memory)
        taken = found.memory + found.page_tables
        if self._leaf is None and taken > ceilings.memory_bytes:
            report.peak_bytes = max(report.peak_bytes, taken)
            return "memory"
        return "scratch" if self._meter.measure_disk() > ceilings.scratch_bytes else ""

    @property
    def _used_ms(self) -> float:
        """CPU time of the job at the last sample, in milliseconds."""
        living_ms = self._sample.cpu_ms if self._sample is not None else 0.0
        return living_ms + self._report.cpu_user_ms + self._report.cpu_system_ms

    def _measure_stall(self) -> None:
        """Measure the last time of this turn in which the job wanted a processor and had none."""
        sample = self._sample = self._measure_usage()
        self._shares.measure(time.monotonic(), sample, self._used_ms, last=True)

    def _must_end_now(self) -> bool:
        """Return whether a job that exceeds its limit of CPU time must end now.

        The first time in a turn, this reports the limit to the parent instead, which may interrupt the job.
        """
        turn = self._turn
        if not turn.cpu_ms or turn.is_told:
            return True
        self._turn = turn._replace(is_told=True, cpu_ms=turn.cpu_ms + _EXTRA_CPU_MS)
        with contextlib.suppress(OSError):  # the parent may have died
            self._parent.send(JobReport(event="limit_exceeded", why="cpu").to_bytes())
        return False

    @property
    def _spare(self) -> frozenset[int]:
        """Children that do not belong to the job. The pid of one that was reaped may be that of a job's process."""
        broker = self._calls.broker if self._calls is not None else 0
        return self._roots.keepers | {broker} if broker else self._roots.keepers

    def _measure_usage(self) -> process_tree.Sample:
        return process_tree.measure_tree(spare=self._spare, first=self._jails_first)

    def _end_job(self) -> None:
        """Kill and reap all processes within the time of the report, then complete the report."""
        report = self._report
        jail = self._shim.read_jail_report() if self._spec.jail and self._shim is not None else None
        alive = jail is None and bool(self._pid) and self._pid not in self._statuses
        if alive:
            self._kill()
        if self._leaf is not None:
            self._leaf.kill()
        if alive and self._spec.jail:
            process_tree.wait_for_end(self._pid)
        if report.processes_peak <= _MAX_FEW_PROCESSES:
            leave_priority()
        if jail is not None:  # only its first process is left, which ends by itself
            self._ending = frozenset({self._pid})
            report.cpu_user_ms += jail.user_ms
            report.cpu_system_ms += jail.system_ms
            report.peak_bytes = max(report.peak_bytes, jail.peak_bytes)
        killed, report.survivors = process_tree.kill_descendants(
            seconds=max(0.0, self._deadline - time.monotonic()) + REPORT_WITHIN_S,
            reaped=self._record_reaped,
            spare=self._spare | self._ending,
        )
        status, left = (jail.status, jail.left) if jail is not None else (self._statuses.get(self._pid), 0)
        # The group kill may leave nothing for the sweep to count. A program that exited was not killed.
        report.killed = killed or left or int(alive and report.ended_by != "exit")
        if self._deadline and status is not None:  # it has started
            code = os.waitstatus_to_exitcode(status)
            report.code, report.signal = (code, None) if code >= 0 else (None, -code)
        report.processes_peak = max(report.processes_peak, 1)
        if self._leaf is not None:
            report.peak_bytes = max(report.peak_bytes, self._leaf.peak_bytes)
            if report.ended_by == "exit" and self._leaf.ended_by_memory:
                report.ended_by, report.why = "memory", OUT_OF_MEMORY
        is_file_full = jail is not None and bool(jail.full_files)
        report.ended_by = find_limit(self._spec, report, is_file_full=is_file_full) or report.ended_by
        changed: list[str] = []
        lost: dict[str, str] = {}
        for before in reversed(self._before):
            violations, left = before.restore()
            changed += violations
            lost |= left
        if changed:
            report.violations = changed[: protected_paths.MAX_REPORTED]
        if lost:
            paths = ", ".join(f"{path} ({why})" for path, why in lost.items())
            report.ended_by = "unrestored"
            report.why = f"paths of the workspace could not be restored: {paths}"

    def _kill(self) -> None:
        """Kill the job's first process and its group; in a jail this ends all processes."""
        if self._spec.jail:
            # The kernel then ends the others, and they are never reaped: sample their time now (pid_namespaces(7)).
            sample = self._sample
            if sample is None or len(sample.processes) <= _MAX_FEW_PROCESSES:
                sample = self._measure_usage()
            self._report.cpu_user_ms += sample.user_ms
            self._report.cpu_system_ms += sample.system_ms
        with contextlib.suppress(OSError):  # it has not been reaped, so that pid and group are still its own
            os.killpg(self._pid, signal.SIGKILL)

    def _record_reaped(self, pid: int, status: int, cost: resource.struct_rusage) -> None:
        self._statuses[pid] = status
        if pid in self._ending:  # its report has the cost
            return
        if self._calls is not None and pid == self._calls.broker:  # it is not part of the job
            self._calls.forget_broker()
            return
        report = self._report
        report.cpu_user_ms += cost.ru_utime * 1000
        report.cpu_system_ms += cost.ru_stime * 1000
        report.peak_bytes = max(report.peak_bytes, cost.ru_maxrss * 1024)


def _close(files: list[int]) -> None:
    while files:
        os.close(files.pop())
