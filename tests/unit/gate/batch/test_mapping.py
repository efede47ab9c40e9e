"""The bounded map: lazy, patient with a slow caller, and leaving nothing behind."""

import asyncio
from contextlib import aclosing

import pytest

from paddock.gate.batch.runner import map_concurrently
from paddock.model.errors import PaddockError


async def settle():
    for _ in range(50):
        await asyncio.sleep(0)


async def double(number):
    await asyncio.sleep(0)
    return 2 * number


@pytest.mark.parametrize("parallel", [1, 3])
def test_every_item_has_one_result(parallel):
    async def go():
        return sorted([result async for result in map_concurrently(double, range(10), parallel=parallel)])

    assert asyncio.run(go()) == [2 * number for number in range(10)]


def test_results_come_as_they_are_ready():
    async def go():
        first = asyncio.Event()

        async def work(number):
            if number == 0:
                await first.wait()
            return number

        seen = []
        async for result in map_concurrently(work, range(4), parallel=2):
            seen.append(result)
            if len(seen) == 3:
                first.set()
        return seen

    assert asyncio.run(go()) == [1, 2, 3, 0]


def test_an_endless_input_is_read_as_far_as_the_caller_takes_results():
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield taken

    async def go():
        counts = []
        async with aclosing(map_concurrently(double, endless(), parallel=2)) as results:
            for _ in range(100):
                await anext(results)
                await settle()
                counts.append(taken)
        return counts

    # Two results wait, two workers hold one each, and each worker may have taken one more item.
    assert max(count - number for number, count in enumerate(asyncio.run(go()), 1)) <= 4


def test_no_more_run_than_allowed():
    running = most = 0

    async def work(number):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await settle()
        running -= 1
        return number

    async def go():
        return [result async for result in map_concurrently(work, range(20), parallel=3)]

    assert len(asyncio.run(go())) == 20
    assert most == 3


def test_an_async_input_that_waits_holds_no_result_back():
    async def go():
        more = asyncio.Event()

        async def items():
            yield 1
            await more.wait()
            yield 2

        results = map_concurrently(double, items(), parallel=2)
        first = await anext(results)
        more.set()
        return [first, *[result async for result in results]]

    assert asyncio.run(go()) == [2, 4]


@pytest.mark.parametrize("where", ["input", "work"])
def test_an_error_ends_the_rest_and_is_raised(where):
    ended = []

    def items():
        yield 0
        yield 1
        if where == "input":
            raise OSError("the disk is gone")

    async def work(number):
        if where == "work" and number == 1:
            raise OSError("the disk is gone")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    async def go():
        async for _ in map_concurrently(work, items(), parallel=3):
            pass

    with pytest.raises(OSError, match="the disk is gone"):
        asyncio.run(go())
    assert ended == ([0, 1] if where == "input" else [0])


def test_closing_cancels_what_runs():
    ended = []

    async def work(number):
        if number == 0:
            return number
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    async def go():
        async with aclosing(map_concurrently(work, range(10), parallel=2)) as results:
            await anext(results)
            await settle()
        return len(asyncio.all_tasks())

    assert asyncio.run(go()) == 1
    assert ended == [1, 2]


@pytest.mark.parametrize("parallel", [1, 3])
def test_an_input_that_is_cancelled_is_an_error(parallel):
    """It must neither look like the end of the input nor be waited for."""

    async def items():
        yield 1
        raise asyncio.CancelledError

    async def go():
        return [result async for result in map_concurrently(double, items(), parallel=parallel)]

    with pytest.raises(PaddockError, match="It ended early"):
        asyncio.run(go())


def test_work_that_somebody_else_cancels_is_an_error():
    async def work(number):
        if number == 1:
            raise asyncio.CancelledError
        return number

    async def go():
        return [result async for result in map_concurrently(work, range(3), parallel=1)]

    with pytest.raises(PaddockError, match="It ended early"):
        asyncio.run(go())
