"""An index beside the ledger that quickly finds a few records among millions. It is not trusted.

    ledger    YYYY-MM-DD.ndjson ----.      records are read here, at the positions that the index returns, and are shown
                   |                |      only if they are intact and match the query
                   v                |
    index     index.sqlite: position -> facts to search for, id -> positions, run -> its end and calls (`run_index.py`)

Writers do not use the index. A reader first brings it up to date, which takes a fraction of a second for the records of
a busy hour. A position is the day of a file and an offset in it, so that positions sort in the order of the chain.

The index is made again if it is missing, damaged, has another schema, or disagrees with the files: a file is missing,
shorter or another one, was changed without growing, or lacks the last line that was read from it. Only regular files of
this user are opened; anything else with a name of the index is removed. A directory that other users may write to, or
that cannot be written to, has no index. One process at a time uses it, and locks the directory during a query.

A user who can write to the directory can make the index hide records, but could also remove them from the ledger.
`verify` reads only the ledger.
"""

import fcntl
import os
import sqlite3
import stat
import time
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import orjson

from paddock.foundation.files import is_ours
from paddock.model.ids import sort_key
from paddock.record.ledger.line_format import lines, open_regular, stat_files
from paddock.record.ledger.run_index import ENTRY_KEYS, MAX_TIME_MS, RUN_SCHEMA, RunBatch

INDEX_FILE_NAME = "index.sqlite"

T = TypeVar("T")
OnProgress = Callable[[int, int], None]
"""Called with the number of bytes of the ledger that have been read into the index, and the total."""

SCHEMA_VERSION = 2
"""Version of the meaning of the tables; an index with another one is made again."""
_PRAGMAS = ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = NORMAL", "trusted_schema = OFF")
"""One process at a time uses the files. After a power failure the index may be out of date."""
_SCHEMA = (
    # `last` has up to `_HASH_TAIL_BYTES` bytes of the last line that was read; `read` is where that line ends.
    "CREATE TABLE file (day INTEGER PRIMARY KEY, inode INT, size INT, changed INT, read INT, last BLOB) STRICT",
    """CREATE TABLE facts (
        id INTEGER PRIMARY KEY, event TEXT, actor TEXT, status TEXT, server TEXT, tool TEXT,
        UNIQUE (event, actor, status, server, tool)
    ) STRICT""",
    "CREATE TABLE record (place INTEGER PRIMARY KEY, facts INT NOT NULL, ms INT NOT NULL) STRICT",
    "CREATE INDEX record_facts ON record (facts, ms)",
    "CREATE TABLE name (key INT, place INT, PRIMARY KEY (key, place)) STRICT, WITHOUT ROWID",
    *RUN_SCHEMA,
)
_MATCHING = """
    facts IN (
        SELECT id FROM facts WHERE (:event IS NULL OR event = :event) AND (:actor IS NULL OR actor = :actor)
        AND (:status IS NULL OR status = :status) AND (:server IS NULL OR server = :server)
        AND (:tool IS NULL OR tool = :tool OR server <> '' AND :tool IN (server || '/' || tool, server || '.' || tool))
    ) AND ms >= :since AND ms <= :until AND place > :above AND place < :below
    ORDER BY place DESC LIMIT :count
"""
_NAMED = f"""
    SELECT place FROM record NOT INDEXED WHERE place IN (SELECT place FROM name WHERE key = :key) AND {_MATCHING}
"""
_AMONG_NEXT = f"""
    SELECT place FROM (
        SELECT * FROM record NOT INDEXED WHERE place > :above AND place < :below ORDER BY place DESC LIMIT 50000
    ) WHERE {_MATCHING}
"""
"""Only among the next records: frequent values are found there without sorting all of them."""
_PLACES = "SELECT place FROM name WHERE key = ?"
_ANYWHERE = f"SELECT place FROM record INDEXED BY record_facts WHERE {_MATCHING}"
_FILES = (INDEX_FILE_NAME, f"{INDEX_FILE_NAME}-wal", f"{INDEX_FILE_NAME}-shm", f"{INDEX_FILE_NAME}-journal")
_HASH_TAIL_BYTES = 80
"""Number of bytes at the end of a line that identify it by its hash."""
_OFFSET_BITS = 40
_BATCH_BYTES = 16 * 1024 * 1024
"""Size of the part of the ledger that is read in one transaction, in bytes."""
_CACHED_FACTS = 10_000
_LOCK_WAIT_S = 5.0

