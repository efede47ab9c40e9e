"""The part of the index that knows runs: the top-level requests of the ledger, and what they called.

    run            one row for each request without a parent: its first record, its end, and what it is sorted by
      work         who ran what: actor, surface, kind and name, and the server and tool of a call
      call         the different works that a run started or was refused, at any depth
    open_request   the requests that have started and not ended, with the run that each belongs to

A request's `started` record precedes those of its calls, and its end follows them. Therefore one pass from the oldest
record to the newest finds the run of each call. Everything is keyed by the position of a run's first record.
"""

import sqlite3
from collections.abc import Mapping
from typing import NamedTuple

RUN_SCHEMA = (
    """CREATE TABLE work (
        id INTEGER PRIMARY KEY, actor TEXT, surface TEXT, kind TEXT, name TEXT, server TEXT, tool TEXT,
        UNIQUE (actor, surface, kind, name)
    ) STRICT""",
    """CREATE TABLE run (
        place INTEGER PRIMARY KEY, work INT NOT NULL, started INT NOT NULL,
        finish INT, status TEXT NOT NULL, ms REAL, denied INT NOT NULL
    ) STRICT""",
    "CREATE TABLE call (run INT, work INT, PRIMARY KEY (run, work)) STRICT, WITHOUT ROWID",
    "CREATE TABLE open_request (request TEXT PRIMARY KEY, run INT NOT NULL) STRICT, WITHOUT ROWID",
)
UNFINISHED = "unfinished"
"""Status of a run without an end: it is under way, or Paddock was killed while it ran."""

MAX_TIME_MS = 2**53
"""Time of a record whose time cannot be read, in milliseconds: later than any time in a query."""
ENTRY_KEYS = ("session", "changes")
"""Facts in the end of a run by which it is found, like its id: its session and its change set."""
_CACHED_WORKS = 10_000
_WORKS = """
    SELECT id FROM work WHERE (:server IS NULL OR server = :server)
    AND (:tool IS NULL OR tool = :tool OR server <> '' AND :tool IN (server || '/' || tool, server || '.' || tool))
"""
_TEXTS = "SELECT id FROM work WHERE instr(lower(name), lower(:text))"
_NAMED = "SELECT place FROM name WHERE key = :key"
_OWN = """
    SELECT id FROM work WHERE (:actor IS NULL OR actor = :actor) AND (:surface IS NULL OR surface = :surface)
    AND (:name IS NULL OR name = :name OR kind = 'guest' AND :name = 'javascript')
"""
_CONDITIONS = {
    "own": f"work IN ({_OWN})",
    "called": f"(work IN ({_WORKS}) OR EXISTS (SELECT 1 FROM call WHERE run = place AND call.work IN ({_WORKS})))",
    "status": "status = :status",
    "since": "started >= :since",
    "until": "started < :until",
    "below": "place < :below",
    "text": f"""(work IN ({_TEXTS}) OR EXISTS (SELECT 1 FROM call WHERE run = place AND call.work IN ({_TEXTS}))
        OR place IN ({_NAMED}) OR finish IN ({_NAMED}))""",
}
_FILTERS = {
    "own": ("actor", "surface", "name"),
    "called": ("server", "tool"),
    **{name: (name,) for name in ("status", "since", "until", "below", "text")},
}
"""The values that each condition reads. A condition without a value is left out."""

RunValues = Mapping[str, str | int | None]
"""Values of a filter for runs, by name; None, or none, for any."""


class IndexedRun(NamedTuple):
    """What the index knows of a run."""

    place: int
    """Position of its first record: `started`, or `decided` for a run that did not start."""
    finish: int | None
    """Position of the record of its end; None without one."""
    denied: int
    """Number of its calls that were refused, at any depth."""


class RunTotals(NamedTuple):
    """Facts about all runs that match a filter."""

    total: int
    first_ms: int
    """Start of the first one, in milliseconds since the epoch; 0 without a run."""
    last_ms: int
    timed: int
    """Number of those that ran and ended, and have a wall time."""


