import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.model.errors import LedgerError
from paddock.record.ledger import verify as ledger_verify
from paddock.record.ledger.line_format import (
    GENESIS_HASH,
    MAX_LINE_BYTES,
    LedgerHead,
    encode_record,
    new_entry,
)
from paddock.record.ledger.read import read
from paddock.record.ledger.verify import Finding, Report, verify
from paddock.record.ledger.writer import Ledger

FIRST, SECOND, THIRD = (f"2026-03-0{day}.ndjson" for day in (1, 2, 3))
DAY = 86_400
NOON = 1_772_366_400.0
"""2026-03-01, 12:00 UTC."""


@pytest.fixture
def three_days(directory: Path, write: Callable[..., None]) -> Path:
    """A ledger of three files with three records each: 1-3, 4-6, 7-9."""
    for day in range(3):
        write(3, day=day)
    return directory


def problems(directory: Path) -> list[tuple[str, int | None, int | None, str]]:
    report = verify(directory)
    assert report.ok is not bool(report.problems)
    assert report.notes == ()
    return [(found.file, found.line, found.seq, found.message) for found in report.problems]


def edit(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def forged(seq: int, prev: str) -> bytes:
    return encode_record(new_entry("decided", "", None, {}), seq=seq, ts="t", prev=prev)[0]


def test_a_whole_ledger_is_ok(three_days: Path) -> None:
    last = next(read(three_days))
    report = verify(three_days)
    assert report == Report(files=3, records=9, last_seq=9, last_hash=last.hash, problems=(), notes=())
    assert report.model_dump()["ok"] is True


def test_a_ledger_without_records_is_ok(directory: Path) -> None:
    Ledger(directory).close()
    assert verify(directory) == Report(
        files=1, records=0, last_seq=0, last_hash=GENESIS_HASH, problems=(), notes=()
    )


def test_no_ledger_is_an_error(directory: Path) -> None:
    with pytest.raises(LedgerError) as caught:
        verify(directory)
    assert str(caught.value) == (
        f"There is no audit ledger at {directory}: no such directory. Check the state directory (XDG_STATE_HOME)."
    )


def test_an_empty_directory_is_no_ledger(tmp_path: Path) -> None:
    assert problems(tmp_path) == [
        ("head", None, None, "is missing, so records cut from the end would not be noticed")
    ]


def test_a_changed_line(three_days: Path) -> None:
    edit(three_days / SECOND, lambda lines: [lines[0], lines[1].replace(b"day 1", b"day 2"), lines[2]])
    assert problems(three_days) == [
        (SECOND, 2, 5, "has been changed: its hash does not match its content"),
    ]


def test_a_changed_last_line(three_days: Path) -> None:
    edit(three_days / THIRD, lambda lines: [*lines[:2], lines[2].replace(b"day 2", b"day 3")])
    assert problems(three_days) == [
        (THIRD, 3, 9, "has been changed: its hash does not match its content"),
    ]


def test_a_changed_line_with_a_fitting_hash(three_days: Path) -> None:
    prev = next(read(three_days, since=None, newest_first=False)).hash
    edit(three_days / FIRST, lambda lines: [lines[0], forged(2, prev), lines[2]])
    assert problems(three_days) == [
        (FIRST, 2, 2, "is of t, after the day of its file"),
        (FIRST, 3, 3, "does not continue the record before it, number 2"),
    ]


def test_deleted_lines(three_days: Path) -> None:
    edit(three_days / SECOND, lambda lines: [lines[0], lines[2]])
    assert problems(three_days) == [(SECOND, 2, 5, "lacks record 5 before this one")]
    edit(three_days / SECOND, lambda _: [])
    assert problems(three_days) == [(THIRD, 1, 4, "lacks records 4 to 6 before this one")]


def test_a_deleted_first_line(three_days: Path) -> None:
    edit(three_days / FIRST, lambda lines: lines[1:])
    assert problems(three_days) == [(FIRST, 1, 1, "lacks record 1 before this one")]


def test_lines_cut_from_the_end(three_days: Path) -> None:
    edit(three_days / THIRD, lambda lines: lines[:1])
    assert problems(three_days) == [(THIRD, None, 8, "lacks records 8 to 9 at the end")]


def test_a_last_line_cut_in_its_middle(three_days: Path) -> None:
    os.truncate(three_days / THIRD, (three_days / THIRD).stat().st_size - 1)
    report = verify(three_days)
    assert report.problems == (Finding(file=THIRD, seq=9, message="lacks record 9 at the end"),)
    assert report.notes == (
        Finding(file=THIRD, line=3, message="is torn: its writer died; the next one will account for it"),
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (FIRST, (SECOND, 1, 1, "lacks records 1 to 3 before this one")),
        (SECOND, (THIRD, 1, 4, "lacks records 4 to 6 before this one")),
        (THIRD, (THIRD, None, 7, "lacks records 7 to 9 at the end")),
        ("head", ("head", None, None, "is missing, so records cut from the end would not be noticed")),
    ],
)
def test_a_deleted_file(three_days: Path, name: str, expected: tuple[str, int, int, str]) -> None:
    (three_days / name).unlink()
    assert problems(three_days) == [expected]


