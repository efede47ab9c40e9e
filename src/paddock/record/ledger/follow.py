"""Follow the ledger: yield records as they are written, also across midnight."""

from collections.abc import Iterator
from pathlib import Path

from paddock.record.ledger.line_format import find_record, read_lines, stat_files
from paddock.record.ledger.sink import AuditRecord


class Follower:
    """Yields the records that are written from now on, each once."""

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
