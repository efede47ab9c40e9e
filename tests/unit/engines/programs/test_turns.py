"""Turns: bounded, fair by caller, and none is ever lost."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.engines.programs import admission_queue as module
from paddock.engines.programs.admission_queue import AdmissionQueue, QueueFullError

FULL = "Concurrency limit reached (1/1 active jobs): "
RETRY = ". Nothing started; it is safe to retry."


@asynccontextmanager
async def place(
    turns: AdmissionQueue, who: str, stop: asyncio.Event | None = None, *, size: int = 0
) -> AsyncGenerator[bool | tuple[str, str]]:
    """Give whether there is a place, or the two texts that say why there is none."""
    try:
        got = await turns.enter(who, stop, size=size)
    except QueueFullError as error:
        yield str(error), error.hint
        return
    try:
        yield got
    finally:
        if got:
            turns.leave()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_s16_one_too_many_is_refused_at_once() -> None:
    async def go() -> None:
        turns = AdmissionQueue(1, waiting=0, wait_ms=60_000)
        async with place(turns, "a") as first, place(turns, "b") as second:
            assert first is True
            assert second == (
                f"{FULL}the queue is full (runtimes.max_waiting = 0){RETRY}",
                "raise runtimes.max_waiting or runtimes.max_jobs",
            )
        for _ in range(3):
            async with place(turns, "b") as free:
                assert free is True

    asyncio.run(go())


def test_s16_who_has_waited_long_enough_is_refused() -> None:
    async def go() -> None:
        turns = AdmissionQueue(1, waiting=1, wait_ms=1)
        async with place(turns, "a"), place(turns, "b") as refusal:
            assert refusal == (
                f"{FULL}the job waited too long (runtimes.max_wait_ms = 1){RETRY}",
                "raise runtimes.max_wait_ms or runtimes.max_jobs",
            )
        async with place(turns, "b") as free:
            assert free is True

    asyncio.run(go())


def test_s23_who_is_stopped_while_he_waits_waits_no_longer() -> None:
    async def go() -> None:
        turns, stop = AdmissionQueue(1, waiting=1, wait_ms=60_000), asyncio.Event()

        async def job() -> bool | tuple[str, str]:
            async with place(turns, "b", stop) as refusal:
                return refusal

        async with place(turns, "a"):
            waiting = asyncio.create_task(job())
            await settle()
            assert turns.waiting == 1
            stop.set()
            assert await waiting is False
            assert turns.waiting == 0
        async with place(turns, "b") as free:
            assert free is True

    asyncio.run(go())


def test_what_waits_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUE_BYTES", 2 * 2**20)

    async def go() -> None:
        turns = AdmissionQueue(1, waiting=10, wait_ms=60_000)

        async def job(size: int) -> bool | tuple[str, str]:
            async with place(turns, "b", size=size) as got:
                return got

        async with place(turns, "a", size=10 * 2**20):  # what runs does not count
            waiting = [asyncio.create_task(job(2**20)) for _ in range(2)]
            await settle()
            full = f"{FULL}the waiting programs already use 2 MiB{RETRY}"
            assert await job(1) == (full, "raise runtimes.max_jobs")
        assert [*await asyncio.gather(*waiting), await job(2**21)] == [True, True, True]
        assert turns.waiting_bytes == 0

    asyncio.run(go())


def test_callers_take_turns() -> None:
    async def go() -> list[str]:
        turns, order = AdmissionQueue(1, waiting=10, wait_ms=60_000), list[str]()

        async def job(who: str, name: str) -> None:
            async with place(turns, who) as refusal:
                assert refusal is True
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
        turns, active, peak = AdmissionQueue(most, waiting=room, wait_ms=60_000), 0, 0

        async def job(who: str, steps: int) -> None:
            nonlocal active, peak
            async with place(turns, who) as refusal:
                if refusal is True:
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
        assert (turns.active, turns.callers) == (0, ())

    asyncio.run(go())


def test_a_job_may_wait_less_than_the_settings_allow() -> None:
    async def go() -> None:
        turns = AdmissionQueue(1, waiting=1, wait_ms=60_000)
        async with place(turns, "a"):
            with pytest.raises(
                QueueFullError, match=re.escape(f"{FULL}the job waited too long (1 ms){RETRY}")
            ):
                await turns.enter("b", max_wait_ms=1)
        assert (turns.active, turns.waiting) == (0, 0)

    asyncio.run(go())


def test_a_patient_job_is_not_refused_however_full_the_queue_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> list[bool]:
        monkeypatch.setattr(module, "QUEUE_BYTES", 0)
        turns = AdmissionQueue(1, waiting=0, wait_ms=1)

        async def job() -> bool:
            got = await turns.enter("batch", size=100, patient=True)
            await asyncio.sleep(0.01)  # longer than any other job may wait
            turns.leave()
            return got

        async with place(turns, "a"):
            patient = [asyncio.create_task(job()) for _ in range(5)]
            await settle()
            assert (turns.waiting, turns.waiting_bytes) == (5, 0)
        return list(await asyncio.gather(*patient))

    assert asyncio.run(go()) == [True] * 5


def test_patient_jobs_take_no_room_and_take_turns_with_other_callers() -> None:
    async def go() -> list[str]:
        turns, order = AdmissionQueue(1, waiting=1, wait_ms=60_000), list[str]()

        async def job(who: str, *, patient: bool) -> None:
            await turns.enter(who, patient=patient)
            order.append(who)
            turns.leave()

        async with place(turns, "first"):
            waiting = [asyncio.create_task(job("batch", patient=True)) for _ in range(3)]
            await settle()
            waiting.append(asyncio.create_task(job("other", patient=False)))
            await settle()
            async with place(turns, "third") as refusal:
                assert isinstance(refusal, tuple)
        await asyncio.gather(*waiting)
        return order

    assert asyncio.run(go()) == ["batch", "other", "batch", "batch"]
