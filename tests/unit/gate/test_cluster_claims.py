"""Claims of requests whose database is slow, hangs or takes no ends: who has a slot meanwhile, and what starts."""

import asyncio
import logging
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paddock.cluster.clock import ClockCheck
from paddock.cluster.node import ClusterNode
from paddock.cluster.runs import Claim, OnSend, RunRow, Started, StoredEnd, StoredRuns
from paddock.foundation.fair_slots import Bound, FairSlots, Slot
from paddock.gate import cluster_claims, database_queue
from paddock.gate.cluster_claims import PaddockClaims
from paddock.gate.database_queue import MAX_CLAIMS, DatabaseQueue
from paddock.gate.watchers import Watchers
from paddock.model.errors import StoreUnavailable
from paddock.model.outcome import Decision, Outcome, RawResult, Status
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.policy.settings.schema import Settings

ALLOWED = Decision(allowed=True)
ALONE = Watchers()
OK = RawResult(status=Status.OK)


def make_request(actor: str = "a") -> ExecutionRequest:
    work = RuntimeRun(runtime="shell", code="x", session="new")
    return ExecutionRequest(workspace=Path("/w"), actor=actor, work=work)


class Lease:
    """A lease that lasts, until it is broken."""

    age_s = 0.0

    def __init__(self) -> None:
        self.breaks = 0

    def check(self) -> int:
        return self.breaks

    def hold(self, claimed: int) -> "Lease":
        if claimed != self.breaks:
            raise StoreUnavailable("The lease was lost.")
        return self

    def __enter__(self) -> asyncio.Event:
        return asyncio.Event()

    def __exit__(self, *_error: object) -> None:
        pass


class Runs:
    """Takes each claim when the test lets it, and remembers ends."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers = asyncio.Event()
        self.answers.set()
        self.ends: list[str | None] = []

    async def take(self, claim: Claim, _stop: asyncio.Event | None, _on_wait: object) -> Started:
        self.asked += 1
        await self.answers.wait()
        return Started(claim, 1)

    async def end(self, _run: Started, end: StoredEnd | None) -> bool:
        self.ends.append(None if end is None else end.status)
        return True


class Server:
    """A server with one slot, and its claims."""

    def __init__(self, runs: Any = None, **settings: int) -> None:
        self.runs: Any = runs or Runs()
        self.lease = Lease()
        self.clock = ClockCheck()
        self.queue = DatabaseQueue()
        self.slots, self.bound = FairSlots(), Bound(1)
        given = SimpleNamespace(
            runs=self.runs,
            lease=self.lease,
            node=ClusterNode("a", "boot"),
            queue=self.queue,
            generation=SimpleNamespace(check=lambda: None, id="generation"),
            clock=self.clock,
        )
        cluster: Any = given
        self.claims = PaddockClaims(cluster, Settings.model_validate({"runtimes": settings}))

    async def enter(self, caller: str = "a") -> Slot:
        slot = await self.slots.enter(caller, self.bound)
        assert slot is not None
        return slot

    async def execute(
        self, slot: Slot | None, order: list[str], stop: asyncio.Event | None = None
    ) -> RawResult:
        """Carry a request out as the gate does; `order` is told of its start."""
        request = make_request()

        async def work() -> RawResult:
            order.append("effect")
            return OK

        async with self.claims.begin(request) as claim:
            end = await claim.take(request, ALLOWED, Watchers(slot=slot, stop=stop)) or await claim.run(
                work()
            )
            if slot is not None:
                slot.end()
            return await claim.end(end if isinstance(end, Outcome) else Outcome(id=request.id, **vars(end)))


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def lend_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_queue, "PROMPT_S", 0)


def test_an_end_that_cannot_be_stored_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The lease is renewed all the time. Neither the caller nor the end of the server may wait for the disk."""
    monkeypatch.setattr(cluster_claims, "FENCE_S", 0.1)
    monkeypatch.setattr(cluster_claims, "_RETRY_S", 0.01)

    class Full(Runs):
        async def end(self, _run: Started, end: StoredEnd | None) -> bool:
            raise StoreUnavailable("The disk is full.")

    async def main() -> None:
        with caplog.at_level(logging.WARNING, "paddock.cluster"):
            assert (await Server(Full()).execute(None, [])).status is Status.OK

    run(main())
    [message] = caplog.messages
    assert message.endswith(" is stored later: The disk is full.")


