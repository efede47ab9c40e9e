"""One turn of a worker: the parent's side of a text that it runs, from its frame to its end.

    serve the worker -> send the text -> messages -> the first end that is known counts
                                          a report of the worker, a breach of the protocol, the host, or none

A `GuestExecution` is a program, which can call the host; a `Computation` is a text that can only emit output.
"""

import asyncio
import time
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from paddock.engines.javascript import frames
from paddock.engines.javascript.outcome_mapping import STOPPED, End, HostEnd
from paddock.engines.javascript.parse import ParsedProgram
from paddock.engines.javascript.task import GuestTask
from paddock.engines.javascript.worker_client import Worker, WorkerListener, WorkerUsage
from paddock.model.outcome import ErrorInfo, RawResult, SandboxFacts, Status
from paddock.model.starvation import STARVED

if TYPE_CHECKING:
    from paddock.confinement.sandbox.protocol import Pausable


class GuestTurn(WorkerListener):
    """The parent's side of one text that a worker runs."""

    noun: ClassVar[str]
    """What people call the text."""
    reports: ClassVar[tuple[type, ...]]
    """The messages by which it reports its end, so that its worker is idle."""

    def __init__(self, worker: Worker, task: GuestTask, program: ParsedProgram) -> None:
        self._worker = worker
        self._task = task
        self._program = program
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._end: End = None

    async def run_in_own_worker(self, placed: "Pausable", facts: SandboxFacts) -> RawResult:
        """Run as the only text of its worker, and return the result. Raises PaddockError if the worker does not end."""
        started = time.perf_counter()
        try:
            await self.run_within_limit(placed)
        finally:
            cost = self._worker.cost()
            self._worker.listener = None
            if not self.has_word:
                self._worker.kill()
            await self.stop_calls()
        wall_ms = (time.perf_counter() - started) * 1000
        if not self.has_end:  # it crashed; the fork server reports its exit status
            await self._worker.await_death()
        return self.result(self._worker.complete_cost(cost), wall_ms, facts)

    async def run_within_limit(self, placed: "Pausable") -> None:
        """Run until it or its worker ends, or its wall time has passed."""
        try:
            async with self._task.clock.limit(self._task.limits.timeout_ms / 1000, placed):
                await self.run()
        except TimeoutError:
            if self._end is None:
                self._end = self._explain_timeout(self._task.limits.timeout_ms)

    @abstractmethod
    async def run(self) -> None:
        """Send the text and wait until it or the worker has ended."""

    async def stop_calls(self) -> None:
        """Cancel the open calls of the text, so that none continues after its end."""

    @abstractmethod
    def result(self, cost: WorkerUsage, wall_ms: float, facts: SandboxFacts) -> RawResult:
        """Return the result, with the resources that it used."""

    @abstractmethod
    def _explain_timeout(self, limit_ms: int) -> HostEnd:
        """Return the end of a text whose wall time has passed: what it was doing then."""

    def _explain_starvation(self, limit_ms: int, status: Status = Status.UNAVAILABLE) -> HostEnd | None:
        """Return the end of a text that others kept from running; None for any other."""
        hint = self._worker.explain_starvation(limit_ms)
        error = ErrorInfo(name="Timeout", message=f"The {self.noun} {STARVED}", hint=hint)
        return HostEnd(status, error) if hint else None

    def on_protocol_error(self, error: frames.FrameError) -> None:
        """End the turn, because its worker broke the protocol."""
        self._conclude(error)

    def on_disconnect(self) -> None:
        """End the turn, because its worker died."""
        self._conclude(None)

    def stop(self) -> None:
        """End the turn, because its caller cancelled it."""
        self._conclude(STOPPED)

    def _refuse(self, what: str) -> None:
        """Kill a worker that sent what the bootstrap never sends."""
        self._worker.kill()
        self._conclude(frames.FrameError(what))

    def _conclude(self, end: End) -> None:
        """End the turn. The first end that is known counts."""
        if self._end is None:
            self._end = end
        if not self._ended.done():
            self._ended.set_result(None)

    @property
    def is_over(self) -> bool:
        """Whether it takes no further messages."""
        return self._ended.done()

    @property
    def has_end(self) -> bool:
        """Whether the end is known without the worker's exit status: by a message, a timeout or a cancellation."""
        return self._end is not None

    @property
    def has_word(self) -> bool:
        """Whether the text itself reported its end, so that its worker is idle."""
        return isinstance(self._end, self.reports)
