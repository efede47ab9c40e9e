"""Signals: short notes that scripts store and search (`paddock.cir`), in SQLite with full-text search.

A signal is `{id, type, body, domain, confidence, source, created_at, tags}`.
"""

import json
import re
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from pydantic import Field, ValidationError

from paddock.foundation.files import make_private
from paddock.foundation.own_files import NotOursError, check_directory, check_file
from paddock.model.base import Json, Value
from paddock.model.errors import SdkError, SignalError
from paddock.model.ids import find_mint_time, new_id
from paddock.model.texts import explain
from paddock.record.ledger.moment import parse_moment

BODY_CHARS = 64 * 1024
NAME_CHARS = 128
MAX_TAGS = 32
MAX_RESULTS = 1000
"""Maximum number of signals in one answer."""

Model = TypeVar("Model", bound=Value)

_FILE_SUFFIXES = "", "-wal", "-shm", "-journal"
"""Suffixes of an SQLite database's files (https://sqlite.org/tempfiles.html)."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS signal (
    id TEXT PRIMARY KEY, type TEXT NOT NULL, body TEXT NOT NULL,
    domain TEXT, confidence REAL, source TEXT, tags TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS signal_type ON signal (type, id);
CREATE VIRTUAL TABLE IF NOT EXISTS signal_text
    USING fts5 (body, tags, content = 'signal', tokenize = 'porter unicode61');
CREATE TRIGGER IF NOT EXISTS signal_added AFTER INSERT ON signal BEGIN
    INSERT INTO signal_text (rowid, body, tags) VALUES (new.rowid, new.body, new.tags);
END;
"""
_ALL = "SELECT * FROM signal"
_SEARCH = """
SELECT signal.* FROM signal_text JOIN signal ON signal.rowid = signal_text.rowid WHERE signal_text MATCH ?
"""
_COUNTS = {
    "by_type": "SELECT type, count(*) FROM signal GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ?",
    "by_domain": "SELECT domain, count(*) FROM signal WHERE domain IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ?",
}
_WORD_PATTERN = re.compile(r"\w+")


class NewSignal(Value):
    """The signal that a script captures."""

    body: str = Field(min_length=1, max_length=BODY_CHARS)
    type: str = Field("observation", min_length=1, max_length=NAME_CHARS)
    domain: str | None = Field(None, max_length=NAME_CHARS)
    confidence: float | None = Field(None, ge=0, le=1)
    source: str | None = Field(None, max_length=NAME_CHARS)
    tags: tuple[str, ...] = Field((), max_length=MAX_TAGS)


class NoteFilter(Value):
    """The filter of a script's query: newest first, or with `search` the best match first."""

    type: str | None = None
    domain: str | None = None
    since: str | None = None
    """An age such as `24h` or `7d`, or a date in ISO 8601."""
    limit: int = Field(50, ge=1, le=MAX_RESULTS)


class Signals:
    """The signals in one database file, created at its first use. Several processes may use it at the same time.

    Every method raises SignalError if the file cannot be used.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def capture_signal(self, body: str, options: Mapping[str, Json]) -> dict[str, Json]:
        """Store a signal and return `{id}`. Raises SdkError for an invalid one."""
        signal = _read_options(NewSignal, {**options, "body": body})
        id_ = new_id()
        row = (
            id_,
            signal.type,
            signal.body,
            signal.domain,
            signal.confidence,
            signal.source,
            json.dumps(signal.tags),
        )
        with self._open_database() as database:
            database.execute("INSERT INTO signal VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return {"id": id_}

    def query_signals(self, options: Mapping[str, Json]) -> list[dict[str, Json]]:
        """Return signals, newest first. Raises SdkError for invalid conditions."""
        where, values, limit = _make_conditions(_read_options(NoteFilter, options))
        with self._open_database() as database:
            rows = database.execute(f"{_ALL} WHERE {where} ORDER BY id DESC LIMIT ?", (*values, limit))
            return [_make_signal(row) for row in rows]

    def search_signals(self, text: str, options: Mapping[str, Json]) -> list[dict[str, Json]]:
        """Return signals that contain every word of `text`, best match first. Raises SdkError."""
        where, values, limit = _make_conditions(_read_options(NoteFilter, options))
        words = " ".join(f'"{word}"' for word in _WORD_PATTERN.findall(text)[:MAX_TAGS])
        if not words:
            raise SdkError("there is no word to search for; use query() to list signals")
        query = f"{_SEARCH} AND {where} ORDER BY bm25(signal_text), id DESC LIMIT ?"
        with self._open_database() as database:
            return [_make_signal(row) for row in database.execute(query, (words, *values, limit))]

    def find_contradictions(self) -> list[dict[str, Json]]:
        """Return pairs with the same domain and type whose confidence differs by at least one half, newest first."""
        query = (
            "SELECT one.id AS newer, other.id AS older FROM signal one JOIN signal other "
            "ON one.domain = other.domain AND one.type = other.type AND one.id > other.id "
            "WHERE abs(one.confidence - other.confidence) >= 0.5 ORDER BY one.id DESC, other.id DESC LIMIT ?"
        )
        with self._open_database() as database:
            return [dict(row) for row in database.execute(query, (MAX_RESULTS,))]

    def count_signals(self) -> dict[str, Json]:
        """Return the number of signals, in total and by type and domain."""
        with self._open_database() as database:
            counts: dict[str, Json] = {"total": database.execute("SELECT count(*) FROM signal").fetchone()[0]}
            for name, query in _COUNTS.items():
                counts[name] = {row[0]: row[1] for row in database.execute(query, (MAX_RESULTS,))}
        return counts

    @contextmanager
    def _open_database(self) -> Generator[sqlite3.Connection]:
        try:
            make_private(self._file.parent)
            check_directory(self._file.parent, private=False)
            for name in _FILE_SUFFIXES:
                with suppress(FileNotFoundError):
                    check_file(f"{self._file}{name}")
            with closing(sqlite3.connect(self._file, timeout=5)) as database, database:
                self._file.chmod(0o600)
                database.row_factory = sqlite3.Row
                database.execute("PRAGMA journal_mode = WAL")
                database.executescript(_SCHEMA)
                yield database
        except NotOursError as error:
            raise SignalError(f"the signals cannot be used: {error.filename}: {error.strerror}") from None
        except (OSError, sqlite3.Error) as error:
            raise SignalError(f"the signals in {self._file} cannot be used: {error}") from error


def _read_options(model: type[Model], options: Mapping[str, Json]) -> Model:
    try:
        return model.model_validate(options)
    except ValidationError as error:
        raise SdkError(*explain(error)) from None


def _make_conditions(wanted: NoteFilter) -> tuple[str, tuple[Json, ...], int]:
    """Return an SQL condition, its values, and the limit."""
    found = {"type = ?": wanted.type, "domain = ?": wanted.domain}
    if wanted.since is not None:
        try:
            since = parse_moment(wanted.since)
        except ValueError as problem:
            raise SdkError(f"since: {problem}") from None
        found["id >= ?"] = new_id(max(0.0, since.timestamp()))[:10]
    given = {condition: value for condition, value in found.items() if value is not None}
    return " AND ".join(given) or "true", tuple(given.values()), wanted.limit


def _make_signal(row: sqlite3.Row) -> dict[str, Json]:
    signal = dict(row)
    minted = find_mint_time(signal["id"]) or 0.0
    signal["created_at"] = (
        datetime.fromtimestamp(minted, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
    signal["tags"] = json.loads(signal["tags"])
    return {key: value for key, value in signal.items() if value is not None}