def test_every_file_deleted_but_the_head(three_days: Path) -> None:
    for name in (FIRST, SECOND, THIRD):
        (three_days / name).unlink()
    assert problems(three_days) == [(THIRD, None, 1, "lacks records 1 to 9 at the end")]


def test_an_inserted_line(three_days: Path) -> None:
    edit(three_days / SECOND, lambda lines: [lines[0], b"hello\n", *lines[1:]])
    assert problems(three_days) == [(SECOND, 2, None, "is not a ledger record")]


def test_a_duplicated_line(three_days: Path) -> None:
    edit(three_days / SECOND, lambda lines: [lines[0], *lines])
    assert problems(three_days) == [(SECOND, 2, 4, "is a copy or out of order: it stands after record 4")]


def test_swapped_lines(three_days: Path) -> None:
    edit(three_days / SECOND, lambda lines: [lines[1], lines[0], lines[2]])
    assert problems(three_days) == [
        (SECOND, 1, 4, "lacks record 4 before this one"),
        (SECOND, 2, 4, "is a copy or out of order: it stands after record 5"),
    ]


def test_swapped_files(three_days: Path) -> None:
    first, second = three_days / FIRST, three_days / SECOND
    second.rename(three_days / "aside")
    first.rename(second)
    (three_days / "aside").rename(first)
    assert problems(three_days) == [
        (FIRST, 1, 1, "lacks records 1 to 3 before this one"),
        (FIRST, 1, 4, "is of 2026-03-02, after the day of its file"),
        (FIRST, None, None, "holds no record of its day: it was renamed"),
        *((SECOND, n, n, "is a copy or out of order: it stands after record 6") for n in (1, 2, 3)),
        (SECOND, None, None, "holds no record of its day: it was renamed"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (THIRD, "2026-03-04.ndjson", []),
        (FIRST, "2026-02-28.ndjson", [(1, 1, "is of 2026-03-01, after the day of its file")]),
        (FIRST, "2026-02-30.ndjson", [(1, 1, "is of 2026-03-01, after the day of its file")]),
    ],
)
def test_a_renamed_file_is_found_by_the_dates_of_its_records(
    three_days: Path, old: str, new: str, found: list[tuple[int, int, str]]
) -> None:
    (three_days / old).rename(three_days / new)
    assert problems(three_days) == [
        *((new, *each) for each in found),
        (new, None, None, "holds no record of its day: it was renamed"),
    ]


