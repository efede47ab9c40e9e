"""One contract for claims in memory, in a file, and in PostgreSQL."""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from tests.support.file_runs import FileRunStore

from paddock.cluster.database import Database
from paddock.cluster.migrate import migrate
from paddock.cluster.node import ClusterNode, NodeLease
from paddock.cluster.postgres_runs import PostgresRunStore
from paddock.cluster.runs import (
    MAX_OUTCOME_BYTES,
    Claim,
    Fenced,
    Finished,
    KeyReused,
    Lost,
    RunRow,
    RunStore,
    Started,
    StoredEnd,
    StoredRuns,
)
from paddock.cluster.status import LEASE_S
from paddock.model.errors import StoreUnavailable
from paddock.model.ids import new_id

if TYPE_CHECKING:
    from tests.support.postgres import Postgres

DIGEST, OTHER = b"1" * 32, b"2" * 32
OK = StoredEnd("ok", b'{"status":"ok","value":"\\u0000 \xc3\xa9"}')


class Store:
    """One store, with processes that use it."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def open(self, node: str) -> StoredRuns:
        """Return the runs of a process with a lease."""
        raise NotImplementedError

    async def expire(self, node: str) -> None:
        """Let the lease of a process be over."""
        raise NotImplementedError


class FileStore(Store):
    def __init__(self, stack: AsyncExitStack, path: Path | None) -> None:
        super().__init__(stack)
        self._path = path
        self._now = 1_000_000.0
        self._stores: dict[str, FileRunStore] = {}

    async def open(self, node: str) -> StoredRuns:
        # In memory, two processes cannot share it: here one store stands for both.
        first = next(iter(self._stores.values()), None)
        if self._path is not None or first is None:
            store = FileRunStore(self._path, ClusterNode(node, node), lambda: self._now)
            self._stack.callback(store.close)
        else:
            store = first.share(ClusterNode(node, node))
        self._stores[node] = store
        await store.renew()
        return StoredRuns(store)

    async def expire(self, node: str) -> None:
        self._now += LEASE_S
        for name, store in self._stores.items():
            if name != node:
                await store.renew()


class PostgresStore(Store):
    def __init__(self, stack: AsyncExitStack, url: str) -> None:
        super().__init__(stack)
        self._url = url

    async def open(self, node: str) -> StoredRuns:
        self._database = await self._stack.enter_async_context(Database(self._url))
        await migrate(self._database)
        process = ClusterNode(node, new_id())
        assert await NodeLease(self._database, process).renew()
        return StoredRuns(PostgresRunStore(self._database, process))

    async def expire(self, node: str) -> None:
        await self._database.fetch(
            "update node set seen = now() - make_interval(secs => %s) where id = %s", (LEASE_S, node)
        )


Check = Callable[[Store], Awaitable[None]]
Run = Callable[[Check], None]


@pytest.fixture(params=["memory", "file", "postgres"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Return what runs a check on a store of each kind."""
    kind: Literal["memory", "file", "postgres"] = request.param

    @asynccontextmanager
    async def open_store() -> AsyncIterator[Store]:
        async with AsyncExitStack() as stack:
            if kind == "postgres":
                server: Postgres = request.getfixturevalue("postgres")
                url = await asyncio.to_thread(server.make_database, f"d{secrets.token_hex(8)}")
                yield PostgresStore(stack, url)
            else:
                yield FileStore(stack, tmp_path / "runs.sqlite" if kind == "file" else None)

    async def check_store(check: Check) -> None:
        async with open_store() as store:
            await check(store)

    return lambda check: asyncio.run(check_store(check))


def claim(
    key: str = "k",
    *,
    tenant: str = "t",
    digest: bytes = DIGEST,
    attempt: int | None = None,
) -> Claim:
    return Claim(tenant, key, new_id(), digest, attempt)


async def start(runs: StoredRuns, wanted: Claim) -> Started:
    taken = await runs.take(wanted)
    assert isinstance(taken, Started)
    return taken


def test_a_new_key_starts_and_its_outcome_is_repeated_byte_for_byte(run: Run) -> None:
    async def check(store: Store) -> None:
        a, b = await store.open("a"), await store.open("b")
        first = claim()
        started = await start(a, first)
        assert started == Started(first, 1)
        assert await a.end(started, OK)
        for runs in (a, b):
            assert await runs.take(claim()) == Finished(first.request, "ok", OK.outcome)

    run(check)


def test_a_key_belongs_to_one_request_and_to_one_tenant(run: Run) -> None:
    async def check(store: Store) -> None:
        a, b = await store.open("a"), await store.open("b")
        first = claim()
        started = await start(a, first)
        assert await b.take(claim(digest=OTHER)) == KeyReused(first.request)
        assert await a.end(started, OK)
        assert await b.take(claim(digest=OTHER)) == KeyReused(first.request)
        await start(b, claim(tenant="u", digest=OTHER))

    run(check)