FACTS = ("event", "actor", "status", "server", "tool")
Facts = tuple[str, str, str, str, str]


class NoIndexError(Exception):
    """There is no index; the ledger itself must be searched."""


class RecordPosition(NamedTuple):
    """The position at which the line of a record begins."""

    file: str
    offset: int


class _IndexedExtent(NamedTuple):
    """How far a file has been read into the index."""

    inode: int
    size: int
    changed: int
    read: int
    last: bytes


def facts_of(members: dict[str, object]) -> Facts:
    """Return the facts of a record that can be searched for, by its event and fields; "" for a missing one."""
    get = members.get
    event, actor, status, name = get("event"), get("actor"), get("status"), get("name")
    kind = get("kind")
    # Spelled out, because it runs for every record of the ledger.
    event = event if isinstance(event, str) else ""
    actor = actor if isinstance(actor, str) else ""
    status = status if isinstance(status, str) else ""
    name = name if isinstance(name, str) else ""
    server, _, tool = name.partition("/") if kind == "server" else ("", "", name if kind == "tool" else "")
    return event, actor, status, server, tool


def ask(directory: Path, question: "Callable[[LedgerIndex], T]", on_progress: OnProgress | None = None) -> T:
    """Bring a ledger's index up to date, and return the answer to a question, under the lock.

    Calls `on_progress` between batches. Raises NoIndexError if there can be no index; OSError for a ledger that cannot
    be read.
    """
    directory = Path(os.path.realpath(directory))
    if not is_ours(directory):
        raise NoIndexError
    with _hold_lock(directory):
        try:
            return _ask_locked(directory, question, on_progress)
        except _DATABASE_ERRORS:
            for name in _FILES:
                try:
                    (directory / name).unlink(missing_ok=True)
                except OSError as error:
                    raise NoIndexError from error
        try:
            return _ask_locked(directory, question, on_progress)
        except _DATABASE_ERRORS as error:
            raise NoIndexError from error


