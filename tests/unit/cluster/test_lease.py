"""When requests with effects may run, and when they are ended."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

import pytest

from paddock.cluster.lease import FENCE_S, KILL_S, RENEW_S, RETRY_S, Lease
from paddock.cluster.status import LEASE_S
from paddock.model.errors import StoreUnavailable


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Killer:
    """Remembers when it would have killed the process."""

    def __init__(self) -> None:
        self.at: float | None = None

    def arm(self, at: float) -> None:
        self.at = at

    def disarm(self) -> None:
        self.at = None


class Database:
    """Answers renewals, or does not."""

    def __init__(self, clock: Clock) -> None:
        self.fails = False
        self.renews = True
        self.takes_s = 0.0
        self.failed = asyncio.Event()
        self._clock = clock

    async def renew(self) -> bool:
        if self.fails:
            self.failed.set()
            raise StoreUnavailable("The database is away.")
        self._clock.now += self.takes_s
        return self.renews


Check = Callable[[Lease, Clock, Database, Killer], Awaitable[None]]


def run(check: Check) -> None:
    async def main() -> None:
        clock, killer = Clock(), Killer()
        database = Database(clock)
        lease = Lease(database.renew, clock, killer)
        try:
            await check(lease, clock, database, killer)
        finally:
            lease.close()

    asyncio.run(main())


def why(lease: Lease) -> str:
    with pytest.raises(StoreUnavailable) as caught:
        lease.check()
    return str(caught.value)


def test_the_steps_of_a_lost_lease_come_in_order() -> None:
    assert FENCE_S < KILL_S < LEASE_S


def test_nothing_starts_before_the_first_renewal() -> None:
    async def check(lease: Lease, _clock: Clock, database: Database, _killer: Killer) -> None:
        assert why(lease) == "This server has not reached the database of cluster.url yet."
        database.fails = True
        await lease.begin()
        assert why(lease) == "The database is away."
        database.fails = False
        await lease.renew_once()
        lease.check()

    run(check)


def test_the_kernel_kills_only_while_something_runs() -> None:
    async def check(lease: Lease, clock: Clock, _database: Database, killer: Killer) -> None:
        await lease.renew_once()
        assert killer.at is None
        with ExitStack() as one, ExitStack() as two:
            one.enter_context(lease.hold(lease.check()))
            assert killer.at == 1000 + KILL_S
            two.enter_context(lease.hold(lease.check()))
            clock.now += 3
            await lease.renew_once()
            assert killer.at == 1003 + KILL_S
            one.close()
            assert killer.at == 1003 + KILL_S
            two.close()
            assert killer.at is None

    run(check)


def test_a_renewal_counts_from_when_it_was_sent() -> None:
    async def check(lease: Lease, clock: Clock, database: Database, killer: Killer) -> None:
        database.takes_s = 5
        await lease.renew_once()
        assert (clock.now, lease.age_s) == (1005, 5)
        with lease.hold(lease.check()):
            assert killer.at == 1000 + KILL_S

    run(check)


def test_what_runs_is_told_when_the_lease_is_too_old() -> None:
    async def check(lease: Lease, clock: Clock, database: Database, _killer: Killer) -> None:
        await lease.renew_once()
        claimed = lease.check()
        with lease.hold(claimed) as fenced:
            clock.now += FENCE_S
            # The next hold looks at the clock, and so does the timer that the last renewal set.
            with pytest.raises(StoreUnavailable) as caught, lease.hold(claimed):
                raise AssertionError
            assert str(caught.value) == "This server was stopped for too long to keep its lease."
            database.takes_s = 0
            assert not fenced.is_set()
            lease.look()
            assert fenced.is_set()
        await lease.renew_once()
        with lease.hold(lease.check()) as again:
            lease.look()
            assert not again.is_set()

    run(check)


def test_a_failed_renewal_lets_nothing_new_start_and_what_runs_go_on() -> None:
    async def check(lease: Lease, clock: Clock, database: Database, _killer: Killer) -> None:
        await lease.renew_once()
        claimed = lease.check()
        with lease.hold(claimed) as fenced:
            database.fails = True
            clock.now += 1
            keeping = asyncio.create_task(lease.keep())
            await database.failed.wait()
            keeping.cancel()
            assert why(lease) == "The database is away."
            lease.look()
            assert not fenced.is_set()
            with lease.hold(claimed):  # it was claimed before
                pass

    run(check)


def test_what_was_claimed_before_the_lease_was_lost_does_not_start_after_it_was_renewed() -> None:
    """It waited for its slot meanwhile. Other machines may have called it lost."""

    async def check(lease: Lease, clock: Clock, _database: Database, killer: Killer) -> None:
        await lease.renew_once()
        claimed = lease.check()
        clock.now += FENCE_S - 1
        await lease.renew_once()
        with lease.hold(claimed):
            pass
        clock.now += FENCE_S
        await lease.renew_once()
        with pytest.raises(StoreUnavailable) as caught, lease.hold(claimed):
            raise AssertionError
        assert str(caught.value) == "This server lost its lease while the request waited for its start."
        assert killer.at is None
        with lease.hold(lease.check()):
            pass

    run(check)


def test_renewals_are_rare_and_follow_a_failure_soon() -> None:
    """Each begins some time after the one before was sent, however long that took."""

    async def main() -> list[float]:
        clock = Clock()
        database, pauses = Database(clock), list[float]()
        steps = [(False, 0.1), (False, 2.0), (False, 4.0), (True, 0.0), (True, 0.0), (False, 0.0)]

        def prepare() -> None:
            database.fails, database.takes_s = steps[len(pauses)]

        async def pause(seconds: float) -> None:
            pauses.append(round(seconds, 3))
            if len(pauses) == len(steps):
                raise asyncio.CancelledError
            prepare()

        prepare()
        lease = Lease(database.renew, clock, Killer(), pause=pause)
        with pytest.raises(asyncio.CancelledError):
            await lease.keep()
        lease.close()
        return pauses

    assert asyncio.run(main()) == [RENEW_S - 0.1, RENEW_S - 2, 0, RETRY_S, RETRY_S, RENEW_S]


def test_a_server_whose_name_is_taken_starts_nothing() -> None:
    async def check(lease: Lease, _clock: Clock, database: Database, _killer: Killer) -> None:
        database.renews = False
        assert not lease.is_replaced
        await lease.renew_once()
        assert lease.is_replaced
        assert why(lease) == (
            "Another process has the name of this server. Give each one a different cluster.node, and restart this one."
        )

    run(check)