def test_the_same_request_waits_for_the_one_that_runs(run: Run) -> None:
    async def check(store: Store) -> None:
        a, b = await store.open("a"), await store.open("b")
        first, stop = claim(), asyncio.Event()
        started = await start(a, first)
        waiting = asyncio.create_task(b.take(claim()))
        stopped = asyncio.create_task(b.take(claim(), stop))
        await asyncio.wait({waiting}, timeout=0.05)
        assert not waiting.done()
        stop.set()
        assert await stopped is None
        assert await a.end(started, OK)
        assert await waiting == Finished(first.request, "ok", OK.outcome)

    run(check)


def test_of_many_at_once_one_starts(run: Run) -> None:
    async def check(store: Store) -> None:
        replicas = [await store.open(name) for name in "abc"]

        async def send(runs: StoredRuns) -> str:
            wanted = claim()
            taken = await runs.take(wanted)
            if isinstance(taken, Started):
                assert await runs.end(taken, StoredEnd("ok", wanted.request.encode()))
                return wanted.request
            assert isinstance(taken, Finished)
            assert taken.outcome is not None
            return taken.outcome.decode()

        answers = await asyncio.gather(*(send(replicas[number % 3]) for number in range(60)))
        assert [len(answers), len({*answers})] == [60, 1]

    run(check)


def test_a_request_with_effects_whose_lease_is_over_is_lost_and_stays_lost(run: Run) -> None:
    async def check(store: Store) -> None:
        a, b = await store.open("a"), await store.open("b")
        first = claim()
        started = await start(a, first)
        waiting = asyncio.create_task(b.take(claim()))
        await store.expire("a")
        assert await waiting == Lost(first.request, "a")
        assert not await a.end(started, OK)
        for runs in (a, b):
            assert await runs.take(claim()) == Lost(first.request, "a")

    run(check)


def test_what_ended_before_its_lease_was_over_is_not_lost(run: Run) -> None:
    async def check(store: Store) -> None:
        a, b = await store.open("a"), await store.open("b")
        first = claim()
        assert await a.end(await start(a, first), OK)
        await store.expire("a")
        assert await b.take(claim()) == Finished(first.request, "ok", OK.outcome)

    run(check)


def test_a_fence_proves_that_nothing_started_and_nothing_can(run: Run) -> None:
    async def check(store: Store) -> None:
        a, b = await store.open("a"), await store.open("b")
        assert await b.fence("t", "k", 1)
        assert await a.fence("t", "k", 1)
        assert isinstance(await a.take(claim(attempt=1)), Fenced)
        started = await start(a, claim(attempt=2))
        assert started.attempt == 2
        assert not await b.fence("t", "k", 2)
        assert await a.end(started, OK)
        assert not await b.fence("t", "k", 2)
        assert isinstance(await b.take(claim()), Finished)

    run(check)


def test_a_fence_and_a_claim_at_once_are_never_both_granted(run: Run) -> None:
    async def check(store: Store) -> None:
        a, b = await store.open("a"), await store.open("b")
        seen: Counter[bool] = Counter()
        for number in range(20):
            taking = a.take(claim(str(number), attempt=1))
            fencing = b.fence("t", str(number), 1)
            pair = (taking, fencing) if number % 2 else (fencing, taking)
            answers = await asyncio.gather(*pair)
            [fenced] = [each for each in answers if isinstance(each, bool)]
            [taken] = [each for each in answers if not isinstance(each, bool)]
            assert isinstance(taken, Fenced if fenced else Started)
            seen[fenced] += 1
        assert seen.total() == 20

    run(check)


def test_the_key_of_a_request_that_never_started_is_free_again(run: Run) -> None:
    async def check(store: Store) -> None:
        a, b = await store.open("a"), await store.open("b")
        assert await a.end(await start(a, claim()), None)
        again = await start(b, claim(digest=OTHER))
        assert again.attempt == 2
        assert await b.end(again, OK)

    run(check)


def test_of_an_outcome_that_is_too_large_the_status_is_kept(run: Run) -> None:
    async def check(store: Store) -> None:
        runs = await store.open("a")
        for size, kept in ((MAX_OUTCOME_BYTES, True), (MAX_OUTCOME_BYTES + 1, False)):
            wanted, outcome = claim(str(size)), b" " * size
            assert await runs.end(await start(runs, wanted), StoredEnd("ok", outcome))
            expected = outcome if kept else None
            assert await runs.take(claim(str(size))) == Finished(wanted.request, "ok", expected)

    run(check)


