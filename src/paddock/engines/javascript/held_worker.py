"""A worker that runs the programs of one session, and is stopped between them.

    run       continue the process -> program (`GuestExecution`) -> its end -> "idle" -> stop the process (SIGSTOP)
    a limit   interrupt V8 and send `end` -> "idle" within half a second, or the process is killed and lost

"idle" means that the microtasks that a program left have run. Its timers and calls are forgotten. The worker keeps the
lock-down that every worker has. What it sends is as hostile as ever: a message at the wrong time kills it.
"""

import asyncio
import time
from typing import TYPE_CHECKING

from paddock.engines.javascript import frames
from paddock.engines.javascript.execution import GuestExecution
from paddock.engines.javascript.worker_client import Worker, WorkerListener, WorkerUsage
from paddock.foundation.cancellation import run_shielded
from paddock.model.outcome import RawResult, SandboxFacts, Status

if TYPE_CHECKING:
    from paddock.confinement.sandbox.protocol import Pausable

ROUND_S = 0.1
"""Time between two interruptions of a program, in seconds. One can come too early: just before JavaScript runs."""
MAX_ROUNDS = 5
"""Number of rounds in which a program must end."""
_UNSTOPPABLE = "its program did not end when it was interrupted"
_LOSSES = {Status.MEMORY_LIMIT: "it needed more memory than its limit"}
_BROKEN = "its worker broke down"


class HeldWorker(WorkerListener):
    """The worker of a session; `close` it."""

    def __init__(self, worker: Worker, facts: SandboxFacts) -> None:
        """Take over a worker that is ready."""
        self.worker = worker
        self._facts = facts
        self._execution: GuestExecution | None = None
        self._ending = False
        """Whether the program is over for the parent, and only `idle` is missing."""
        self._idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.resident_bytes = 0
        """Its memory after the last program."""
        self.loss = "its worker ended between two programs"
        """Why it is lost, if it is."""
        worker.listener = self

    @property
    def lost(self) -> bool:
        """Whether its process has ended, or ends now."""
        return not self.worker.is_alive()

    async def run(self, execution: GuestExecution, placed: "Pausable") -> RawResult:
        """Run a program and return its result. Raises PaddockError if Paddock's own machinery fails."""
        worker = self.worker
        started, before = time.perf_counter(), worker.cost() or WorkerUsage(0.0, 0)
        self._execution, self._ending = execution, False
        self._idle = asyncio.get_running_loop().create_future()
        worker.take_turn()
        try:
            await execution.run_within_limit(placed)
        finally:
            wall_ms = (time.perf_counter() - started) * 1000
            await run_shielded(self._end_turn(execution))
        if not execution.has_end:
            await worker.await_death()
        used = worker.complete_cost(worker.cost())
        cost = used._replace(cpu_ms=max(0.0, used.cpu_ms - before.cpu_ms))
        result = execution.result(cost, wall_ms, self._facts)
        if self.lost and self.loss != _UNSTOPPABLE:
            self.loss = _LOSSES.get(result.status, _BROKEN)
        return result

    def interrupt(self) -> None:
        """Interrupt the program that it executes now. Does nothing without one."""
        if self._execution is not None:
            self._execution.stop()

    async def _end_turn(self, execution: GuestExecution) -> None:
        """End what is left of a program and stop the process, or kill it if that does not succeed."""
        worker, self._ending = self.worker, True
        if execution.has_begun and not execution.has_word:
            self._interrupt()
        await execution.stop_calls()
        if execution.has_begun and not self.lost and not await self._becomes_idle(execution):
            self.loss = _UNSTOPPABLE if not self.lost else _BROKEN
            worker.kill()
            await worker.await_death()
        self._execution = None
        worker.freeze()
        self.resident_bytes = worker.resident_bytes()

    async def _becomes_idle(self, execution: GuestExecution) -> bool:
        """Wait until nothing of a program is left to run; interrupt it after a while, and again."""
        for _ in range(
            MAX_ROUNDS + execution.has_word
        ):  # one that has ended is interrupted after the first round
            ending = {self._idle, self.worker.death}
            await asyncio.wait(ending, timeout=ROUND_S, return_when=asyncio.FIRST_COMPLETED)
            if self._idle.done() or self.lost:
                break
            self._interrupt()
        return self._idle.done()

    def _interrupt(self) -> None:
        # The signal first: when the worker reads the message, it has taken the signal.
        self.worker.interrupt()
        self.worker.send(frames.END)

    def on_message(self, message: frames.Message) -> None:
        """Pass a message to the running program. Kill a worker that sends something between two programs."""
        execution = self._execution
        if isinstance(message, frames.Idle) and execution is not None and not self._idle.done():
            if self._ending or execution.is_over:
                self._idle.set_result(None)
                return
        elif execution is not None and not self._idle.done():
            if not self._ending:
                execution.on_message(message)
            return
        self.worker.kill()
        self.on_protocol_error(frames.FrameError("a message at the wrong time"))

    def on_protocol_error(self, error: frames.FrameError) -> None:
        """End the program, because its worker broke the protocol and was killed."""
        self.loss = _BROKEN
        if self._execution is not None:
            self._execution.on_protocol_error(error)

    def on_disconnect(self) -> None:
        """End the program, because its worker died."""
        if self._execution is not None:
            self._execution.on_disconnect()

    async def close(self) -> None:
        """Kill the process. Does nothing the second time."""
        self.worker.end()
