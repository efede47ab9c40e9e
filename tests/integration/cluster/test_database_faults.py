"""A database that hangs, that is a standby, or that grants too little: nothing waits for it for ever, and all recovers."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.late_proxy import LateProxy
from tests.support.leases import execute
from tests.support.postgres import Postgres
from tests.support.processes import PATIENCE_S

from paddock.cluster import blocking, migrate
from paddock.cluster.blocking import BlockingDatabase
from paddock.cluster.database import Database, shut_down
from paddock.cluster.listener import Listener
from paddock.gate.cluster import open_cluster
from paddock.model.errors import StoreUnavailable
from paddock.policy.settings.cluster import ClusterSettings
from paddock.policy.settings.schema import AuditSettings, Settings


@pytest.fixture
def proxy(postgres: Postgres) -> Iterator[LateProxy]:
    with LateProxy(postgres.port) as proxy:
        yield proxy


def find_url(url: str, proxy: LateProxy) -> str:
    """Return the address of a database behind the proxy."""
    return f"postgresql://postgres@127.0.0.1:{proxy.port}/{url.rpartition('/')[2]}"


def test_a_server_starts_while_its_database_hangs_and_uses_it_afterwards(
    tables_url: str, proxy: LateProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "STATEMENT_S", 0.2)
    settings = Settings(
        cluster=ClusterSettings(url=find_url(tables_url, proxy), node="a"),
        audit=AuditSettings(directory=tmp_path / "audit"),
    )
    proxy.swallowed = b"paddock_migration"

    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), open_cluster(settings) as cluster:
            assert cluster is not None
            with pytest.raises(StoreUnavailable):
                cluster.lease.check()
            proxy.swallowed = b""
            while True:
                try:
                    cluster.lease.check()
                except StoreUnavailable:
                    await asyncio.sleep(0.05)
                else:
                    return

    asyncio.run(run())


def test_threads_do_not_wait_for_a_database_that_hangs(
    tables_url: str, proxy: LateProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = BlockingDatabase(find_url(tables_url, proxy))
    assert used.fetch("select 1") == [(1,)]
    proxy.swallowed = b"select 2"
    with monkeypatch.context() as patched:
        patched.setattr(blocking, "STATEMENT_S", 0.2)
        patched.setattr(blocking, "_MARGIN_S", 0.2)
        with pytest.raises(StoreUnavailable) as refused:
            used.fetch("select 2")
    assert str(refused.value) == (
        "The database of cluster.url cannot be used: no answer within 0.4 seconds. Check that it runs and can be reached."
    )
    assert used.fetch("select 3") == [(3,)]


def test_a_setting_of_one_statement_does_not_outlive_it(tables_url: str, proxy: LateProxy) -> None:
    """Through a pooler that shares connections between transactions, it would be one of other sessions."""
    used = BlockingDatabase(find_url(tables_url, proxy))
    assert used.fetch("select current_setting('statement_timeout')") == [("5s",)]
    settings = proxy.count("set_config('statement_timeout', $1, true)"), proxy.count("set_config(")
    assert (settings, proxy.count("BEGIN")) == ((1, 1), 1)
    used.fetch("insert into kept (kind, name, body) values ('x', 'x', '1')")
    assert used.fetch("select name from kept") == [("x",)]


def test_a_statement_that_has_ended_is_not_broken_off_later(tables_url: str) -> None:
    """The descriptor of its connection may be that of another one by then."""
    assert BlockingDatabase(tables_url).fetch("select 1") == [(1,)]
    timers = [each for each in threading.enumerate() if isinstance(each, threading.Timer)]
    assert [each for each in timers if each.function is shut_down and not each.finished.is_set()] == []


@pytest.mark.usefixtures("direct")
def test_a_connection_to_a_standby_is_given_up(tables_url: str) -> None:
    """The address led to it during a failover. The primary is reached without a restart of the server."""
    name = tables_url.rpartition("/")[2]
    insert = "insert into kept (kind, name, body) values ('x', 'x', '1') on conflict do nothing"

    def set_read_only(value: str) -> None:
        execute(
            tables_url.replace(name, "postgres"),
            f"alter database {name} set default_transaction_read_only = {value}",
        )

    async def run() -> None:
        async with Database(tables_url, max_connections=1) as used:
            set_read_only("on")
            with pytest.raises(StoreUnavailable) as refused:
                await used.fetch(insert)
            assert str(refused.value) == (
                "The database of cluster.url cannot be used: cannot execute INSERT in a read-only transaction. "
                "Check that it runs and can be reached."
            )
            with pytest.raises(StoreUnavailable):
                async with used.begin() as connection:
                    await connection.execute(insert.encode())
            set_read_only("off")
            await used.fetch(insert)
            async with used.begin(snapshot=True) as connection:
                assert await (await connection.execute("select name from kept")).fetchall() == [("x",)]

    asyncio.run(run())


def test_listening_to_a_standby_says_that_it_is_away() -> None:
    """The lease is tried again until the address leads to the new primary."""
    with Postgres() as postgres:
        postgres.kill()
        postgres.stand_by()
        postgres.start()

        async def run() -> None:
            async with Listener(postgres.url) as listener:
                await listener.fetch("select 1")

        with pytest.raises(StoreUnavailable) as refused:
            asyncio.run(run())
    assert str(refused.value) == (
        "The database of cluster.url cannot be used: cannot execute LISTEN during recovery. It is a standby or recovers: "
        "wait for it, or name the primary in cluster.url."
    )


def test_a_user_without_rights_is_told(url: str) -> None:
    execute(url, "drop role if exists stranger")
    execute(url, "create role stranger login")
    stranger = url.replace("postgres@", "stranger@")

    async def run(used: Database) -> None:
        async with used:
            with pytest.raises(StoreUnavailable, match="permission denied for schema public"):
                await used.fetch("create table x ()")
            with pytest.raises(StoreUnavailable, match="does not exist"):
                await used.fetch("select 1 from nothing")

    asyncio.run(run(Database(stranger)))
