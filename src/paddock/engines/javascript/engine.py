"""The guest engine: one JavaScript or TypeScript program, one worker, one raw result.

    source -> parser (parse, strip types, wrap) -> check -> worker (run, host calls) -> RawResult
    a pure computation's source -> worker (run) -> RawResult

The parent owns the clock and the budgets. Whatever the worker does, the result is available when the wall limit has
passed: the parent kills the worker and keeps what it had received.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from paddock.confinement.sandbox.child import lockdown
from paddock.engines.javascript.busy_poll import BusyPoll
from paddock.engines.javascript.computation import Computation
from paddock.engines.javascript.execution import GuestExecution
from paddock.engines.javascript.held_worker import HeldWorker
from paddock.engines.javascript.parse import Parser, ProgramError
from paddock.engines.javascript.pool import WorkerPool
from paddock.engines.javascript.task import GuestTask, Host
from paddock.engines.javascript.worker_client import Worker
from paddock.engines.live_run import WITHDRAWN
from paddock.foundation.cancellation import call_when_set
from paddock.foundation.fair_slots import Bound, FairSlots, Slot
from paddock.model.outcome import ErrorInfo, OnConsole, RawResult, SandboxFacts, Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.engines.javascript.guest_turn import GuestTurn
    from paddock.engines.javascript.launch import EngineProfile
    from paddock.model.sandbox import Tier

_LONE_SURROGATE = ErrorInfo(
    name="SyntaxError",
    message="Half of a character (a lone surrogate); write it as an escape like \\ud83d",
    phase="parse",
)
"""As parse.js words it. A computation goes to V8 as UTF-8, which cannot encode a lone surrogate."""


class _Placed:
    """A worker with a slot, given back while it is paused: a program that waits for a person blocks no other."""

    def __init__(self, slot: Slot, worker: Worker) -> None:
        self._slot = slot
        self._worker = worker

    def pause(self) -> None:
        self._worker.freeze()
        self._slot.give_back()

    async def ready(self) -> None:
        await self._slot.take_again()

    def resume(self) -> None:
        self._worker.thaw()


class GuestEngine:
    """Runs programs in the workers of a pool."""

    def __init__(
        self, pool: WorkerPool, parser: Parser, max_programs: int, slots: FairSlots | None = None
    ) -> None:
        """Run at most `max_programs` at a time; further ones wait in `slots`.

        Each depth of nested programs has its own `max_programs` slots. A program that holds a slot therefore never
        waits for one that needs a slot of the same depth.
        """
        self._pool = pool
        self._parser = parser
        self._busy_poll = BusyPoll()
        self._running: set[Worker] = set()
        self._slots = slots or FairSlots()
        self._bounds: defaultdict[int, Bound] = defaultdict(lambda: Bound(max_programs))

    @property
    def waiting(self) -> int:
        """Number of programs that wait for a slot."""
        return sum(bound.waiting for bound in list(self._bounds.values()))

    @property
    def bound(self) -> Bound:
        """Bounds the programs that no other program waits for."""
        return self._bounds[0]

    @property
    def workers(self) -> int:
        """Number of living workers, including spares."""
        return self._pool.workers

    def expect(self, *, jit: bool) -> None:
        """Wake or start a worker while the request is still being recorded."""
        self._pool.expect(_profile(jit))

    async def warm_up(self, *, jit: bool) -> None:
        """Wait until a worker is ready for the next program. Raises EngineError if none can start."""
        await self._pool.warm_up(_profile(jit))

    async def run(
        self,
        task: GuestTask,
        host: Host,
        on_console: OnConsole | None = None,
        stop: asyncio.Event | None = None,
    ) -> RawResult:
        """Run a program and return its result. Cancelling the task kills the worker first.

        When `stop` is set, the program ends as `cancelled`, with its console lines and calls so far.

        Raises EngineError if Paddock's own machinery fails before the program starts, PaddockError afterwards.
        """
        profile = _profile(task.grants.jit)
        if task.work.computes:
            if re.search("[\ud800-\udfff]", task.work.source):
                return RawResult(status=Status.FAILED, error=_LONE_SURROGATE)
            return await self._run(task, profile, lambda worker: Computation(worker, task), stop)
        try:
            program = await self._parser.parse(task.work.source, task.work.language)
        except ProgramError as error:
            return RawResult(status=Status.FAILED, error=error.info)
        if task.check is not None and (wrong := await task.check(program)) is not None:
            return RawResult(status=Status.FAILED, error=wrong)
        execution: type[GuestExecution] = GuestExecution
        if task.tape is not None:
            from paddock.engines.javascript.stepped_execution import (
                choose_execution,  # few programs are recorded
            )

            execution = choose_execution(task)
        return await self._run(
            task,
            profile,
            lambda worker: execution(worker, task, program, host, on_console, busy_poll=self._busy_poll),
            stop,
        )

    async def _run(
        self,
        task: GuestTask,
        profile: "EngineProfile",
        make_turn: "Callable[[Worker], GuestTurn]",
        stop: asyncio.Event | None,
    ) -> RawResult:
        async with self._take_slot(task, stop) as slot:
            if slot is None:
                return RawResult(status=Status.CANCELLED, error=WITHDRAWN)
            worker = await self._pool.take(profile)
            try:
                if task.live is not None:
                    task.live.measure = worker.measure
                facts, turn = _facts(task.grants.jit, self._pool.landlock_abi(profile)), make_turn(worker)
                with self._occupy(worker), call_when_set(stop, turn.stop):
                    return await turn.run_in_own_worker(_Placed(slot, worker), facts)
            finally:
                # In the loop's next step: killing a process costs its killer a millisecond of teardown in the kernel,
                # and the result need not wait for that.
                asyncio.get_running_loop().call_soon(worker.end)

    @asynccontextmanager
    async def _take_slot(self, task: GuestTask, stop: asyncio.Event | None) -> AsyncGenerator[Slot | None]:
        """Wait for a slot, unless the task has one, and add that time to its waits. Hold it during the context.

        Enters with None, without a slot, if `stop` is set during the wait.
        """
        bound = self._bounds[task.depth]
        if task.slot is not None and bound in task.slot.bounds:
            yield task.slot
            return
        live = task.live
        if live is not None:
            live.queued = True
        slot = await self._slots.enter(task.actor, bound, stop=stop, patient=True)
        if live is not None:
            live.queued = False
        if slot is None:
            yield None
            return
        if task.waits is not None:
            task.waits["queue_ms"] = round(task.waits.get("queue_ms", 0) + slot.waited_ms, 3)
        try:
            yield slot
        finally:
            slot.end()

    @contextmanager
    def _occupy(self, worker: Worker) -> Generator[None]:
        """Run a program in a worker during the context; those that have run for long make way."""
        self._busy_poll.programs += 1
        for other in self._running:
            other.make_way()
        self._running.add(worker)
        try:
            yield
        finally:
            self._busy_poll.programs -= 1
            self._running.remove(worker)

    async def hold(self, *, jit: bool) -> HeldWorker:
        """Return a worker for the programs of one session. Raises EngineError if none can start."""
        profile = _profile(jit)
        worker = await self._pool.take(profile)
        return HeldWorker(worker, _facts(jit, self._pool.landlock_abi(profile)))

    async def run_held(
        self,
        held: HeldWorker,
        number: int,
        task: GuestTask,
        *,
        host: Host,
        on_console: OnConsole | None = None,
        stop: asyncio.Event | None = None,
    ) -> RawResult:
        """Run a program after the earlier ones of its session, and return its result. Nothing of it runs afterwards.

        Setting `stop`, or cancelling the task, interrupts the program. Raises as `run` does.
        """
        try:
            program = await self._parser.parse(task.work.source, task.work.language, session=True)
        except ProgramError as error:
            return RawResult(status=Status.FAILED, error=error.info)
        if task.check is not None and (wrong := await task.check(program)) is not None:
            return RawResult(status=Status.FAILED, error=wrong)
        worker = held.worker
        async with self._take_slot(task, stop) as slot:
            if slot is None:
                return RawResult(status=Status.CANCELLED, error=WITHDRAWN)
            if task.live is not None:
                task.live.measure = worker.measure
            execution = GuestExecution(
                worker,
                task,
                program,
                host,
                on_console,
                busy_poll=self._busy_poll,
                number=number,
                listener=held,
            )
            with self._occupy(worker), call_when_set(stop, execution.stop):
                return await held.run(execution, _Placed(slot, worker))


def _profile(jit: bool) -> "EngineProfile":
    return "guest-jit" if jit else "guest"


@lru_cache
def _facts(jit: bool, landlock_abi: int) -> SandboxFacts:
    """Return the confinement of a worker. Every layer has succeeded, or the worker would not have become ready."""
    own_user = lockdown.has_own_user()
    files = f"landlock-{landlock_abi}" if landlock_abi else "empty root"
    layers = ["process", "no_new_privs", files, "seccomp"]
    layers += ["uid"] if own_user else []
    layers += [] if jit else ["jitless"]
    residual = () if own_user else ("the worker has the user of Paddock",)
    tier: Tier = "landlock" if landlock_abi else "namespaces"
    return SandboxFacts(tier=tier, layers=tuple(layers), residual=residual)
