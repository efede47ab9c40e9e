"""The one way to run a child: `Sandbox.run`.

    server (asyncio, any size)          never forks, never waits for a pipe's end
      zygote                            started once (`paddock.confine.zygote`)
        warden, one per job             deadline, accounting, the end of every process (`paddock.confine.warden`)
          shim, which becomes the job   the order in which powers are given up (`paddock.confine.shim`)

Each job has a socket between server and warden. Closing it, on purpose or by dying, is the order to kill.
"""

import asyncio
import contextlib
import os
import socket
import tempfile
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from paddock.confine import landlock, plan, scratch
from paddock.confine.fork_server import Zygote
from paddock.confine.order import Report
from paddock.confine.output import Reader, Sink, Writer
from paddock.model.outcome import SandboxFacts, Status
from paddock.model.process import Ceiling, ProcessGrants, ProcessLimits, ProcessResult, ProcessUsage
from paddock.model.settings import Protection, Tier

_MESSAGE_BYTES = 64 * 1024
_START_S = 20.0
_GRACE_S = 1.0
"""How much later than its wall limit a warden may answer before it counts as broken."""

_BY_CEILING: dict[str, tuple[Status, Ceiling]] = {
    "wall": (Status.TIMEOUT, "wall"),
    "cpu": (Status.TIMEOUT, "cpu"),
    "memory": (Status.MEMORY_LIMIT, "memory"),
    "processes": (Status.PROCESS_LIMIT, "processes"),
    "scratch": (Status.OUTPUT_LIMIT, "scratch"),
    "stdout": (Status.OUTPUT_LIMIT, "stdout"),
    "stderr": (Status.OUTPUT_LIMIT, "stderr"),
}
_SIGXFSZ, _SIGXCPU = 25, 24


@dataclass(frozen=True, slots=True)
class Streams:
    """What goes in, and who hears what comes out."""

    stdin: bytes = b""
    stdout: Sink | None = None
    stderr: Sink | None = None


@dataclass(slots=True)
class Place:
    """Where a job can start: a warden, and the scratch that it removes once the place is released.

    Before the job, scratch can be filled; after it, what the job made can be read: nothing of it lives any more.
    """

    warden: socket.socket
    scratch: Path
    ordered: bool = False
    """Whether the warden has an order, and with it the duty to remove scratch."""

    def release(self) -> None:
        """Have scratch removed; harmless when it has been. A program that still runs is killed first."""
        self.warden.close()
        if not self.ordered:
            self.ordered = True
            scratch.remove(str(self.scratch))


def _key(grants: ProcessGrants, limits: ProcessLimits) -> str:
    """Return what two programs must have in common to use the same jail."""
    return f"{limits.scratch_bytes} {grants.model_dump_json(exclude={'environment', 'cwd'})}"


