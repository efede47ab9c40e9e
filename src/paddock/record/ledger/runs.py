"""List the runs of a ledger: its requests without a parent, newest first, with a histogram and percentiles.

The index finds the runs and counts them. Everything that is shown of one run is read from its records in the ledger,
except the number of its refused calls. A record that is not intact, or contradicts the index, is not shown.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, TypeVar

from paddock.model.base import Value
from paddock.model.ids import is_id
from paddock.record.ledger.index import (
    LedgerIndex,
    NoIndexError,
    OnProgress,
    ask,
    ask_in_memory,
    hash_name,
)
from paddock.record.ledger.line_format import explain_failed_call
from paddock.record.ledger.run_index import (
    UNFINISHED,
    IndexedRun,
    RunValues,
    count_runs,
    find_runs,
    list_values,
    nth_time,
    total_runs,
)
from paddock.record.ledger.search import STATUSES, RecordFilter, find, read_records_at
from paddock.record.ledger.sink import AuditRecord, since_timestamp

RUN_STATUSES = (*STATUSES, "replayed", UNFINISHED)
"""Every status of a run."""
MAX_SLOTS = 60
"""Maximum number of time slots of a histogram."""
MAX_DEPTH = 32
"""Maximum number of requests that started each other; policy permits fewer."""

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_WIDTHS = (
    *(count * _SECOND for count in (1, 2, 5, 10, 30)),
    *(count * _MINUTE for count in (1, 2, 5, 10, 30)),
    *(count * _HOUR for count in (1, 2, 6, 12)),
    *(count * _DAY for count in (1, 2, 7, 14, 28, 91, 364, 3640)),
)
"""Widths of a time slot, in milliseconds."""
_EPOCH = datetime.fromtimestamp(0, UTC)
_T = TypeVar("_T")


class RunFilter(Value):
    """A filter for runs, which must match every given value."""

    actor: str | None = None
    surface: str | None = None
    name: str | None = None
    """Name of the run: a language, a script, a tool `SERVER/TOOL`; `javascript` for every program in V8."""
    server: str | None = None
    """Upstream server that the run, or a call at any depth of it, called."""
    tool: str | None = None
    """Tool of such a call: TOOL, SERVER/TOOL or SERVER.TOOL, or a script tool."""
    status: str | None = None
    """One of `RUN_STATUSES`."""
    since: datetime | None = None
    """Earliest start, with a time zone."""
    until: datetime | None = None
    """Time before which the run started, with a time zone."""
    text: str | None = None
    """Part of the name of the run or of a call, in any case; or a whole id: of any of its records, requests, its
    session or its change set."""

    def matches(self, run: "Run") -> bool:
        """Return whether the facts of a run in the ledger match; its calls and `text` are not looked at."""
        is_named = self.name in {None, run.name, "javascript" if run.kind == "guest" else None}
        return (
            is_named
            and self.actor in {None, run.actor}
            and self.surface in {None, run.surface}
            and self.status in {None, run.status}
            and run.started >= since_timestamp(self.since)
            and (self.until is None or run.started < since_timestamp(self.until))
        )


class Run(Value):
    """One top-level request, as its records in the ledger describe it."""

    id: str
    started: str
    """Time of its first record: UTC, ISO 8601."""
    ended: str | None
    """Time of its end; None while it is under way, or if Paddock was killed."""
    actor: str
    surface: str
    kind: str
    name: str
    """A language, a script, a tool `SERVER/TOOL`."""
    status: str
    """One of `RUN_STATUSES`."""
    rule: str
    """The rule that decided."""
    ms: float | None
    cpu_ms: float | None
    peak_bytes: int | None
    calls: int | None
    """Number of calls that the program made; None if it has not ended, or makes none."""
    denied: int
    """Number of its calls that were refused, at any depth. From the index."""
    session: str
    """Hash of the handle of its session; empty for none."""
    changes: str
    """ID of its change set; empty for none."""
    is_recorded: bool
    """Whether a recording of its program was stored."""
    title: str
    """What it did, in a few words: its name, or `accept changes`."""


class RunPage(NamedTuple):
    """Some runs, newest first."""

    runs: tuple[Run, ...] = ()
    next: str = ""
    """Cursor of the next page; empty on the last one."""


class RunRecords(NamedTuple):
    """The records of one run and of everything below it."""

    run: str
    """Id of the top-level request; empty if there is none."""
    records: tuple[AuditRecord, ...]
    """In the order of the chain."""
    is_cut: bool
    """Whether there are more of them."""


class RunSlot(NamedTuple):
    """The runs that started within a time slot."""

    start: datetime
    counts: dict[str, int]
    """Number of runs by status."""


class RunSummary(NamedTuple):
    """All runs that match a filter. From the index."""

    total: int = 0
    p50_ms: float | None = None
    """Median wall time of the runs that ended; None without one."""
    p95_ms: float | None = None
    slot_ms: int = 0
    """Width of a time slot, in milliseconds."""
    slots: tuple[RunSlot, ...] = ()
    """At most `MAX_SLOTS`, oldest first and without gaps; none without a run."""


def list_runs(
    directory: Path,
    wanted: RunFilter,
    *,
    count: int,
    cursor: str = "",
    on_progress: OnProgress | None = None,
) -> RunPage:
    """Return up to `count` matching runs before a cursor, newest first. An unknown cursor starts at the newest one.

    Without a ledger there are none. Calls `on_progress` while the index is brought up to date. Raises LedgerError if
    the ledger cannot be read or a time has no time zone.
    """
    values = _make_values(directory, wanted)
    runs: list[Run] = []
    below = (
        int(cursor) if cursor.isascii() and cursor.isdecimal() and len(cursor) < 19 else None
    )  # below 2^63
    while len(runs) < count:
        page = {**values, "below": below}
        wants = count - len(runs) + 1
        found = _ask(
            directory, lambda index, p=page, w=wants: find_runs(index.database, p, w), on_progress, []
        )
        runs += filter(wanted.matches, _read_runs(directory, found[: wants - 1]))
        if len(found) < wants:
            return RunPage(tuple(runs), "")
        below = found[-2].place
    return RunPage(tuple(runs), "" if below is None else str(below))


def summarize_runs(
    directory: Path, wanted: RunFilter, *, on_progress: OnProgress | None = None
) -> RunSummary:
    """Return the number of matching runs, their histogram, and percentiles of their wall times.

    Raises LedgerError as `list_runs` does.
    """
    nothing = RunSummary(slot_ms=_WIDTHS[0])
    values = _make_values(directory, wanted)
    return _ask(directory, lambda index: _summarize(index, values), on_progress, nothing)


def list_run_values(directory: Path, actor: str | None = None) -> dict[str, list[str]]:
    """Return the values to choose from in a filter: actors, surfaces, names and servers; those of one actor if given.

    Raises LedgerError.
    """

    def list_all(index: LedgerIndex) -> dict[str, list[str]]:
        return {
            column: list_values(index.database, column, actor)
            for column in ("actor", "surface", "name", "server")
        }

    return _ask(directory, list_all, None, {})


def find_run_records(directory: Path, id_: str, *, limit: int) -> RunRecords:
    """Return the intact records of the run that an id belongs to: up to `limit`, the oldest ones.

    The id may be that of a request or of a record, at any depth. Raises LedgerError.
    """
    run = _climb(directory, id_)
    found: dict[int, AuditRecord] = {}
    seen: set[str] = set()
    below, is_cut = {run} - {""}, False
    while below and not is_cut:  # requests of one depth after the other
        places = _ask(directory, lambda index, names=below: index.places_of(names), None, [])
        missing = [place for place in places if place not in found]
        is_cut = len(found) + len(missing) > limit
        read = dict(read_records_at(directory, missing[: limit - len(found)]))
        found |= {place: record for place, record in read.items() if {record.request, record.parent} & below}
        seen |= below
        below = {record.request for record in read.values() if record.parent in below} - seen
    return RunRecords(run, tuple(found[place] for place in sorted(found)), is_cut)


def _climb(directory: Path, id_: str) -> str:
    """Return the id of the top-level request that an id belongs to; "" for an unknown one."""
    for _ in range(MAX_DEPTH):
        record = next(find(directory, RecordFilter(name=id_), limit=1, newest_first=False), None)
        if record is None or id_ not in {record.id, record.request}:
            return "" if record is None else id_  # only its children are in the ledger
        if record.parent is None:
            return record.request
        id_ = record.parent
    return ""


def _ask(
    directory: Path, question: Callable[[LedgerIndex], _T], on_progress: OnProgress | None, nothing: _T
) -> _T:
    """Return the answer of the index to a question; `nothing` without a ledger. Raises LedgerError."""
    if not directory.is_dir():
        return nothing
    try:
        try:
            return ask(directory, question, on_progress)
        except NoIndexError:
            return ask_in_memory(directory, question)
    except OSError as error:
        raise explain_failed_call(error, directory, "read") from error


def _make_values(directory: Path, wanted: RunFilter) -> RunValues:
    """Return the values by which the index finds runs."""
    given = wanted.model_dump(include={"actor", "surface", "name", "server", "tool", "status", "text"})
    known = {key: value.encode("utf-8", "replace").decode() for key, value in given.items() if value}
    text = known.get("text")
    run = _climb(directory, text) if text is not None and is_id(text) else ""
    return {
        **known,
        "since": _milliseconds(wanted.since),
        "until": _milliseconds(wanted.until),
        "key": None if text is None else hash_name(run or text),
    }


def _milliseconds(moment: datetime | None) -> int | None:
    since_timestamp(moment)  # it has a time zone
    return None if moment is None else round(moment.timestamp() * 1000)


def _read_runs(directory: Path, found: Sequence[IndexedRun]) -> Iterator[Run]:
    """Yield the runs whose first record is in the ledger where the index says."""
    starts = dict(read_records_at(directory, [run.place for run in found]))
    ends = dict(read_records_at(directory, [run.finish for run in found if run.finish is not None]))
    for run in found:
        start, end = starts.get(run.place), ends.get(run.finish or -1)
        if start is not None and start.parent is None:
            yield make_run(
                start, end if end is not None and end.request == start.request else None, run.denied
            )


def title_request(facts: Mapping[str, object]) -> str:
    """Return what a recorded request does, in a few words."""
    kind = _text(facts.get("kind"))
    return (
        f"{_text(facts.get('action'))} changes".lstrip()
        if kind == "changes"
        else _text(facts.get("name")) or kind
    )


def make_run(start: AuditRecord, end: AuditRecord | None, denied: int) -> Run:
    """Return the run with a first record, `started` or `decided`, and the record of its end."""
    facts = start.fields if end is None else end.fields
    # Nothing was measured: no program ran.
    measured = {} if facts.get("tier") == "none" and not facts.get("cpu_ms") else facts
    return Run(
        id=start.request,
        started=start.ts,
        ended=None if end is None else end.ts,
        **{key: _text(start.fields.get(key)) for key in ("actor", "surface", "kind", "name", "rule")},
        status=UNFINISHED if end is None else _text(facts.get("status")),
        ms=_number(facts.get("ms")),
        cpu_ms=_number(measured.get("cpu_ms")),
        peak_bytes=_whole(measured.get("peak_bytes")),
        calls=_whole(facts.get("calls")),
        denied=denied,
        session=_text(facts.get("session")),
        changes=_text(facts.get("changes")),
        is_recorded="recording_sha256" in facts,
        title=title_request(start.fields),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _summarize(index: LedgerIndex, values: RunValues) -> RunSummary:
    database = index.database
    totals = total_runs(database, values)
    width = next(
        (width for width in _WIDTHS if _count_slots(totals.first_ms, totals.last_ms, width) <= MAX_SLOTS),
        totals.last_ms - totals.first_ms + 1,
    )
    base = totals.first_ms - totals.first_ms % width
    counts = [dict[str, int]() for _ in range(_count_slots(totals.first_ms, totals.last_ms, width))]
    if totals.total:
        for slot, status, count in count_runs(database, values, base, width):
            counts[slot][status] = count
    p50, p95 = (
        nth_time(database, values, (totals.timed - 1) * percent // 100) if totals.timed else None
        for percent in (50, 95)
    )
    slots = (
        RunSlot(_EPOCH + timedelta(milliseconds=base + number * width), slot)
        for number, slot in enumerate(counts if totals.total else ())
    )
    return RunSummary(totals.total, p50, p95, width, tuple(slots))


def _count_slots(first_ms: int, last_ms: int, width_ms: int) -> int:
    return last_ms // width_ms - first_ms // width_ms + 1
