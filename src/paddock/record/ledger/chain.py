"""Write to the chain: the lock, finding the end, rotation by date, and repair after a crash.

Theory of operation. All writers of a directory hold an exclusive flock on `head` while they write. A record is one
write() to the newest dated file; then the head is overwritten in place. A writer that dies leaves one of these:

* A complete record after the end that the head names, possibly without its newline. The next writer adopts it and
  continues after it.
* A part of a record without its newline (the writer was killed, or the disk was full). The next writer ends the line
  and writes a `recovered` record with the length and SHA-256 of the part, so that it cannot be changed unnoticed.

After a power failure the file may also end before the position that the head names. The head then shows whether the
missing records had been synced. The next writer records this and continues from the *head*, so that the gap stays in
the chain forever. The same happens if a person cut, emptied or deleted files. A writer never refuses work because of
old damage and never hides it; `verify` distinguishes the causes.

If the head is the one that this process wrote last, and the file has kept its size, nothing else is checked.
"""

import errno
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from paddock.foundation.files import make_private
from paddock.foundation.own_files import check_directory, open_own
from paddock.record.ledger.line_format import (
    HEAD_BYTES,
    HEAD_FILE_NAME,
    MAX_LINE_BYTES,
    LedgerEntry,
    LedgerHead,
    encode_record,
    file_name,
    find_record,
    hold,
    lines,
    lines_backwards,
    list_dated_files,
    new_entry,
    this_boot,
)
from paddock.record.ledger.sink import RECOVERED, Field, timestamp


