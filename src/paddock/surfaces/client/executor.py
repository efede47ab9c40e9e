"""Paddock as an executor of `concurrent.futures`: programs instead of functions, on an event loop in a thread."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.policy.settings.schema import Settings
from paddock.surfaces.client.arguments import read_whole_number
from paddock.surfaces.client.loop_thread import start_loop
from paddock.surfaces.client.paddock import Paddock

if TYPE_CHECKING:
    from paddock.gate.batch.program import Program, ProgramResult

ENDED = "this executor was shut down; make another one"


def map_in_order(
    submit: "Callable[[Program], Future[ProgramResult]]",
    programs: "Iterable[Program]",
    timeout_s: float | None,
) -> "Iterator[ProgramResult]":
    """Submit all programs, and yield their results in the order of the programs; the end cancels those that wait."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    futures = [submit(program) for program in programs]

    def wait_for_each() -> "Iterator[ProgramResult]":
        try:
            for future in futures:
                yield future.result(None if deadline is None else deadline - time.monotonic())
        finally:
            for future in futures:
                future.cancel()

    return wait_for_each()


class ProgramExecutor(Executor):
    """Runs programs for code that expects an executor: `with ProgramExecutor() as executor:`.

    `submit` takes a `Program` instead of a function. Its future has the `ProgramResult`, also for a program that fails.
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
        """Open a Paddock with these arguments. At most `max_workers` programs run, and at most `runtimes.max_jobs`.

        Raises the errors of `Paddock`, and RequestError for an invalid `max_workers`.
        """
        workers = read_whole_number("max_workers", max_workers)
        paddock = Paddock(workspace, settings=settings, overrides=overrides, actor=actor)
        max_jobs = paddock.settings.runtimes.max_jobs
        self._slots = asyncio.Semaphore(min(workers or max_jobs, max_jobs))
        self._lock = threading.Lock()
        self._waiting: set[Future[ProgramResult]] = set()
        self._running: set[Future[None]] = set()
        self._ended = False
        self._loop, self._paddock = start_loop(paddock)

    def submit(self, program: "Program", /) -> "Future[ProgramResult]":  # pyright: ignore[reportIncompatibleMethodOverride] - programs are no functions
        """Run a program as soon as there is a slot. Its future can be cancelled until it has started.

        Raises RuntimeError after `shutdown`.
        """
        future: Future[ProgramResult] = Future()
        with self._lock:
            if self._ended:
                raise RuntimeError(ENDED)
            running = self._loop.submit(partial(self._run, program, future))
            self._waiting.add(future)
            self._running.add(running)
        future.add_done_callback(self._waiting.discard)
        running.add_done_callback(self._running.discard)
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
        """Accept no more programs; wait for those that were submitted, or cancel those that have not started.

        Without `wait`, it returns at once, and the programs go on. The second call does nothing.
        """
        with self._lock:
            first, self._ended = not self._ended, True
            waiting = [*self._waiting]
        if cancel_futures:
            for future in waiting:
                future.cancel()
        if first:
            self._ending = threading.Thread(target=self._end, name="paddock-shutdown")
            self._ending.start()
        if wait:
            self._ending.join()

    def _end(self) -> None:
        """End the Paddock after the programs."""
        for running in [*self._running]:
            running.exception()
        self._loop.end()

    async def _run(self, program: "Program", future: "Future[ProgramResult]") -> None:
        async with self._slots:
            if not future.set_running_or_notify_cancel():
                return
            try:
                async with aclosing(self._paddock.map([program])) as results:
                    result = await anext(results)
            except BaseException as error:
                future.set_exception(error)
                if not isinstance(error, Exception):
                    raise
            else:
                future.set_result(result)