def test_records_around_midnight_and_of_a_clock_that_was_set_back_may_be_of_another_day(
    directory: Path,
) -> None:
    now = [NOON]
    with Ledger(directory, clock=lambda: now[0]) as ledger:
        for moment in (DAY / 2 - 0.001, DAY / 2, -2 * DAY, DAY):
            now[0] = NOON + moment
            ledger.append_soon("finished", "r", {})
            now[0] += 0.002
            ledger.flush()
    assert verify(directory).ok
    found = {path.name: path.read_bytes().count(b"\n") for path in directory.glob("*.ndjson")}
    assert found == {FIRST: 0, SECOND: 4}


def test_a_file_that_only_accounts_for_its_repair_was_not_renamed(
    three_days: Path, write: Callable[..., None]
) -> None:
    (three_days / THIRD).write_bytes(b"")
    write(1, day=4)
    messages = [found.message for found in verify(three_days).problems]
    assert messages == ["lacks records 7 to 9 before this one"]


def test_records_behind_the_head_are_a_dead_writers(three_days: Path) -> None:
    *_, prev, last = read(three_days, newest_first=False)
    (three_days / "head").write_bytes(LedgerHead(last.seq - 1, prev.hash, THIRD, 1, 1).encode())
    report = verify(three_days)
    assert (report.ok, report.last_seq) == (True, 9)
    assert report.notes == (Finding(file="head", seq=8, message="stops before record 9: a writer died"),)


def test_a_head_of_another_chain(three_days: Path) -> None:
    (three_days / "head").write_bytes(LedgerHead(9, "f" * 64, THIRD, 1, 9).encode())
    assert problems(three_days) == [("head", None, 9, "names another hash than record 9 has")]


def test_every_changed_byte_of_the_head(three_days: Path) -> None:
    raw = (three_days / "head").read_bytes()
    for position in range(len(raw)):
        changed = bytes(byte ^ (place == position) for place, byte in enumerate(raw))
        (three_days / "head").write_bytes(changed)
        assert problems(three_days) == [
            ("head", None, None, "is damaged, so records cut from the end would not be noticed")
        ]


def test_records_not_yet_synced_and_lost_are_no_tampering(three_days: Path) -> None:
    head = LedgerHead.parse((three_days / "head").read_bytes())
    assert head is not None
    edit(three_days / THIRD, lambda lines: lines[:1])
    (three_days / "head").write_bytes(head._replace(synced=7).encode())
    assert problems(three_days) == [(THIRD, None, 8, "lacks records 8 to 9 at the end")]
    (three_days / "head").write_bytes(head._replace(synced=7, boot="earlier").encode())
    report = verify(three_days)
    assert (report.ok, report.last_seq) == (True, 7)
    assert report.notes == (
        Finding(
            file=THIRD, seq=8, message="lost records 8 to 9 at the end in a crash: they had not been synced"
        ),
    )
    (three_days / "head").write_bytes(head._replace(synced=8, boot="earlier").encode())
    assert problems(three_days) == [(THIRD, None, 8, "lacks records 8 to 9 at the end")]


def test_special_files_are_not_followed(three_days: Path) -> None:
    (three_days / FIRST).rename(three_days / "aside")
    (three_days / FIRST).symlink_to("aside")
    os.mkfifo(three_days / "2026-03-04.ndjson")
    (three_days / "2026-03-05.ndjson").mkdir()
    assert problems(three_days) == [
        (FIRST, None, None, "is not a regular file"),
        (SECOND, 1, 1, "lacks records 1 to 3 before this one"),
        ("2026-03-04.ndjson", None, None, "is not a regular file"),
        ("2026-03-05.ndjson", None, None, "is not a regular file"),
    ]
    assert [record.seq for record in read(three_days)] == [9, 8, 7, 6, 5, 4]


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (os.mkfifo, "is a pipe, not a regular file"),
        (os.mkdir, "is a directory, not a regular file"),
        (lambda path: path.symlink_to("aside"), "is a link, not a regular file"),
        (lambda path: path.symlink_to("nowhere"), "is a link, not a regular file"),
        (lambda _path: None, "is missing"),
    ],
)
def test_what_is_in_the_place_of_the_head_is_said(
    three_days: Path, place: Callable[[Path], None], told: str
) -> None:
    (three_days / "head").rename(three_days / "aside")
    place(three_days / "head")
    assert problems(three_days) == [
        ("head", None, None, f"{told}, so records cut from the end would not be noticed")
    ]


