"""The check of one chain: what a node repaired itself, and what its crashes explain."""

from pathlib import Path

import pytest

from paddock.cluster.ledger_lines import CHAIN_DIGITS, LedgerLines
from paddock.cluster.ship import make_columns
from paddock.cluster.verify_chain import RecordRow, RowCheck
from paddock.record.ledger.line_format import LedgerHead, parse_record
from paddock.record.ledger.writer import Ledger

Findings = list[tuple[int | None, str]]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "audit"


def write(directory: Path, count: int) -> Path:
    """Write records, and return the file with them."""
    with Ledger(directory) as ledger:
        for number in range(count):
            ledger.append("decided", f"r{number}", {"name": "x"})
    [file] = directory.glob("*.ndjson")
    return file


def read_rows(directory: Path) -> list[RecordRow]:
    """Return the rows that are shipped from a ledger."""
    lines, chain = LedgerLines(directory), LedgerLines(directory).find_chain() or ""
    batch = lines.read_chunk(1_000_000)
    return [RecordRow("a", chain, each.record.seq, *make_columns(each.record), each.data) for each in batch]


def check(rows: list[RecordRow]) -> tuple[Findings, Findings]:
    """Return problems and notes."""
    problems: Findings = []
    notes: Findings = []
    made = RowCheck(
        "a",
        rows[0].chain,
        lambda seq, message: problems.append((seq, message)),
        lambda seq, message: notes.append((seq, message)),
    )
    for row in rows:
        made.check_row(row)
    return problems, notes


def test_an_honest_chain_has_no_finding(directory: Path) -> None:
    write(directory, 3)
    rows = read_rows(directory)
    assert check(rows) == ([], [])
    assert rows[0].chain == parse_record(rows[0].line).hash[:CHAIN_DIGITS]


def test_a_crash_is_a_note(directory: Path) -> None:
    file = write(directory, 2)
    with file.open("ab") as torn:
        torn.write(b'{"v":1,')
    write(directory, 1)
    assert check(read_rows(directory)) == ([], [(3, "accounts for lines that a crash cut off")])


def test_a_removed_head_is_a_problem(directory: Path) -> None:
    write(directory, 2)
    (directory / "head").unlink()
    write(directory, 1)
    assert check(read_rows(directory)) == (
        [(3, "found the head missing or damaged when it was written")],
        [],
    )


def test_foreign_lines_are_a_problem(directory: Path) -> None:
    file = write(directory, 2)
    with file.open("ab") as foreign:
        foreign.write(b"foreign\n")
    write(directory, 1)
    assert check(read_rows(directory)) == (
        [(3, "found foreign lines before it when it was written")],
        [],
    )


def cut_ledger(directory: Path, file: Path, *, synced: int, boot: str) -> None:
    """Remove the last record, as a power failure does, under a head that says how much was synced."""
    head = LedgerHead.parse((directory / "head").read_bytes())
    assert head is not None
    (directory / "head").write_bytes(head._replace(synced=synced, boot=boot or head.boot).encode())
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]))


def test_records_that_a_power_failure_took_are_a_note(directory: Path) -> None:
    file = write(directory, 3)
    cut_ledger(directory, file, synced=1, boot="earlier")
    write(directory, 1)
    assert check(read_rows(directory)) == (
        [],
        [
            (3, "is missing: a crash of the node lost it before it was shipped"),
            (4, "accounts for lines that a crash cut off"),
        ],
    )


def test_records_that_were_cut_from_the_ledger_are_a_problem(directory: Path) -> None:
    file = write(directory, 3)
    cut_ledger(directory, file, synced=3, boot="")
    write(directory, 1)
    assert check(read_rows(directory))[0] == [
        (3, "is missing"),
        (4, "found the records before it cut or changed when it was written"),
    ]


def test_reading_goes_on_after_any_record(directory: Path) -> None:
    write(directory, 5)
    everything = LedgerLines(directory).read_chunk(1_000_000)
    for number, each in enumerate(everything):
        lines = LedgerLines(directory)
        reached = LedgerLines(directory)
        reached.read_chunk(1)
        while reached.position.seq < each.record.seq:
            reached.read_chunk(1)
        assert lines.seek(reached.position)
        assert lines.read_chunk(1_000_000) == everything[number + 1 :]
        assert not lines.seek(reached.position._replace(hash="f" * 64))
        assert not lines.seek(reached.position._replace(seq=9))
