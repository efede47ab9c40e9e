"""Ends that must come: what closes processes, and waits for records, is not cut short."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


async def run_shielded(work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` returns; a cancellation of whoever waits, or several, goes on when it has ended.

    What it raises then is the cause of the cancellation.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    raise cancelled from None if task.cancelled() else task.exception()


async def wait_shielded(task: "asyncio.Task[Any]") -> None:
    """Wait for the end of a task below a cancel scope of anyio, which cancels the waiter again at each await."""
    import anyio  # loaded with the MCP library, whose scopes these are; other commands do without

    with anyio.CancelScope(shield=True):
        await run_shielded(asyncio.wait({task}))


async def cancel_all(tasks: "Iterable[asyncio.Task[Any]]") -> None:
    """Cancel tasks and wait for their ends."""
    ending = [*tasks]
    for task in ending:
        task.cancel()
    if ending:
        await asyncio.wait(ending)


async def cancel_gracefully(
    work: Callable[[asyncio.Event], Coroutine[Any, Any, T]], stop: asyncio.Event | None = None
) -> T:
    """Return what `work` returns; a cancellation of whoever waits sets its event, and goes on when it has ended.

    So what is under way ends in order, and the record says what it did, although nobody hears of it. Whoever gives
    `stop` may set it themselves: then the work ends early, and what it returns is returned.
    """
    stop = stop or asyncio.Event()
    running = asyncio.ensure_future(work(stop))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        await run_shielded(asyncio.wait({running}))
        raise


async def unless_stopped(work: Awaitable[T], stop: asyncio.Event | None) -> T | None:
    """Return what `work` returns; None when `stop` was set before, which cancels the work and waits for its end."""
    if stop is None:
        return await work
    running, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        if not running.done():
            running.cancel()
            await run_shielded(asyncio.wait({running}))
    return None if running.cancelled() else running.result()


@contextmanager
def call_when_set(stop: asyncio.Event | None, callback: Callable[[], None]) -> Generator[None]:
    """Have `callback` called when `stop` is set within the context."""
    if stop is None:
        yield
        return
    stopping = asyncio.ensure_future(stop.wait())
    stopping.add_done_callback(lambda done: None if done.cancelled() else callback())
    try:
        yield
    finally:
        stopping.cancel()
