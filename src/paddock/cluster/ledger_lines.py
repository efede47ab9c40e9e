"""Read the lines of a ledger in the order of its chain, as they are on disk, from any position on."""

import os
from pathlib import Path
from typing import Final, NamedTuple

from paddock.record.ledger.line_format import (
    GENESIS_HASH,
    explain_failed_call,
    find_record,
    find_seq,
    read_lines,
    read_published_head,
    stat_files,
)
from paddock.record.ledger.sink import AuditRecord

CHAIN_DIGITS: Final = 16
"""Length of a chain's name: the first hexadecimal digits of the hash of its first record."""
MAX_SEQ: Final = 2**63 - 1


class Position(NamedTuple):
    """A record of a chain; by default the beginning, before the first one."""

    seq: int = 0
    hash: str = GENESIS_HASH


class ChainLine(NamedTuple):
    """An intact record."""

    data: bytes
    """Its line without the newline."""
    record: AuditRecord


class LedgerLines:
    """Yields the intact records of the ledger in a directory, each once. It never reads what a writer may still remove.

    Every method may block and raises LedgerError.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = ""
        self._offset = 0
        self.position = Position()
        """The last record that was read."""

    def find_chain(self) -> str | None:
        """Return the name of the chain; None if its first record is not there."""
        for name, size in self._list_files():
            for line in read_lines(self._directory, name, 0, size):
                record = find_record(line.data, whole=line.whole)
                if record is not None:
                    return record.hash[:CHAIN_DIGITS] if record.seq == 1 else None
        return None

    def seek(self, position: Position) -> bool:
        """Continue after a record; return False if this chain does not contain it."""
        if position.seq == 0:
            self._file, self._offset, self.position = "", 0, position
            return True
        for name, size in reversed(self._list_files()):
            for line in read_lines(self._directory, name, end=size, backwards=True):
                seq = find_seq(line.data)
                if seq is None or seq > position.seq + 1 or (record := find_record(line.data)) is None:
                    continue
                # The record itself may be missing after a crash; then the next one names it.
                is_next = seq == position.seq + 1
                if record.prev == position.hash if is_next else (seq, record.hash) == position:
                    start = line.end - len(line.data) - 1 if is_next else line.end
                    self._file, self._offset, self.position = name, start, position
                    return True
                if not is_next:
                    return False
        return False

    def find_end(self) -> int:
        """Return the number of the last record that no writer takes back; 0 without one."""
        return read_published_head(self._directory).seq

    def went_back(self) -> bool:
        """Return whether the chain ends before the last record that was read: its directory was replaced."""
        return self.find_end() < self.position.seq

    def read_chunk(self, max_bytes: int) -> list[ChainLine]:
        """Return the next records, with at least one line and not much more than `max_bytes`; none at the end.

        They are on the disk when this returns: a power failure cannot take them back.
        """
        chunk: list[ChainLine] = []
        # The writer syncs every fifth of a second. What it has synced is read first, and the rest is synced here.
        synced = read_published_head(self._directory).synced
        last = synced if synced > self.position.seq else MAX_SEQ
        taken = 0
        for name, size in self._list_files():
            start = self._offset if name == self._file else 0
            if name < self._file or start >= size:
                continue
            for line in read_lines(self._directory, name, start, size):
                record = find_record(line.data, whole=line.whole)
                if record is not None and record.seq > last:
                    return chunk
                self._file, self._offset = name, line.end
                # A line that is no record, or out of order, is not part of the chain. A verifier reports the gap.
                if record is not None and record.seq > self.position.seq:
                    chunk.append(ChainLine(line.data, record))
                    self.position = Position(record.seq, record.hash)
                    taken += len(line.data)
                if taken >= max_bytes:
                    break
            if chunk and last == MAX_SEQ:
                self._sync(name, new=start == 0)
            if taken >= max_bytes:
                break
        return chunk

    def _list_files(self) -> list[tuple[str, int]]:
        """Return the files, oldest first, with the size that no writer takes back."""
        head = read_published_head(self._directory)
        return [
            (name, head.size if name == head.file else facts.st_size)
            for name, facts in stat_files(self._directory).items()
            if name <= head.file
        ]

    def _sync(self, name: str, *, new: bool) -> None:
        for path in (self._directory / name, *([self._directory] if new else [])):
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    os.fsync(fd)
                finally:
                    os.close(fd)
            except OSError as error:
                raise explain_failed_call(error, self._directory, "synced") from error