def test_others_use_the_slot_while_the_database_is_slow_and_the_claim_is_there_before_the_start() -> None:
    async def main() -> None:
        server, order = Server(), list[str]()
        server.runs.answers.clear()
        claiming = asyncio.create_task(server.execute(await server.enter(), order))
        for _ in range(3):
            pure = await server.enter()  # while the claim is on its way
            order.append("pure")
            pure.end()
        assert server.runs.asked == 1
        held = await server.enter()
        server.runs.answers.set()
        await settle()
        order.append("claimed")
        assert not claiming.done()
        held.end()
        assert (await claiming).status is Status.OK
        assert order == ["pure", "pure", "pure", "claimed", "effect"]
        assert (server.runs.ends, server.bound.active) == (["ok"], 0)

    run(main())


def test_a_slot_is_kept_while_the_database_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a request would look started while it waits for a slot, and would be lost with its server."""
    monkeypatch.setattr(database_queue, "PROMPT_S", 3600)

    async def main() -> None:
        server, order = Server(), list[str]()
        slot = await server.enter()
        pure = asyncio.create_task(server.enter("b"))
        assert (await server.execute(slot, order)).status is Status.OK
        order.append("pure")
        await pure
        assert order == ["effect", "pure"]

    run(main())


def test_a_slot_is_lent_at_once_after_a_late_answer_until_one_is_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        queue, slots, bound = DatabaseQueue(), FairSlots(), Bound(1)
        slot = await slots.enter("a", bound)
        assert slot is not None
        with queue.lend(slot):
            while bound.active:  # noqa: ASYNC110 - the timer gives it back
                await asyncio.sleep(0)
        monkeypatch.setattr(database_queue, "PROMPT_S", 3600)
        assert await slot.take_again()
        with queue.lend(slot):
            assert bound.active == 0
        assert await slot.take_again()
        with queue.lend(slot) as lend_now:
            assert bound.active == 1
            lend_now()
            assert bound.active == 0

    run(main())


def test_a_request_that_gets_no_slot_after_its_claim_is_withdrawn() -> None:
    async def main() -> None:
        server, order = Server(max_wait_ms=1), list[str]()
        server.runs.answers.clear()
        claiming = asyncio.create_task(server.execute(await server.enter(), order))
        held = await server.enter()
        server.runs.answers.set()
        end = await claiming
        assert end.error is not None
        assert (end.status, end.error.name, end.error.message, end.error.hint) == (
            Status.UNAVAILABLE,
            "Busy",
            "It waited 1 ms for a slot after the database had answered late.",
            "nothing was started: send it again later, with the same key",
        )
        assert (order, server.runs.ends) == ([], [None])
        held.end()
        assert server.bound.active == 0

    run(main())


def test_a_request_that_is_stopped_while_it_waits_does_not_start_and_keeps_nothing() -> None:
    async def main() -> None:
        server, order, stop = Server(), list[str](), asyncio.Event()
        server.runs.answers.clear()
        holding = [asyncio.create_task(server.execute(None, order)) for _ in range(MAX_CLAIMS)]
        await settle()
        # Its claim was not sent.
        queued = asyncio.create_task(server.execute(await server.enter(), order, stop))
        held = await server.enter()
        stop.set()
        end = await queued
        assert (end.status, server.runs.asked, server.runs.ends) == (Status.CANCELLED, MAX_CLAIMS, [])
        server.runs.answers.set()
        await asyncio.gather(*holding)
        order.clear()
        server.runs.ends.clear()
        # Its claim is there, and it waits for its slot.
        stop.clear()
        held.end()
        server.runs.answers.clear()
        claimed = asyncio.create_task(server.execute(await server.enter(), order, stop))
        held = await server.enter()
        server.runs.answers.set()
        await settle()
        stop.set()
        end = await claimed
        assert end.error is not None
        assert (end.status, end.error.message) == (
            Status.CANCELLED,
            "It was cancelled while it waited for its turn; nothing ran.",
        )
        assert (order, server.runs.ends) == ([], [None])
        held.end()
        assert server.bound.active == 0

    run(main())


def test_a_task_that_is_cancelled_while_it_waits_for_its_slot_withdraws_its_claim() -> None:
    async def main() -> None:
        server, order = Server(), list[str]()
        server.runs.answers.clear()
        slot = await server.enter()
        claiming = asyncio.create_task(server.execute(slot, order))
        held = await server.enter()
        server.runs.answers.set()
        await settle()
        claiming.cancel()
        await asyncio.wait({claiming})
        slot.end()
        held.end()
        assert (claiming.cancelled(), order, server.runs.ends, server.bound.active) == (True, [], [None], 0)
        # Its place is free again.
        assert [(await server.execute(None, order)).status for _ in range(MAX_CLAIMS)] == [
            Status.OK
        ] * MAX_CLAIMS

    run(main())


def test_what_lost_its_lease_while_it_waited_for_its_slot_does_not_start() -> None:
    async def main() -> None:
        server, order = Server(), list[str]()
        server.runs.answers.clear()
        claiming = asyncio.create_task(server.execute(await server.enter(), order))
        held = await server.enter()
        server.runs.answers.set()
        await settle()
        server.lease.breaks += 1
        held.end()
        end = await claiming
        assert end.error is not None
        assert (end.status, end.error.message) == (Status.UNAVAILABLE, "The lease was lost.")
        assert (order, server.runs.ends) == ([], [None])

    run(main())


def test_few_requests_are_claimed_before_they_have_a_slot_and_few_of_one_caller_wait() -> None:
    async def main() -> None:
        server, order = Server(max_waiting=1), list[str]()
        server.runs.answers.clear()
        claiming = [
            asyncio.create_task(server.execute(await server.enter(), order)) for _ in range(MAX_CLAIMS + 1)
        ]
        await settle()
        refused = await server.execute(await server.enter(), order)
        assert refused.error is not None
        assert (refused.status, refused.error.message) == (
            Status.UNAVAILABLE,
            "Too many requests of this caller wait for the database of the cluster already (runtimes.max_waiting = 1).",
        )
        assert server.runs.asked == MAX_CLAIMS
        held = await server.enter()
        server.runs.answers.set()
        await settle()
        assert server.runs.asked == MAX_CLAIMS  # the others have no slot yet
        held.end()
        assert {(await each).status for each in claiming} == {Status.OK}
        assert (order, server.bound.active) == (["effect"] * (MAX_CLAIMS + 1), 0)

    run(main())


class Elsewhere:
    """A store in which another server runs each request, until the test lets all of them end."""

    def __init__(self) -> None:
        self.ended = False
        self._digests: dict[str, bytes] = {}

    async def insert(self, claim: Claim, _attempt: int, _on_send: OnSend) -> bool:
        self._digests[claim.key] = claim.digest
        return False

    async def read(self, _tenant: str, key: str, _attempt: int | None) -> RunRow:
        state, status = ("finished", "ok") if self.ended else ("started", None)
        return RunRow(1, "other", self._digests[key], "b", state, status, None, True)


def test_what_waits_for_the_same_request_elsewhere_keeps_neither_slot_nor_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(database_queue, "PROMPT_S", 3600)

    async def main() -> None:
        store: Any = Elsewhere()
        server, order = Server(StoredRuns(store)), list[str]()
        waiting = [
            asyncio.create_task(server.execute(await server.enter(), order)) for _ in range(MAX_CLAIMS + 1)
        ]
        free = await server.enter()
        free.end()
        store.ended = True
        ends = await asyncio.gather(*waiting)
        assert {end.error.name for end in ends if end.error is not None} == {"OutcomeNotKept"}
        assert order == []

    run(main())


def test_nothing_is_claimed_while_the_clock_is_wrong() -> None:
    async def work() -> None:
        server = Server()
        server.clock.compare(1000.0, 1060.0, 1000.0)
        refused = await server.execute(None, [])
        assert refused.error is not None
        assert (refused.status, refused.error.message, server.runs.asked) == (
            Status.UNAVAILABLE,
            "The clock of this machine is 60 s behind that of the database of cluster.url; at most 10 s are allowed. "
            "Set it, for example by NTP.",
            0,
        )

    run(work())
