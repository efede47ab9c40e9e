"""Schedules by a clock of the test: due once, caught up once, never twice at a time."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from paddock.gate.schedules.last_runs import LastRuns
from paddock.gate.schedules.schedule import Schedule, Scheduler
from paddock.gate.sequences.sequence import read
from paddock.model.errors import SdkError
from paddock.model.outcome import Outcome, Status
from paddock.model.request import ExecutionRequest, SdkCall

START = datetime(2030, 1, 1, 12, tzinfo=UTC)


class OverError(Exception):
    """The test's clock has come to its end."""


class FakeClock:
    def __init__(self, end):
        self.moment = START
        self.end = START + end

    def now(self):
        return self.moment

    async def wait(self, seconds):
        self.moment += timedelta(seconds=seconds)
        if self.moment > self.end:
            raise OverError


def parse(tmp_path, text):
    path = tmp_path / "x.toml"
    path.write_text(text)
    return read(path, Schedule)


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "ws" / ".paddock" / "temporals"
    folder.mkdir(parents=True)
    (folder / "often.toml").write_text("sequence = 's'\nevery = '10m'\n")
    return tmp_path / "ws"


def served(tmp_path, workspace, end, *, takes=timedelta(0)):
    """Return when each run began, in minutes after the start."""
    clock = FakeClock(end)
    runs = []

    async def execute(request):
        runs.append((clock.now() - START) / timedelta(minutes=1))
        clock.moment += takes
        answer = {"ok": True}
        return Outcome(id="x", status=Status.OK, value=answer, has_value=True)

    temporals = Scheduler(execute, partial(LastRuns, tmp_path / "state"), clock)

    async def fire(name, due):
        work = SdkCall(method="temporal.fire")
        await temporals.fire(ExecutionRequest(workspace=workspace, work=work), name, due.isoformat())

    with pytest.raises(OverError):
        asyncio.run(temporals.serve(workspace, fire))
    return runs


def test_what_comes_due_runs_once(tmp_path, workspace):
    assert served(tmp_path, workspace, timedelta(minutes=35)) == [10, 20, 30]


def test_what_came_due_meanwhile_is_caught_up_once_also_after_a_restart(tmp_path, workspace):
    assert served(tmp_path, workspace, timedelta(minutes=60), takes=timedelta(minutes=35)) == [10, 50]
    runs = LastRuns(tmp_path / "state", workspace)
    with runs.turn("often"):
        runs.note("often", START - timedelta(hours=5))
    assert served(tmp_path, workspace, timedelta(minutes=15)) == [0, 10]


def test_a_restart_does_not_postpone_the_first_run(tmp_path, workspace):
    assert served(tmp_path, workspace, timedelta(minutes=5)) == []
    runs = LastRuns(tmp_path / "state", workspace)
    assert runs.last("often") == START


def test_what_somebody_else_has_run_since_is_left_out(tmp_path, workspace):
    clock = FakeClock(timedelta(hours=1))
    runs = LastRuns(tmp_path / "state", workspace)

    async def never(_request):
        raise AssertionError

    temporals = Scheduler(never, partial(LastRuns, tmp_path / "state"), clock)
    request = ExecutionRequest(workspace=workspace, work=SdkCall(method="temporal.fire"))
    with runs.turn("often"):
        runs.note("often", START)
        with pytest.raises(
            SdkError, match="temporal often is already running; it never runs twice at the same time"
        ):
            asyncio.run(temporals.fire(request, "often"))
    answer = asyncio.run(temporals.fire(request, "often", START.isoformat()))
    assert answer == {"name": "often", "ok": True, "skipped": "it has run since"}


def test_a_damaged_state_runs_nothing(tmp_path, workspace):
    runs = LastRuns(tmp_path / "state", workspace)
    with runs.turn("often"):
        runs.note("often", START)
    (file,) = (tmp_path / "state").rglob("often")
    file.write_bytes(b"\xff")
    with pytest.raises(SdkError, match=r"this is not a time .*; remove the file to start again"):
        runs.last("often")
    (listed,) = Scheduler(
        lambda _: None, partial(LastRuns, tmp_path / "state"), FakeClock(timedelta(0))
    ).temporals(workspace)
    assert "remove the file" in listed["problem"]


@pytest.mark.parametrize(
    ("text", "last", "due"),
    [
        ("every = '90s'", "2030-01-01T00:00:00+00:00", "2030-01-01T00:01:30+00:00"),
        ("cron = '0 3 * * *'", "2030-01-01T03:00:00+00:00", "2030-01-02T03:00:00+00:00"),
        (
            "cron = '30 3 * * *'\ntimezone = 'Europe/Berlin'",
            "2030-07-01T12:00:00+00:00",
            "2030-07-02T01:30:00+00:00",
        ),
    ],
)
def test_due(tmp_path, text, last, due):
    temporal = parse(tmp_path, f"sequence = 's'\n{text}\n")
    assert temporal.due(datetime.fromisoformat(last)) == datetime.fromisoformat(due)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'give one of `cron` and `every`, for example every = "15m"'),
        ("every = '1m'\ncron = '* * * * *'", 'give one of `cron` and `every`, for example every = "15m"'),
        ("every = '0m'", "every must be a number with s, m, h or d, for example 15m, not '0m'"),
        ("cron = '* * * * * *'", "cron must have five fields, for example \"0 3 * * *\", not '* * * * * *'"),
        ("cron = '61 * * * *'", "cron: Bad minute: '61 * * * *'"),
        ("every = '1m'\ntimezone = '../etc'", "there is no time zone '../etc'"),
        ("every = '1m'\ncolour = 1", "colour: there is no such key"),
    ],
)
def test_mistakes_are_taught(tmp_path, text, message):
    with pytest.raises(SdkError) as raised:
        parse(tmp_path, f"sequence = 's'\n{text}\n")
    assert str(raised.value) == f"{tmp_path / 'x.toml'}: {message}"


def test_there_must_be_something_to_serve(tmp_path, workspace):
    (workspace / ".paddock" / "temporals" / "often.toml").write_text(
        "sequence = 's'\nevery = '1s'\nenabled = false"
    )

    async def fire(name, due):
        raise AssertionError

    with pytest.raises(SdkError, match="there is no temporal to serve in "):
        asyncio.run(Scheduler(fire, partial(LastRuns, tmp_path / "state")).serve(workspace, fire))
