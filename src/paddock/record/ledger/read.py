"""Read the ledger line by line, without the writers' lock: records by filter, or as they are written."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Unpack

from paddock.record.ledger.line_format import find_record, list_dated_files, read_lines, stat_files
from paddock.record.ledger.sink import AuditQuery, AuditRecord, select_records, since_timestamp


def read(directory: Path, **wanted: Unpack[AuditQuery]) -> Iterator[AuditRecord]:
    """Yield the intact records that match every filter, lazily, at most `limit`.

    Without a ledger there are none. Lines that are not intact records are skipped, because they prove nothing; `verify`
    reports them. The links between records are not checked. `since` is inclusive and skips files by their date. A
    `recovered` record is in the file that it repairs and may be later than that file's date, so that `since` can miss
    it.

    Raises LedgerError if the ledger cannot be read or `since` has no time zone.
    """
    first_day = since_timestamp(wanted.get("since"))[:10]
    newest_first = wanted.get("newest_first", True)
    # Bytes that every wanted line contains, so that other lines need not be parsed.
    given = {"event": wanted.get("event"), "request": wanted.get("request")}
    needles = [f'"{name}":{json.dumps(value)}'.encode() for name, value in given.items() if value is not None]
    records = _read_records(directory, first_day, needles, newest_first=newest_first)
    return select_records(records, wanted)


def _read_records(
    directory: Path, first_day: str, needles: list[bytes], *, newest_first: bool
) -> Iterator[AuditRecord]:
    names = [name for name in list_dated_files(directory) if name[:10] >= first_day]
    for name in reversed(names) if newest_first else names:
        for line in read_lines(directory, name, backwards=newest_first):
            if line.whole and all(needle in line.data for needle in needles):
                record = find_record(line.data)
                if record is not None:
                    yield record


class Follower:
    """Yields the records that are written from now on, each once, also across midnight."""

    def __init__(self, directory: Path) -> None:
        """Begin at the present end of the ledger, which need not exist yet. Raises LedgerError."""
        self._directory = directory
        self._file, self._offset = "", 0
        for name, facts in stat_files(directory).items():
            self._file, self._offset = name, facts.st_size

    def new_records(self) -> Iterator[AuditRecord]:
        """Yield the intact records that were written since the last call. Raises LedgerError.

        The next call reads an incomplete line again.
        """
        for name, facts in stat_files(self._directory, self._file).items():
            if name != self._file:
                self._file, self._offset = name, 0
            yield from self._read_remainder(facts.st_size)

    def _read_remainder(self, size: int) -> Iterator[AuditRecord]:
        self._offset = min(self._offset, size)  # a writer removed a partial write
        for line in read_lines(self._directory, self._file, self._offset, size):
            if not line.whole:
                return
            self._offset = line.end
            record = find_record(line.data)
            if record is not None:
                yield record
