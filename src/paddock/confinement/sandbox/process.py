"""The parent's side of one running program: its three pipes, the connection to its supervisor, and its result."""

import asyncio
import contextlib
import itertools
import os
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from paddock.confinement.sandbox.child.messages import STREAM_COUNT, JobReport, JobSpec
from paddock.confinement.sandbox.fork_server import Jail
from paddock.confinement.sandbox.io import InputWriter, OutputReader
from paddock.confinement.sandbox.protocol import ByteSink, Streams
from paddock.model.errors import explain_start_failure
from paddock.model.outcome import SandboxFacts, Status
from paddock.model.process import Ceiling, ProcessLimits, ProcessResult, ProcessUsage
from paddock.model.process_use import ProcessUse
from paddock.model.program import CapturedStream

_MESSAGE_BYTES = 64 * 1024
_START_S = 20.0
"""Maximum time until a job has started on a busy machine, in seconds. Its first turn may take so much longer."""
_MEASURED_S = 0.5
"""Maximum wait for the answer of a supervisor that measures its job, in seconds."""
_TURN_ENDS_WITHIN_S = 20.0
"""Maximum time until a turn has ended on a busy machine before the supervisor counts as lost, in seconds."""
GRACE_S = 1.0
"""Maximum delay of a supervisor's report after the wall limit before the supervisor counts as lost, in seconds.

In the first turn of a job, `_START_S` is added.
"""

_BY_CEILING: dict[str, tuple[Status, Ceiling]] = {
    "wall": (Status.TIMEOUT, "wall"),
    "cpu": (Status.TIMEOUT, "cpu"),
    "memory": (Status.MEMORY_LIMIT, "memory"),
    "processes": (Status.PROCESS_LIMIT, "processes"),
    "file_size": (Status.OUTPUT_LIMIT, "file_size"),
    "scratch": (Status.OUTPUT_LIMIT, "scratch"),
    "stdout": (Status.OUTPUT_LIMIT, "stdout"),
    "stderr": (Status.OUTPUT_LIMIT, "stderr"),
    "protected": (Status.DENIED, "protected"),
    "unrestored": (Status.ERROR, "protected"),
}
_SIGXFSZ, _SIGXCPU = 25, 24
_BAD_MESSAGE = "sent a malformed report"


class _Timer:
    """Calls a function after some time, which stands still while the timer is stopped."""

    def __init__(self, seconds: float, call: Callable[[], None]) -> None:
        self._left_s = seconds
        self._call = call
        self._handle: asyncio.TimerHandle | None = None
        self.start()

    def start(self) -> None:
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(self._left_s, self._call)

    def stop(self) -> None:
        if self._handle is not None:
            self._left_s = self._handle.when() - asyncio.get_running_loop().time()
            self._handle.cancel()
            self._handle = None