class LedgerIndex:
    """The open index of one ledger."""

    def __init__(self, directory: Path, database: sqlite3.Connection) -> None:
        self._directory = directory
        self._database = database
        self._facts: dict[Facts, int] = {}
        self._works: dict[tuple[str, ...], int] = {}

    @property
    def database(self) -> sqlite3.Connection:
        """The tables, for queries of `run_index.py`."""
        return self._database

    def places(
        self,
        wanted: Mapping[str, str],
        since: str,
        name: str,
        *,
        count: int,
        after: int | None,
        newest_first: bool,
        until: str = "",
    ) -> list[int]:
        """Return up to `count` positions of records after the position `after`, in order; see `place_of`.

        `wanted` has values by the name of a fact, `since` and `until` are a record's `ts`, and `name` is an id of the
        record, its request or its parent.
        """
        values = {
            **dict.fromkeys(FACTS),
            **wanted,
            "key": hash_name(name),
            "since": _parse_milliseconds(since) if since else -MAX_TIME_MS,
            "above": -1 if after is None or newest_first else after,
            "below": after if after is not None and newest_first else 2**63 - 1,
            "count": count,
            "until": _parse_milliseconds(until) if until else 2**63 - 1,
        }
        found: list[int] = []
        for query in (_NAMED,) if name else (_AMONG_NEXT, _ANYWHERE):
            rows = self._database.execute(query if newest_first else query.replace(" DESC", " ASC"), values)
            found = [place for (place,) in rows]
            if len(found) == count:
                break
        return found

    def places_of(self, names: Iterable[str]) -> list[int]:
        """Return the positions of all records with one of these ids, of the record, its request or its parent."""
        found: set[int] = set()
        for name in names:
            found |= {place for (place,) in self._database.execute(_PLACES, (hash_name(name),))}
        return sorted(found)

    def catch_up(self, on_progress: OnProgress | None) -> None:
        """Read the new part of the ledger into the index. Raises _OutdatedError if the index disagrees with it."""
        known = {
            day: _IndexedExtent(*rest)
            for day, *rest in self._database.execute("SELECT * FROM file ORDER BY day")
        }
        files: dict[int, str] = {}
        sizes: dict[int, int] = {}
        for name, facts in stat_files(self._directory).items():
            with suppress(ValueError):  # 2026-02-30
                day = date.fromisoformat(name[:10]).toordinal()
                if known.get(day, _UNREAD)[:3] != (facts.st_ino, facts.st_size, facts.st_mtime_ns):
                    files[day], sizes[day] = name, facts.st_size
                elif day in known:
                    files[day] = ""
        if known.keys() - files.keys():
            raise _OutdatedError
        done, total = 0, sum(size - known.get(day, _UNREAD).read for day, size in sizes.items())
        for day in sorted(sizes):
            with open_regular(self._directory, files[day]) as fd:
                for read in self._read_file(day, fd, known.get(day)) if fd is not None else ():
                    done += read
                    if on_progress is not None:
                        on_progress(done, total)

    def _read_file(self, day: int, fd: int, known: _IndexedExtent | None) -> Iterator[int]:
        """Read the rest of a file into the index, and yield the size of each batch in bytes."""
        facts = os.fstat(fd)
        read = known.read if known else 0
        if known and (
            known.inode != facts.st_ino
            or known.size >= facts.st_size
            or os.pread(fd, len(known.last), read - len(known.last)) != known.last
        ):
            raise _OutdatedError
        size = min(facts.st_size, 1 << _OFFSET_BITS)
        batch = _BATCH_BYTES
        while True:
            end = min(size, read + batch)
            with self._database:
                reached = self._read_lines(day, fd, read, end)
                last = os.pread(fd, min(_HASH_TAIL_BYTES, reached), max(0, reached - _HASH_TAIL_BYTES))
                whole = end == size
                seen = (facts.st_size, facts.st_mtime_ns) if whole else (reached, 0)
                row = (day, facts.st_ino, *seen, reached, last)
                self._database.execute("INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?, ?, ?)", row)
            yield reached - read
            batch = _BATCH_BYTES if reached > read else 2 * batch  # a line may be longer than a batch
            read = reached
            if whole:
                return

    def _read_lines(self, day: int, fd: int, start: int, end: int) -> int:
        """Read the lines between two offsets into the index, and return the end of the last complete one."""
        records: list[tuple[int, int, int]] = []
        names: set[tuple[int, int]] = set()
        runs = RunBatch(self._database, self._works)
        base = day << _OFFSET_BITS
        for line in lines(fd, start, end):
            if not line.whole:
                break
            try:
                members = orjson.loads(line.data)
                request, parent, id_, ts = (
                    members["request"],
                    members["parent"],
                    members["id"],
                    members["ts"],
                )
                facts = facts_of(members)
            except (ValueError, TypeError, KeyError, AttributeError):
                start = line.end  # not a record
                continue
            place, start = base + start, line.end
            at = _parse_milliseconds(ts)
            records.append((place, self._facts_id(facts), at))
            names.add((hash_name(id_), place))
            if request:
                names.add((_hash_repeated(request), place))
            if parent:
                names.add((_hash_repeated(parent), place))
            elif facts[0] == "finished":
                given = (members.get(key) for key in ENTRY_KEYS)
                names.update((hash_name(value), place) for value in given if isinstance(value, str) and value)
            runs.add(members, facts, place, at)
        self._database.executemany("INSERT INTO record VALUES (?, ?, ?)", records)
        self._database.executemany("INSERT INTO name VALUES (?, ?)", sorted(names))
        runs.write()
        return start

    def _facts_id(self, facts: Facts) -> int:
        if (known := self._facts.get(facts)) is not None:
            return known
        if len(self._facts) >= _CACHED_FACTS:
            self._facts.clear()
        self._database.execute(
            "INSERT OR IGNORE INTO facts (event, actor, status, server, tool) VALUES (?, ?, ?, ?, ?)", facts
        )
        query = "SELECT id FROM facts WHERE (event, actor, status, server, tool) = (?, ?, ?, ?, ?)"
        (found,) = self._database.execute(query, facts).fetchone()
        self._facts[facts] = found
        return found


