"""Move closed days of the ledger to an archive, a directory with the same files, and verify an archive.

A record is never lost: at each step it is in the ledger, in the archive, or in both.

    1. copy      each day to a new file of the archive, sync it, read it again and compare
    2. record    write one `archived` record for each day into the chain, and sync: number and hash at the end of the
                 day, SHA-256 of its file
    3. remove    the files from the ledger, the oldest first

After a crash, the next run begins again: it finds the copies complete, records the days again and removes the files.

The `archived` record continues the chain of the ledger without the archive (`verify`). It also proves the
archive: a changed, shortened or replaced file has another hash.

A day can be archived if a later file has a record, which tells where the chain continues. Claims are searched for in
the files of the last `CLAIM_AGE_S` (`claims`), so that these stay.
"""

import errno
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from paddock.foundation.files import hold_lock, make_private
from paddock.foundation.own_files import check_directory, open_own
from paddock.model.base import count
from paddock.model.errors import LedgerError
from paddock.record.ledger.line_format import (
    explain_failed_call,
    file_name,
    find_record,
    list_dated_files,
    open_regular,
    read_lines,
    stat_files,
)
from paddock.record.ledger.sink import MAX_FIELD_CHARS, AuditRecord, Field
from paddock.record.ledger.verify import ArchivedDay, LedgerCheck, Report, list_archived_days, verify
from paddock.record.ledger.writer import Ledger

MIN_AGE: Final = timedelta(days=2)
"""Minimum age of a day in an archive: longer than the ids of requests can be claimed, which is a day."""
_CHUNK_BYTES = 1024 * 1024
_LOCK_NAME = "archive.lock"


def archive(
    directory: Path,
    folder: Path,
    before: datetime,
    *,
    dry_run: bool = False,
    clock: Callable[[], float] = time.time,
) -> list[ArchivedDay]:
    """Move the days of the ledger in `directory` that ended before a time to `folder`, and return them.

    With `dry_run`, change nothing. Raises LedgerError if the ledger has problems, if a time is less than `MIN_AGE` ago,
    or if a file cannot be written; then every file is still in the ledger.
    """
    if before > datetime.fromtimestamp(clock(), UTC) - MIN_AGE:
        raise LedgerError(
            f"Only days that ended at least {MIN_AGE.days} days ago can be archived: Paddock searches the later ones "
            f"for claims of requests. Choose an age of at least {MIN_AGE.days}d."
        )
    if folder.resolve() == directory.resolve():
        raise LedgerError(f"The archive cannot be the ledger itself, {directory}. Name another directory.")
    try:
        if dry_run:
            return list(_plan(directory, folder, before))
        try:
            make_private(folder)
            check_directory(folder, private=False)
        except OSError as error:
            raise _explain_archive_failure(error, folder) from error
        with hold_lock(directory / _LOCK_NAME, wait=False) as alone:
            if not alone:
                raise LedgerError(
                    f"Another process archives the ledger {directory} at this time. Wait until it has ended."
                )
            with Ledger(directory, clock=clock) as ledger:  # it records damage of a writer that died
                days = list(_plan(directory, folder, before))
                for day in days:
                    _copy(directory, folder, day)
                if days:
                    ledger.mark_archived(map(_build_fields, days))
                    _remove(directory, days)
            return days
    except OSError as error:
        raise explain_failed_call(error, directory, "read") from error


def verify_archive(folder: Path, directory: Path) -> Report:
    """Check the files of an archive, and compare them with what the ledger in `directory` recorded about them.

    Days that are not in the archive are problems, except those before its first file: it may have been moved to another
    archive, or be older than the records are kept. Those are notes. Raises LedgerError if a directory cannot be read.
    """
    if not folder.is_dir():
        raise LedgerError(
            f"There is no archive at {folder}: no such directory. Name the directory of the archive."
        )
    try:
        sizes = {name: facts.st_size for name, facts in stat_files(folder).items()}
        recorded = {
            day.file: day for each in (folder, directory) if each.is_dir() for day in list_archived_days(each)
        }
        walk = LedgerCheck(None, "", instead="")
        first = next((record for record in _first_records(folder, list(sizes)) if record is not None), None)
        if first is not None and first.seq > 1:
            walk.seq, walk.hash = first.seq - 1, first.prev
            walk.note(
                min(sizes), None, first.seq, f"is the first file: the archive begins with record {first.seq}"
            )
        walk.files(folder, sizes)
        for name in sorted(sizes.keys() | recorded.keys()):
            if name not in sizes:
                report = walk.note if not sizes or name < min(sizes) else walk.problem
                report(name, None, None, "is archived according to the ledger, and is not in this archive")
            elif name not in recorded:
                walk.note(name, None, None, "has no record in the ledger that it is archived")
            elif _hash_file(folder, name) != recorded[name].sha256:
                walk.problem(name, None, None, "is not the file that was archived: its SHA-256 differs")
    except OSError as error:
        raise explain_failed_call(error, folder, "read") from error
    return walk.report(len(sizes), ())


