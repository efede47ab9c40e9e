"""Cancel work without cutting short what must finish: closing processes and writing records."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


async def run_shielded(work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` returns. A cancellation of the caller is held back until the work has ended.

    An exception that the work then raises becomes the cause of the cancellation.
    """
    task = asyncio.ensure_future(work)
    cancelled = await _wait_for_end(task)
    if cancelled is None:
        return task.result()
    raise cancelled from None if task.cancelled() else task.exception()


async def finish_first(work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` returns. If the caller is cancelled meanwhile, its next await raises that instead."""
    task, caller = asyncio.ensure_future(work), asyncio.current_task()
    if await _wait_for_end(task) is not None and caller is not None:
        caller.uncancel()  # `asyncio.timeout` compares the number of cancellations
        caller.cancel()
    return task.result()


async def _wait_for_end(task: "asyncio.Future[Any]") -> asyncio.CancelledError | None:
    """Wait until a task has ended. Return the last cancellation of the caller meanwhile, which is held back."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


async def wait_shielded(task: "asyncio.Task[Any]") -> None:
    """Wait until a task has ended, within a cancel scope of anyio, which cancels the waiter again at each await."""
    import anyio  # the MCP library, whose scopes these are, has loaded it; other commands do not need it

    with anyio.CancelScope(shield=True):
        await run_shielded(asyncio.wait({task}))


async def cancel_all(tasks: "Iterable[asyncio.Task[Any]]") -> None:
    """Cancel tasks and wait until they have ended."""
    ending = [*tasks]
    for task in ending:
        task.cancel()
    if ending:
        await asyncio.wait(ending)


class Stop(asyncio.Event):
    """An event that calls callbacks when it is set, which costs less than a task that waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.callbacks: list[Callable[[], None]] = []

    def set(self) -> None:
        """Set the event, and call the callbacks the first time. None of them may raise."""
        if not self.is_set():
            super().set()
            for callback in tuple(self.callbacks):
                callback()


async def unless_stopped(work: Awaitable[T], stop: asyncio.Event | None) -> T | None:
    """Return what `work` returns. If `stop` is set first, cancel the work, wait for its end and return None."""
    if stop is None:
        return await work
    running = asyncio.ensure_future(work)

    def cancel() -> None:
        running.cancel()

    try:
        with call_when_set(stop, cancel):
            await asyncio.wait({running})
    finally:
        if not running.done():
            running.cancel()
            await run_shielded(asyncio.wait({running}))
    return None if running.cancelled() else running.result()


@contextmanager
def call_when_set(stop: asyncio.Event | None, callback: Callable[[], None]) -> Generator[None]:
    """Call `callback` if `stop` is set within the context, or soon if it is set already."""
    if stop is None:
        yield
        return
    if isinstance(stop, Stop):
        soon = asyncio.get_running_loop().call_soon(callback) if stop.is_set() else None
        stop.callbacks.append(callback)
        try:
            yield
        finally:
            stop.callbacks.remove(callback)
            if soon is not None:
                soon.cancel()
        return
    stopping = asyncio.ensure_future(stop.wait())
    stopping.add_done_callback(lambda done: None if done.cancelled() else callback())
    try:
        yield
    finally:
        stopping.cancel()