class RunBatch:
    """Collects the runs of one batch of records. `write` stores them, in the same transaction as the records."""

    def __init__(self, database: sqlite3.Connection, works: dict[tuple[str, ...], int]) -> None:
        """`works` is a cache of the ids of works."""
        self._database = database
        self._works = works
        self._runs: dict[int, list[int | str | float | None]] = {}
        self._ends: list[tuple[int, str, float | None, int]] = []
        self._denied: dict[int, int] = {}
        self._calls: set[tuple[int, int]] = set()
        self._opened: dict[str, int] = {}
        self._closed: list[tuple[str]] = []

    def add(
        self, members: dict[str, object], facts: tuple[str, str, str, str, str], place: int, ts_ms: int
    ) -> None:
        """Take a record into account. `facts` are its event, actor, status, server and tool."""
        event, _, status, _, _ = facts
        request, parent = members["request"], members["parent"]
        if not isinstance(request, str) or not request or ts_ms >= MAX_TIME_MS:
            return
        if event == "started":
            work = self._find_work(members, facts)
            if not isinstance(parent, str):
                self._runs[place] = [place, work, ts_ms, None, UNFINISHED, None, 0]
                self._opened[request] = place
            elif (run := self._find_run(parent)) is not None:
                self._calls.add((run, work))
                self._opened[request] = run
        elif event == "finished":
            run = self._close_request(request)
            if run is not None and not isinstance(parent, str):
                self._end_run(run, place, status, members.get("ms"))
        elif event == "decided":
            if not isinstance(parent, str):
                self._runs[place] = [place, self._find_work(members, facts), ts_ms, place, status, None, 0]
            elif (run := self._find_run(parent)) is not None:
                self._calls.add((run, self._find_work(members, facts)))
                if status == "denied":
                    self._denied[run] = self._denied.get(run, 0) + 1

    def write(self) -> None:
        """Store everything."""
        put = self._database.executemany
        put("INSERT OR REPLACE INTO run VALUES (?, ?, ?, ?, ?, ?, ?)", self._runs.values())
        put("UPDATE run SET finish = ?, status = ?, ms = ? WHERE place = ?", self._ends)
        put(
            "UPDATE run SET denied = denied + ? WHERE place = ?",
            [(count, run) for run, count in self._denied.items()],
        )
        put("INSERT OR IGNORE INTO call VALUES (?, ?)", sorted(self._calls))
        put("DELETE FROM open_request WHERE request = ?", self._closed)
        put("INSERT OR REPLACE INTO open_request VALUES (?, ?)", self._opened.items())

    def _end_run(self, run: int, place: int, status: str, ms: object) -> None:
        wall_ms = float(ms) if isinstance(ms, int | float) else None
        if (row := self._runs.get(run)) is not None:
            row[3:6] = place, status, wall_ms
        else:
            self._ends.append((place, status, wall_ms, run))

    def _find_run(self, request: str) -> int | None:
        """Return the run that a request under way belongs to."""
        run = self._opened.get(request)
        if run is None:
            query = "SELECT run FROM open_request WHERE request = ?"
            found = self._database.execute(query, (request,)).fetchone()
            run = None if found is None else found[0]
        return run

    def _close_request(self, request: str) -> int | None:
        run = self._opened.pop(request, None)
        if run is None and (run := self._find_run(request)) is not None:
            self._closed.append((request,))
        return run

    def _find_work(self, members: dict[str, object], facts: tuple[str, str, str, str, str]) -> int:
        surface, kind, name = members.get("surface"), members.get("kind"), members.get("name")
        key = (
            facts[1],
            surface if isinstance(surface, str) else "",
            kind if isinstance(kind, str) else "",
            name if isinstance(name, str) else "",
        )
        if (known := self._works.get(key)) is not None:
            return known
        if len(self._works) >= _CACHED_WORKS:
            self._works.clear()
        self._database.execute(
            "INSERT OR IGNORE INTO work (actor, surface, kind, name, server, tool) VALUES (?, ?, ?, ?, ?, ?)",
            (*key, *facts[3:]),
        )
        query = "SELECT id FROM work WHERE (actor, surface, kind, name) = (?, ?, ?, ?)"
        (found,) = self._database.execute(query, key).fetchone()
        self._works[key] = found
        return found


_WORK_KEYS = ("actor", "surface", "kind", "name")


def find_runs(database: sqlite3.Connection, values: RunValues, count: int) -> list[IndexedRun]:
    """Return up to `count` runs that match, the newest first."""
    where, bound = _match(values)
    query = f"SELECT place, finish, denied FROM run {where} ORDER BY place DESC LIMIT :count"
    return [IndexedRun(*row) for row in database.execute(query, {**bound, "count": count})]


def total_runs(database: sqlite3.Connection, values: RunValues) -> RunTotals:
    """Return facts about all runs that match."""
    where, bound = _match(values)
    query = f"SELECT count(*), min(started), max(started), count(ms) FROM run {where}"
    count, first, last, timed = database.execute(query, bound).fetchone()
    return RunTotals(count, first or 0, last or 0, timed)


def count_runs(
    database: sqlite3.Connection, values: RunValues, base_ms: int, width_ms: int
) -> list[tuple[int, str, int]]:
    """Return the number of matching runs by the number of their time slot since `base_ms`, and by status."""
    where, bound = _match(values)
    query = f"SELECT (started - :base) / :width, status, count(*) FROM run {where} GROUP BY 1, 2"
    return database.execute(query, {**bound, "base": base_ms, "width": width_ms}).fetchall()


def nth_time(database: sqlite3.Connection, values: RunValues, number: int) -> float:
    """Return the wall time at a position, from 0, among those of all matching runs in ascending order."""
    where, bound = _match(values)
    query = (
        f"SELECT ms FROM (SELECT ms FROM run {where}) WHERE ms IS NOT NULL ORDER BY ms LIMIT 1 OFFSET :number"
    )
    (found,) = database.execute(query, {**bound, "number": number}).fetchone()
    return found


def list_values(database: sqlite3.Connection, column: str, actor: str | None) -> list[str]:
    """Return the different values of a column of `work` for an actor's top-level requests; None for all actors."""
    column = column if column in {*_WORK_KEYS, "server"} else "name"
    own = "" if column == "server" else "AND surface <> 'guest'"
    query = f"""
        SELECT DISTINCT {column} FROM work WHERE {column} <> '' AND (:actor IS NULL OR actor = :actor) {own}
        ORDER BY 1 LIMIT 200
    """
    return [value for (value,) in database.execute(query, {"actor": actor})]


def _match(values: RunValues) -> tuple[str, dict[str, str | int | None]]:
    """Return the WHERE clause of a filter, and its values."""
    names = {name for names in _FILTERS.values() for name in names}
    bound: dict[str, str | int | None] = {**dict.fromkeys(names), **values}
    conditions = [
        _CONDITIONS[condition]
        for condition, needed in _FILTERS.items()
        if any(bound[name] is not None for name in needed)
    ]
    return f"WHERE {' AND '.join(conditions)}" if conditions else "", {"key": None, **bound}
