"""Run work over many items: a bounded number at a time, with input that is read as needed and results that wait.

    items -> `parallel` workers -> at most `parallel` waiting results -> the caller

A worker takes the next item after its last result was accepted. Therefore a slow caller slows the workers down, and an
endless input needs no memory.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

from paddock.foundation.cancellation import cancel_all
from paddock.model.errors import PaddockError

T = TypeVar("T")
R = TypeVar("R")


class _WorkerEnd(NamedTuple):
    """The end of one worker."""

    error: Exception | None


class _MappedResult(NamedTuple, Generic[R]):
    value: R


async def map_concurrently(
    work: Callable[[T], Awaitable[R]], items: Iterable[T] | AsyncIterable[T], *, parallel: int
) -> AsyncGenerator[R]:
    """Yield the results of work on each item, in the order in which they are ready.

    Raises the first error of the input or of the work, after the work under way was cancelled. Closing the generator
    cancels it, too.
    """
    source = _iterate(items)
    ready: asyncio.Queue[_MappedResult[R] | _WorkerEnd] = asyncio.Queue(parallel)
    turn = asyncio.Lock()

    async def take_items() -> None:
        while True:
            async with turn:  # an async generator serves one caller at a time
                item = await anext(source)
            await ready.put(_MappedResult(await work(item)))

    async def take_all() -> None:
        error = None
        try:
            with suppress(StopAsyncIteration):
                await take_items()
        except Exception as problem:  # noqa: BLE001 - the caller gets it
            error = problem
        except asyncio.CancelledError:
            if closing:
                raise
            error = PaddockError("It ended early: the work, or what the items come from, was cancelled.")
        await ready.put(_WorkerEnd(error))

    workers = [asyncio.create_task(take_all()) for _ in range(parallel)]
    left, closing = parallel, False
    try:
        while left:
            result = await ready.get()
            if isinstance(result, _MappedResult):
                yield result.value
            elif result.error is not None:
                raise result.error
            else:
                left -= 1
    finally:
        closing = True
        await cancel_all(workers)


async def _iterate(items: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
