"""A program waits for its slot once, in its turn, within bounds; a refusal names the setting to change."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from paddock.foundation.fair_slots import Bound, FairSlots
from paddock.gate import program_service as module
from paddock.gate.program_service import ProgramService
from paddock.gate.watchers import Watchers
from paddock.model.outcome import RawResult
from paddock.model.request import RuntimeRun
from paddock.policy.settings.overlay import OverlaySettings
from paddock.policy.settings.schema import RuntimeSettings

FULL = "Concurrency limit reached (1/1 active jobs): "
RETRY = ". Nothing started; it is safe to retry."
WORK = RuntimeRun(runtime="python", code="1")
ALONE = Watchers()


def make_service(slots: FairSlots | None = None, **settings: int) -> ProgramService:
    def unused() -> Any:
        raise AssertionError("no program runs")

    limits = RuntimeSettings(max_jobs=1, **settings)
    waiting = slots or FairSlots()
    return ProgramService(limits, unused, unused, str, unused, slots=waiting, overlay=OverlaySettings())


@asynccontextmanager
async def place(
    service: ProgramService, who: str, watchers: Watchers = ALONE, work: RuntimeRun = WORK
) -> AsyncGenerator[tuple[str, str] | None]:
    """Give None for a slot, or the status of a program without one and the texts that say why."""
    async with service.admit(who, work, watchers) as entered:
        yield describe(entered) if isinstance(entered, RawResult) else None


def describe(refused: RawResult) -> tuple[str, str]:
    assert refused.error is not None
    return refused.error.message, refused.error.hint


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_s16_one_too_many_is_refused_at_once() -> None:
    async def go() -> None:
        service = make_service(max_waiting=0)
        async with place(service, "a") as first, place(service, "b") as second:
            assert first is None
            assert second == (
                f"{FULL}the queue is full (runtimes.max_waiting = 0){RETRY}",
                "raise runtimes.max_waiting or runtimes.max_jobs",
            )
        for _ in range(3):
            async with place(service, "b") as free:
                assert free is None

    asyncio.run(go())


def test_s16_who_has_waited_long_enough_is_refused() -> None:
    async def go() -> None:
        service = make_service(max_waiting=1, max_wait_ms=1)
        async with place(service, "a"), place(service, "b") as refusal:
            assert refusal == (
                f"{FULL}the job waited too long (runtimes.max_wait_ms = 1){RETRY}",
                "raise runtimes.max_wait_ms or runtimes.max_jobs",
            )
        async with place(service, "b") as free:
            assert free is None

    asyncio.run(go())


def test_a_program_may_wait_less_than_the_settings_allow() -> None:
    async def go() -> None:
        service = make_service()
        async with place(service, "a"), place(service, "b", Watchers(max_wait_ms=1)) as refusal:
            assert refusal is not None
            assert refusal[0] == f"{FULL}the job waited too long (1 ms){RETRY}"
        assert (service.bound.active, service.waiting) == (0, 0)

    asyncio.run(go())


def test_s23_who_is_stopped_while_he_waits_waits_no_longer() -> None:
    async def go() -> None:
        service, stop = make_service(), asyncio.Event()

        async def program() -> tuple[str, str] | None:
            async with place(service, "b", Watchers(stop=stop)) as refusal:
                return refusal

        async with place(service, "a"):
            waiting = asyncio.create_task(program())
            await settle()
            assert service.waiting == 1
            stop.set()
            assert await waiting == ("It was cancelled while it waited for its turn; nothing ran.", "")
            assert service.waiting == 0
        async with place(service, "b") as free:
            assert free is None

    asyncio.run(go())


def test_what_waits_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 2 * 2**20)

    async def go() -> None:
        service = make_service()

        async def program(size: int) -> tuple[str, str] | None:
            work = RuntimeRun(runtime="python", code="1", stdin=b"x" * (size - 1024))
            async with place(service, "b", work=work) as got:
                return got

        async with place(service, "a", work=RuntimeRun(runtime="python", code="1", stdin=b"x" * 10 * 2**20)):
            waiting = [asyncio.create_task(program(2**20)) for _ in range(2)]
            await settle()
            full = f"{FULL}the waiting programs already use 2 MiB{RETRY}"
            assert await program(4096) == (full, "raise runtimes.max_jobs")
        assert [*await asyncio.gather(*waiting), await program(2**21)] == [None, None, None]
        assert service.bound.waiting_bytes == 0

    asyncio.run(go())


def test_a_patient_program_is_not_refused_however_full_the_queue_is() -> None:
    async def go() -> list[Any]:
        service = make_service(max_waiting=0, max_wait_ms=1)

        async def program() -> tuple[str, str] | None:
            async with place(service, "batch", Watchers(patient=True)) as got:
                await asyncio.sleep(0.01)  # longer than any other program may wait
                return got

        async with place(service, "a"):
            patient = [asyncio.create_task(program()) for _ in range(5)]
            await settle()
            assert (service.waiting, service.bound.waiting_bytes) == (5, 0)
        return list(await asyncio.gather(*patient))

    assert asyncio.run(go()) == [None] * 5


def test_a_program_whose_caller_has_its_slot_waits_no_second_time() -> None:
    async def go() -> None:
        slots, everybody = FairSlots(), Bound(2)
        service = make_service(slots, max_waiting=0)
        slot = await slots.enter("a", everybody, service.bound)
        assert slot is not None
        async with place(service, "a", Watchers(slot=slot)) as first, place(service, "a") as second:
            assert first is None
            assert second is not None
        other = await slots.enter("a", everybody)
        async with place(service, "a", Watchers(slot=other)) as third:  # a slot for something else
            assert third is not None
        slot.end()
        assert service.bound.active == 0

    asyncio.run(go())