@dataclass(slots=True)
class Sandbox:
    """Runs processes in one tier. Use it as an asynchronous context manager, or `close` it.

    `job_user` is the user that jobs become when Paddock runs as root; without it `paddock.confine.plan` decides.
    With `protected_paths` "refuse", a job that could change one does not start (`paddock.confine.protected`).
    """

    facts: SandboxFacts
    tier: Tier = "landlock"
    job_user: int | None = None
    protected_paths: Protection = "restore"
    scratch_root: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))
    spares: int = 0
    """Wardens (with their jails) that wait for the next program of the same grants."""
    _zygote: Zygote | None = None
    _waiting: "dict[str, deque[Place]]" = field(default_factory=dict)
    _jobs: "set[Job]" = field(default_factory=set)
    _refills: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(
        self,
        argv: Sequence[str],
        grants: ProcessGrants | None = None,
        limits: ProcessLimits | None = None,
        streams: Streams | None = None,
        *,
        place: Place | None = None,
        canary: str = "",
    ) -> ProcessResult:
        """Run a program to its end and return what became of it, no later than wall limit + 250 ms.

        Cancelling the caller kills the program, to the last process, before the cancellation goes on. A `place` of the
        same grants and limits serves one program and stays until it is released.
        With `canary` the program is `paddock.confine.canary` with that target.
        Raises EngineError only when Paddock's own machinery fails.
        """
        job = await self.launch(argv, grants, limits, streams, place=place, canary=canary)
        if isinstance(job, ProcessResult):
            return job
        try:
            return await asyncio.shield(job.result)
        except asyncio.CancelledError:
            job.cancel()
            await asyncio.wait({job.result}, timeout=_GRACE_S)
            raise

    async def launch(
        self,
        argv: Sequence[str],
        grants: ProcessGrants | None = None,
        limits: ProcessLimits | None = None,
        streams: Streams | None = None,
        *,
        place: Place | None = None,
        canary: str = "",
    ) -> "Job | ProcessResult":
        """Start a program and return it, or the result that says why it may not start."""
        grants, limits, streams = grants or ProcessGrants(), limits or ProcessLimits(), streams or Streams()
        if len(streams.stdin) > limits.stdin_bytes:
            reason = (
                f"standard input has {len(streams.stdin)} bytes, and at most {limits.stdin_bytes} are allowed"
            )
            return ProcessResult(status=Status.INVALID, limit="stdin", reason=reason, sandbox=self.facts)
        try:
            plan.check(argv, grants)
        except plan.GrantError as error:
            return ProcessResult(status=Status.INVALID, reason=str(error), sandbox=self.facts)
        if self.protected_paths == "refuse":
            try:
                plan.check_protection(grants, self.tier)
            except plan.GrantError as error:
                return ProcessResult(
                    status=Status.DENIED, limit="protected", reason=str(error), sandbox=self.facts
                )
        kept = place is not None
        place = place or await self.place(grants, limits)
        order = plan.order(
            list(argv),
            grants,
            limits,
            tier=self.tier,
            abi=landlock.abi(),
            scratch=place.scratch,
            job_user=self.job_user,
            canary=canary,
        )
        place.ordered = True
        job = Job(place.warden, limits, streams, self.facts, jailed=self.tier == "namespaces", kept=kept)
        self._jobs.add(job)
        job.result.add_done_callback(lambda _: self._jobs.discard(job))
        job.start(order.to_file())
        return job

    async def prepare(self, grants: ProcessGrants, limits: ProcessLimits, count: int) -> None:
        """Have `count` wardens wait for programs of these grants, each with its scratch and its jail.

        A warden is used once. A jail depends on grants and on the room in scratch, not on program and environment.
        """
        waiting = self._waiting.setdefault(_key(grants, limits), deque())
        while len(waiting) < count:
            place = await self._new_place(grants)
            order = plan.order(
                ["true"],
                grants,
                limits,
                tier=self.tier,
                abi=landlock.abi(),
                scratch=place.scratch,
                job_user=self.job_user,
            ).to_file()
            try:
                socket.send_fds(place.warden, [b"prepare"], [order])
                place.ordered = True
            finally:
                os.close(order)
            waiting.append(place)

    async def place(self, grants: ProcessGrants, limits: ProcessLimits) -> Place:
        """Return a place for one program of these grants and limits; it is the caller's to release."""
        waiting = self._waiting.get(_key(grants, limits))
        place = waiting.popleft() if waiting else await self._new_place(grants)
        if self.spares:
            task = asyncio.create_task(self.prepare(grants, limits, self.spares))
            self._refills.add(task)
            task.add_done_callback(self._refills.discard)
        return place

    async def _new_place(self, grants: ProcessGrants) -> Place:
        if self._zygote is None or not self._zygote.alive:
            self._zygote = Zygote()
        await self._zygote.ready()
        folder = plan.make_scratch(self.scratch_root, plan.user(grants, self.job_user))
        return Place(self._zygote.warden(), folder)

    async def close(self) -> None:
        """End every job, every waiting jail and the zygote."""
        for task in self._refills:
            task.cancel()
        await asyncio.gather(*self._refills, return_exceptions=True)
        for place in (place for waiting in self._waiting.values() for place in waiting):
            place.warden.close()  # its warden removes scratch
        self._waiting.clear()
        jobs = list(self._jobs)
        for job in jobs:
            job.cancel()
        if jobs:
            await asyncio.wait({job.result for job in jobs}, timeout=_GRACE_S)
        if self._zygote is not None:
            await self._zygote.close()
            self._zygote = None


