"""Search records by their content: with the index beside the ledger, or in the whole ledger without an index."""

import os
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import dropwhile, groupby, islice
from pathlib import Path

from paddock.model.base import Value
from paddock.model.outcome import Status
from paddock.record.ledger.index import FACTS, LedgerIndex, NoIndexError, OnProgress, ask, facts_of, place_of
from paddock.record.ledger.line_format import (
    MAX_LINE_BYTES,
    explain_failed_call,
    find_record,
    open_regular,
)
from paddock.record.ledger.read import read
from paddock.record.ledger.sink import AuditRecord, since_timestamp

STATUSES = (*(status.value for status in Status), "planned")
"""Every status of a record: how a request ended, or that it was a rehearsal."""
_USUAL_LINE_BYTES = 4096
"""A length that most lines do not exceed, in bytes."""
_MIN_OFFSETS, _MAX_OFFSETS = 20, 50_000
"""Minimum and maximum number of positions in one query of the index."""


class RecordFilter(Value):
    """A filter for records, which must match every given value."""

    name: str | None = None
    """Id of the record, of its request, or of its parent."""
    event: str | None = None
    request: str | None = None
    actor: str | None = None
    """The caller: a user, the name of a client, a schedule."""
    status: str | None = None
    """How a request ended, or was decided: one of `STATUSES`."""
    server: str | None = None
    """Name of an upstream server that was called."""
    tool: str | None = None
    """Name of the server's tool, or of a script tool; also with its server, as `SERVER/TOOL` or `SERVER.TOOL`."""
    since: datetime | None = None
    """Earliest time, with a time zone."""
    until: datetime | None = None
    """Latest time, with a time zone."""

    def matches(self, record: AuditRecord) -> bool:
        """Return whether a record matches."""
        known: dict[str, str] = dict(
            zip(FACTS, facts_of({**record.fields, "event": record.event}), strict=True)
        )
        given = self.facts()
        tool = given.pop("tool", None)
        server = known["server"]
        tools = [known["tool"], *(f"{server}{sign}{known['tool']}" for sign in "/." if server)]
        return (
            all(known[fact] == value for fact, value in given.items())
            and (tool is None or tool in tools)
            and self.request in (None, record.request)
            and self.name in (None, record.id, record.request, record.parent)
            and record.ts >= since_timestamp(self.since)
            and (self.until is None or record.ts <= since_timestamp(self.until))
        )

    def facts(self) -> dict[str, str]:
        """Return the given values of facts in the index, by name."""
        given = {fact: getattr(self, fact) for fact in FACTS}
        return {fact: value for fact, value in given.items() if value is not None}


def find(
    directory: Path,
    wanted: RecordFilter,
    *,
    limit: int | None = None,
    newest_first: bool = True,
    beyond: str = "",
    on_progress: OnProgress | None = None,
) -> Iterator[AuditRecord]:
    """Yield the intact records that match, lazily, at most `limit`; only those after the record with the id `beyond`.

    Without a ledger there are none, and after an unknown record neither. Calls `on_progress` while the index is brought
    up to date. Raises LedgerError if the ledger cannot be read, or if `since` or `until` has no time zone.
    """
    since_timestamp(wanted.since)
    since_timestamp(wanted.until)
    if not directory.is_dir() or (wanted == RecordFilter() and not beyond):
        return read(directory, limit=limit, newest_first=newest_first)
    count = _MAX_OFFSETS if limit is None else max(_MIN_OFFSETS, min(limit, _MAX_OFFSETS))
    indexed = _IndexSearch(
        directory, wanted, count, newest_first=newest_first, beyond=beyond, on_progress=on_progress
    )
    return islice(indexed.records(), None if limit is None else min(limit, sys.maxsize))


class _IndexSearch:
    """One search through the index."""

    def __init__(
        self,
        directory: Path,
        wanted: RecordFilter,
        count: int,
        *,
        newest_first: bool,
        beyond: str,
        on_progress: OnProgress | None,
    ) -> None:
        self._directory = directory
        self._wanted = wanted
        self._count = count
        self._newest_first = newest_first
        self._on_progress = on_progress
        self._beyond = beyond
        """Id of the record after which to continue."""
        self._after: int | None = None
        """Its position, once that is known."""

    def records(self) -> Iterator[AuditRecord]:
        """Yield the matching records."""
        try:
            while places := ask(self._directory, self._find_places, self._on_progress):
                for _, record in read_records_at(self._directory, places):
                    if self._wanted.matches(record):
                        self._beyond = record.id
                        yield record
                self._after = places[-1]
        except NoIndexError:
            yield from self._without_index()
        except OSError as error:
            raise explain_failed_call(error, self._directory, "read") from error

    def _find_places(self, index: LedgerIndex) -> list[int]:
        wanted = self._wanted
        if self._beyond and self._after is None:
            known = index.places({}, "", self._beyond, count=1, after=None, newest_first=True)
            if not known:
                return []
            [self._after] = known
        return index.places(
            wanted.facts(),
            since_timestamp(wanted.since),
            wanted.name or wanted.request or "",
            count=self._count,
            after=self._after,
            newest_first=self._newest_first,
            until=since_timestamp(wanted.until),
        )

    def _without_index(self) -> Iterator[AuditRecord]:
        """Yield the matching records of the whole ledger, after the last one that is known."""
        wanted = self._wanted
        all_of_it = read(
            self._directory,
            event=wanted.event,
            request=wanted.request,
            since=wanted.since,
            newest_first=self._newest_first,
        )
        if beyond := self._beyond:
            all_of_it = islice(dropwhile(lambda record: record.id != beyond, all_of_it), 1, None)
        return filter(wanted.matches, all_of_it)


def read_records_at(directory: Path, places: Iterable[int]) -> Iterator[tuple[int, AuditRecord]]:
    """Yield the intact records that begin at positions of the index, which may be wrong, with these positions."""
    known = [(number, place) for number in places if (place := place_of(number)) is not None]
    for name, group in groupby(known, key=lambda each: each[1].file):
        with open_regular(directory, name) as fd:
            if fd is None:
                continue
            for number, place in group:
                if (record := _record_at(fd, place.offset)) is not None:
                    yield number, record


def _record_at(fd: int, offset: int) -> AuditRecord | None:
    start = max(0, offset - 1)
    for size in (_USUAL_LINE_BYTES, MAX_LINE_BYTES + 2):
        data = os.pread(fd, size, start)
        if offset and data[:1] != b"\n":
            return None  # not the start of a line
        line, newline, _ = data[offset - start :].partition(b"\n")
        if newline:
            return find_record(line)
    return None
