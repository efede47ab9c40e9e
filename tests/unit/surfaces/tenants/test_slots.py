"""Slots: their number, turns by user, the limits of each token, and cancellation at every moment."""

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.approval import Answer, Question
from paddock.surfaces.tenants.admission import Admission
from paddock.surfaces.tenants.errors import TenantBusy
from paddock.surfaces.tenants.slots import Share, Slots

QUESTION = Question(
    id="q", request="r", run="r", what="w", details="{}", reasons=("why",), sha256="a" * 64, wait_ms=1000
)


def share(actor: str, max_jobs: int = 100, max_waiting: int = 1000, max_wait_ms: int = 60_000) -> Share:
    return Share(actor, max_jobs, max_waiting, max_wait_ms)


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


def begin(work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    return asyncio.get_running_loop().create_task(work)


async def enter_all(
    slots: Slots, order: list[str], who: list[tuple[str, Share]]
) -> list["asyncio.Task[None]"]:
    async def one(name: str, own: Share) -> None:
        await slots.enter(own)
        order.append(name)

    tasks = [begin(one(*each)) for each in who]
    await settle()
    return tasks


def test_a_user_with_one_job_is_next_however_many_another_one_has() -> None:
    async def main() -> list[str]:
        slots, alice, bob, order = Slots(1), share("alice"), share("bob"), list[str]()
        await slots.enter(alice)
        await enter_all(slots, order, [(f"alice {number}", alice) for number in range(100)] + [("bob", bob)])
        slots.leave(alice)
        await settle()
        slots.leave(alice)
        await settle()
        return order

    assert asyncio.run(main()) == ["alice 0", "bob"]


def test_users_take_turns() -> None:
    async def main() -> list[str]:
        slots, order = Slots(1), list[str]()
        shares = {name: share(name) for name in ("alice", "bob", "carol")}
        await slots.enter(shares["alice"])
        await enter_all(slots, order, [(name, own) for name, own in shares.items() for _ in range(3)])
        running = "alice"
        for _ in range(9):
            slots.leave(shares[running])
            await settle()
            running = order[-1]
        return order

    assert asyncio.run(main()) == ["alice", "bob", "carol"] * 3


def test_tokens_of_one_user_take_turns_as_one() -> None:
    async def main() -> list[str]:
        slots, order = Slots(1), list[str]()
        laptop, phone, bob = share("alice"), share("alice"), share("bob")
        await slots.enter(bob)
        who = [("laptop", laptop), ("phone", phone), ("laptop", laptop), ("bob", bob), ("bob", bob)]
        await enter_all(slots, order, who)
        running = {"laptop": laptop, "phone": phone, "bob": bob}
        slots.leave(bob)
        await settle()
        for _ in range(4):
            slots.leave(running[order[-1]])
            await settle()
        return order

    assert asyncio.run(main()) == ["laptop", "bob", "phone", "bob", "laptop"]


def test_a_limit_of_a_token_leaves_no_slot_empty() -> None:
    async def main() -> tuple[list[str], int]:
        slots, alice, bob, order = Slots(3), share("alice", max_jobs=1), share("bob"), list[str]()
        await enter_all(slots, order, [("alice", alice)] * 3 + [("bob", bob)] * 3)
        return order, slots.active

    assert asyncio.run(main()) == (["alice", "bob", "bob"], 3)


def test_too_many_that_wait_and_too_long_a_wait_are_told() -> None:
    async def main() -> tuple[str, str]:
        slots, alice = Slots(1), share("alice", max_waiting=1, max_wait_ms=20)
        await slots.enter(alice)
        waiting = begin(slots.enter(alice))
        await settle()
        with pytest.raises(TenantBusy) as many:
            await slots.enter(alice)
        with pytest.raises(TenantBusy) as long:
            await waiting
        assert (slots.active, slots.waiting, alice.waiting) == (1, 0, 0)
        return str(many.value), str(long.value)

    assert asyncio.run(main()) == (
        "too many requests of this token wait already (runtimes.max_waiting = 1). Nothing started; it is safe to retry.",
        "no slot became free within 20 ms. Nothing started; it is safe to retry.",
    )


def test_a_slot_that_comes_together_with_a_cancellation_is_passed_on() -> None:
    async def main() -> tuple[int, int, int]:
        slots, alice, bob = Slots(1), share("alice"), share("bob")
        await slots.enter(alice)
        first, second = begin(slots.enter(bob)), begin(slots.enter(bob))
        await settle()
        slots.leave(alice)
        first.cancel()
        await asyncio.wait({first, second})
        assert (first.cancelled(), second.cancelled()) == (True, False)
        return slots.active, bob.active, slots.waiting

    assert asyncio.run(main()) == (1, 1, 0)


@pytest.mark.parametrize("turns", range(5))
def test_a_slot_is_passed_on_whenever_its_job_is_cancelled(turns: int) -> None:
    async def main() -> tuple[int, int, int]:
        slots, alice, bob = Slots(1), share("alice"), share("bob")
        never = asyncio.Event()

        async def work() -> None:
            assert await slots.enter(bob, stop=never)
            try:
                await never.wait()
            finally:
                slots.leave(bob)

        await slots.enter(alice)
        working = begin(work())
        await settle()
        slots.leave(alice)
        for _ in range(turns):
            await asyncio.sleep(0)
        working.cancel()
        await asyncio.wait({working})
        assert working.cancelled()
        return slots.active, bob.active, slots.waiting

    assert asyncio.run(main()) == (0, 0, 0)


def test_a_job_that_is_stopped_while_it_waits_gets_no_slot() -> None:
    async def main() -> tuple[bool, int, int]:
        slots, alice, bob, stop = Slots(1), share("alice"), share("bob"), asyncio.Event()
        await slots.enter(alice)
        waiting = begin(slots.enter(bob, stop=stop))
        await settle()
        stop.set()
        entered = await waiting
        slots.leave(alice)
        return entered, slots.active, bob.waiting

    assert asyncio.run(main()) == (False, 0, 0)


@given(st.integers(1, 4), st.integers(0, 2**32), st.lists(st.integers(1, 3), min_size=1, max_size=5))
def test_whatever_ends_in_whatever_order_no_slot_is_lost_or_doubled(
    max_jobs: int, seed: int, limits: list[int]
) -> None:
    chance = random.Random(seed)

    async def main() -> None:
        slots = Slots(max_jobs)
        shares = [share(f"user {number}", limit) for number, limit in enumerate(limits)]
        running, at_most = Counter[str](), 0

        async def work(own: Share) -> None:
            nonlocal at_most
            await slots.enter(own, stop=asyncio.Event() if chance.random() < 0.5 else None)
            try:
                running[own.actor] += 1
                at_most = max(at_most, running.total())
                assert running[own.actor] <= own.max_jobs
                for _ in range(chance.randrange(4)):
                    await asyncio.sleep(0)
            finally:
                running[own.actor] -= 1
                slots.leave(own)

        tasks = [begin(work(chance.choice(shares))) for _ in range(40)]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            if chance.random() < 0.3:
                chance.choice(tasks).cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(each) for each in ends} <= {type(None), asyncio.CancelledError}
        assert at_most <= max_jobs
        assert (slots.active, slots.waiting) == (0, 0)
        assert [(each.active, each.waiting) for each in shares] == [(0, 0)] * len(shares)

    asyncio.run(main())


