"""Schedules of sequences: `.paddock/temporals/NAME.toml`, of the workspace or of the home directory.

A run is recorded before it starts, so that an interrupted run is not repeated. A schedule that came due while no
process served it runs once, however often it came due.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from pydantic import Field, model_validator

from paddock.foundation.cancellation import run_shielded
from paddock.gate.schedules.last_runs import FindRuns, ScheduleRuns
from paddock.gate.sequences.sequence import find, list_files, read
from paddock.model.base import Json, Value
from paddock.model.errors import SdkError
from paddock.model.outcome import Outcome
from paddock.model.request import ExecutionRequest, SdkCall

_INTERVAL_PATTERN = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_CRON_FIELDS = 5
_POLL_S = 60
"""Maximum time between two reads of the clock, in seconds: it may be set, and the machine may sleep."""
_MAX_CLOCK_SKEW = timedelta(minutes=5)
"""Maximum clock correction. A time further in the future was recorded before the clock was set back."""


class Schedule(Value):
    """When a sequence runs, and with which variables."""

    sequence: str
    description: str = ""
    vars: dict[str, str] = Field(default_factory=dict)
    cron: str | None = None
    """Minute, hour, day of the month, month, day of the week."""
    every: str | None = None
    """`30s`, `15m`, `2h`, `1d`: the time between two starts."""
    timezone: str = "UTC"
    """Name of the time zone for `cron`, such as `Europe/Berlin`."""
    enabled: bool = True
    """Whether it runs automatically."""

    @model_validator(mode="after")
    def _comes_due(self) -> Self:
        if (self.cron is None) == (self.every is None):
            raise ValueError('give one of `cron` and `every`, for example every = "15m"')
        if self.every is not None and not _INTERVAL_PATTERN.fullmatch(self.every):
            raise ValueError(f"every must be a number with s, m, h or d, for example 15m, not {self.every!r}")
        try:
            zone = ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"there is no time zone {self.timezone!r}") from None
        if self.cron is not None:
            if len(self.cron.split()) != _CRON_FIELDS:
                raise ValueError(f'cron must have five fields, for example "0 3 * * *", not {self.cron!r}')
            try:
                CronSim(self.cron, datetime.now(zone))
            except CronSimError as problem:
                raise ValueError(f"cron: {problem}: {self.cron!r}") from None
        return self

    def due(self, last: datetime) -> datetime | None:
        """Return when it next comes due after a time; None for never."""
        if self.every is not None:
            found = _INTERVAL_PATTERN.fullmatch(self.every)
            assert found is not None
            return last + timedelta(**{_UNITS[found[2]]: int(found[1])})
        assert self.cron is not None
        following = next(CronSim(self.cron, last.astimezone(ZoneInfo(self.timezone))), None)
        return None if following is None else following.astimezone(UTC)


class ScheduleClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        """Return the current time, in UTC."""
        return datetime.now(UTC)

    async def wait(self, seconds: float) -> None:
        """Wait for some seconds."""
        await asyncio.sleep(seconds)


Execute = Callable[[ExecutionRequest], Awaitable[Outcome]]


class Scheduler:
    """The schedules of one session."""

    def __init__(self, execute: Execute, find_runs: FindRuns, clock: ScheduleClock | None = None) -> None:
        self._execute = execute
        self._find_runs = find_runs
        self._clock = clock or ScheduleClock()

    async def fire(self, request: ExecutionRequest, name: str, due: str | None = None) -> Json:
        """Run the sequence of a schedule and return `{name, ok, sequence}`, or `{name, ok, error}`.

        With `due` (a time in ISO format) nothing runs if the schedule has run since: `{name, ok, skipped}`. Raises
        SdkError for an invalid name or file, and if the schedule is already running.
        """
        temporal = read(find(name, request.workspace, "temporals"), Schedule)
        runs = self._find_runs(request.workspace)
        async with _hold_turn(runs, name) as mine:
            now, last = self._clock.now(), await asyncio.to_thread(runs.last, name)
            if (
                due is not None
                and last is not None
                and last == _count_from(last, now)
                and last >= _parse_moment(due)
            ):
                return {"name": name, "ok": True, "skipped": "it has run since"}
            if not mine:
                raise SdkError(f"temporal {name} is already running; it never runs twice at the same time")
            await asyncio.to_thread(runs.note, name, now)
            outcome = await self._execute(
                ExecutionRequest(
                    parent=request.id,
                    root=request.root or request.id,
                    actor=request.actor,
                    surface="temporal",
                    workspace=request.workspace,
                    caller=request.caller,
                    work=SdkCall(
                        method="sequence.run", arguments=(temporal.sequence, {"vars": dict(temporal.vars)})
                    ),
                    calls=request.calls,
                    depth=request.depth + 1,
                )
            )
        if outcome.ok:
            return {"name": name, "ok": outcome.value["ok"], "sequence": outcome.value}
        failure = outcome.error
        error = (
            {"name": failure.name, "message": failure.message} if failure else {"name": outcome.status.value}
        )
        return {"name": name, "ok": False, "error": error}

    def temporals(self, workspace: Path) -> Json:
        """Return the facts of every schedule: its file's contents, `last` and `next`; or `{name, problem}`."""
        return listing(workspace, self._find_runs, self._clock.now())

    async def serve(self, workspace: Path, fire: Callable[[str, datetime], Awaitable[None]]) -> None:
        """Call `fire` with every schedule that comes due, until cancelled. Files are read once.

        Raises SdkError if there is no schedule, and for an invalid file.
        """
        found = {name: read(path, Schedule) for name, path in list_files(workspace, "temporals")}
        enabled = {name: temporal for name, temporal in found.items() if temporal.enabled}
        if not enabled:
            raise SdkError(f"there is no temporal to serve in {workspace / '.paddock' / 'temporals'}")
        try:
            async with asyncio.TaskGroup() as group:
                for name, temporal in enabled.items():
                    group.create_task(self._serve_turns(name, temporal, self._find_runs(workspace), fire))
        except ExceptionGroup as problems:
            raise problems.exceptions[0] from None

    async def _serve_turns(
        self,
        name: str,
        temporal: Schedule,
        runs: ScheduleRuns,
        fire: Callable[[str, datetime], Awaitable[None]],
    ) -> None:
        last = await self._first_seen(name, runs)
        while (due := temporal.due(last)) is not None:
            if (left := (due - self._clock.now()).total_seconds()) > 0:
                await self._clock.wait(min(left, _POLL_S))
                last = _count_from(last, self._clock.now())
                continue
            before, last = last, self._clock.now()
            await fire(name, due)
            noted = None
            with suppress(SdkError):  # the run has reported it, if it concerns that
                noted = await asyncio.to_thread(runs.last, name)
            if noted is not None and before < noted < last:
                last = noted  # all who serve this schedule count from the same run
            while (passed := temporal.due(last)) is not None and passed <= self._clock.now():
                last = passed

    async def _first_seen(self, name: str, runs: ScheduleRuns) -> datetime:
        """Return when a schedule last ran. One that never ran counts from now on, also after restarts."""
        async with _hold_turn(runs, name) as mine:
            last = await asyncio.to_thread(runs.last, name)
            if last is None:
                last = self._clock.now()
                if mine:
                    await asyncio.to_thread(runs.note, name, last)
        return _count_from(last, self._clock.now())