class Job:
    """One running program. `result` is done when nothing of it is left."""

    def __init__(
        self,
        warden: socket.socket,
        limits: ProcessLimits,
        streams: Streams,
        facts: SandboxFacts,
        *,
        jailed: bool,
        kept: bool,
    ) -> None:
        self._kept = kept
        self._loop = asyncio.get_running_loop()
        self.result: asyncio.Future[ProcessResult] = self._loop.create_future()
        self._warden = warden
        self._limits = limits
        self._streams = streams
        self._facts = facts
        self._jailed = jailed
        self._late: asyncio.TimerHandle | None = None
        self._pipes: tuple[Writer, Reader, Reader] | None = None

    def start(self, order: int) -> None:
        """Hand the order and the far ends of the pipes to the warden, and listen."""
        limits, streams = self._limits, self._streams
        stdin, our_stdin = os.pipe2(os.O_CLOEXEC)
        our_stdout, stdout = os.pipe2(os.O_CLOEXEC)
        our_stderr, stderr = os.pipe2(os.O_CLOEXEC)
        self._pipes = (
            Writer(our_stdin, streams.stdin),
            self._reader(our_stdout, "stdout", limits.stdout_bytes, streams.stdout),
            self._reader(our_stderr, "stderr", limits.stderr_bytes, streams.stderr),
        )
        self._loop.add_reader(self._warden.fileno(), self._heard)
        self._late = self._loop.call_later(limits.wall_ms / 1000 + _START_S + _GRACE_S, self._overdue)
        try:
            with contextlib.suppress(OSError):  # the warden is gone, which its socket will tell
                socket.send_fds(self._warden, [b"run"], [order, stdin, stdout, stderr])
        finally:
            for file in (order, stdin, stdout, stderr):
                os.close(file)

    def cancel(self, reason: str = "cancelled") -> None:
        """Have the warden end the job; `result` follows. Harmless when it has ended."""
        with contextlib.suppress(OSError):
            self._warden.send(f"stop:{reason}".encode())

    def _reader(self, file: int, name: str, ceiling: int, sink: Sink | None) -> Reader:
        return Reader(
            file, kept=self._limits.kept_bytes, ceiling=ceiling, exceeded=lambda: self.cancel(name), sink=sink
        )

    def _heard(self) -> None:
        try:
            message = self._warden.recv(_MESSAGE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        self._finish(Report.from_bytes(message) if message else None)

    def _overdue(self) -> None:
        self._finish(None)

    def _finish(self, report: Report | None) -> None:
        assert self._pipes is not None
        assert self._late is not None
        self._late.cancel()
        self._loop.remove_reader(self._warden.fileno())
        if not self._kept:
            self._warden.close()
        stdin, stdout, stderr = self._pipes
        stdin.close()
        out, err = stdout.finish(), stderr.finish()
        if report is None:
            report = Report(ended_by="lost", why="the warden of this process died")
        status, limit, reason = verdict(report)
        if status is Status.OK and (out.total_bytes > self._limits.stdout_bytes):
            status, limit = _BY_CEILING["stdout"]
        result = ProcessResult(
            status=status,
            limit=limit,
            reason=reason,
            exit_code=report.code,
            signal=report.signal,
            stdout=out,
            stderr=err,
            usage=ProcessUsage(
                wall_ms=report.wall_ms,
                cpu_user_ms=report.cpu_user_ms,
                cpu_system_ms=report.cpu_system_ms,
                peak_bytes=report.peak_bytes,
                processes_peak=report.processes_peak,
            ),
            kill="none" if not report.killed else "namespace" if self._jailed else "sweep",
            survivors=report.survivors,
            violations=tuple(report.violations),
            sandbox=self._facts,
        )
        if not self.result.done():
            self.result.set_result(result)


def verdict(report: Report) -> tuple[Status, Ceiling | None, str]:
    """Return status, ceiling and reason of a report."""
    if report.ended_by in _BY_CEILING:
        return (*_BY_CEILING[report.ended_by], "")
    match report.ended_by:
        case "start":
            return (Status.FAILED if report.missing else Status.UNAVAILABLE), None, report.why
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
