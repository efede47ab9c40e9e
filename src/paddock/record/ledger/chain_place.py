"""Find a record's place in the chain: its file, and the records before and after it."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from paddock.record.ledger.index import LedgerIndex, NoIndexError, RecordPosition, ask, place_of
from paddock.record.ledger.line_format import (
    GENESIS_HASH,
    Line,
    explain_failed_call,
    find_record,
    list_dated_files,
    read_lines,
)
from paddock.record.ledger.sink import AuditRecord


class ChainPlace(NamedTuple):
    """An intact record and what stands around it. Only these links are checked; `verify` checks all."""

    record: AuditRecord
    file: str
    """Name of the file with the record."""
    before: AuditRecord | None
    """The next intact record before it; None if there is none in the directory."""
    after: AuditRecord | None
    """The next intact record after it; None for the last one."""

    @property
    def continues(self) -> bool | None:
        """Whether it continues the record before it; None if that one is not in the directory."""
        if self.before is None:
            return True if (self.record.seq, self.record.prev) == (1, GENESIS_HASH) else None
        return (self.record.seq, self.record.prev) == (self.before.seq + 1, self.before.hash)

    @property
    def is_continued(self) -> bool | None:
        """Whether the record after it continues it; None for the last one."""
        if self.after is None:
            return None
        return (self.after.seq, self.after.prev) == (self.record.seq + 1, self.record.hash)


def find_place(directory: Path, id_: str) -> ChainPlace | None:
    """Return the place of the intact record with an id; None without one. Raises LedgerError.

    Without an index, the ledger is read until it is found.
    """

    def list_positions(index: LedgerIndex) -> list[int]:
        return index.places({}, "", id_, count=1, after=None, newest_first=True)

    if not id_ or not directory.is_dir():
        return None
    try:
        positions = map(place_of, ask(directory, list_positions))
    except NoIndexError:
        positions = _search(directory, id_)
    except OSError as error:
        raise explain_failed_call(error, directory, "read") from error
    for position in filter(None, positions):
        line = next(read_lines(directory, position.file, position.offset), None)
        record = None if line is None or not line.whole else find_record(line.data)
        if line is not None and record is not None and record.id == id_:
            before = _list_before(directory, position)
            after = _list_after(directory, position.file, line.end)
            return ChainPlace(record, position.file, _find_first(before), _find_first(after))
    return None


def _search(directory: Path, id_: str) -> Iterator[RecordPosition]:
    """Yield where records begin that may have an id."""
    needle = f'"id":"{id_}"'.encode("utf-8", "replace")
    for name in reversed(list_dated_files(directory)):
        start = 0
        for line in read_lines(directory, name):
            if needle in line.data:
                yield RecordPosition(name, start)
            start = line.end


def _list_before(directory: Path, position: RecordPosition) -> Iterator[Line]:
    earlier = [name for name in list_dated_files(directory) if name < position.file]
    here = read_lines(directory, position.file, 0, position.offset, backwards=True)
    rest = (read_lines(directory, name, backwards=True) for name in reversed(earlier))
    return chain(here, chain.from_iterable(rest))


def _list_after(directory: Path, file: str, end: int) -> Iterator[Line]:
    later = [name for name in list_dated_files(directory) if name > file]
    rest = (read_lines(directory, name) for name in later)
    return chain(read_lines(directory, file, end), chain.from_iterable(rest))


def _find_first(lines: Iterator[Line]) -> AuditRecord | None:
    found = (find_record(line.data) for line in lines if line.whole)
    return next((record for record in found if record is not None), None)
