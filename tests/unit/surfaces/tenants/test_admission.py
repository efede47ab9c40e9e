"""An admitted request: it has no slot while it waits for a person."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from paddock.foundation.fair_slots import Bound, FairSlots
from paddock.model.approval import Answer, Question
from paddock.surfaces.tenants.tenant import Admission

QUESTION = Question(
    id="q", request="r", run="r", what="w", details="{}", reasons=("why",), sha256="a" * 64, wait_ms=1000
)


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


def begin(work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    return asyncio.get_running_loop().create_task(work)


def test_a_request_that_waits_for_a_person_has_no_slot() -> None:
    async def main() -> list[tuple[str, int]]:
        slots, everybody, alice, bob = FairSlots(), Bound(1), Bound(100), Bound(100)
        asked, answered, seen = asyncio.Event(), asyncio.Event(), list[tuple[str, int]]()

        async def ask(_question: Question) -> Answer:
            asked.set()
            await answered.wait()
            return Answer(verdict="once")

        slot = await slots.enter("alice", alice, everybody)
        assert slot is not None
        asking = begin(Admission(slot, ask).ask(QUESTION))
        await asked.wait()
        seen.append(("asking", everybody.active))
        other = await slots.enter("bob", bob, everybody)
        assert other is not None
        answered.set()
        await settle()
        seen.append(("answered", alice.active))
        assert not asking.done()  # it waits for a slot
        other.end()
        assert (await asking).verdict == "once"
        seen.append(("continues", alice.active))
        slot.end()
        seen.append(("ended", everybody.active))
        return seen

    assert asyncio.run(main()) == [("asking", 0), ("answered", 0), ("continues", 1), ("ended", 0)]


def test_a_request_that_ends_while_it_asks_gives_back_no_slot_twice() -> None:
    async def main() -> tuple[int, int]:
        slots, everybody, alice = FairSlots(), Bound(1), Bound(100)
        never = asyncio.Event()

        async def ask(_question: Question) -> Answer:
            await never.wait()
            return Answer(verdict="denied")

        slot = await slots.enter("alice", alice, everybody)
        assert slot is not None
        asking = begin(Admission(slot, ask).ask(QUESTION))
        await settle()
        other = await slots.enter("bob", everybody)
        assert other is not None
        asking.cancel()
        await asyncio.wait({asking})  # at once, although bob has the slot
        assert (asking.cancelled(), everybody.active, alice.active) == (True, 2, 1)
        slot.end()
        other.end()
        return everybody.active, alice.active

    assert asyncio.run(main()) == (0, 0)
