"""How long a worker may take to get ready, by a clock that goes on while nothing here does."""

import asyncio

import pytest

from paddock.engines.javascript import pool


async def waited(leaps: int) -> str:
    """Return what comes of waiting for a worker while the loop's clock leaps so often, as over a stopped process."""
    loop = asyncio.get_running_loop()
    clock, ahead = loop.time, 0
    loop.time = lambda: clock() + ahead
    ready: asyncio.Future[None] = loop.create_future()
    waiting = asyncio.create_task(pool.await_ready(ready))
    for _ in range(leaps):
        await asyncio.sleep(0)
        ahead += 1000
        for _ in range(5):
            await asyncio.sleep(0)
    if not waiting.done():
        ready.set_result(None)
    await asyncio.wait({waiting})
    return type(waiting.exception()).__name__


@pytest.mark.parametrize(
    ("leaps", "told"), [(0, "NoneType"), (1, "NoneType"), (2, "TimeoutError"), (3, "TimeoutError")]
)
def test_one_standstill_is_no_failure_to_start(leaps: int, told: str) -> None:
    assert asyncio.run(waited(leaps)) == told