def test_an_end_may_be_stored_twice_and_another_one_changes_nothing(run: Run) -> None:
    async def check(store: Store) -> None:
        runs = await store.open("a")
        for key, end in (("k", OK), ("l", StoredEnd("failed", None))):
            wanted = claim(key)
            started = await start(runs, wanted)
            assert await runs.end(started, end)
            assert await runs.end(started, end)
            assert not await runs.end(started, StoredEnd("timeout", b"1"))
            assert await runs.take(claim(key)) == Finished(wanted.request, end.status, end.outcome)

    run(check)


class Slow:
    """A store that is asked to settle before each of its answers arrives."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self.runs: StoredRuns | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def insert(self, claim: Claim, attempt: int, on_send: Callable[[], None]) -> bool:
        inserted = await self._store.insert(claim, attempt, on_send)
        assert self.runs is not None
        await self.runs.settle()
        return inserted

    async def finish(self, run: Started, end: StoredEnd) -> bool:
        finished = await self._store.finish(run, end)
        assert self.runs is not None
        await self.runs.settle()
        return finished


def test_what_is_under_way_is_not_settled(run: Run) -> None:
    async def check(store: Store) -> None:
        a, b = await store.open("a"), await store.open("b")
        slow = Slow(a.store)
        slow.runs = StoredRuns(slow)  # pyright: ignore[reportArgumentType]
        wanted = claim()
        started = await start(slow.runs, wanted)
        waiting = asyncio.create_task(b.take(claim()))
        await slow.runs.settle()
        assert await slow.runs.end(started, OK)
        assert await waiting == Finished(wanted.request, "ok", OK.outcome)

    run(check)


class UnsureOfEnd:
    """A store whose connection breaks after the first end was stored."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self.breaks = True

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def finish(self, run: Started, end: StoredEnd) -> bool:
        finished = await self._store.finish(run, end)
        if self.breaks:
            self.breaks = False
            raise StoreUnavailable
        return finished


def test_an_end_that_may_have_been_stored_is_stored_again(run: Run) -> None:
    async def check(store: Store) -> None:
        a = await store.open("a")
        runs = StoredRuns(UnsureOfEnd(a.store))  # pyright: ignore[reportArgumentType]
        wanted = claim()
        started = await start(runs, wanted)
        with pytest.raises(StoreUnavailable):
            await runs.end(started, OK)
        assert await runs.end(started, OK)
        await runs.settle()
        assert await a.take(claim()) == Finished(wanted.request, "ok", OK.outcome)

    run(check)


class Broken:
    """A store whose connection breaks after the claim was sent: it may have arrived or not."""

    def __init__(self, store: RunStore, *, arrives: bool) -> None:
        self._store = store
        self._arrives = arrives

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def insert(self, claim: Claim, attempt: int, on_send: Callable[[], None]) -> bool:
        if self._arrives:
            assert await self._store.insert(claim, attempt, on_send)
        on_send()
        raise ConnectionError


def test_a_request_that_runs_is_waited_for_also_while_the_store_is_away(run: Run) -> None:
    class Away:
        def __init__(self, store: RunStore) -> None:
            self._store = store
            self.is_away = False
            self.asked = asyncio.Event()

        def __getattr__(self, name: str) -> object:
            return getattr(self._store, name)

        async def read(self, tenant: str, key: str, attempt: int | None) -> RunRow | None:
            self.asked.set()
            if self.is_away:
                raise StoreUnavailable
            return await self._store.read(tenant, key, attempt)

    async def check(store: Store) -> None:
        a, b = await store.open("a"), await store.open("b")
        away = Away(b.store)
        others = StoredRuns(away)  # pyright: ignore[reportArgumentType]
        first = claim()
        started = await start(a, first)
        waiting = asyncio.create_task(others.take(claim()))
        for away.is_away in (False, True):
            await away.asked.wait()
            away.asked.clear()
        with pytest.raises(StoreUnavailable):  # this one has not seen that it runs
            await others.take(claim())
        assert await a.end(started, OK)
        away.is_away = False
        assert await waiting == Finished(first.request, "ok", OK.outcome)

    run(check)


@pytest.mark.parametrize("arrives", [True, False])
def test_a_claim_that_may_have_arrived_is_fenced_off(run: Run, arrives: bool) -> None:
    async def check(store: Store) -> None:
        a, b = await store.open("a"), await store.open("b")
        broken = StoredRuns(Broken(a.store, arrives=arrives))  # pyright: ignore[reportArgumentType]
        lost = claim()
        with pytest.raises(ConnectionError):
            await broken.take(lost)
        waiting = asyncio.create_task(b.take(claim())) if arrives else None
        await broken.settle()
        started = await (waiting or b.take(claim()))
        assert isinstance(started, Started)
        assert started.attempt == 2
        assert not await a.store.insert(lost, 1, lambda: None)  # the claim, delivered late
        await broken.settle()
        assert await b.end(started, OK)

    run(check)