def _plan(directory: Path, folder: Path, before: datetime) -> Iterator[ArchivedDay]:
    """Yield the days to archive, oldest first. Raises LedgerError if the ledger has problems."""
    report = verify(directory)
    if not report.ok:
        raise LedgerError(
            f"The ledger {directory} has {count(len(report.problems), 'problem')}, so nothing was archived. "
            "List them with: paddock audit verify"
        )
    names = list_dated_files(directory)
    following = _first_records(directory, names)[1:]
    for name, record in zip(names, following, strict=False):
        if name < file_name(before.timestamp()) and record is not None:
            yield ArchivedDay(
                file=name,
                folder=os.fspath(folder).encode("utf-8", "replace").decode()[:MAX_FIELD_CHARS],
                sha256=_hash_file(directory, name),
                last_seq=record.seq - 1,
                last_hash=record.prev,
            )


def _first_records(directory: Path, names: list[str]) -> list[AuditRecord | None]:
    """Return the first intact record of each file, or of the next file that has one."""
    found: list[AuditRecord | None] = []
    for name in reversed(names):
        records = (find_record(line.data, whole=line.whole) for line in read_lines(directory, name))
        found.append(next(filter(None, records), None) or (found[-1] if found else None))
    return found[::-1]


def _build_fields(day: ArchivedDay) -> dict[str, Field]:
    return {
        "day": day.file.partition(".")[0],
        "folder": day.folder,
        "file_sha256": day.sha256,
        "last_seq": day.last_seq,
        "last_hash": day.last_hash,
    }


def _copy(directory: Path, folder: Path, day: ArchivedDay) -> None:
    """Copy a day to the archive and compare. Raises LedgerError; never changes a file of the archive."""
    target = folder / day.file
    if os.path.lexists(target):
        if _hash_file(folder, day.file) == day.sha256:
            return
        raise LedgerError(
            f"{target} exists with another content, so nothing was archived. Name another directory."
        )
    partial = folder / f".{day.file}.partial"
    try:
        partial.unlink(missing_ok=True)
        source = open_own(directory / day.file)
        try:
            _write_copy(source, partial)
        finally:
            os.close(source)
        same = _hash_file(folder, partial.name) == day.sha256
        if same:
            partial.rename(target)
            _sync_directory(folder)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise _explain_archive_failure(error, folder) from error
    if not same:
        partial.unlink()
        raise LedgerError(
            f"The copy of {day.file} in {folder} differs from the ledger, so nothing was archived. "
            "Check both disks."
        )


def _write_copy(source: int, path: Path) -> None:
    copy = open_own(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with open(copy, "wb") as file:
        while chunk := os.read(source, _CHUNK_BYTES):
            file.write(chunk)
        file.flush()
        os.fsync(copy)


def _remove(directory: Path, days: list[ArchivedDay]) -> None:
    try:
        for day in days:
            (directory / day.file).unlink(missing_ok=True)
        _sync_directory(directory)
    except OSError as error:
        raise explain_failed_call(error, directory, "written") from error


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _hash_file(directory: Path, name: str) -> str:
    """Return the SHA-256 of a regular file; "" for anything else."""
    with open_regular(directory, name) as fd:
        if fd is None:
            return ""
        with open(fd, "rb", closefd=False) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def _explain_archive_failure(error: OSError, folder: Path) -> LedgerError:
    full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    cure = "Free space on its file system, or name another directory." if full else "Name another directory."
    return LedgerError(
        f"The archive {folder} cannot be written: {error.strerror or error}. Every file is still in the ledger. {cure}"
    )
