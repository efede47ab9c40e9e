"""Closed days move to an archive: nothing is lost at any step, and both sides are proved afterwards."""

import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from paddock.foundation.files import hold_lock
from paddock.model.errors import LedgerError
from paddock.model.ids import new_id
from paddock.record.ledger import archive as audit_archive
from paddock.record.ledger.archive import archive, verify_archive
from paddock.record.ledger.line_format import list_dated_files
from paddock.record.ledger.read import read
from paddock.record.ledger.search import RecordFilter, find
from paddock.record.ledger.verify import ArchivedDay, Finding, verify
from paddock.record.ledger.writer import Ledger

FIRST, SECOND, THIRD, FOURTH = (f"2026-03-0{day}.ndjson" for day in (1, 2, 3, 4))
NOW = datetime(2026, 3, 9, 12, 0, tzinfo=UTC)
"""Eight days after the first record."""
THIRD_DAY = datetime(2026, 3, 3, tzinfo=UTC)
KILLED = 9


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture
def four_days(directory: Path, write: Callable[..., None]) -> Path:
    """A ledger of four files with two records each."""
    for day in range(4):
        write(2, day=day)
    return directory


def move(directory: Path, folder: Path, before: datetime = THIRD_DAY, **how: bool) -> list[ArchivedDay]:
    return archive(directory, folder, before, clock=NOW.timestamp, **how)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def ids_of(*directories: Path) -> set[str]:
    return {record.id for directory in directories if directory.exists() for record in read(directory)}


def problems(folder: Path, directory: Path) -> list[tuple[str, int | None, str]]:
    return [(found.file, found.line, found.message) for found in verify_archive(folder, directory).problems]


def test_archived_days_are_the_same_files_and_the_chain_continues(four_days: Path, folder: Path) -> None:
    before = {name: (four_days / name).read_bytes() for name in list_dated_files(four_days)}
    last = {record.seq: record.hash for record in read(four_days)}
    records = ids_of(four_days)
    moved = move(four_days, folder)
    assert [(day.file, day.folder, day.last_seq, day.last_hash) for day in moved] == [
        (FIRST, str(folder), 2, last[2]),
        (SECOND, str(folder), 4, last[4]),
    ]
    assert {name: (folder / name).read_bytes() for name in names_in(folder)} == {
        name: before[name] for name in (FIRST, SECOND)
    }
    assert list_dated_files(four_days) == [THIRD, FOURTH, "2026-03-09.ndjson"]
    report = verify(four_days)
    assert (report.problems, report.notes, report.records, report.last_seq) == ((), (), 6, 10)
    assert report.archived == tuple(moved)
    archived = verify_archive(folder, four_days)
    assert (archived.problems, archived.notes, archived.files, archived.records) == ((), (), 2, 4)
    assert archived.last_hash == last[4]
    assert ids_of(four_days, folder) >= records
    assert [(folder / name).stat().st_mode & 0o777 for name in (FIRST, SECOND)] == [0o600] * 2


def test_a_second_run_continues_the_archive(four_days: Path, folder: Path) -> None:
    [*first] = move(four_days, folder)
    assert move(four_days, folder) == []
    [third] = move(four_days, folder, THIRD_DAY + timedelta(days=1))
    assert (third.file, third.last_seq) == (THIRD, 6)
    assert verify(four_days).archived == (*first, third)
    assert verify(four_days).ok
    report = verify_archive(folder, four_days)
    assert (report.problems, report.notes, report.files) == ((), (), 3)


def test_a_day_whose_record_is_archived_itself_is_proved_by_the_archive(
    directory: Path, folder: Path
) -> None:
    def go(days: int, before: int) -> list[str]:
        """Write a record and archive, some days after `NOW`."""
        at = (NOW + timedelta(days=days)).timestamp
        with Ledger(directory, clock=at) as ledger:
            ledger.append("decided", "", {"status": "ok"})
        moved = archive(directory, folder, NOW + timedelta(days=before), clock=at)
        return [day.file[:10] for day in moved]

    moved = [go(days, before) for days, before in [(0, -2), (1, -2), (10, 1), (20, 2), (30, 15)]]
    assert moved == [[], [], ["2026-03-09"], ["2026-03-10"], ["2026-03-19"]]
    assert [day.file[:10] for day in verify(directory).archived] == ["2026-03-10", "2026-03-19"]
    assert verify(directory).ok
    assert verify_archive(folder, directory).problems == ()
    (folder / "2026-03-10.ndjson").unlink()
    message = "is archived according to the ledger, and is not in this archive"
    assert ("2026-03-10.ndjson", None, message) in problems(folder, directory)


def test_the_current_day_the_last_records_and_days_of_claims_stay(four_days: Path, folder: Path) -> None:
    recent = NOW - timedelta(days=1)
    with pytest.raises(LedgerError) as caught:
        move(four_days, folder, recent)
    assert str(caught.value) == (
        "Only days that ended at least 2 days ago can be archived: Paddock searches the later ones for claims of "
        "requests. Choose an age of at least 2d."
    )
    moved = move(four_days, folder, NOW - timedelta(days=2))
    assert [day.file for day in moved] == [FIRST, SECOND, THIRD]
    assert (list_dated_files(four_days), verify(four_days).ok) == ([FOURTH, "2026-03-09.ndjson"], True)