def place_of(number: int) -> RecordPosition | None:
    """Return the position that a number of the index encodes; None for an invalid number."""
    try:
        day = date.fromordinal(number >> _OFFSET_BITS)
    except (ValueError, OverflowError):
        return None
    return RecordPosition(f"{day:%Y-%m-%d}.ndjson", number & ((1 << _OFFSET_BITS) - 1))


class _OutdatedError(Exception):
    """The index does not belong to this ledger."""


_DATABASE_ERRORS = (_OutdatedError, sqlite3.Error, ValueError, TypeError)
"""Errors of a damaged database, in which a value may have another type."""
_UNREAD = _IndexedExtent(0, -1, 0, 0, b"")


def ask_in_memory(directory: Path, question: Callable[[LedgerIndex], T]) -> T:
    """Return the answer to a question from an index in memory, which takes a second for each 50,000 records.

    For a directory that can have no index. Raises OSError for a ledger that cannot be read.
    """
    with closing(sqlite3.connect(":memory:", isolation_level="IMMEDIATE")) as database:
        _make_tables(database)
        index = LedgerIndex(directory, database)
        index.catch_up(None)
        return question(index)


def _ask_locked(directory: Path, question: Callable[[LedgerIndex], T], on_progress: OnProgress | None) -> T:
    with closing(_open_database(directory)) as database:
        index = LedgerIndex(directory, database)
        index.catch_up(on_progress)
        return question(index)


def _open_database(directory: Path) -> sqlite3.Connection:
    """Open the database and make its tables. Raises NoIndexError; _OutdatedError for another database."""
    for name in _FILES:
        try:
            facts = (directory / name).lstat()
        except FileNotFoundError:
            continue
        ours = facts.st_uid == os.geteuid() and not facts.st_mode & 0o022
        if not (ours and stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1):
            raise _OutdatedError
    path = directory / INDEX_FILE_NAME
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except OSError as error:
        raise NoIndexError from error
    database = sqlite3.connect(path, timeout=0, isolation_level="IMMEDIATE")
    try:
        for pragma in _PRAGMAS:
            database.execute(f"PRAGMA {pragma}")
        _make_tables(database)
    except BaseException:
        database.close()
        raise
    return database


def _make_tables(database: sqlite3.Connection) -> None:
    """Make the tables of an empty database. Raises _OutdatedError if it has other tables."""
    if not database.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        with database:
            for statement in _SCHEMA:
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    query = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid"
    found = tuple(sql for (sql,) in database.execute(query))
    if found != _SCHEMA or database.execute("PRAGMA user_version").fetchone() != (SCHEMA_VERSION,):
        raise _OutdatedError


@contextmanager
def _hold_lock(directory: Path) -> Generator[None]:
    """Hold the lock of the index. Raises NoIndexError if another process holds it for too long."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise NoIndexError from None
                time.sleep(0.005)
        yield
    finally:
        os.close(fd)


def hash_name(name: str) -> int:
    """Return the number by which a name is searched; several names may share it."""
    key = sort_key(name)
    return zlib.crc32(name.encode("utf-8", "surrogatepass")) if key is None else key


_hash_repeated = lru_cache(maxsize=4096)(hash_name)
"""For ids that occur in several records within a short time: those of requests."""


def _parse_milliseconds(ts: str) -> int:
    """Return the time of a record, in milliseconds since the epoch."""
    try:
        return round(datetime.fromisoformat(ts).timestamp() * 1000)
    except (ValueError, TypeError, OverflowError):
        return MAX_TIME_MS
