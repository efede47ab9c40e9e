"""Follow the ledger: yield records as they are written, also across midnight."""

import os
from collections.abc import Iterator
from pathlib import Path

from paddock.record.ledger.line_format import (
    DamagedError,
    explain_failed_call,
    lines,
    list_dated_files,
    open_regular,
    parse_record,
)
from paddock.record.ledger.sink import AuditRecord


class Follower:
    """Yields the records that are written from now on, each once."""

    def __init__(self, directory: Path) -> None:
        """Begin at the present end of the ledger, which need not exist yet. Raises LedgerError."""
        self._directory = directory
        self._file, self._offset = "", 0
        for name in self._list_files():
            self._file, self._offset = name, self._size_of(name)

    def new_records(self) -> Iterator[AuditRecord]:
        """Yield the intact records that were written since the last call. Raises LedgerError.

        The next call reads an incomplete line again.
        """
        later = [name for name in self._list_files() if name > self._file]
        # A file is complete as soon as there is a later one.
        yield from self._read_remainder()
        for name in later:
            self._file, self._offset = name, 0
            yield from self._read_remainder()

    def _read_remainder(self) -> Iterator[AuditRecord]:
        size = self._size_of(self._file) if self._file else 0
        self._offset = min(self._offset, size)  # a writer removed a partial write
        if size == self._offset or (fd := open_regular(self._directory, self._file)) is None:
            return
        try:
            for line in lines(fd, self._offset, size):
                if not line.whole:
                    return
                self._offset = line.end
                try:
                    yield parse_record(line.data)
                except DamagedError:
                    continue
        except OSError as error:
            raise explain_failed_call(error, self._directory, "read") from error
        finally:
            os.close(fd)

    def _list_files(self) -> list[str]:
        try:
            return list_dated_files(self._directory)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise explain_failed_call(error, self._directory, "read") from error

    def _size_of(self, name: str) -> int:
        try:
            return (self._directory / name).lstat().st_size
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise explain_failed_call(error, self._directory, "read") from error
