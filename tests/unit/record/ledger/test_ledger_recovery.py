import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.model.errors import LedgerError
from paddock.model.ids import new_id
from paddock.record.ledger.line_format import LedgerHead
from paddock.record.ledger.read import read
from paddock.record.ledger.verify import Finding, verify
from paddock.record.ledger.writer import Ledger

FIRST, SECOND = "2026-03-01.ndjson", "2026-03-02.ndjson"
NOON = 1_772_366_400.0
DAY = 86_400


def head(directory: Path) -> LedgerHead:
    found = LedgerHead.parse((directory / "head").read_bytes())
    assert found is not None
    return found


def recoveries(directory: Path) -> list[tuple[int, dict[str, object]]]:
    return [
        (record.seq, dict(record.fields)) for record in read(directory, event="recovered", newest_first=False)
    ]


def torn_fields(piece: bytes) -> dict[str, object]:
    return {"reason": "torn", "torn_bytes": len(piece), "torn_sha256": hashlib.sha256(piece).hexdigest()}


def test_a_whole_record_behind_the_head_is_taken_in(directory: Path, write: Callable[..., None]) -> None:
    write(2)
    before = (directory / "head").read_bytes()
    write(1)
    (directory / "head").write_bytes(before)
    write(1)
    report = verify(directory)
    assert (report.ok, report.records, report.notes) == (True, 4, ())


def test_a_torn_line_is_accounted_for(directory: Path, write: Callable[..., None]) -> None:
    write(2)
    piece = b'{"v":1,"seq":3,"id":"01'
    with (directory / FIRST).open("ab") as file:
        file.write(piece)
    torn = Finding(file=FIRST, line=3, message="is torn: its writer died; the next one will account for it")
    report = verify(directory)
    assert (report.ok, report.records, report.notes) == (True, 2, (torn,))
    assert [record.seq for record in read(directory)] == [2, 1]

    write(1)
    assert recoveries(directory) == [(3, torn_fields(piece))]
    report = verify(directory)
    assert (report.ok, report.records) == (True, 4)
    assert report.notes == (
        Finding(file=FIRST, line=3, message="is torn: its writer died; record 3 accounts for it"),
    )
    [first, *_] = read(directory)
    assert (first.seq, first.request) == (4, "r0")


def test_a_torn_line_of_yesterday_is_ended_in_its_own_file(
    directory: Path, write: Callable[..., None]
) -> None:
    write(1)
    with (directory / FIRST).open("ab") as file:
        file.write(b'{"v"')
    write(1, day=1)
    assert len((directory / FIRST).read_bytes().splitlines()) == 3
    assert len((directory / SECOND).read_bytes().splitlines()) == 1
    report = verify(directory)
    assert (report.ok, report.records, len(report.notes)) == (True, 3, 1)


def test_a_first_record_of_a_day_is_found_days_later(directory: Path, write: Callable[..., None]) -> None:
    write(1)
    before = (directory / "head").read_bytes()
    write(1, day=1)
    with (directory / SECOND).open("ab") as file:
        file.write(b'{"v"')
    (directory / "head").write_bytes(before)
    write(1, day=2)
    report = verify(directory)
    assert (report.ok, report.records, len(report.notes)) == (True, 4, 1)
    assert recoveries(directory) == [(3, torn_fields(b'{"v"'))]


def test_a_whole_record_without_its_newline_is_taken_in(directory: Path, write: Callable[..., None]) -> None:
    write(1)
    before, line = head(directory), (directory / FIRST).read_bytes()
    write(1)
    (directory / "head").write_bytes(before.encode())
    piece = (directory / FIRST).read_bytes()[len(line) : -1]
    (directory / FIRST).write_bytes(line + piece)
    write(1)
    report = verify(directory)
    assert (report.ok, report.records, report.notes) == (True, 3, ())


