"""What a claim in the shared database costs, next to a bare insert of the same row; and that pure work costs nothing."""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from statistics import median

from tests.support.postgres import Postgres
from tests.support.replicas import ReplicaSet

from benchmarks.measure import Line, Scale, at_most, interleaved, ratio
from benchmarks.subject import Paddock, paddock
from paddock.cluster.database import Database
from paddock.cluster.migrate import migrate
from paddock.cluster.node import ClusterNode, NodeLease
from paddock.cluster.postgres_runs import PostgresRunStore
from paddock.cluster.runs import Claim, Started, StoredEnd, StoredRuns
from paddock.model.ids import new_id
from paddock.model.request import ExecutionRequest, GuestRun

TITLE = "The database of a cluster"

_DIGEST = b"d" * 32
_OUTCOME = b'{"status":"ok"}' + b" " * 2000
_BARE = "insert into bare (tenant, key, request, digest, outcome) values (%s, %s, %s, %s, %s)"
_AT_ONCE = 8
_OVERDUE_S = 1.0
"""Time for the background tasks that became due while the loop stood still, in seconds: on a server it never does."""
_SETTLE_S = 10.0
"""Time after the start of replicas, in which they read everything."""
_PAUSE_S = 0.02
"""Time for a spare worker, in seconds. A pause until no task is left would differ: some try to reach the database."""


def measure(scale: Scale) -> list[Line]:
    with Postgres() as server:
        lines = asyncio.run(_measure(server, scale))
        with paddock() as alone, paddock(database=server.url) as shared:
            server.kill()
            contenders = {
                "alone": lambda: alone.run(_pure_ms(alone, scale.of(30, 4))),
                "shared": lambda: shared.run(_pure_ms(shared, scale.of(30, 4))),
            }
            pure = interleaved(contenders, scale.of(12, 2))
    name = "a computation while the database is away, against one without a cluster"
    idle = Line("commits of an idle replica", _idle_rate(scale), "1/s each", at_most(0.5))
    return [*lines, idle, Line(name, ratio(pure["shared"], pure["alone"]), "x", at_most(1.1))]


def _idle_rate(scale: Scale) -> float:
    """Return the commits for each replica and second while replicas have nothing to do."""
    count, seconds = 2, scale.of(120, 10)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as made, Postgres() as server:
        replicas = ReplicaSet(Path(made), server.make_database("idle"), count=count)
        query = "select xact_commit from pg_stat_database where datname = 'idle'"
        with replicas.run():
            time.sleep(_SETTLE_S)
            before, began = int(server.query(query)[0]), time.monotonic()
            time.sleep(seconds)
            commits = int(server.query(query)[0]) - before
            return commits / count / (time.monotonic() - began)


async def _pure_ms(subject: Paddock, times: int) -> float:
    work = GuestRun(source="emit(1)", profile="compute")

    async def compute() -> None:
        request = ExecutionRequest(workspace=subject.workspace, work=work)
        assert (await subject.session.gate.execute(request)).ok

    spent: list[float] = []
    await asyncio.sleep(_OVERDUE_S)
    for _ in range(times):
        await asyncio.sleep(_PAUSE_S)
        spent.append(await _median_ms(compute, 1))
    return median(spent)


async def _measure(server: Postgres, scale: Scale) -> list[Line]:
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(Database(server.url))
        await migrate(database)
        await database.fetch(
            "create table bare (tenant text, key text, request text unique, digest bytea, outcome text, "
            "primary key (tenant, key))"
        )
        node = ClusterNode("bench", new_id())
        await NodeLease(database, node).renew()
        runs = StoredRuns(PostgresRunStore(database, node))
        figures: dict[str, list[float]] = {"bare": [], "run": [], "many": []}
        for _ in range(scale.of(12, 2)):
            figures["bare"].append(await _median_ms(partial(_insert, database), scale.of(100, 10)))
            figures["run"].append(await _median_ms(partial(_claim_and_end, runs), scale.of(100, 10)))
            figures["many"].append(await _rate(partial(_claim_and_end, runs), scale.of(400, 40)))
    return [
        Line("claim + end, p50", median(figures["run"]), "ms"),
        Line("floor: a bare insert of the same row, p50", median(figures["bare"]), "ms"),
        Line("claim + end against a bare insert", ratio(figures["run"], figures["bare"]), "x", at_most(2)),
        Line(f"claim + end, {_AT_ONCE} at a time", median(figures["many"]), "1/s"),
    ]


async def _insert(database: Database) -> None:
    name = new_id()
    await database.fetch(_BARE, ("bench", name, name, _DIGEST, _OUTCOME.decode()))


async def _claim_and_end(runs: StoredRuns) -> None:
    name = new_id()
    taken = await runs.take(Claim("bench", name, name, _DIGEST))
    assert isinstance(taken, Started)
    assert await runs.end(taken, StoredEnd("ok", _OUTCOME))


async def _median_ms(work: Callable[[], Awaitable[None]], times: int) -> float:
    spent: list[float] = []
    for _ in range(times):
        started = time.perf_counter()
        await work()
        spent.append((time.perf_counter() - started) * 1000)
    return median(spent)


async def _rate(work: Callable[[], Awaitable[None]], times: int) -> float:
    async def repeat() -> None:
        for _ in range(times // _AT_ONCE):
            await work()

    started = time.perf_counter()
    await asyncio.gather(*(repeat() for _ in range(_AT_ONCE)))
    return times / (time.perf_counter() - started)
