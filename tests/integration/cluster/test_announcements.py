"""What the tables announce, who hears it, and what a server does that hears nothing."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

import pytest
from tests.support.leases import execute
from tests.support.listening import open_listener
from tests.support.postgres import Postgres
from tests.support.processes import PATIENCE_S

from paddock.cluster import listener as listener_module
from paddock.cluster.database import Database
from paddock.cluster.listener import NODES, POLL_S, READ_S, TOKENS, Announcements, Listener
from paddock.cluster.node import ClusterNode, NodeLease
from paddock.model.errors import StoreUnavailable
from paddock.model.ids import new_id

pytestmark = pytest.mark.usefixtures("direct")  # no announcement passes a pooler of transactions
TOKEN = "insert into kept (kind, name, body) values ('token', 'a', '{}')"
QUIET = [
    "insert into kept (kind, name, body) values ('rate', 'a', '{}')",
    "update kept set version = version + 1 where kind = 'rate'",
    "delete from kept where kind = 'rate'",
    "update node set seen = now()",
]
CHANGES = {
    TOKENS: [
        TOKEN,
        "update kept set body = '1' where kind = 'token'",
        "delete from kept where kind = 'token'",
    ],
    NODES: [
        "insert into node (id, boot) values ('a', 'first')",
        "update node set boot = 'second'",
        "update node set url = 'http://10.0.0.2:8700'",
        "update node set state = 'expired'",
        "delete from node",
    ],
}


async def nothing() -> None:
    """Read nothing."""


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await work()

    asyncio.run(main())


async def await_notice(reader: Announcements) -> None:
    while reader.due_s:
        await reader.wait(PATIENCE_S)


@pytest.mark.parametrize("channel", [TOKENS, NODES])
def test_every_change_of_a_table_is_announced_and_a_renewal_is_not(tables_url: str, channel: str) -> None:
    async def work() -> None:
        async with open_listener(tables_url) as listener:
            reader = listener.follow(channel)
            for statement in CHANGES[channel]:
                await reader.read(nothing)
                for quiet in QUIET:
                    execute(tables_url, quiet)
                if channel == NODES:
                    execute(tables_url, TOKEN)
                    execute(tables_url, "delete from kept where kind = 'token'")
                # An announcement of the other channel comes after those of these statements.
                mark = listener.follow(NODES if channel == TOKENS else TOKENS)
                await mark.read(nothing)
                execute(
                    tables_url, TOKEN if channel == NODES else "insert into node (id, boot) values ('m', 'm')"
                )
                await await_notice(mark)
                assert reader.due_s > 0, statement
                execute(
                    tables_url, "delete from kept" if channel == NODES else "delete from node where id = 'm'"
                )
                execute(tables_url, statement)
                await await_notice(reader)

    run(work)


def test_what_was_read_is_current_as_long_as_the_connection_answers(tables_url: str) -> None:
    async def work() -> None:
        async with open_listener(tables_url) as listener:
            reader = listener.follow(TOKENS)
            assert reader.due_s == 0
            await reader.read(nothing)
            read_at = reader.current_at
            assert POLL_S < reader.due_s <= READ_S
            reader.note()
            assert (reader.due_s, reader.current_at) == (0, read_at)

            async def fail() -> None:
                raise StoreUnavailable("away")

            with pytest.raises(StoreUnavailable):
                await reader.read(fail)
            assert reader.due_s == 0

    run(work)


def test_a_renewal_proves_that_nothing_was_missed(tables_url: str) -> None:
    async def work() -> None:
        async with Listener(tables_url) as listener, Database(tables_url) as database:
            reader, lease = listener.follow(NODES), NodeLease(listener, ClusterNode("a", new_id()))
            assert await lease.renew()
            await reader.read(nothing)
            first = reader.current_at
            assert await lease.renew()
            assert reader.current_at == first  # it is not known yet whether it hears
            testing = asyncio.create_task(listener.test_hearing(database))
            while not listener.hears:
                await listener.wait(0.01)
            await testing
            await reader.read(nothing)
            before = time.monotonic()
            assert await lease.renew()
            assert reader.current_at >= before

    run(work)


def test_everything_is_read_again_after_a_broken_connection(tables_url: str, postgres: Postgres) -> None:
    async def work() -> None:
        async with open_listener(tables_url) as listener:
            reader = listener.follow(TOKENS)
            await reader.read(nothing)
            before = listener.connected_at
            ended = "select pg_terminate_backend(pid, 300000) from pg_stat_activity where application_name = 'listening'"
            await asyncio.to_thread(postgres.query, ended)
            while listener.hears:  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.01)
            # A change meanwhile is not heard.
            await listener.fetch("select 1")
            assert (reader.due_s, listener.connected_at > before) == (0, True)

    run(work)


def test_a_server_that_hears_nothing_says_so_and_polls(
    tables_url: str, postgres: Postgres, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As behind a pooler that shares connections between transactions; here, it listens in another database."""
    monkeypatch.setattr(listener_module, "_HEARING_S", 0.2)

    async def work() -> None:
        async with Listener(postgres.url) as listener, Database(tables_url) as database:
            await listener.fetch("select 1")
            await listener.test_hearing(database)
            reader = listener.follow(TOKENS)
            await reader.read(nothing)
            assert (listener.hears, 0 < reader.due_s <= POLL_S) == (False, True)

    with caplog.at_level(logging.ERROR, "paddock.cluster"):
        run(work)
    assert caplog.messages == [
        "the database announces nothing to this server, so leases and tokens are read every second: a pooler in front of "
        "it shares connections between transactions. Set cluster.listen_url to an address without it."
    ]