def _count_from(last: datetime, now: datetime) -> datetime:
    """Return the start of a schedule's interval: its last run, or now if that is in the future."""
    return now if last - now > _MAX_CLOCK_SKEW else last


@asynccontextmanager
async def _hold_turn(runs: ScheduleRuns, name: str) -> AsyncGenerator[bool]:
    """Hold a schedule during the context, without blocking the event loop; yields False if another process does."""
    turn = runs.turn(name)
    mine = await asyncio.to_thread(turn.__enter__)
    try:
        yield mine
    finally:
        await run_shielded(asyncio.to_thread(turn.__exit__, None, None, None))


def listing(workspace: Path, find_runs: FindRuns, now: datetime) -> list[dict[str, Any]]:
    """Return the facts of every schedule: its file's contents, `last` and `next`; or `{name, problem}`."""
    facts: list[dict[str, Any]] = []
    for name, path in list_files(workspace, "temporals"):
        try:
            temporal = read(path, Schedule)
            last = find_runs(workspace).last(name)
        except SdkError as problem:
            facts.append({"name": name, "problem": str(problem)})
            continue
        due = temporal.due(_count_from(last or now, now)) if temporal.enabled else None
        times = {"last": last and last.isoformat(), "next": due and due.isoformat()}
        facts.append({"name": name, **temporal.model_dump(mode="json", exclude_none=True), **times})
    return facts


def _parse_moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        raise SdkError(
            f"{text!r} is not a time; write it in ISO format, for example 2030-01-01T03:00:00Z"
        ) from None