def resigned(body: bytes) -> bytes:
    """Give hostile bytes the hash they need to be looked at."""
    return body[:-1] + b',"hash":"' + hashlib.sha256(body).hexdigest().encode() + b'"}\n'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"\n", "is not a ledger record"),
        (b"\x00" * 4096 + b"\n", "is not a ledger record"),
        (b"\xff\xfe" * 99 + b"\n", "is not a ledger record"),
        (b'"}\n', "is not a ledger record"),
        (resigned(b"{}"), "is not a ledger record"),
        (resigned(b"\xff\xfe}"), "is not a ledger record"),
        (resigned(b'{"a":' + b"[" * 20_000 + b"}"), "is not a ledger record"),
        (resigned(b'{"v":1,"seq":' + b"9" * 5000 + b"}"), "is not a ledger record"),
        (
            forged(1, GENESIS_HASH).replace(b'"v":1', b'"v":2'),
            "has been changed: its hash does not match its content",
        ),
        (b"x" * MAX_LINE_BYTES + b"\n", "is not a ledger record"),
        (b"x" * (MAX_LINE_BYTES + 1) + b"\n", "is longer than 65536 bytes, so it is not a ledger record"),
        (b"x" * 3_000_000 + b"\n", "is longer than 65536 bytes, so it is not a ledger record"),
    ],
    ids=range(12),
)
def test_hostile_lines_are_findings(three_days: Path, line: bytes, message: str) -> None:
    edit(three_days / SECOND, lambda lines: [lines[0], line, *lines[1:]])
    assert problems(three_days) == [(SECOND, 2, 1 if line.startswith(b'{"v":1,"seq":1,') else None, message)]
    assert [record.seq for record in read(three_days)] == list(range(9, 0, -1))
    assert [record.seq for record in read(three_days, newest_first=False)] == list(range(1, 10))


@pytest.mark.parametrize(
    "body",
    [
        b'{"v":1,"seq":true,"id":"i","ts":"t","event":"e","request":"","parent":null,"prev":"p"}',
        b'{"v":1,"seq":"5","id":"i","ts":"t","event":"e","request":"","parent":null,"prev":"p"}',
        b'{"v":1,"seq":0,"id":"i","ts":"t","event":"e","request":"","parent":null,"prev":"p"}',
        b'{"v":1,"seq":5,"id":1,"ts":"t","event":"e","request":"","parent":null,"prev":"p"}',
        b'{"v":1,"seq":5,"id":"i","ts":"t","event":"e","request":"","parent":null,"x":{},"prev":"p"}',
    ],
)
def test_records_of_wrong_types_are_findings(three_days: Path, body: bytes) -> None:
    edit(three_days / SECOND, lambda lines: [lines[0], resigned(body), *lines[1:]])
    [(file, line, _, message)] = problems(three_days)
    assert (file, line, message) == (SECOND, 2, "is not a ledger record")


def test_another_format_is_a_finding(three_days: Path) -> None:
    body = b'{"v":2,"seq":5,"id":"i","ts":"t","event":"e","request":"","parent":null,"prev":"p"}'
    edit(three_days / SECOND, lambda lines: [lines[0], resigned(body), *lines[1:]])
    assert problems(three_days) == [
        (SECOND, 2, None, "has a format that this version of Paddock does not know")
    ]


def test_findings_are_bounded(three_days: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_verify, "MAX_FINDINGS", 3)
    edit(three_days / SECOND, lambda lines: [lines[0], *[b"hello\n"] * 9, *lines[1:]])
    assert problems(three_days) == [
        (SECOND, 2, None, "is not a ledger record"),
        (SECOND, 3, None, "is not a ledger record"),
        (SECOND, None, None, "has more than is listed here"),
    ]