class RunningProcess:
    """One running program. `result` is done when the supervisor has reported; `survivors` are still being killed."""

    def __init__(
        self,
        jail: Jail,
        limits: ProcessLimits,
        streams: Streams,
        facts: SandboxFacts,
        *,
        in_namespaces: bool,
        kept: bool,
    ) -> None:
        """Run in a jail, which is released at the end unless it is `kept`."""
        self._loop = asyncio.get_running_loop()
        self.result: asyncio.Future[ProcessResult] = self._loop.create_future()
        self._jail = jail
        self._supervisor = jail.supervisor.socket
        self._watched = False
        self._limits = limits
        self._streams = streams
        self._facts = facts
        self._in_namespaces = in_namespaces
        self._kept = kept
        self._late: _Timer | None = None
        self._turn_limit: _Timer | None = None
        self._pipes: tuple[InputWriter, OutputReader, OutputReader] | None = None
        self._exceeded: Callable[[str], None] | None = None
        self._turn_usage: asyncio.Future[ProcessUsage] | None = None
        self._use: asyncio.Future[ProcessUse] | None = None
        self._state: Literal["running", "paused", "between turns"] = "running"
        self.resident_bytes = 0
        """Memory of the job at the end of its last turn."""
        self.hidden: tuple[str, ...] = ()
        """Names of files that are hidden from it, known from the end of its first turn on."""
        self.withheld = ""
        """Why it may not use the git repository of its workspace, or not write to it."""

    def start(self, spec: JobSpec, *shared: int) -> None:
        """Send the job spec, the ends of the pipes and the `shared` files to the supervisor, and listen to it.

        Raises OSError if that fails; then nothing has started.
        """
        limits, streams = self._limits, self._streams
        self._watched = bool(spec.guarded)
        (stdin, our_stdin), (our_stdout, stdout), (our_stderr, stderr) = _pipes(shared)
        if streams.channel is not None:
            os.dup2(streams.channel.fileno(), stdin, inheritable=False)
        if streams.output is not None:
            os.dup2(streams.output.fileno(), stdout, inheritable=False)
        if streams.combined:
            os.dup2(stdout, stderr, inheritable=False)  # closes the pipe of standard error for writing
        try:
            self._jail.run(spec, stdin, stdout, stderr, *shared)
        except OSError:
            for file in (our_stdin, our_stdout, our_stderr):
                os.close(file)
            raise
        # After sending, so that the job starts at the same time; early output waits in the pipe.
        self._pipes = (
            InputWriter(our_stdin, streams.stdin),
            self._reader(our_stdout, "stdout", limits.stdout_bytes, streams.stdout),
            self._reader(our_stderr, "stderr", limits.stderr_bytes, streams.stderr),
        )
        self._loop.add_reader(self._supervisor.fileno(), self._on_message)
        self._expect_message(limits.timeout_ms / 1000 + _START_S)

    def _expect_message(self, seconds: float) -> None:
        if self._late is not None:
            self._late.stop()
        self._late = _Timer(
            seconds + GRACE_S, lambda: self._finish(self._make_lost_report("did not report in time"))
        )

    @property
    def scratch(self) -> Path:
        """Its directory."""
        return self._jail.scratch

    async def end_turn(self) -> ProcessUsage | None:
        """Stop every process of the job until `begin_turn`, and return what it has used in this turn.

        Returns None if the job has ended instead; `result` says how.
        """
        if self.result.done():
            return None
        self.resume()
        self._state = "between turns"
        self._turn_usage = self._loop.create_future()
        self._tell("end_turn")
        self._expect_message(_TURN_ENDS_WITHIN_S)
        await asyncio.wait({self._turn_usage, self.result}, return_when=asyncio.FIRST_COMPLETED)
        return self._turn_usage.result() if self._turn_usage.done() else None

    def begin_turn(self, timeout_ms: int, cpu_ms: int) -> None:
        """Continue the job for a turn with these limits; it ends at the first one that it exceeds."""
        self._state = "running"
        self._expect_message(timeout_ms / 1000)
        self._tell(f"begin_turn:{timeout_ms},{cpu_ms}")

    async def measure(self) -> ProcessUse | None:
        """Return what the processes of the job use now; None after its end, or if the supervisor does not answer."""
        if self.result.done():
            return None
        if self._use is None or self._use.done():
            self._use = self._loop.create_future()
            self._tell("measure")
        await asyncio.wait({self._use, self.result}, timeout=_MEASURED_S, return_when=asyncio.FIRST_COMPLETED)
        return self._use.result() if self._use.done() else None

    def interrupt(self) -> None:
        """Send SIGINT to the program and the processes of its group, as a terminal does at Ctrl-C."""
        self.resume()
        self._tell("interrupt")

    def pause(self) -> None:
        """Stop every process of the job and its time limits until `resume`. Does nothing between turns."""
        if self._state == "running" and not self.result.done():
            self._state = "paused"
            self._tell("pause")
            for timer in self._list_timers():
                timer.stop()

    async def ready(self) -> None:
        """Return at once: a paused job keeps its place among those that run."""

    def resume(self) -> None:
        """Continue after `pause`. Does nothing otherwise."""
        if self._state == "paused":
            self._state = "running"
            self._tell("resume")
            for timer in self._list_timers():
                timer.start()

    def _list_timers(self) -> list[_Timer]:
        return [timer for timer in (self._late, self._turn_limit) if timer is not None]

    def begin_output(
        self, sink: ByteSink | None, exceeded: Callable[[str], None], timeout_ms: int | None = None
    ) -> None:
        """Pass standard output from now on to `sink`; call `exceeded` with the name of a limit that may interrupt.

        That is also called with `wall` after `timeout_ms` milliseconds, which stand still during a pause.
        """
        assert self._pipes is not None
        self._exceeded = exceeded
        if timeout_ms is not None:
            self._turn_limit = _Timer(timeout_ms / 1000, partial(exceeded, "wall"))
        self._pipes[1].begin_capture(sink, partial(exceeded, "stdout"))

    def end_output(self) -> CapturedStream:
        """Return what has been written to standard output since `begin_output`. Call it after `end_turn`."""
        assert self._pipes is not None
        self._exceeded = None
        self._stop_turn_limit()
        return self._pipes[1].end_capture()

    def _stop_turn_limit(self) -> None:
        if self._turn_limit is not None:
            self._turn_limit.stop()
            self._turn_limit = None

    def _tell(self, text: str) -> None:
        if not self.result.done():
            with contextlib.suppress(OSError):  # the supervisor has died, which `_on_message` notices
                self._supervisor.send(text.encode())

    def kill(self, reason: str = "cancelled") -> None:
        """Have the supervisor end every process of the job, which completes `result`. Does nothing after the end."""
        self._tell(f"kill:{reason}")

    def _reader(self, file: int, name: str, ceiling: int, sink: ByteSink | None) -> OutputReader:
        return OutputReader(
            file, kept=self._limits.kept_bytes, ceiling=ceiling, exceeded=lambda: self.kill(name), sink=sink
        )

    def _on_message(self) -> None:
        try:
            message, files, _, _ = socket.recv_fds(self._supervisor, _MESSAGE_BYTES, 1)
        except BlockingIOError:
            return
        except OSError:
            message, files = b"", []
        try:
            report = JobReport.from_bytes(message) if message else self._make_lost_report("died")
        except (ValueError, TypeError):  # the caller needs a result, also after a malformed report
            report = self._make_lost_report(_BAD_MESSAGE)
        if files:
            proxy = socket.socket(fileno=files[0])
            if self._streams.on_proxy_socket is None:
                proxy.close()
            else:
                self._streams.on_proxy_socket(proxy, self)
        match report.event:
            case "turn_ended":
                if self._late is not None:
                    self._late.stop()
                if self._turn_usage is not None and not self._turn_usage.done():
                    self.resident_bytes, self.hidden = report.resident_bytes, tuple(report.hidden)
                    self._turn_usage.set_result(_make_usage(report))
            case "measured":
                if self._use is not None and not self._use.done():
                    with contextlib.suppress(ValueError, TypeError, OverflowError):  # malformed: no answer
                        self._use.set_result(
                            ProcessUse(int(report.resident_bytes), float(report.cpu_user_ms))
                        )
            case "limit_exceeded":
                (self._exceeded or self.kill)(report.why)
            case "listening":
                pass
            case _:
                self._finish(report)

    def _make_lost_report(self, how: str) -> JobReport:
        hint = (
            "; check the protected paths of its workspace, which were not restored" if self._watched else ""
        )
        return JobReport(ended_by="lost", why=f"the supervisor of this process {how}{hint}")

    def _finish(self, report: JobReport) -> None:
        assert self._pipes is not None
        assert self._late is not None
        self._late.stop()
        self._late = None  # it refers to this process
        self._stop_turn_limit()
        self._loop.remove_reader(self._supervisor.fileno())
        stdin, stdout, stderr = self._pipes
        # Breaks reference cycles: buffers are freed without a garbage collection.
        self._pipes = self._exceeded = None
        stdin.close()
        out, err = stdout.finish(), stderr.finish()
        try:
            result = self._result(report, out, err)
        except (ValueError, TypeError):
            report = self._make_lost_report(_BAD_MESSAGE)
            result = self._result(report, out, err)
        self.result.set_result(result)
        if report.ended_by in {"lost", "unborn"} or report.survivors:
            self._jail.lose()
        else:
            self._jail.end(kept=self._kept)

    def _result(self, report: JobReport, out: CapturedStream, err: CapturedStream) -> ProcessResult:
        """Return the result of the job. Raises ValueError and TypeError for a malformed report."""
        status, limit, reason = verdict(report)
        if status is Status.OK and (out.total_bytes > self._limits.stdout_bytes):
            status, limit = _BY_CEILING["stdout"]
        return ProcessResult(
            status=status,
            limit=limit,
            reason=reason,
            exit_code=report.code,
            signal=report.signal,
            stdout=out,
            stderr=err,
            usage=_make_usage(report),
            kill="none" if not report.killed else "namespace" if self._in_namespaces else "sweep",
            survivors=report.survivors,
            violations=tuple(report.violations),
            hidden=tuple(report.hidden),
            withheld=self.withheld,
            sandbox=self._facts,
        )