def test_a_newline_lost_in_a_power_failure_is_put_back(directory: Path, write: Callable[..., None]) -> None:
    write(3)
    path = directory / FIRST
    path.write_bytes(path.read_bytes()[:-1])
    (directory / "head").write_bytes(head(directory)._replace(synced=2, boot="earlier").encode())
    write(1)
    assert recoveries(directory) == [(4, {"reason": "missing", "synced": 2})]
    report = verify(directory)
    assert (report.ok, report.records, report.notes) == (True, 5, ())


def test_records_gone_without_a_reboot_were_cut(directory: Path, write: Callable[..., None]) -> None:
    write(4)
    lines = (directory / FIRST).read_bytes().splitlines(keepends=True)
    (directory / FIRST).write_bytes(b"".join(lines[:2]))
    (directory / "head").write_bytes(head(directory)._replace(synced=2).encode())
    write(1)
    assert recoveries(directory) == [(5, {"reason": "missing"})]
    assert verify(directory).problems == (
        Finding(file=FIRST, line=3, seq=3, message="lacks records 3 to 4 before this one"),
    )


def test_a_changed_torn_line_is_tampering(directory: Path, write: Callable[..., None]) -> None:
    write(1)
    with (directory / FIRST).open("ab") as file:
        file.write(b'{"v":1,"seq":2,')
    write(1)
    path = directory / FIRST
    path.write_bytes(path.read_bytes().replace(b'{"v":1,"seq":2,\n', b'{"v":1,"seq":9,\n'))
    assert verify(directory).problems == (
        Finding(file=FIRST, line=3, seq=2, message="accounts for a torn line that is not the one before it"),
        Finding(file=FIRST, line=2, seq=9, message="is not a ledger record"),
    )
    path.write_bytes(path.read_bytes().replace(b'{"v":1,"seq":9,\n', b""))
    assert verify(directory).problems == (
        Finding(file=FIRST, line=2, seq=2, message="accounts for a torn line that is not the one before it"),
    )


def test_an_open_ledger_goes_on_after_a_torn_line(directory: Path) -> None:
    with Ledger(directory, clock=lambda: NOON) as ledger:
        ledger.append("decided", "a", {})
        with (directory / FIRST).open("ab") as file:
            file.write(b"torn")
        ledger.append("decided", "b", {})
    assert recoveries(directory) == [(2, torn_fields(b"torn"))]
    assert verify(directory).ok


