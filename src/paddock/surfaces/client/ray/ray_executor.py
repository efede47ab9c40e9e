"""Paddock on a Ray cluster as an executor of `concurrent.futures`."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import aclosing
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.gate.batch.runner import BatchOrigin
from paddock.policy.settings.schema import Settings
from paddock.surfaces.client.arguments import read_whole_number
from paddock.surfaces.client.executor import ENDED, map_in_order
from paddock.surfaces.client.loop_thread import start_loop
from paddock.surfaces.client.paddock import Paddock
from paddock.surfaces.client.ray.nodes import load_ray
from paddock.surfaces.client.ray.purity import Purity

if TYPE_CHECKING:
    from paddock.gate.batch.program import Program, ProgramResult


class RayExecutor(Executor):
    """Runs programs on a Ray cluster for code that expects an executor: `with RayExecutor() as executor:`.

    `submit` takes a `Program` instead of a function. Its future has the `ProgramResult`, also for a program that fails,
    and for one whose worker died.
    """

    def __init__(
        self,
        workspace: Path | str = ".",
        *,
        max_workers: int | None = None,
        settings: Settings | None = None,
        overrides: Mapping[str, Any] | None = None,
        actor: str = "local",
    ) -> None:
        """Open a Paddock with these arguments, whose policy decides first. At most `max_workers` programs run.

        Raises the errors of `Paddock`, PaddockError without a cluster, and RequestError for an invalid `max_workers`.
        """
        load_ray()
        workers = read_whole_number("max_workers", max_workers)
        paddock = Paddock(workspace, settings=settings, overrides=overrides, actor=actor)
        self._purity = Purity(paddock.settings, BatchOrigin(Path(workspace), actor, "library"))
        self._lock = threading.Lock()
        self._futures: dict[str, Future[ProgramResult]] = {}
        self._ids: dict[str, str] = {}
        self._submitted: asyncio.Queue[tuple[Program, Future[ProgramResult]] | None] = asyncio.Queue()
        self._ended = self._over = False
        self._loop, self._paddock = start_loop(paddock)
        self._running = self._loop.submit(partial(self._run, workers))

    def submit(self, program: "Program", /) -> "Future[ProgramResult]":  # pyright: ignore[reportIncompatibleMethodOverride] - programs are no functions
        """Run a program on a node. Its future can be cancelled until it is sent.

        Raises RequestError for a program that may have effects, and RuntimeError after `shutdown`.
        """
        self._purity.require_pure(program)
        future: Future[ProgramResult] = Future()
        with self._lock:
            if self._ended:
                raise RuntimeError(ENDED)
            self._loop.call_soon(partial(self._enqueue, program, future))
        return future

    def map(  # pyright: ignore[reportIncompatibleMethodOverride] - programs are no functions
        self, programs: "Iterable[Program]", /, *, timeout: float | None = None
    ) -> "Iterator[ProgramResult]":
        """Submit all programs, and yield their results in the order of the programs.

        `timeout` is for all of them together, in seconds. Raises TimeoutError after it. `Paddock.map` reads its
        programs as they are needed instead.
        """
        return map_in_order(self.submit, programs, timeout)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT002 - the signature of Executor
        """Accept no more programs; wait for those that were submitted, or cancel those that were not sent.

        Without `wait`, it returns at once, and the programs go on. The second call does nothing.
        """
        with self._lock:
            first, self._ended = not self._ended, True
        if first:
            if cancel_futures:
                self._loop.call_soon(self._cancel_waiting)
            self._loop.call_soon(lambda: self._submitted.put_nowait(None))
            self._ending = threading.Thread(target=self._end, name="paddock-shutdown")
            self._ending.start()
        if wait:
            self._ending.join()

    def _end(self) -> None:
        self._running.exception()
        self._loop.end()

    def _enqueue(self, program: "Program", future: "Future[ProgramResult]") -> None:
        if not self._over:
            self._submitted.put_nowait((program, future))
        elif future.set_running_or_notify_cancel():
            future.set_exception(RuntimeError(ENDED))

    def _cancel_waiting(self) -> None:
        while not self._submitted.empty():
            if (waiting := self._submitted.get_nowait()) is not None:
                waiting[1].cancel()

    async def _run(self, workers: int | None) -> None:
        error: BaseException = RuntimeError(ENDED)
        try:
            source = self._paddock.map(self._take_submitted(), max_parallel=workers, engine="ray")
            async with aclosing(source) as results:
                async for result in results:
                    id_ = self._ids.pop(result.id)
                    self._futures.pop(result.id).set_result(result.model_copy(update={"id": id_}))
        except BaseException as problem:
            error = problem
            raise
        finally:
            self._over = self._ended = True
            self._cancel_waiting()
            for future in self._futures.values():
                future.set_exception(error)

    async def _take_submitted(self) -> "AsyncGenerator[Program]":
        """Yield programs as they are submitted, with ids that are unique here."""
        numbers = count()
        while (waiting := await self._submitted.get()) is not None:
            program, future = waiting
            if future.set_running_or_notify_cancel():
                number = str(next(numbers))
                self._futures[number], self._ids[number] = future, program.id
                yield program.model_copy(update={"id": number})
