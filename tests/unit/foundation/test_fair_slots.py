"""Slots: their number, turns by caller, several bounds at once, and cancellation at every moment."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.foundation.fair_slots import Bound, FairSlots, NoSlotError, Slot


class Server:
    """Slots of a server for some callers, each of which may have a bound of its own."""

    def __init__(self, max_active: int, **own: int) -> None:
        self.slots = FairSlots()
        self.all = Bound(max_active)
        self.own = {caller: Bound(most) for caller, most in own.items()}

    async def enter(self, caller: str, *, as_: str = "", **options: Any) -> Slot | None:
        """Take a slot; `as_` is the caller in whose turn another one waits."""
        own = self.own.setdefault(caller, Bound(100))
        return await self.slots.enter(as_ or caller, own, self.all, **options)

    @property
    def counts(self) -> tuple[int, int, int, int]:
        return self.all.active, self.all.waiting, self.all.patient, self.all.waiting_bytes


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


def begin(work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    return asyncio.get_running_loop().create_task(work)


async def run_in_turn(server: Server, names: list[str], **actors: str) -> list[str]:
    """Return the order in which work ran that came in the order of its names; the first letter is the caller."""
    order, arrived = list[str](), asyncio.Event()

    async def one(name: str) -> None:
        slot = await server.enter(name[0], as_=actors.get(name[0], ""))
        assert slot is not None
        order.append(name)
        await arrived.wait()
        slot.end()

    tasks: list[asyncio.Task[None]] = []
    for name in names:
        tasks.append(begin(one(name)))
        await asyncio.sleep(0)
    arrived.set()
    await asyncio.gather(*tasks)
    assert server.counts == (0, 0, 0, 0)
    return order


def test_callers_take_turns() -> None:
    names = ["a1", "a2", "a3", "b1", "c1", "b2"]
    assert asyncio.run(run_in_turn(Server(1), names)) == ["a1", "a2", "b1", "c1", "a3", "b2"]


def test_a_caller_with_one_is_next_however_many_another_one_has() -> None:
    names = [*(f"a{number}" for number in range(100)), "b"]
    assert asyncio.run(run_in_turn(Server(1), names))[:3] == ["a0", "a1", "b"]


def test_several_bounds_of_one_caller_take_turns_as_one() -> None:
    names = ["b0", "l1", "p1", "l2", "b1", "b2"]
    order = asyncio.run(run_in_turn(Server(1), names, l="alice", p="alice"))
    assert order == ["b0", "l1", "b1", "p1", "b2", "l2"]


def test_a_bound_of_a_caller_leaves_no_slot_empty() -> None:
    async def main() -> None:
        server = Server(3, a=1)
        waiting = [begin(server.enter(caller)) for caller in "aaabbb"]
        await settle()
        assert [task.done() for task in waiting] == [True, False, False, True, True, False]
        assert server.counts == (3, 3, 0, 0)

    asyncio.run(main())


def test_work_with_several_bounds_keeps_no_slot_while_it_waits() -> None:
    """A program waits once, for the slot of its server and of its kind."""

    async def main() -> None:
        slots, everybody, programs = FairSlots(), Bound(2), Bound(1)
        first = await slots.enter("a", everybody, programs)
        second = begin(slots.enter("a", everybody, programs))
        await settle()
        assert (everybody.active, programs.waiting) == (1, 1)
        assert await slots.enter("b", everybody) is not None
        assert first is not None
        first.end()
        await settle()
        assert second.done()
        assert (everybody.active, everybody.waiting, programs.active) == (2, 0, 1)

    asyncio.run(main())


def test_only_so_much_may_wait_and_only_so_long() -> None:
    async def main() -> list[str]:
        slots, bound, why = FairSlots(), Bound(1, max_waiting=1, max_waiting_bytes=2), list[str]()
        running = await slots.enter("a", bound)
        assert running is not None
        for options in ({"size": 3}, {"max_wait_ms": 1}):
            with pytest.raises(NoSlotError) as refused:
                await slots.enter("b", bound, **options)
            why.append(refused.value.why)
        waiting = begin(slots.enter("b", bound, size=2))
        await settle()
        assert (bound.waiting, bound.waiting_bytes) == (1, 2)
        with pytest.raises(NoSlotError) as refused:
            await slots.enter("c", bound)
        running.end()
        assert isinstance(await waiting, Slot)
        assert (bound.active, bound.waiting, bound.waiting_bytes) == (1, 0, 0)
        return [*why, refused.value.why]

    assert asyncio.run(main()) == ["bytes", "time", "number"]


def test_what_is_stopped_while_it_waits_gets_no_slot() -> None:
    async def main() -> None:
        server, stop = Server(1), asyncio.Event()
        first = await server.enter("a")
        assert first is not None
        waiting = begin(server.enter("b", stop=stop))
        await settle()
        stop.set()
        assert await waiting is None
        first.end()
        assert server.counts == (0, 0, 0, 0)

    asyncio.run(main())


def test_the_wait_is_measured() -> None:
    async def main() -> None:
        server = Server(1)
        first = await server.enter("a")
        assert first is not None
        assert first.waited_ms == 0
        waiting = begin(server.enter("b"))
        await asyncio.sleep(0.01)
        first.end()
        second = await waiting
        assert second.waited_ms >= 9

    asyncio.run(main())


def test_patient_work_is_not_refused_and_takes_no_room_of_others() -> None:
    async def main() -> list[str]:
        slots, bound, order = FairSlots(), Bound(1, max_waiting=1, max_waiting_bytes=0), list[str]()

        async def work(caller: str, *, patient: bool) -> None:
            slot = await slots.enter(caller, bound, size=100 * patient, patient=patient, max_wait_ms=1000)
            assert slot is not None
            order.append(caller)
            slot.end()

        first = await slots.enter("first", bound)
        assert first is not None
        waiting = [begin(work("batch", patient=True)) for _ in range(3)]
        await settle()
        waiting.append(begin(work("other", patient=False)))
        await settle()
        assert (bound.waiting, bound.patient, bound.waiting_bytes) == (4, 3, 0)
        with pytest.raises(NoSlotError):
            await slots.enter("third", bound)
        first.end()
        await asyncio.gather(*waiting)
        return order

    assert asyncio.run(main()) == ["batch", "other", "batch", "batch"]


def test_a_slot_that_comes_together_with_a_cancellation_is_passed_on() -> None:
    async def main() -> None:
        server = Server(1)
        running = await server.enter("a")
        assert running is not None
        first, second = begin(server.enter("b")), begin(server.enter("b"))
        await settle()
        running.end()
        first.cancel()
        await asyncio.wait({first, second})
        assert (first.cancelled(), second.cancelled()) == (True, False)
        assert (server.counts, server.own["b"].active) == ((1, 0, 0, 0), 1)

    asyncio.run(main())


@pytest.mark.parametrize("turns", range(5))
def test_a_slot_is_passed_on_whenever_its_work_is_cancelled(turns: int) -> None:
    async def main() -> None:
        server, never = Server(1), asyncio.Event()

        async def work() -> None:
            slot = await server.enter("b", stop=never)
            assert slot is not None
            try:
                await never.wait()
            finally:
                slot.end()

        running = await server.enter("a")
        assert running is not None
        working = begin(work())
        await settle()
        running.end()
        for _ in range(turns):
            await asyncio.sleep(0)
        working.cancel()
        await asyncio.wait({working})
        assert working.cancelled()
        assert server.counts == (0, 0, 0, 0)

    asyncio.run(main())


def test_work_that_had_a_slot_comes_before_further_work_of_its_caller_and_takes_turns_with_others() -> None:
    async def main() -> list[str]:
        server, order, started = Server(1), list[str](), asyncio.Event()

        async def work(name: str, slot: Slot | None = None) -> None:
            if slot is None:
                slot = await server.enter(name[0])
                assert slot is not None
            else:
                assert await slot.take_again()
            order.append(name)
            await started.wait()
            slot.end()

        lent: list[Slot] = []
        for _ in range(2):
            slot = await server.enter("a")
            assert slot is not None
            slot.give_back()
            lent.append(slot)
        tasks = [begin(work(name)) for name in ("b1", "a3", "b2", "a4")]
        await settle()
        tasks += [begin(work(name, slot)) for name, slot in zip(("a1", "a2"), lent, strict=True)]
        await settle()
        started.set()
        await asyncio.gather(*tasks)
        assert server.counts == (0, 0, 0, 0)
        return order

    assert asyncio.run(main()) == ["b1", "a1", "b2", "a2", "a3", "a4"]


def test_work_that_had_a_slot_may_be_stopped_or_wait_too_long_for_it() -> None:
    async def main() -> None:
        server, stop = Server(1), asyncio.Event()
        slot = await server.enter("a")
        assert slot is not None
        slot.give_back()
        other = await server.enter("b")
        assert other is not None
        with pytest.raises(NoSlotError) as refused:
            await slot.take_again(max_wait_ms=1)
        assert refused.value.why == "time"
        assert slot.waited_ms >= 1
        again = begin(slot.take_again(stop=stop))
        await settle()
        stop.set()
        assert await again is False
        other.end()
        assert server.counts == (0, 0, 0, 0)
        assert await slot.take_again()
        assert server.counts == (1, 0, 0, 0)
        slot.end()
        assert server.counts == (0, 0, 0, 0)

    asyncio.run(main())


class Users:
    """Users whose work ends, is given a pause, stopped, refused and cancelled by chance."""

    def __init__(self, max_active: int, limits: list[int], max_waiting: int, chance: random.Random) -> None:
        self.slots = FairSlots()
        self.all = Bound(max_active, max_waiting)
        self.own = [Bound(limit) for limit in limits]
        self.chance = chance
        self.running = Counter[int]()

    async def work(self) -> None:
        user = self.chance.randrange(len(self.own))
        stop = asyncio.Event() if self.chance.random() < 0.5 else None
        patient = self.chance.random() < 0.2
        bounds = self.own[user], self.all
        with contextlib.suppress(NoSlotError):
            slot = await self.slots.enter(str(user), *bounds, stop=stop, size=7, patient=patient)
            assert slot is not None
            try:
                await self.run(user)
                slot.give_back()
                await slot.take_again()
                await self.run(user)
            finally:
                slot.end()

    async def run(self, user: int) -> None:
        self.running[user] += 1
        try:
            assert self.running[user] <= self.own[user].max_active
            assert self.running.total() <= self.all.max_active
            for _ in range(self.chance.randrange(4)):
                await asyncio.sleep(0)
        finally:
            self.running[user] -= 1


@given(
    st.integers(1, 4),
    st.integers(0, 2**32),
    st.lists(st.integers(1, 3), min_size=1, max_size=5),
    st.integers(0, 40),
)
def test_whatever_ends_in_whatever_order_no_slot_is_lost_or_doubled(
    max_active: int, seed: int, limits: list[int], max_waiting: int
) -> None:
    async def main() -> None:
        chance = random.Random(seed)
        users = Users(max_active, limits, max_waiting, chance)
        tasks = [begin(users.work()) for _ in range(40)]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            if chance.random() < 0.3:
                chance.choice(tasks).cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(each) for each in ends} <= {type(None), asyncio.CancelledError}
        for bound in (users.all, *users.own):
            assert (bound.active, bound.waiting, bound.patient, bound.waiting_bytes) == (0, 0, 0, 0)

    asyncio.run(main())


def test_a_slot_that_was_given_back_is_taken_again_in_turn_or_at_once() -> None:
    async def main() -> None:
        server = Server(1)
        slot = await server.enter("a")
        assert slot is not None
        slot.give_back()
        slot.give_back()
        other = await server.enter("b")
        assert other is not None
        again = begin(slot.take_again())
        await settle()
        assert not again.done()
        slot.take_now()  # it cannot wait any longer
        assert server.counts == (2, 1, 1, 0)
        other.end()
        assert server.counts == (1, 1, 1, 0)
        slot.end()
        await again
        assert server.counts == (0, 0, 0, 0)
        await slot.take_again()
        slot.take_now()
        slot.end()
        assert server.counts == (0, 0, 0, 0)

    asyncio.run(main())
