"""Processes of one name, and databases that may forget: by real PostgreSQL."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.support.postgres import Postgres
from tests.support.processes import PATIENCE_S

from paddock.cluster.cleaner import BATCH_ROWS, Cleaner
from paddock.cluster.database import Database
from paddock.cluster.migrate import migrate
from paddock.cluster.node import ClusterNode, NodeLease
from paddock.cluster.postgres_runs import PostgresRunStore
from paddock.cluster.runs import Claim, Finished, Lost, Started, StoredEnd, StoredRuns
from paddock.cluster.status import LEASE_S, read_status
from paddock.gate.cluster import open_cluster
from paddock.model.errors import ConfigurationError, StoreUnavailable
from paddock.model.ids import new_id
from paddock.policy.settings.cluster import ClusterSettings
from paddock.policy.settings.schema import AuditSettings, Settings


def run(url: str, check: Callable[[Database], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Database(url) as database:
            await migrate(database)
            await check(database)

    asyncio.run(main())


async def open_process(database: Database, name: str) -> tuple[NodeLease, StoredRuns]:
    node = ClusterNode(name, new_id())
    lease = NodeLease(database, node)
    assert await lease.renew()
    return lease, StoredRuns(PostgresRunStore(database, node))


def claim(key: str) -> Claim:
    return Claim("t", key, new_id(), b"d" * 32)


async def pass_time(database: Database, seconds: float) -> None:
    """Let all leases be older."""
    await database.fetch(
        "update node set seen = seen - make_interval(secs => %s), others_until = others_until - make_interval(secs => %s)",
        (seconds, seconds),
    )


def test_a_process_that_was_replaced_renews_and_claims_nothing_more(url: str) -> None:
    async def check(database: Database) -> None:
        first, runs = await open_process(database, "a")
        second, others = await open_process(database, "a")
        assert not await first.renew()
        with pytest.raises(StoreUnavailable) as refused:
            await runs.take(claim("k"))
        assert str(refused.value) == "The key 'k' could not be claimed just now. Send it again."
        assert await second.renew()
        assert isinstance(await others.take(claim("k")), Started)

    run(url, check)


def test_a_process_that_was_replaced_does_not_claim_further_attempts(url: str) -> None:
    """It must tell the caller, and not ask the database again and again."""

    async def check(database: Database) -> None:
        _, runs = await open_process(database, "a")
        assert await runs.fence("t", "k", 1)
        await open_process(database, "a")
        with pytest.raises(StoreUnavailable) as refused:
            async with asyncio.timeout(PATIENCE_S):
                await runs.take(claim("k"))
        assert str(refused.value) == "The key 'k' could not be claimed just now. Send it again."

    run(url, check)


def test_requests_of_a_replaced_process_are_lost_when_its_own_lease_is_over(url: str) -> None:
    async def check(database: Database) -> None:
        _, runs = await open_process(database, "a")
        wanted = claim("k")
        started = await runs.take(wanted)
        assert isinstance(started, Started)
        lease, others = await open_process(database, "a")
        await pass_time(database, LEASE_S / 2)
        assert await lease.renew()
        assert await Cleaner(database).expire() == []
        await pass_time(database, LEASE_S / 2)  # the second process has the other half left
        assert await Cleaner(database).expire() == [(wanted.request, "a")]
        assert not await runs.end(started, StoredEnd("ok", None))
        assert await others.take(claim("k")) == Lost(wanted.request, "a")

    run(url, check)


def test_requests_of_a_process_that_ended_in_order_need_no_waiting(url: str) -> None:
    async def check(database: Database) -> None:
        lease, runs = await open_process(database, "a")
        wanted = claim("k")
        await runs.take(wanted)
        await lease.end()
        _, others = await open_process(database, "b")
        assert await others.take(claim("k")) == Lost(wanted.request, "a")
        states = {each.id: each.state for each in (await read_status(database)).nodes}
        assert states == {"a": "ended", "b": "serving"}

    run(url, check)


def test_old_requests_are_forgotten_and_lost_ones_later(url: str) -> None:
    async def check(database: Database) -> None:
        _, runs = await open_process(database, "a")
        for key in ("finished", "lost", "running"):
            taken = await runs.take(claim(key))
            assert isinstance(taken, Started)
            if key == "finished":
                assert await runs.end(taken, StoredEnd("ok", None))
        await database.fetch("update run set state = 'lost', ended = now() where key = 'lost'")
        for age, left in (("25 h", {"lost", "running"}), ("31 days", {"running"})):
            await database.fetch(
                f"update run set started = now() - interval '{age}', ended = now() - interval '{age}'"
            )
            await Cleaner(database).forget_old()
            assert {key for (key,) in await database.fetch("select key from run")} == left

    run(url, check)


def test_a_clock_of_the_database_that_jumped_forward_makes_no_key_new(url: str) -> None:
    async def check(database: Database) -> None:
        _, runs = await open_process(database, "a")
        taken = await runs.take(claim("k"))
        assert isinstance(taken, Started)
        assert await runs.end(taken, StoredEnd("ok", None))
        await database.fetch(
            "update run set started = now() - interval '30 h', ended = now() - interval '30 h'"
        )
        await Cleaner(database, lambda: time.time() - 7 * 3600).forget_old()
        assert isinstance(await runs.take(claim("k")), Finished)
        await Cleaner(database).forget_old()
        assert await database.fetch("select key from run") == []

    run(url, check)


@pytest.mark.parametrize("state", ["started", "finished", "lost"])
def test_an_attempt_is_not_forgotten_before_the_next_one(url: str, state: str) -> None:
    """Its caller sends the same key a day after the first attempt, and soon after the second one."""

    async def check(database: Database) -> None:
        _, runs = await open_process(database, "a")
        assert await runs.fence("t", "k", 1)
        second = await runs.take(claim("k"))
        assert isinstance(second, Started)
        assert second.attempt == 2
        await database.fetch(
            "update run set started = now() - interval '25 h', ended = now() - interval '25 h' where attempt = 1"
        )
        await database.fetch(
            "update run set state = %s, status = 'ok', ended = now() where attempt = 2", (state,)
        )
        await Cleaner(database).forget_old()
        stop = asyncio.Event()
        stop.set()
        again = await runs.take(claim("k"), stop)
        assert not isinstance(again, Started)
        await database.fetch(
            "update run set state = 'finished', started = now() - interval '31 days', "
            "ended = now() - interval '31 days' where attempt = 2"
        )
        for _ in range(2):
            await Cleaner(database).forget_old()
        assert await database.fetch("select count(*) from run") == [(0,)]

    run(url, check)


def test_old_requests_are_deleted_in_batches_by_one_process_at_a_time(url: str) -> None:
    async def check(database: Database) -> None:
        await database.fetch(
            "insert into run (tenant, key, request, digest, state, started, ended) "
            "select 't', n::text, n::text, '', 'finished', now() - interval '25 h', now() - interval '25 h' "
            "from generate_series(1, %s) as n",
            (2 * BATCH_ROWS + 1,),
        )
        cleaner = Cleaner(database)
        async with database.begin() as other:
            await other.execute("select pg_advisory_xact_lock(%s)", (0x7061646432,))
            await cleaner.forget_old()
            assert await database.fetch("select count(*) from run") == [(2 * BATCH_ROWS + 1,)]
        await asyncio.gather(*(cleaner.forget_old() for _ in range(2)))
        await cleaner.forget_old()
        assert await database.fetch("select count(*) from run") == [(0,)]

    run(url, check)


def test_expired_leases_are_noted_by_one_process_at_a_time(url: str) -> None:
    async def check(database: Database) -> None:
        _, runs = await open_process(database, "a")
        wanted = claim("k")
        await runs.take(wanted)
        await pass_time(database, LEASE_S)
        async with database.begin() as other:
            await other.execute("select pg_advisory_xact_lock(%s)", (0x7061646433,))
            assert await Cleaner(database).expire() == []
        found = await asyncio.gather(*(Cleaner(database).expire() for _ in range(2)))
        assert sorted(found) == [[], [(wanted.request, "a")]]
        assert {each.state for each in (await read_status(database)).nodes} == {"expired"}

    run(url, check)


def test_an_expired_lease_is_noticed_by_the_next_renewal_and_noted_once(url: str) -> None:
    async def check(database: Database) -> None:
        lease, _ = await open_process(database, "a")
        other, runs = await open_process(database, "b")
        wanted = claim("k")
        await runs.take(wanted)
        assert await lease.renew()
        assert not lease.others_expired.is_set()
        await pass_time(database, LEASE_S)
        assert await lease.renew()
        assert lease.others_expired.is_set()
        assert await Cleaner(database).expire() == [(wanted.request, "b")]
        states = {each.id: each.state for each in (await read_status(database)).nodes}
        assert states == {"a": "serving", "b": "expired"}
        lease.others_expired.clear()
        assert await lease.renew()
        assert not lease.others_expired.is_set()
        assert await other.renew()
        states = {each.id: each.state for each in (await read_status(database)).nodes}
        assert states == {"a": "serving", "b": "serving"}

    run(url, check)


def test_a_database_that_may_forget_claims_is_refused(url: str, postgres: Postgres) -> None:
    name = url.rpartition("/")[2]
    postgres.query(f"alter database {name} set synchronous_commit = off")

    async def main() -> None:
        async with Database(url) as database:
            await migrate(database)
        async with open_cluster(Settings(cluster=ClusterSettings(url=url, node="a"))):
            raise AssertionError

    with pytest.raises(ConfigurationError) as refused:
        asyncio.run(main())
    assert str(refused.value) == (
        "the database of cluster.url has synchronous_commit = off: after a crash it would forget claims, and requests "
        "would run twice; set it to on, at least for this database: alter database NAME set synchronous_commit = on"
    )


def test_servers_that_a_machine_has_several_of_do_not_take_each_others_name(url: str, tmp_path: Path) -> None:
    async def check(_database: Database) -> None:
        audit = AuditSettings(directory=tmp_path / "audit")  # another test's would remember another database
        settings = Settings(cluster=ClusterSettings(url=url, node="n" * 63), audit=audit)
        async with (
            open_cluster(settings, has_namesakes=True) as one,
            open_cluster(settings, has_namesakes=True) as two,
        ):
            assert one is not None
            assert two is not None
            assert (len(one.node.id), len(two.node.id)) == (63, 63)
            for each, key in ((one, "a"), (two, "b"), (one, "c")):
                assert isinstance(await each.runs.take(claim(key)), Started)

    run(url, check)


def test_a_cluster_without_tables_is_not_opened(url: str) -> None:
    async def main() -> None:
        async with open_cluster(Settings(cluster=ClusterSettings(url=url, node="a"))):
            raise AssertionError

    with pytest.raises(
        ConfigurationError, match=r"^the database of cluster.url lacks 0001_tables; run once: "
    ):
        asyncio.run(main())


def test_a_statement_that_takes_too_long_is_broken_off(url: str) -> None:
    async def check(database: Database) -> None:
        with pytest.raises(StoreUnavailable):
            await database.fetch("select pg_sleep(600)", timeout_s=0.05)
        assert await database.fetch("select 1") == [(1,)]

    run(url, check)


def test_a_connection_that_the_database_closed_is_not_used(url: str, postgres: Postgres) -> None:
    async def check(database: Database) -> None:
        assert await database.fetch("select 1") == [(1,)]
        ended = await asyncio.to_thread(
            postgres.query,
            f"select pg_terminate_backend(pid, 300000) from pg_stat_activity where datname = '{url.rpartition('/')[2]}'",
        )
        assert "t" in ended
        assert await database.fetch("select 1") == [(1,)]

    run(url, check)