class Chain:
    """Append records to the chain of a directory; one thread at a time, any number of processes."""

    def __init__(self, directory: Path, clock: Callable[[], float]) -> None:
        self._directory = directory
        self._clock = clock
        self.head = LedgerHead()
        """The last record; up to date between `lock` and `unlock`."""
        self.now = 0.0
        """When the lock was taken, in seconds since the epoch."""
        self.loads = 0
        """How often other processes had moved the end of the chain; up to date between `lock` and `unlock`."""
        self._raw: bytes | None = None
        self._head_fd = -1
        self._data_fd = -1
        self._data_name = ""
        self._unsynced: list[int] = []

    def lock(self) -> None:
        """Take the lock of all writers, update `head`, and record earlier damage."""
        self._acquire_lock()
        known = self.head
        try:
            self._catch_up()
        except BaseException:
            # A failed repair may be incomplete: check again at the next lock.
            self.head, self._raw = known, None
            self.unlock()
            raise

    def unlock(self) -> None:
        """Release the lock."""
        fcntl.flock(self._head_fd, fcntl.LOCK_UN)

    def put(self, entries: Iterable[LedgerEntry], *, lead: bytes = b"") -> None:
        """Append records to the chain, after the bytes `lead`: all of them or none. Needs the lock."""
        head, data = self.head, lead
        seq, digest = head.seq, head.hash
        for entry in entries:
            seq += 1
            ts = timestamp(self.now if entry.at is None else entry.at)
            line, digest = encode_record(entry, seq=seq, ts=ts, prev=digest)
            data += line
        written = os.write(self._data_fd, data)
        if written < len(data):
            os.ftruncate(self._data_fd, head.size)
            raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes fit")
        self._move_head(LedgerHead(seq, digest, head.file, head.size + written, head.synced, this_boot()))

    def to_sync(self) -> tuple[int, list[int]]:
        """Return the number of the last record and the descriptors that the caller must sync and close."""
        fds, self._unsynced = self._unsynced, []
        if self._data_fd >= 0 and (fds or self.head.synced < self.head.seq):
            fds.append(os.dup(self._data_fd))
        return self.head.seq, fds

    def mark_synced(self, seq: int) -> None:
        """Record in the head that every record up to `seq` is on the disk. Needs the lock."""
        if self.head.synced < seq <= self.head.seq:
            self._move_head(self.head._replace(synced=seq, boot=this_boot()))

    def close(self) -> None:
        """Close every file."""
        for fd in (self._head_fd, self._data_fd, *self._unsynced):
            if fd >= 0:
                os.close(fd)
        self._head_fd = self._data_fd = -1
        self._data_name = ""
        self._unsynced = []

    def _acquire_lock(self) -> None:
        while True:
            if self._head_fd < 0:
                make_private(self._directory)
                check_directory(self._directory)
                self._head_fd = self._open_file(HEAD_FILE_NAME)
            hold(self._head_fd, fcntl.LOCK_EX, self._directory)
            if os.fstat(self._head_fd).st_nlink:
                return
            # The file was deleted or replaced since it was opened: other writers lock the new one.
            os.close(self._head_fd)
            self._head_fd = -1

    def _open_file(self, name: str, flags: int = 0) -> int:
        return open_own(self._directory / name, os.O_RDWR | os.O_CREAT | flags)

    def _catch_up(self) -> None:
        self.now = self._clock()
        raw = os.pread(self._head_fd, HEAD_BYTES + 1, 0)
        if raw != self._raw or not self._is_unchanged():
            self._load_head(raw)
        today = file_name(self.now)
        while self.head.file < today:
            later = (name for name in list_dated_files(self._directory) if self.head.file < name < today)
            self._switch_file(next(later, today), 0)
            self._find_true_end("")

    def _is_unchanged(self) -> bool:
        if self._data_fd < 0:
            return False
        facts = os.fstat(self._data_fd)
        return facts.st_size == self.head.size and facts.st_nlink > 0

    def _load_head(self, raw: bytes) -> None:
        self.loads += 1
        reason = ""
        on_disk = LedgerHead.parse(raw)
        if len(raw) > HEAD_BYTES:
            os.ftruncate(self._head_fd, HEAD_BYTES)
        if on_disk is not None and on_disk.seq >= self.head.seq:
            self.head, self._raw = on_disk, raw
        elif self.head.seq == 0:
            self._move_head(self._rebuild_head()._replace(boot=this_boot()))
            os.fsync(self._head_fd)
            reason = "head" if self.head.seq else ""
        elif on_disk is None:
            reason = "head"
        if self.head.file:
            self._switch_file(self.head.file, self.head.size)
            self._find_true_end(reason)

    def _rebuild_head(self) -> LedgerHead:
        """Return the end of the chain according to the dated files."""
        for name in reversed(list_dated_files(self._directory)):
            fd = self._open_file(name)
            try:
                for line in lines_backwards(fd, os.fstat(fd).st_size):
                    record = find_record(line.data)
                    if record is not None:
                        return LedgerHead(record.seq, record.hash, name, line.end, record.seq)
            finally:
                os.close(fd)
        return LedgerHead()

    def _switch_file(self, name: str, size: int) -> None:
        self.head = self.head._replace(file=name, size=size)
        if name == self._data_name and os.fstat(self._data_fd).st_nlink:
            return
        fd = self._open_file(name, os.O_APPEND)
        if self._data_fd >= 0:
            self._unsynced.append(self._data_fd)
        self._data_fd, self._data_name = fd, name
        if os.fstat(fd).st_size == 0:
            self._unsynced.append(os.open(self._directory, os.O_RDONLY | os.O_CLOEXEC))

    def _find_true_end(self, reason: str) -> None:
        """Find the end of the chain in the current file, and record everything that does not belong there."""
        size = os.fstat(self._data_fd).st_size
        mark = f'{self.head.hash}"}}\n'.encode()
        before = max(0, self.head.size - len(mark))
        whole = not self.head.size or os.pread(self._data_fd, len(mark), before) == mark
        reason = (self._adopt_records(size) if whole else "missing") or reason
        torn = os.pread(self._data_fd, MAX_LINE_BYTES, max(0, size - MAX_LINE_BYTES)).rpartition(b"\n")[2]
        if find_record(torn) is not None:
            size += os.write(self._data_fd, b"\n")
            torn = b""
        excuse = self.head.excuse
        self.head = self.head._replace(size=size)
        if reason or torn:
            fields: dict[str, Field] = {"reason": reason or "torn"}
            if torn:
                fields |= {"torn_bytes": len(torn), "torn_sha256": hashlib.sha256(torn).hexdigest()}
            if reason == "missing" and excuse is not None:
                fields["synced"] = excuse
            self.put([new_entry(RECOVERED, "", None, fields)], lead=b"\n" if torn else b"")

    def _adopt_records(self, size: int) -> str:
        """Move the head over complete records after it; return `foreign` if other lines follow."""
        for line in lines(self._data_fd, self.head.size, size):
            record = find_record(line.data)
            if record is None:
                return "foreign" if line.whole else ""
            if (record.seq, record.prev) != (self.head.seq + 1, self.head.hash):
                return "foreign"
            self.head = self.head._replace(seq=record.seq, hash=record.hash, size=line.end)
        return ""

    def _move_head(self, head: LedgerHead) -> None:
        self.head = head
        raw = head.encode()
        os.pwrite(self._head_fd, raw, 0)
        self._raw = raw
