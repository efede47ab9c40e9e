"""What a claim in the shared database costs, next to a bare insert of the same row; and that pure work costs nothing.

Pure work beside effects: every tenth of a second a request with effects begins, whose claim and end wait for the
database. Many clients at once: each sends requests one after the other, and the slowest must not wait for long.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Self

from tests.support.command import run_paddock
from tests.support.http_api import TOKEN, ApiPlace
from tests.support.late_proxy import LateProxy
from tests.support.postgres import Postgres
from tests.support.replicas import ReplicaSet
from tests.support.tenants import TenantsRunner, make_settings

from benchmarks.measure import Line, Scale, at_most, interleaved, ratio
from benchmarks.subject import Paddock, paddock
from paddock.cluster.database import Database
from paddock.cluster.migrate import migrate
from paddock.cluster.node import ClusterNode, NodeLease
from paddock.cluster.postgres_runs import PostgresRunStore
from paddock.cluster.runs import Claim, Started, StoredEnd, StoredRuns
from paddock.gate.cluster import open_cluster
from paddock.model.ids import new_id
from paddock.model.request import ExecutionRequest, GuestRun, RuntimeRun
from paddock.policy.settings.cluster import ClusterSettings
from paddock.policy.settings.schema import RuntimeSettings, Settings

TITLE = "The database of a cluster"

_DIGEST = b"d" * 32
_OUTCOME = b'{"status":"ok"}' + b" " * 2000
_BARE = "insert into bare (tenant, key, request, digest, outcome) values (%s, %s, %s, %s, %s)"
_AT_ONCE = 8
_OVERDUE_S = 1.0
"""Time for the background tasks that became due while the loop stood still, in seconds: on a server it never does."""
_DELAYS_S = 0.0, 0.3, 1.0
"""Delays of the database, in seconds."""
_EFFECTS_S = 0.1
"""Time between two requests with effects, in seconds."""
_CLIENTS = 200
_PURE = GuestRun(source="emit(1)", profile="compute")
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
    lines.append(Line(name, ratio(pure["shared"], pure["alone"]), "x", at_most(1.1)))
    lines.append(Line("commits of an idle replica", _idle_rate(scale), "1/s each", at_most(0.5)))
    with Postgres() as server:
        lines += _measure_delays(server, scale)
        return lines + _measure_clients(server, scale)


def _make_settings(root: Path, url: str) -> Settings:
    cluster = ClusterSettings(url=url, node="bench")
    return make_settings(root, cluster=cluster, runtimes=RuntimeSettings(access="workspace-write"))


class _Shared(TenantsRunner):
    """A server for one caller, beside whose computations requests with effects run."""

    def __init__(self, root: Path, url: str) -> None:
        super().__init__(root, _make_settings(root, url), token=TOKEN)
        self.workspace.chmod(0o777)
        self._effects: set[asyncio.Task[object]] = set()

    def __enter__(self) -> Self:
        self._options["cluster"] = self.run(self._stack.enter_async_context(open_cluster(self.settings)))
        super().__enter__()
        self.owner = self.identify(TOKEN)
        self.execute(self.owner, _PURE)
        return self

    async def take_pure_ms(self, times: int) -> float:
        """Return the median time of computations, while requests with effects run."""
        spent: list[float] = []
        for _ in range(times):
            work = RuntimeRun(runtime="shell", code="echo x >> effects", access="workspace-write")
            effect = asyncio.create_task(self.owner.execute(self.make_request(work)))
            self._effects.add(effect)
            effect.add_done_callback(self._effects.discard)
            await asyncio.sleep(_EFFECTS_S)

            async def compute() -> None:
                assert (await self.owner.execute(self.make_request(_PURE))).ok

            spent.append(await _median_ms(compute, 1))
        return median(spent)

    async def settle(self) -> None:
        """Wait until all requests with effects have ended."""
        await asyncio.gather(*self._effects)


def _measure_delays(server: Postgres, scale: Scale) -> list[Line]:
    asyncio.run(_migrate(server.url))
    with (
        tempfile.TemporaryDirectory(prefix="paddock-bench-") as root,
        LateProxy(server.port) as late,
        _Shared(Path(root), f"postgresql://postgres@127.0.0.1:{late.port}/postgres") as shared,
    ):

        def measure_at(delay_s: float) -> float:
            late.delay_s = delay_s
            spent = shared.run(shared.take_pure_ms(scale.of(30, 4)))
            shared.run(shared.settle())
            return spent

        figures = interleaved({str(delay): partial(measure_at, delay) for delay in _DELAYS_S}, scale.of(6, 2))
        late.delay_s = 0.0
    none = figures[str(_DELAYS_S[0])]
    lines = [Line("a computation beside effects, p50", median(none), "ms")]
    for delay in _DELAYS_S[1:]:
        name = f"the same while the database answers {delay:g} s late, against none"
        lines.append(Line(name, ratio(figures[str(delay)], none), "x", at_most(1.1)))
    return lines


async def _migrate(url: str) -> None:
    async with Database(url) as database:
        await migrate(database)


def _measure_clients(server: Postgres, scale: Scale) -> list[Line]:
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as root, _serve(Path(root), server.url) as port:
        pure = {"kind": "compute", "code": "emit(1)"}
        effect = {"language": "shell", "code": "echo x >> effects", "access": "workspace-write"}
        for name, body in (("computations", pure), ("programs with effects", effect)):
            asyncio.run(_send_many(port, body, 8, 2))  # what starts late
            spent = asyncio.run(_send_many(port, body, _CLIENTS, scale.of(5, 1)))
            p50, p99 = median(spent), quantiles(spent, n=100)[98]
            lines.append(Line(f"{name} of {_CLIENTS} clients at once, p50", p50, "ms"))
            lines.append(Line("  p99 against p50", p99 / p50, "x", at_most(3)))
    return lines


@contextmanager
def _serve(root: Path, url: str) -> Generator[int]:
    """Yield the port of a server with the database."""
    place = ApiPlace(root)
    place.workspace.chmod(0o777)
    place.settings(f'[cluster]\nurl = "{url}"\nnode = "served"\n[runtimes]\naccess = "workspace-write"\n')
    made = run_paddock(place.workspace, "cluster", "migrate", environment=place.environment)
    assert made.returncode == 0, made.stderr
    with place.serve() as served:
        yield served.port


async def _send_many(port: int, body: dict[str, str], clients: int, times: int) -> list[float]:
    """Return the time of each request, in milliseconds; each client sends some, one after the other."""
    data = json.dumps(body).encode()
    head = (
        f"POST /v1/executions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    spent: list[float] = []

    async def send() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(times):
            started = time.perf_counter()
            writer.write(head.encode() + data)
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            text = await reader.readexactly(int(answer.partition(b"content-length: ")[2].split(b"\r\n")[0]))
            assert json.loads(text)["status"] == "ok", text
            spent.append((time.perf_counter() - started) * 1000)
        writer.close()

    await asyncio.gather(*(send() for _ in range(clients)))
    return spent


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