def test_a_repair_that_fails_is_made_the_next_time(
    directory: Path, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(1)
    with Ledger(directory, clock=lambda: NOON) as ledger:
        before = (directory / "head").read_bytes()
        write(1)
        with (directory / FIRST).open("ab") as file:
            file.write(b"torn")
        (directory / "head").write_bytes(before)
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", lambda *_: 0)
            for _ in range(2):
                with pytest.raises(LedgerError, match="bytes fit"):
                    ledger.append("decided", "r", {})
        ledger.append("decided", "r", {})
    report = verify(directory)
    assert (report.ok, report.records, len(report.notes)) == (True, 4, 1)
    assert recoveries(directory) == [(3, torn_fields(b"torn"))]


def test_lost_records_leave_a_gap_that_says_so(directory: Path, write: Callable[..., None]) -> None:
    write(4)
    lines = (directory / FIRST).read_bytes().splitlines(keepends=True)
    (directory / FIRST).write_bytes(lines[0] + lines[1] + lines[2][:50])
    (directory / "head").write_bytes(head(directory)._replace(synced=2, boot="earlier").encode())
    write(1)
    assert recoveries(directory) == [(5, {**torn_fields(lines[2][:50]), "reason": "missing", "synced": 2})]
    report = verify(directory)
    assert (report.ok, report.records, report.last_seq) == (True, 4, 6)
    assert report.notes == (
        Finding(file=FIRST, line=3, message="is torn: its writer died; record 5 accounts for it"),
        Finding(
            file=FIRST,
            line=4,
            seq=3,
            message="lost records 3 to 4 before this one in a crash: they had not been synced",
        ),
    )


def test_synced_records_that_are_gone_stay_a_problem(directory: Path, write: Callable[..., None]) -> None:
    write(4)
    lines = (directory / FIRST).read_bytes().splitlines(keepends=True)
    (directory / FIRST).write_bytes(b"".join(lines[:2]))
    (directory / "head").write_bytes(head(directory)._replace(boot="earlier").encode())
    write(1)
    assert recoveries(directory) == [(5, {"reason": "missing", "synced": 4})]
    assert verify(directory).problems == (
        Finding(file=FIRST, line=3, seq=3, message="lacks records 3 to 4 before this one"),
    )


def test_lines_that_somebody_added_stay_a_problem(directory: Path, write: Callable[..., None]) -> None:
    write(1)
    with (directory / FIRST).open("ab") as file:
        file.write(b"hello\n")
    write(1)
    assert recoveries(directory) == [(2, {"reason": "foreign"})]
    assert verify(directory).problems == (
        Finding(file=FIRST, line=3, seq=2, message="found foreign lines before it when it was written"),
        Finding(file=FIRST, line=2, message="is not a ledger record"),
    )


def test_a_deleted_head_stays_a_problem(directory: Path, write: Callable[..., None]) -> None:
    write(2)
    (directory / "head").unlink()
    write(1)
    assert recoveries(directory) == [(3, {"reason": "head"})]
    assert verify(directory).problems == (
        Finding(file=FIRST, line=3, seq=3, message="found the head missing or damaged when it was written"),
    )


def test_a_head_of_another_size_is_noted_once(directory: Path, write: Callable[..., None]) -> None:
    for change in (lambda raw: raw + b"x" * 9, lambda raw: raw[:9], lambda _: b""):
        write(2)
        (directory / "head").write_bytes(change((directory / "head").read_bytes()))
    write(2)
    assert recoveries(directory) == [(seq, {"reason": "head"}) for seq in (3, 6, 9)]
    assert [(found.line, found.message) for found in verify(directory).problems] == [
        (line, "found the head missing or damaged when it was written") for line in (3, 6, 9)
    ]


def test_an_open_ledger_remembers_the_end(directory: Path) -> None:
    """Cut records and a head put back to fit cannot be seen in the files alone, but by an open ledger."""
    with Ledger(directory, clock=lambda: NOON) as ledger:
        ledger.append("decided", "a", {})
        ledger.flush()
        copies = {path.name: path.read_bytes() for path in directory.iterdir()}
        ledger.append("decided", "b", {})
        ledger.flush()
        for name, content in copies.items():
            (directory / name).write_bytes(content)
        assert verify(directory).ok
        ledger.append("decided", "c", {})
    assert verify(directory).problems == (
        Finding(file=FIRST, line=2, seq=2, message="lacks record 2 before this one"),
    )


@pytest.mark.parametrize("what", ["head", FIRST, "everything"])
def test_files_deleted_under_an_open_ledger(directory: Path, what: str) -> None:
    with Ledger(directory, clock=lambda: NOON) as ledger, Ledger(directory, clock=lambda: NOON) as other:
        ledger.append("decided", "a", {})
        other.append("decided", "b", {})
        if what == "everything":
            shutil.rmtree(directory)
        else:
            (directory / what).unlink()
        other.append("decided", "c", {})
        ledger.append("decided", "d", {})
        other.append("decided", "e", {})
    assert [record.request for record in read(directory, limit=3)] == ["e", "d", "c"]
    report = verify(directory)
    assert not report.ok
    assert report.last_seq == 6


def test_a_claim_counts_only_when_its_record_is_whole(directory: Path) -> None:
    request = new_id(NOON)
    with Ledger(directory, clock=lambda: NOON) as ledger:
        ledger.claim(request, {})
    path = directory / FIRST
    path.write_bytes(path.read_bytes()[:-1])
    with Ledger(directory, clock=lambda: NOON) as ledger:
        with pytest.raises(LedgerError, match="was claimed before"):
            ledger.claim(request, {})
        path.write_bytes(b"")
        ledger.append("decided", "r", {})
    with Ledger(directory, clock=lambda: NOON) as ledger:
        ledger.claim(request, {})
