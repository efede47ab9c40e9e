"""Verify the ledger: every line, every link, and the end against the head.

What is found with the directory alone: a changed byte in any line or in the head; a line that was deleted, inserted,
copied or moved; records cut from the end; a file that was deleted, emptied or renamed, including the first and the
newest; a deleted head. A change is found also after later records have been written. A renamed file is found by the
dates of its records: none may be later than its name, except `recovered`, and at least one must be of that day. Others
may be earlier, because a clock can be set back.

What is *not* found: the chain contains no secret. A person who may write to the directory and knows the format can
compute the chain again from any point and write a matching head, delete everything, or restore an older copy of the
whole directory while no ledger is open. To detect that, keep `last_seq` and `last_hash` of a report where such a person
cannot write, and compare later: the record of that number must still have that hash.

Three kinds of damage are notes, not problems, because they also happen without an attack and look the same. The first
is the torn line of a writer that died, which was never a record. The second is the loss of unsynced records, those of
the last fraction of a second, if the machine has rebooted since. The third is records after the head: their writer died
before it moved the head, and the next writer adopts them.

Days that `archive` moved away are not missing: the chain continues after them with the number and the hash that
their `archived` record has. That record is itself part of the chain.

Reading stops at the end that the files had at the start, so that writers can continue. Memory is bounded for any
content: one line of at most `MAX_LINE_BYTES`, and `MAX_FINDINGS` findings.
"""

import fcntl
import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

from pydantic import computed_field

from paddock.foundation.own_files import judge_file
from paddock.model.base import Value
from paddock.model.errors import LedgerError
from paddock.record.ledger.chain_check import ChainCheck
from paddock.record.ledger.line_format import (
    DAY_S,
    GENESIS_HASH,
    HEAD_BYTES,
    HEAD_FILE_NAME,
    DamagedError,
    LedgerHead,
    Line,
    explain_failed_call,
    hold,
    lines,
    open_regular,
    parse_record,
    stat_files,
)
from paddock.record.ledger.read import read
from paddock.record.ledger.sink import ARCHIVED, RECOVERED, AuditRecord, timestamp

CLOCK_S: Final = 60
"""Maximum distance of a record's time from the day of its file, in seconds: it may be from just before midnight."""
MAX_FINDINGS: Final = 1000
"""Maximum problems, and maximum notes, in a report; the last one says if there are more."""
_PROGRESS_LINES = 1000
"""Number of lines between two reports of progress."""
_F = TypeVar("_F")
_FIRST = b'{"v":1,"seq":1,'
"""Beginning of the first record of a chain."""


class Finding(Value):
    """One problem or note."""

    file: str
    """Name of the file within the ledger's directory."""
    line: int | None = None
    """1-based; None if it concerns the whole file."""
    seq: int | None = None
    """Number of the record concerned, or of the first missing one; None if it is not known."""
    message: str
    """What is wrong, worded to follow file, line and record."""


class ArchivedDay(Value):
    """A day whose file was moved to an archive, according to the ledger."""

    file: str
    """Name of the file."""
    folder: str
    """Directory of the archive, at that time."""
    sha256: str
    """SHA-256 of the file, in hexadecimal digits."""
    last_seq: int
    """Number of the last record of the chain until the end of that day."""
    last_hash: str
    """Hash of that record, which the next day continues."""


class Report(Value):
    """The result of `verify`."""

    files: int
    """Number of dated files."""
    records: int
    """Number of intact records at any position."""
    last_seq: int
    """Number of the last record of the chain; 0 without records."""
    last_hash: str
    """Hash of that record. Stored elsewhere, it reveals a forged chain."""
    problems: tuple[Finding, ...]
    """Signs that a person changed the ledger, or that its disk lost synced data."""
    notes: tuple[Finding, ...]
    """Damage by a writer that died or by a power failure; see the module."""
    archived: tuple[ArchivedDay, ...] = ()
    """Days before those of the directory, which were moved to an archive; of others than the newest, as far as the
    ledger still has their record."""

    @computed_field
    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


@dataclass(frozen=True)
class _DamagedLine:
    """A line that is not a record; the next line may account for it."""

    finding: Finding
    line: Line


