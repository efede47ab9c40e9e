"""Turns: bounded, fair by caller, and none is ever lost."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from hypothesis import given
from hypothesis import strategies as st

from paddock.runtimes.turns import Turns

FULL = "Concurrency limit reached (1/1 active jobs)"


@asynccontextmanager
async def place(turns: Turns, who: str, stop: asyncio.Event | None = None) -> AsyncGenerator[str | None]:
    refusal = await turns.enter(who, stop)
    try:
        yield refusal
    finally:
        if refusal == "":
            turns.leave()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_s16_one_too_many_is_refused_at_once() -> None:
    async def go() -> None:
        turns = Turns(1, waiting=0, wait_ms=60_000)
        async with place(turns, "a") as first, place(turns, "b") as second:
            assert (first, second) == ("", FULL)
        for _ in range(3):
            async with place(turns, "b") as free:
                assert free == ""

    asyncio.run(go())


def test_s16_who_has_waited_long_enough_is_refused() -> None:
    async def go() -> None:
        turns = Turns(1, waiting=1, wait_ms=1)
        async with place(turns, "a"), place(turns, "b") as refusal:
            assert refusal == FULL
        async with place(turns, "b") as free:
            assert free == ""

    asyncio.run(go())


def test_s23_who_is_stopped_while_he_waits_waits_no_longer() -> None:
    async def go() -> None:
        turns, stop = Turns(1, waiting=1, wait_ms=60_000), asyncio.Event()

        async def job() -> str | None:
            async with place(turns, "b", stop) as refusal:
                return refusal

        async with place(turns, "a"):
            waiting = asyncio.create_task(job())
            await settle()
            assert turns.waiting == 1
            stop.set()
            assert await waiting is None
            assert turns.waiting == 0
        async with place(turns, "b") as free:
            assert free == ""

    asyncio.run(go())


def test_callers_take_turns() -> None:
    async def go() -> list[str]:
        turns, order = Turns(1, waiting=10, wait_ms=60_000), list[str]()

        async def job(who: str, name: str) -> None:
            async with place(turns, who) as refusal:
                assert refusal == ""
                order.append(name)
                await settle()

        names = [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1"), ("b", "b2")]
        tasks = []
        for who, name in names:
            tasks.append(asyncio.create_task(job(who, name)))
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(go()) == ["a1", "a2", "b1", "c1", "a3", "b2"]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 8), st.booleans()), max_size=30),
    st.integers(1, 3),
    st.integers(0, 5),
)
def test_no_turn_is_lost_and_none_is_taken_twice(
    jobs: list[tuple[str, int, bool]], most: int, room: int
) -> None:
    async def go() -> None:
        turns, active, peak = Turns(most, waiting=room, wait_ms=60_000), 0, 0

        async def job(who: str, steps: int) -> None:
            nonlocal active, peak
            async with place(turns, who) as refusal:
                if not refusal:
                    active += 1
                    peak = max(peak, active)
                    try:
                        for _ in range(steps):
                            await asyncio.sleep(0)
                    finally:
                        active -= 1

        tasks = [(asyncio.create_task(job(who, steps)), cancelled) for who, steps, cancelled in jobs]
        await asyncio.sleep(0)
        for task, cancelled in tasks:
            if cancelled:
                task.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(*(task for task, _ in tasks), return_exceptions=True)
        assert (active, peak <= most) == (0, True)
        assert (turns._active, dict(turns._waiting)) == (0, {})

    asyncio.run(go())