def test_a_job_that_waits_for_a_person_has_no_slot() -> None:
    async def main() -> list[tuple[str, int]]:
        slots, alice, bob = Slots(1), share("alice"), share("bob")
        asked, answered, seen = asyncio.Event(), asyncio.Event(), list[tuple[str, int]]()

        async def ask(_question: Question) -> Answer:
            asked.set()
            await answered.wait()
            return Answer(verdict="once")

        await slots.enter(alice)
        admission = Admission(slots, alice, ask)
        asking = begin(admission.ask(QUESTION))
        await asked.wait()
        seen.append(("asking", slots.active))
        await slots.enter(bob)
        answered.set()
        await settle()
        seen.append(("answered", alice.active))
        assert not asking.done()  # it waits for a slot
        slots.leave(bob)
        assert (await asking).verdict == "once"
        seen.append(("continues", alice.active))
        admission.end()
        seen.append(("ended", slots.active))
        return seen

    assert asyncio.run(main()) == [("asking", 0), ("answered", 0), ("continues", 1), ("ended", 0)]


def test_a_job_that_ends_while_it_asks_gives_back_no_slot_twice() -> None:
    async def main() -> tuple[int, int]:
        slots, alice, bob = Slots(1), share("alice"), share("bob")
        never = asyncio.Event()

        async def ask(_question: Question) -> Answer:
            await never.wait()
            return Answer(verdict="denied")

        await slots.enter(alice)
        admission = Admission(slots, alice, ask)
        asking = begin(admission.ask(QUESTION))
        await settle()
        await slots.enter(bob)
        asking.cancel()
        await asyncio.wait({asking})  # at once, although bob has the slot
        assert (asking.cancelled(), slots.active, alice.active) == (True, 2, 1)
        admission.end()
        slots.leave(bob)
        return slots.active, alice.active

    assert asyncio.run(main()) == (0, 0)