def test_a_rehearsal_changes_nothing(four_days: Path, folder: Path) -> None:
    before = names_in(four_days)
    planned = move(four_days, folder, dry_run=True)
    assert [day.file for day in planned] == [FIRST, SECOND]
    assert (names_in(four_days), folder.exists()) == (before, False)
    assert move(four_days, folder) == planned


def test_a_ledger_with_problems_is_not_archived(four_days: Path, folder: Path) -> None:
    (four_days / SECOND).write_bytes(b"")
    with pytest.raises(LedgerError) as caught:
        move(four_days, folder)
    assert str(caught.value) == (
        f"The ledger {four_days} has 1 problem, so nothing was archived. List them with: paddock audit verify"
    )
    assert (names_in(folder), FIRST in names_in(four_days)) == ([], True)


def test_an_existing_file_of_the_archive_is_never_replaced(four_days: Path, folder: Path) -> None:
    folder.mkdir()
    (folder / SECOND).write_text("other")
    with pytest.raises(LedgerError) as caught:
        move(four_days, folder)
    assert str(caught.value) == (
        f"{folder / SECOND} exists with another content, so nothing was archived. Name another directory."
    )
    assert (folder / SECOND).read_text() == "other"
    assert list_dated_files(four_days)[:2] == [FIRST, SECOND]
    assert verify(four_days).ok


def test_the_ledger_is_no_archive_of_itself(four_days: Path) -> None:
    with pytest.raises(LedgerError) as caught:
        move(four_days, four_days)
    assert (
        str(caught.value) == f"The archive cannot be the ledger itself, {four_days}. Name another directory."
    )


def test_a_full_disk_loses_nothing(four_days: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_nothing(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(audit_archive, "_write_copy", write_nothing)
    with pytest.raises(LedgerError) as caught:
        move(four_days, folder)
    assert str(caught.value) == (
        f"The archive {folder} cannot be written: No space left on device. Every file is still in the ledger. "
        "Free space on its file system, or name another directory."
    )
    assert (names_in(folder), list_dated_files(four_days)[:2]) == ([], [FIRST, SECOND])
    assert verify(four_days).ok


def test_a_copy_that_differs_removes_nothing(
    four_days: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(_: int, path: Path) -> None:
        path.write_bytes(b"spoiled")

    monkeypatch.setattr(audit_archive, "_write_copy", spoil)
    with pytest.raises(LedgerError) as caught:
        move(four_days, folder)
    assert str(caught.value) == (
        f"The copy of {FIRST} in {folder} differs from the ledger, so nothing was archived. Check both disks."
    )
    assert (names_in(folder), list_dated_files(four_days)[:2]) == ([], [FIRST, SECOND])


def test_a_process_that_is_killed_at_any_step_loses_nothing(four_days: Path, tmp_path: Path) -> None:
    """Kill the process before each of its changes to files, and then let the next one finish."""
    records = ids_of(four_days)
    codes: list[int] = []
    while not codes or codes[-1] == KILLED:
        ledger, folder = tmp_path / f"ledger-{len(codes)}", tmp_path / f"archive-{len(codes)}"
        shutil.copytree(four_days, ledger)
        child = os.fork()
        if child == 0:
            try:
                _die_before(len(codes))
                move(ledger, folder)
                os._exit(0)
            finally:
                os._exit(1)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        assert ids_of(ledger, folder) >= records, codes
        assert verify(ledger).problems == (), codes
        move(ledger, folder)
        assert list_dated_files(ledger) == [THIRD, FOURTH, "2026-03-09.ndjson"], codes
        assert names_in(folder) == [FIRST, SECOND], codes
        assert ids_of(ledger, folder) >= records, codes
        for report in (verify(ledger), verify_archive(folder, ledger)):
            assert (report.problems, report.notes) == ((), ()), codes
    assert (codes[-1], len(codes) > 15) == (0, True)


def _die_before(step: int) -> None:
    """Make the process exit before its change number `step` to a file or directory."""
    counted = iter(range(step))

    def guard(call: Callable[..., object]) -> Callable[..., object]:
        def guarded(*args: object, **options: object) -> object:
            if next(counted, None) is None:
                os._exit(KILLED)
            return call(*args, **options)

        return guarded

    for name in ("fsync", "rename", "unlink", "write", "pwrite", "mkdir"):
        setattr(os, name, guard(getattr(os, name)))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda folder: (folder / FIRST).write_bytes((folder / FIRST).read_bytes()[:-80]),
            [
                (FIRST, 2, "does not end in a newline"),
                (FIRST, None, "is not the file that was archived: its SHA-256 differs"),
            ],
        ),
        (
            lambda folder: (folder / SECOND).write_bytes(
                (folder / SECOND).read_bytes().splitlines(keepends=True)[0]
            ),
            [(SECOND, None, "is not the file that was archived: its SHA-256 differs")],
        ),
        (
            lambda folder: (folder / SECOND).write_bytes(
                (folder / SECOND).read_bytes().replace(b"day 1", b"day 9", 1)
            ),
            [
                (SECOND, 1, "has been changed: its hash does not match its content"),
                (SECOND, None, "is not the file that was archived: its SHA-256 differs"),
            ],
        ),
        (
            lambda folder: (folder / SECOND).unlink(),
            [(SECOND, None, "is archived according to the ledger, and is not in this archive")],
        ),
        (
            lambda folder: (folder / FIRST).rename(folder / FOURTH),
            [
                (FOURTH, 1, "is a copy or out of order: it stands after record 4"),
                (FOURTH, 2, "is a copy or out of order: it stands after record 4"),
                (FOURTH, None, "holds no record of its day: it was renamed"),
            ],
        ),
    ],
)
def test_a_changed_archive_is_found(
    four_days: Path,
    folder: Path,
    change: Callable[[Path], object],
    expected: list[tuple[str, int | None, str]],
) -> None:
    move(four_days, folder)
    change(folder)
    assert problems(folder, four_days) == expected


