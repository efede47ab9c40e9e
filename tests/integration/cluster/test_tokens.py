"""Tokens in the database: strangers who write to its rows, a database that is away, and rates over several servers."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from tests.support.leases import execute
from tests.support.listening import open_listener
from tests.support.postgres import Postgres

from paddock.cluster.database import Database
from paddock.cluster.kept import KeptRows
from paddock.cluster.listener import TOKENS
from paddock.cluster.migrate import migrate
from paddock.cluster.seals import Seals
from paddock.model.errors import ConfigurationError, StoreUnavailable
from paddock.policy.settings.serve import MAX_TOKENS
from paddock.surfaces.tenants.errors import RateExceeded
from paddock.surfaces.tenants.rate import RateLimit
from paddock.surfaces.tenants.shared_rates import SharedRates
from paddock.surfaces.tenants.token_file import StoredToken
from paddock.surfaces.tenants.token_store import KIND, MAX_ROW_CHARS, SharedTokens
from paddock.surfaces.tenants.tokens import hash_token, make_token

KEYS = Seals([b"k" * 32])
CREATED = datetime(2026, 1, 31, tzinfo=UTC)


class Store(NamedTuple):
    """The tokens of a database."""

    url: str
    database: Database
    tokens: SharedTokens


@asynccontextmanager
async def open_store(url: str, seals: Seals) -> AsyncGenerator[Store]:
    async with Database(url) as database:
        await migrate(database)
        yield Store(
            url, database, SharedTokens(KeptRows(database, KIND, MAX_ROW_CHARS), seals, min_pause_s=0)
        )


def run(url: str, work: Callable[[Store], Awaitable[None]], seals: Seals = KEYS) -> None:
    async def main() -> None:
        async with open_store(url, seals) as store:
            await work(store)

    asyncio.run(main())


def make_entry(name: str, **fields: Any) -> StoredToken:
    return StoredToken(name=name, sha256=hash_token(make_token()), created=CREATED, **fields)


def put_row(url: str, name: str, body: object) -> None:
    execute(
        url,
        "insert into kept (kind, name, body) values ('token', %s, %s::jsonb) "
        "on conflict (kind, name) do update set body = excluded.body",
        *(name, json.dumps(body)),
    )


def make_body(entry: StoredToken, seals: Seals = KEYS) -> dict[str, Any]:
    """Return the body of a row as it is written."""
    text = entry.model_dump_json(exclude_defaults=True)
    seal = seals.seal(KIND, entry.name, text)
    return {"token": text, "seal": None if seal is None else seal.hex()}


def test_a_row_has_the_hash_and_never_the_token(url: str) -> None:
    async def work(store: Store) -> None:
        token = make_token()
        await store.tokens.add(StoredToken(name="alice", sha256=hash_token(token), created=CREATED))
        [(row,)] = execute(url, "select kept::text from kept")
        assert hash_token(token) in str(row)
        assert token not in str(row)

    run(url, work)


@pytest.mark.parametrize(
    "change",
    [
        {"seal": None},
        {"seal": ""},
        {"seal": "00" * 32},
        {"seal": "zz"},
        {"seal": 5},
        {"more": 1},
        {"token": make_entry("alice", approve=True).model_dump_json()},
        {"token": "{}"},
        {"token": "[" * 5000},
        {"token": {"name": "alice"}},
    ],
    ids=[
        "none",
        "empty",
        "wrong",
        "not hexadecimal",
        "a number",
        "more",
        "another",
        "{}",
        "nested",
        "object",
    ],
)
def test_a_row_without_its_seal_is_no_token(url: str, change: dict[str, Any]) -> None:
    """Whoever can write to the database, but has no key, neither makes a token nor widens one."""

    async def work(store: Store) -> None:
        await store.tokens.add(other := make_entry("bob"))
        put_row(url, "alice", {**make_body(make_entry("alice", rate=5)), **change})
        assert await store.tokens.refresh() == (other,)

    run(url, work)


def test_a_seal_holds_for_one_name(url: str) -> None:
    async def work(store: Store) -> None:
        put_row(url, "bob", make_body(make_entry("alice")))
        assert await store.tokens.refresh() == ()

    run(url, work)


@pytest.mark.parametrize("body", [None, 1, "x", [], {}, {"token": "x" * MAX_ROW_CHARS, "seal": None}])
def test_without_keys_a_row_must_still_be_a_token(url: str, body: object) -> None:
    async def work(store: Store) -> None:
        await store.tokens.add(other := make_entry("bob"))
        put_row(url, "alice", body)
        put_row(url, "\x1b[2J", make_body(make_entry("eve"), Seals()))
        assert await store.tokens.refresh() == (other,)

    run(url, work, Seals())


def test_of_two_rows_with_one_hash_none_is_a_token(url: str) -> None:
    async def work(store: Store) -> None:
        entry = make_entry("alice", rate=5)
        await store.tokens.add(entry)
        await store.tokens.add(entry.model_copy(update={"name": "wide", "rate": None, "approve": True}))
        await store.tokens.add(other := make_entry("bob"))
        assert await store.tokens.refresh() == (other,)

    run(url, work, Seals())


def test_there_is_a_limit(url: str) -> None:
    async def work(store: Store) -> None:
        execute(
            url,
            "insert into kept (kind, name, body) select 'token', 'u' || n, '{}' from generate_series(1, %s) n",
            MAX_TOKENS,
        )
        with pytest.raises(ConfigurationError) as refused:
            await store.tokens.add(make_entry("late"))
        assert str(refused.value) == f"there are {MAX_TOKENS} tokens already; revoke some of them"

    run(url, work)


def test_a_policy_that_is_too_long_is_refused(url: str) -> None:
    async def work(store: Store) -> None:
        with pytest.raises(ConfigurationError) as refused:
            await store.tokens.add(make_entry("alice", policy={"x": "y" * MAX_ROW_CHARS}))
        assert str(refused.value) == "the policy of the token alice is too long"

    run(url, work)


def test_a_token_that_was_just_made_is_known_at_once(url: str) -> None:
    async def work(store: Store) -> None:
        tokens = SharedTokens(KeptRows(store.database, KIND, MAX_ROW_CHARS), KEYS)
        assert await tokens.refresh() == ()
        await store.tokens.add(entry := make_entry("alice"))
        assert await asyncio.gather(tokens.refresh(), tokens.refresh()) == [(entry,)] * 2

    run(url, work)


def test_known_tokens_count_while_the_database_is_away() -> None:
    """Its own database, because that of the other tests takes long to recover."""

    async def work(store: Store) -> None:
        await store.tokens.add(entry := make_entry("alice"))
        await store.tokens.refresh()
        server.kill()
        try:
            with pytest.raises(StoreUnavailable):
                await store.tokens.refresh()
            assert await store.tokens.read() == (entry,)
            store.tokens._read_at = time.monotonic() - 31  # no news for half a minute
            with pytest.raises(StoreUnavailable):
                await store.tokens.read()
        finally:
            server.start()
        assert await store.tokens.refresh() == (entry,)

    with Postgres() as server:
        run(server.url, work)


def test_tokens_are_read_when_they_change_and_current_as_long_as_the_lease_is_renewed(url: str) -> None:
    async def work(store: Store) -> None:
        await store.tokens.add(entry := make_entry("alice"))
        async with open_listener(url) as listener:
            rows = KeptRows(store.database, KIND, MAX_ROW_CHARS)
            tokens = SharedTokens(rows, KEYS, listener.follow(TOKENS), min_pause_s=0)
            assert await tokens.update() == (entry,)
            execute(url, "alter table kept rename to gone")  # what reads it fails
            assert await tokens.update() == (entry,)
            tokens._read_at = time.monotonic() - 31
            listener.received_at = time.monotonic()  # as after a renewal
            assert await tokens.update() == await tokens.read() == (entry,)
            execute(url, "alter table gone rename to kept")
            await store.tokens.remove("alice")
            while await tokens.update():  # noqa: ASYNC110 - its own loop looks once a second
                await asyncio.sleep(0)
            assert await tokens.read() == ()

    run(url, work)


class Replica:
    """A server that counts the requests of one token."""

    def __init__(self, database: Database, name: str, clock: Callable[[], float]) -> None:
        self.rates = SharedRates(database, name, clock)
        self.limit = RateLimit(10, clock)

    async def exchange(self) -> None:
        await self.rates.exchange({"token": self.limit.count_by_age()})

    def try_request(self) -> bool:
        try:
            self.limit.count_request(self.rates.find_elsewhere("token"))
        except RateExceeded:
            return False
        return True


def test_a_rate_counts_the_requests_of_all_servers(url: str) -> None:
    async def work(store: Store) -> None:
        replicas = [Replica(store.database, name, time.monotonic) for name in "abc"]
        for replica in replicas:
            assert [replica.try_request() for _ in range(3)] == [True] * 3
        for _ in range(2):
            for replica in replicas:
                await replica.exchange()
        assert [replica.try_request() for replica in replicas] == [True] * 3  # each until the next exchange
        for _ in range(2):
            for replica in replicas:
                await replica.exchange()
        assert [replica.try_request() for replica in replicas] == [False] * 3
        with pytest.raises(RateExceeded) as refused:
            replicas[0].limit.count_request(replicas[0].rates.find_elsewhere("token"))
        assert 0 < refused.value.retry_after_s <= 60

    run(url, work)


def test_requests_of_others_are_forgotten_after_a_minute_and_so_are_their_rows(url: str) -> None:
    async def work(store: Store) -> None:
        one, two = (Replica(store.database, name, time.monotonic) for name in "ab")
        for _ in range(10):
            assert two.try_request()
        await two.exchange()
        await one.exchange()
        assert not one.try_request()
        execute(url, "update kept set body = body || jsonb_build_object('at', (body ->> 'at')::float8 - 61)")
        await one.exchange()
        assert one.try_request()
        assert execute(url, "select name from kept where kind = 'rate'") == [("a",)]

    run(url, work)


@pytest.mark.parametrize(
    "body",
    [
        None,
        1,
        [],
        {"at": "now", "accepted": {}},
        {"at": 1e300, "accepted": {"token": 5}},
        {"at": 1e12, "accepted": {"token": [[0]]}},
        {"at": 1e12, "accepted": {"token": [[0, -5], [True, 5], [0.5, 5], ["0", 5], [-1, 5], [60, 5]]}},
        {"at": None, "accepted": {"token": [[0, 1000]]}},
    ],
)
def test_a_damaged_row_counts_nothing(url: str, body: object) -> None:
    async def work(store: Store) -> None:
        execute(
            url, "insert into kept (kind, name, body) values ('rate', 'forged', %s::jsonb)", json.dumps(body)
        )
        replica = Replica(store.database, "a", time.monotonic)
        await replica.exchange()
        assert [replica.try_request() for _ in range(11)] == [True] * 10 + [False]

    run(url, work)


def test_without_rates_nothing_is_written(url: str) -> None:
    async def work(store: Store) -> None:
        await SharedRates(store.database, "a").exchange({})
        assert execute(url, "select count(*) from kept") == [(0,)]

    run(url, work)
