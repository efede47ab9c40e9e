"""The clock of the machine may jump: schedules go on, the record stays one chain, expired output goes."""

import asyncio
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.gate.schedules.last_runs import LastRuns
from paddock.gate.schedules.schedule import Scheduler
from paddock.model.outcome import Outcome, Status
from paddock.model.request import ExecutionRequest, SdkCall
from paddock.policy.redaction.scanner import Scanner
from paddock.policy.settings.schema import ArtifactSettings, RedactionSettings
from paddock.record.ledger.verify import verify
from paddock.record.ledger.writer import Ledger
from paddock.record.output.artifacts import Artifacts

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class OverError(Exception):
    """The clock of the test has come to its end."""


class Jumping:
    """A clock that is set by `jump` after an hour of waiting, and ends a day after that."""

    def __init__(self, jump: timedelta) -> None:
        self.moment, self.waited, self.jump = NOON, 0.0, jump

    def now(self) -> datetime:
        return self.moment

    async def wait(self, seconds: float) -> None:
        before, self.waited = self.waited, self.waited + seconds
        self.moment += timedelta(seconds=seconds)
        if before < 3600 <= self.waited:
            self.moment += self.jump
        if self.waited > 25 * 3600:
            raise OverError


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "ws/.paddock/temporals"
    folder.mkdir(parents=True)
    (folder / "often.toml").write_text("sequence = 's'\nevery = '2h'\n")
    return tmp_path / "ws"


JUMPS = [timedelta(days=-3650), timedelta(days=3650), timedelta(minutes=-1), timedelta()]


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize(("when", "runs"), [("every = '2h'", {11, 12, 13}), ("cron = '30 20 * * *'", {1, 2})])
def test_schedules_go_on_after_the_clock_was_set(
    tmp_path: Path, workspace: Path, jump: timedelta, when: str, runs: set[int]
) -> None:
    (workspace / ".paddock/temporals/often.toml").write_text(f"sequence = 's'\n{when}\n")
    clock, ran = Jumping(jump), []

    async def execute(_request: ExecutionRequest) -> Outcome:
        return Outcome(id="x", status=Status.OK, value={"ok": True}, has_value=True)

    temporals = Scheduler(execute, partial(LastRuns, tmp_path / "state"), clock)

    async def fire(name: str, due: datetime) -> None:
        request = ExecutionRequest(
            workspace=workspace, work=SdkCall(method="temporal.fire", arguments=(name,))
        )
        told = await temporals.fire(request, name, due.isoformat())
        assert isinstance(told, dict)
        if "skipped" not in told:
            ran.append(due)

    with pytest.raises(OverError):
        asyncio.run(temporals.serve(workspace, fire))
    assert len(ran) in runs


def test_a_run_that_the_future_saw_keeps_nothing_from_running(tmp_path: Path, workspace: Path) -> None:
    runs = LastRuns(tmp_path / "state", workspace)
    with runs.turn("often"):
        runs.note("often", datetime.max.replace(tzinfo=UTC))
    temporals = Scheduler(
        lambda _: pytest.fail("nothing runs"), partial(LastRuns, tmp_path / "state"), Jumping(timedelta())
    )
    [often] = temporals.temporals(workspace)
    assert often["next"] == "2030-01-01T14:00:00+00:00"


@given(st.lists(st.floats(0, 10_000 * 86_400), min_size=1, max_size=12))
def test_the_record_stays_one_chain_whatever_the_clock_says(
    tmp_path_factory: pytest.TempPathFactory, runs: list[float]
) -> None:
    directory = tmp_path_factory.mktemp("ledger")
    coming = iter([runs[0], *runs, *[runs[-1]] * 5])
    with Ledger(directory, clock=lambda: next(coming, runs[-1])) as ledger:
        for number in range(len(runs)):
            ledger.append("decided", f"r{number}", {})
    report = verify(directory)
    assert (report.problems, report.notes, report.records) == ((), (), len(runs))


def test_output_is_swept_although_the_last_sweep_was_in_the_future(tmp_path: Path) -> None:
    now = [NOON]
    artifacts = Artifacts(
        ArtifactSettings(directory=tmp_path, ttl_hours=1), Scanner(RedactionSettings()), clock=lambda: now[0]
    )
    old = tmp_path / f"runtime-ws-{int((NOON - timedelta(hours=3)).timestamp() * 1000)}-{'0' * 16}"
    old.mkdir()
    (old / "manifest.json").write_bytes(b"{")
    (tmp_path / ".swept").touch()
    future = (NOON + timedelta(days=365)).timestamp()
    os.utime(tmp_path / ".swept", (future, future))
    artifacts.sweep_when_due()
    assert not old.exists()