def test_an_archive_without_its_first_day_is_noted(four_days: Path, folder: Path) -> None:
    move(four_days, folder)
    (folder / FIRST).unlink()
    report = verify_archive(folder, four_days)
    assert report.problems == ()
    assert report.notes == (
        Finding(file=SECOND, seq=3, message="is the first file: the archive begins with record 3"),
        Finding(file=FIRST, message="is archived according to the ledger, and is not in this archive"),
    )


def test_an_archive_without_its_ledger_is_checked_alone(
    four_days: Path, folder: Path, tmp_path: Path
) -> None:
    move(four_days, folder)
    report = verify_archive(folder, tmp_path / "nothing")
    assert (report.problems, [note.message for note in report.notes]) == (
        (),
        ["has no record in the ledger that it is archived"] * 2,
    )
    with pytest.raises(LedgerError) as caught:
        verify_archive(tmp_path / "nothing", four_days)
    assert str(caught.value) == (
        f"There is no archive at {tmp_path / 'nothing'}: no such directory. Name the directory of the archive."
    )


def test_a_removed_day_that_was_not_archived_is_still_found(four_days: Path, folder: Path) -> None:
    move(four_days, folder)
    (four_days / THIRD).unlink()
    assert [(found.file, found.message) for found in verify(four_days).problems] == [
        (FOURTH, "lacks records 5 to 6 before this one")
    ]


def test_a_changed_record_of_archived_days_is_found(four_days: Path, folder: Path) -> None:
    move(four_days, folder)
    file = four_days / "2026-03-09.ndjson"
    file.write_bytes(file.read_bytes().replace(b'"last_seq":4', b'"last_seq":2'))
    assert [(found.file, found.message) for found in verify(four_days).problems] == [
        (THIRD, "lacks records 3 to 4 before this one"),
        ("2026-03-09.ndjson", "has been changed: its hash does not match its content"),
    ]


def test_searches_find_what_remains(four_days: Path, folder: Path) -> None:
    wanted = RecordFilter(event="decided")
    assert len(list(find(four_days, wanted))) == 8
    move(four_days, folder)
    assert len(list(find(four_days, wanted))) == 4
    assert len(list(find(folder, wanted))) == 4


def test_a_claim_is_still_made_once(four_days: Path, folder: Path) -> None:
    request = new_id(NOW.timestamp() - 3600)
    with Ledger(four_days, clock=NOW.timestamp) as ledger:
        ledger.claim(request, {})
    move(four_days, folder, NOW - timedelta(days=2))
    with Ledger(four_days, clock=NOW.timestamp) as ledger, pytest.raises(LedgerError, match="claimed before"):
        ledger.claim(request, {})


def test_two_processes_do_not_archive_at_once(four_days: Path, folder: Path) -> None:
    with hold_lock(four_days / "archive.lock"), pytest.raises(LedgerError) as caught:
        move(four_days, folder)
    assert str(caught.value) == (
        f"Another process archives the ledger {four_days} at this time. Wait until it has ended."
    )
    assert list_dated_files(four_days)[:2] == [FIRST, SECOND]


def test_a_folder_that_others_may_write_to_is_refused(four_days: Path, folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(LedgerError) as caught:
        move(four_days, folder)
    assert str(caught.value) == (
        f"The archive {folder} cannot be written: it can be written to by others (mode 0777), who may have put files "
        f"there; check what it contains, then run: chmod 700 {folder}. Every file is still in the ledger. Name another "
        "directory."
    )
    assert list_dated_files(four_days)[:2] == [FIRST, SECOND]


def test_a_link_in_the_archive_is_not_followed(four_days: Path, folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    other = tmp_path / "other"
    other.write_text("kept")
    (folder / f".{FIRST}.partial").symlink_to(other)
    (folder / SECOND).symlink_to(other)
    with pytest.raises(LedgerError, match="exists with another content"):
        move(four_days, folder)
    assert (other.read_text(), verify(four_days).ok) == ("kept", True)
    assert list_dated_files(four_days)[:2] == [FIRST, SECOND]
