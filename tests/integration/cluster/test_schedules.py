"""Schedules of several machines: each due time runs once, also where a machine dies or lies about the time."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from tests.support.leases import execute
from tests.support.postgres import Postgres

from paddock.cluster.blocking import BlockingDatabase
from paddock.gate.schedules.last_runs import SharedLastRuns
from paddock.gate.schedules.schedule import Scheduler
from paddock.model.base import Json
from paddock.model.errors import SdkError
from paddock.model.outcome import Outcome, Status
from paddock.model.request import ExecutionRequest, SdkCall

START = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "workspace" / ".paddock" / "temporals"
    folder.mkdir(parents=True)
    (folder / "often.toml").write_text("sequence = 's'\nevery = '10m'\n")
    return tmp_path / "workspace"


FindRuns = Callable[[Path], SharedLastRuns]


@pytest.fixture
def find_runs(tables_url: str, tmp_path: Path) -> FindRuns:
    return partial(SharedLastRuns, BlockingDatabase(tables_url), tmp_path / "state")


def make_request(workspace: Path) -> ExecutionRequest:
    return ExecutionRequest(workspace=workspace, work=SdkCall(method="temporal.fire", arguments=("often",)))


class FixedClock:
    """A clock that stands."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    async def wait(self, seconds: float) -> None:
        raise AssertionError


def test_of_many_machines_one_runs_what_came_due(find_runs: FindRuns, workspace: Path) -> None:
    """Their clocks differ by seconds, and each has its own scheduler."""
    started: list[int] = []

    def make_scheduler(number: int) -> Scheduler:
        async def run(_request: ExecutionRequest) -> Outcome:
            started.append(number)
            return Outcome(id="x", status=Status.OK, value={"ok": True}, has_value=True)

        return Scheduler(run, find_runs, FixedClock(START + timedelta(seconds=number)))

    async def main(due: datetime) -> list[Json]:
        return await asyncio.gather(
            *(
                make_scheduler(number).fire(make_request(workspace), "often", due.isoformat())
                for number in range(6)
            ),
            return_exceptions=True,
        )

    told = asyncio.run(main(START))
    assert len(started) == 1
    ran = [each for each in told if isinstance(each, dict) and "sequence" in each]
    skipped = [each for each in told if isinstance(each, dict) and "skipped" in each]
    busy = [str(each) for each in told if isinstance(each, SdkError)]
    assert (len(ran), len(skipped) + len(busy)) == (1, 5)
    assert set(busy) <= {"temporal often is already running; it never runs twice at the same time"}
    again = asyncio.run(main(START))
    assert all(each == {"name": "often", "ok": True, "skipped": "it has run since"} for each in again)
    assert len(started) == 1


def test_only_the_holder_records_a_run(find_runs: FindRuns, workspace: Path, tables_url: str) -> None:
    one, two = find_runs(workspace), find_runs(workspace)
    with one.turn("often") as first, two.turn("often") as second:
        assert (first, second) == (True, False)
        with pytest.raises(SdkError, match="another machine took over"):
            two.note("often", START)
        one.note("often", START)
        assert one.last("often") == two.last("often") == START
    with two.turn("often") as first:
        assert first
        # Its machine was suspended for longer than it may hold a schedule, and another one took over.
        execute(tables_url, "update kept set body = body || '{\"until\": 1}' where kind = 'schedule'")
        with one.turn("often") as taken:
            assert taken
            with pytest.raises(SdkError, match="another machine took over"):
                two.note("often", START + timedelta(hours=1))
    assert one.last("often") == START


def test_workspaces_and_users_have_their_own(
    find_runs: FindRuns, workspace: Path, tables_url: str, tmp_path: Path
) -> None:
    others = [
        find_runs(tmp_path),
        SharedLastRuns(BlockingDatabase(tables_url), tmp_path / "other", workspace),
    ]
    with find_runs(workspace).turn("often"):
        find_runs(workspace).last("often")
        for other in others:
            with other.turn("often") as mine:
                assert mine


@pytest.mark.parametrize(
    "body",
    ["[]", "1", "null", '{"last": 5}', '{"last": "soon"}', '{"last": {"a": 1}}', '"text"'],
)
def test_a_damaged_row_runs_nothing(find_runs: FindRuns, workspace: Path, tables_url: str, body: str) -> None:
    runs = find_runs(workspace)
    with runs.turn("often"):
        runs.note("often", START)
    execute(tables_url, "update kept set body = %s::jsonb where kind = 'schedule'", body)

    async def run(_request: ExecutionRequest) -> Outcome:
        raise AssertionError

    scheduler = Scheduler(run, find_runs, FixedClock(START + timedelta(hours=1)))
    with pytest.raises(SdkError, match="has no time; delete it to start again"):
        asyncio.run(scheduler.fire(make_request(workspace), "often"))
    [listed] = scheduler.temporals(workspace)
    assert "delete it to start again" in listed["problem"]


@pytest.mark.parametrize("until", ["null", "true", '"9"', "[9]", "-1e3000"])
def test_a_hold_without_a_time_is_over(
    find_runs: FindRuns, workspace: Path, tables_url: str, until: str
) -> None:
    held = threading.Event()
    with find_runs(workspace).turn("often") as mine:
        assert mine
        execute(
            tables_url, f"update kept set body = body || '{{\"until\": {until}}}' where kind = 'schedule'"
        )
        with find_runs(workspace).turn("often") as taken:
            assert taken
            held.set()
    assert held.is_set()


class StepClock:
    """A clock that goes on while it is waited for, up to an hour."""

    def __init__(self) -> None:
        self.moment = START

    def now(self) -> datetime:
        return self.moment

    async def wait(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)
        if self.moment > START + timedelta(hours=1):
            raise TimeoutError


@pytest.mark.usefixtures("direct")  # a pooler waits for the database
def test_a_database_that_was_away_does_not_end_the_schedules(
    workspace: Path, tables_url: str, tmp_path: Path, postgres: Postgres
) -> None:
    """Neither those of its due time nor all others of the process."""
    name = tables_url.rpartition("/")[2]
    find = partial(SharedLastRuns, BlockingDatabase(tables_url), tmp_path / "state")
    ran: list[int] = []

    async def run(_request: ExecutionRequest) -> Outcome:
        ran.append((clock.now() - START) // timedelta(minutes=1))
        return Outcome(id="x", status=Status.OK, value={"ok": True}, has_value=True)

    clock = StepClock()
    scheduler = Scheduler(run, find, clock)

    async def fire(schedule: str, due: datetime) -> None:
        with suppress(SdkError):  # an outcome in the end, which is printed
            await scheduler.fire(make_request(workspace), schedule, due.isoformat())
        minute = (clock.now() - START) // timedelta(minutes=1)
        if minute in {20, 30}:
            postgres.query(f"alter database {name} with allow_connections {minute == 30}")

    with pytest.raises(TimeoutError):
        asyncio.run(scheduler.serve(workspace, fire))
    assert ran == [10, 20, 40, 50, 60]