def _make_usage(report: JobReport) -> ProcessUsage:
    return ProcessUsage(
        wall_ms=round(report.wall_ms, 3),
        cpu_user_ms=report.cpu_user_ms,
        cpu_system_ms=report.cpu_system_ms,
        stalled_ms=report.stalled_ms,
        peak_bytes=report.peak_bytes,
        processes_peak=report.processes_peak,
    )


def _pipes(shared: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the ends of a pipe for each stream. On OSError, all of them and the `shared` files are closed."""
    made: list[tuple[int, int]] = []
    try:
        while len(made) < STREAM_COUNT:
            made.append(os.pipe2(os.O_CLOEXEC))
    except OSError:
        for file in itertools.chain(shared, *made):
            os.close(file)
        raise
    return made


def verdict(report: JobReport) -> tuple[Status, Ceiling | None, str]:
    """Return the status, the exceeded limit and the reason of a report."""
    if report.ended_by in _BY_CEILING:
        return (*_BY_CEILING[report.ended_by], report.why)
    match report.ended_by:
        case "start":
            return (Status.FAILED if report.missing else Status.UNAVAILABLE), None, report.why
        case "unborn":
            return Status.UNAVAILABLE, None, explain_start_failure(report.why)
        case "cancelled":
            return Status.CANCELLED, None, ""
        case "exit":
            if report.signal == _SIGXFSZ:
                return Status.OUTPUT_LIMIT, "file_size", ""
            if report.signal == _SIGXCPU:
                return Status.TIMEOUT, "cpu", ""
            return (Status.OK if report.code == 0 else Status.FAILED), None, ""
        case _:
            return Status.LOST, None, report.why