class _DateCheck:
    """Compares the times of a file's records with its name, with a tolerance of `CLOCK_S`."""

    def __init__(self, name: str) -> None:
        self.records = 0
        """Number of records, without `recovered`, which are in the file that they repair."""
        self.has_own = False
        self._after = False
        try:
            day = datetime.strptime(name[:10], "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
        except ValueError:  # 2026-02-30, a name that no writer makes; no record is of that day
            day = -2.0 * CLOCK_S
        self._first = timestamp(max(0.0, day - CLOCK_S))
        self._end = timestamp(max(0.0, day + DAY_S + CLOCK_S))

    def is_first_after(self, record: AuditRecord) -> bool:
        """Check a record; return whether it is the first that is later than the day of the file."""
        if record.event == RECOVERED:
            return False
        self.records += 1
        if record.ts < self._end:
            self.has_own = self.has_own or record.ts >= self._first
            return False
        self._after, first = True, not self._after
        return first


def verify(directory: Path, on_progress: Callable[[int, int], None] | None = None) -> Report:
    """Check the ledger in `directory` and report everything that is wrong with it.

    Calls `on_progress` now and then with the number of bytes that were checked, and the total.

    Raises LedgerError if the directory does not exist or cannot be read. Wrong content of its files is a finding.
    """
    try:
        raw, sizes = _take_snapshot(directory)
        newest = max((name for name, size in sizes.items() if size), default="")
        walk = LedgerCheck(raw, newest, instead=_describe_non_head(directory) if raw is None else "")
        archived = _find_days_before(directory, sizes)
        if archived:
            walk.seq, walk.hash = archived[-1].last_seq, archived[-1].last_hash
        walk.files(directory, sizes, on_progress)
        walk.end()
    except OSError as error:
        raise explain_failed_call(error, directory, "read") from error
    return walk.report(len(sizes), archived)


def list_archived_days(directory: Path) -> list[ArchivedDay]:
    """Return the days that records of a directory name as archived, each once, in the order of the chain."""
    days: dict[str, ArchivedDay] = {}
    for record in read(directory, event=ARCHIVED, newest_first=False):
        fields = record.fields
        match fields.get("day"), fields.get("folder"), fields.get("file_sha256"):
            case str(day), str(folder), str(sha256):
                pass
            case _:
                continue
        match fields.get("last_seq"), fields.get("last_hash"):
            case int(seq), str(digest):
                file = f"{day}.ndjson"
                days[file] = ArchivedDay(
                    file=file, folder=folder, sha256=sha256, last_seq=seq, last_hash=digest
                )
            case _:
                pass
    return [days[file] for file in sorted(days)]


def _find_days_before(directory: Path, sizes: dict[str, int]) -> tuple[ArchivedDay, ...]:
    """Return the archived days before the first file of a ledger."""
    if not sizes:
        return ()
    first = min(sizes)
    with open_regular(directory, first) as fd:
        if fd is not None and os.pread(fd, len(_FIRST), 0) == _FIRST:
            return ()  # it begins with the first record of a chain
    return tuple(day for day in list_archived_days(directory) if day.file < first)


def _take_snapshot(directory: Path) -> tuple[bytes | None, dict[str, int]]:
    """Return the head's bytes (None if it is not a file) and the files' sizes, at one moment between writes."""
    if not directory.is_dir():
        raise LedgerError(
            f"There is no audit ledger at {directory}: no such directory. Check the state directory (XDG_STATE_HOME)."
        )
    with open_regular(directory, HEAD_FILE_NAME) as fd:
        if fd is not None:
            hold(fd, fcntl.LOCK_SH, directory)
        raw = None if fd is None else os.pread(fd, HEAD_BYTES + 1, 0)
        return raw, {name: facts.st_size for name, facts in stat_files(directory).items()}


def _describe_non_head(directory: Path) -> str:
    """Return what is wrong with the head file, such as "is a pipe, not a regular file"."""
    path = directory / HEAD_FILE_NAME
    try:
        facts = path.lstat()
    except FileNotFoundError:
        facts = None
    wrong = judge_file(facts, path) if facts and not stat.S_ISREG(facts.st_mode) else None
    return wrong.why if wrong else "is missing"


class LedgerCheck(ChainCheck):
    """The check of the files of a ledger, and its findings."""

    def __init__(self, raw: bytes | None, newest: str, *, instead: str) -> None:
        super().__init__()
        self.problems: list[Finding] = []
        self.notes: list[Finding] = []
        self._raw = raw
        self._instead = instead
        self._head = None if raw is None else LedgerHead.parse(raw)
        self._newest = newest
        self._place: tuple[str, int | None] = ("", None)
        """File and line of the record that is checked; no line at the end."""
        self._bad: _DamagedLine | None = None
        self._bad_lines = 0

    def problem(self, file: str, line: int | None, seq: int | None, message: str) -> None:
        self._add(self.problems, Finding(file=file, line=line, seq=seq, message=message))

    def note(self, file: str, line: int | None, seq: int | None, message: str) -> None:
        self._add(self.notes, Finding(file=file, line=line, seq=seq, message=message))

    def _add(self, findings: list[Finding], finding: Finding) -> None:
        add_finding(findings, finding, Finding(file=finding.file, message="has more than is listed here"))

    def report(self, files: int, archived: tuple[ArchivedDay, ...]) -> Report:
        """Return the result after all files."""
        return Report(
            files=files,
            records=self.records,
            last_seq=self.seq,
            last_hash=self.hash,
            problems=tuple(self.problems),
            notes=tuple(self.notes),
            archived=archived,
        )

    def files(
        self,
        directory: Path,
        sizes: dict[str, int],
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Check files, each up to a size. Raises OSError."""
        done, total = 0, sum(sizes.values())

        def report_read(read: int) -> None:
            if on_progress is not None:
                on_progress(done + read, total)

        for name, size in sizes.items():
            with open_regular(directory, name) as fd:
                if fd is not None:
                    self.file(name, fd, size, report_read)
                elif os.path.lexists(directory / name):
                    self.problem(name, None, None, "is not a regular file")
                else:
                    self.problem(name, None, None, "was removed during the check")
            done += size

    def file(self, name: str, fd: int, size: int, report_read: Callable[[int], None]) -> None:
        """Check the next file, and report now and then how many bytes were read. Raises OSError."""
        day = _DateCheck(name)
        for number, line in enumerate(lines(fd, 0, size), 1):
            if number % _PROGRESS_LINES == 0:
                report_read(line.end)
            try:
                record = parse_record(line.data, whole=line.whole)
            except DamagedError as damage:
                self._report_pending()
                self._bad = _DamagedLine(
                    Finding(file=name, line=number, seq=damage.seq, message=str(damage)), line
                )
            else:
                self._place = name, number
                self.check_record(record)
                if day.is_first_after(record):
                    self.problem(
                        name, number, record.seq, f"is of {record.ts[:10]}, after the day of its file"
                    )
        if self._bad is not None and not self._bad.line.whole and name == self._newest:
            self.note(
                name,
                self._bad.finding.line,
                None,
                "is torn: its writer died; the next one will account for it",
            )
            self._bad = None
        self._report_pending()
        if day.records and not day.has_own:
            self.problem(name, None, None, "holds no record of its day: it was renamed")

    def end(self) -> None:
        """Compare the end of the chain with the head."""
        if self._raw is None:
            self.problem(
                HEAD_FILE_NAME,
                None,
                None,
                f"{self._instead}, so records cut from the end would not be noticed",
            )
        elif self._head is None:
            if self._raw or self._newest:
                self.problem(
                    HEAD_FILE_NAME, None, None, "is damaged, so records cut from the end would not be noticed"
                )
        elif self._head.seq > self.seq:
            self._place = self._head.file, None
            self._report_gap(self._head.seq, excused=self._is_excused(self._head.excuse))
        elif self._head.seq == 0 and self._head.hash != GENESIS_HASH:
            self.problem(HEAD_FILE_NAME, None, None, "names another hash than a chain starts with")
        elif self._head.seq < self.seq:
            self.note(
                HEAD_FILE_NAME,
                None,
                self._head.seq,
                f"stops before {_format_range(self._head.seq + 1, self.seq)}: a writer died",
            )

    def _report_pending(self) -> None:
        """Report the pending bad line, for which no record accounted."""
        if self._bad is not None:
            self._add(self.problems, self._bad.finding)
            self._bad_lines += 1
            self._bad = None

    def check_record(self, record: AuditRecord) -> bool:
        """Check the next intact record, and the bad line before it; return whether it is not a copy."""
        if "torn_bytes" in record.fields and record.event == RECOVERED:
            self._check_torn_line(record)
        is_new = super().check_record(record)
        self._report_pending()
        if not is_new:
            return False
        if self._head is not None and record.seq == self._head.seq and record.hash != self._head.hash:
            self.problem(HEAD_FILE_NAME, None, record.seq, f"names another hash than record {record.seq} has")
        self._bad_lines = 0
        return True

    def _check_torn_line(self, record: AuditRecord) -> None:
        """Compare the pending bad line with the torn line for which a `recovered` record accounts."""
        torn = b"" if self._bad is None else self._bad.line.data
        claimed = (record.fields["torn_bytes"], record.fields.get("torn_sha256"))
        if self._bad is not None and claimed == (len(torn), hashlib.sha256(torn).hexdigest()):
            text = f"is torn: its writer died; record {record.seq} accounts for it"
            self.note(self._bad.finding.file, self._bad.finding.line, None, text)
            self._bad = None
        else:
            self._report(record.seq, "accounts for a torn line that is not the one before it")

    def _check_repair(self, record: AuditRecord, *, excused: bool) -> bool:
        # A gap before the record was reported as such.
        return super()._check_repair(record, excused=excused or record.seq > self.seq + 1)

    def _report(self, seq: int, message: str) -> None:
        self.problem(*self._place, seq, message)

    def _report_gap(self, last: int, *, excused: bool) -> None:
        """Report a gap, unless bad lines explain it."""
        first, where = self.seq + 1, "at the end" if self._place[1] is None else "before this one"
        if excused:
            text = f"lost {_format_range(first, last)} {where} in a crash: they had not been synced"
            self.note(*self._place, first, text)
        elif last - self.seq > self._bad_lines + (self._bad is not None):
            self.problem(*self._place, first, f"lacks {_format_range(first, last)} {where}")


def _format_range(first: int, last: int) -> str:
    return f"record {first}" if first == last else f"records {first} to {last}"


def add_finding(findings: list[_F], finding: _F, rest: _F) -> None:
    """Add a finding. The last one that a report may have is `rest`, which says that there are more."""
    if len(findings) < MAX_FINDINGS:
        findings.append(finding if len(findings) < MAX_FINDINGS - 1 else rest)
