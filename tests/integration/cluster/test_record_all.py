"""`record = "all"`: what runs is in the database before it runs. And what a server ships by itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.cluster_record import fetch_lines, read_lines, ship_all, wait_for
from tests.support.postgres import Postgres
from tests.support.processes import PATIENCE_S

from paddock.cluster.database import Database
from paddock.cluster.migrate import migrate
from paddock.cluster.ship import Shipper
from paddock.cluster.signed_note import SigningKey
from paddock.cluster.verify import verify_record
from paddock.gate import cluster as gate_cluster
from paddock.gate.cluster import open_cluster
from paddock.gate.open_paddock import OpenPaddock, Parts, open_paddock
from paddock.model.outcome import Status
from paddock.model.request import ExecutionRequest, GuestRun
from paddock.policy.settings.schema import Settings
from paddock.surfaces.client.local_tools import add_function, make_local_server

SOURCE = "return await servers.look.list_events({})"
EVENTS = "select event || ' ' || (parent is not null) from record order by seq"


def make_settings(url: str, folder: Path, **cluster: object) -> Settings:
    return Settings.model_validate(
        {
            "audit": {"directory": folder / "audit"},
            "artifacts": {"enabled": False},
            "cluster": {"url": url, "node": "a", **cluster},
        }
    )


@asynccontextmanager
async def open_all(settings: Settings, folder: Path, database: Database) -> AsyncIterator[OpenPaddock]:
    """Yield a session of a cluster whose programs can see what the database has."""

    async def list_events() -> list[str]:
        """Return the events in the database."""
        return [event for (event,) in await database.fetch(EVENTS)]

    local = make_local_server("look")
    add_function(local, list_events, name=None, description=None, read_only=True, timeout_ms=None)
    async with (
        open_cluster(settings) as cluster,
        open_paddock(settings, folder, parts=Parts(local=local), cluster=cluster) as session,
    ):
        yield session


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "ws"
    made.mkdir()
    return made


def test_a_call_sees_its_own_record_and_its_programs_in_the_database(
    url: str, tmp_path: Path, workspace: Path
) -> None:
    async def run() -> None:
        async with Database(url) as database:
            await migrate(database)
            settings = make_settings(url, tmp_path, record="all")
            async with open_all(settings, workspace, database) as session:
                outcome = await session.gate.execute(
                    ExecutionRequest(workspace=workspace, work=GuestRun(source=SOURCE))
                )
                assert (outcome.status, outcome.value) == (Status.OK, ["started false", "started true"])
                # The answer waited for the last record.
                assert [event for (event,) in await database.fetch(EVENTS)] == [
                    "started false",
                    "started true",
                    "finished true",
                    "finished false",
                ]

    asyncio.run(run())


def test_without_the_database_nothing_runs(tmp_path: Path, workspace: Path) -> None:
    async def run(server: Postgres) -> None:
        async with Database(server.url) as database:
            await migrate(database)
            settings = make_settings(server.url, tmp_path, record="all")
            async with open_all(settings, workspace, database) as session:
                server.kill()
                request = ExecutionRequest(workspace=workspace, work=GuestRun(source="return 1"))
                outcome = await session.gate.execute(request)
                assert outcome.status is Status.UNAVAILABLE
                assert outcome.error is not None
                assert outcome.error.message.startswith("The database of cluster.url cannot be used: ")
                server.start()
            assert len([line for line in read_lines(tmp_path / "audit") if b'"unavailable"' in line]) == 1
            await ship_all(Shipper(database, tmp_path / "audit", "a"))
            assert await fetch_lines(database, "a") == read_lines(tmp_path / "audit")

    with Postgres() as server:
        asyncio.run(run(server))


def test_a_server_ships_signs_and_leaves_nothing_behind(
    url: str, tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_cluster, "_LAST_FLUSH_S", PATIENCE_S)
    key = SigningKey.make(tmp_path / "key.pem", "paddock")

    async def run() -> None:
        async with Database(url) as database:
            await migrate(database)
            settings = make_settings(url, tmp_path, checkpoint_key_file=tmp_path / "key.pem")
            for _ in range(2):
                async with open_all(settings, workspace, database) as session:
                    for number in range(3):
                        source = f"return {number}"
                        request = ExecutionRequest(workspace=workspace, work=GuestRun(source=source))
                        assert (await session.gate.execute(request)).value == number
            lines = read_lines(tmp_path / "audit")
            assert len(lines) == 12
            assert await fetch_lines(database, "a") == lines
            await wait_for(database, "select count(*) > 0 from checkpoint", value=True)
            report = await verify_record(database, [key.public], directory=tmp_path / "audit")
            assert (report.problems, report.records) == ((), 12)

    asyncio.run(run())
