"""Whatever somebody does to the files of a ledger is found, and nobody's next record is lost.

The properties have no deadline: they sync to a disk that others use.
"""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.record.ledger.line_format import LedgerHead, this_boot
from paddock.record.ledger.read import read
from paddock.record.ledger.verify import verify
from paddock.record.ledger.writer import Ledger

FIRST, SECOND, THIRD = (f"2026-03-0{day}.ndjson" for day in (1, 2, 3))
DAY = 86_400
NOON = 1_772_366_400.0
"""2026-03-01, 12:00 UTC."""


@cache
def valid() -> dict[str, bytes]:
    """Return the files of a valid ledger of three days."""
    with TemporaryDirectory() as made:
        now = [NOON]
        with Ledger(Path(made), clock=lambda: now[0]) as ledger:
            for number in range(12):
                now[0] = NOON + DAY * (number // 4)
                ledger.append("decided", f"r{number}", {"name": "x" * number})
        return {path.name: path.read_bytes() for path in Path(made).iterdir()}


def check_found(files: dict[str, bytes]) -> None:
    """Assert that `files` are no valid ledger, neither at once nor after a writer has gone on with them."""
    assert files != valid()
    with TemporaryDirectory() as made:
        directory = Path(made)
        for name, content in files.items():
            (directory / name).write_bytes(content)
        assert verify(directory).problems
        with Ledger(directory, clock=lambda: NOON + 3 * DAY) as ledger:
            ledger.append("decided", "later", {})
        report = verify(directory)
        assert report.problems
        assert [record.request for record in read(directory, limit=1)] == ["later"]


LINES = st.tuples(st.sampled_from([FIRST, SECOND, THIRD]), st.integers(0, 3))


@settings(deadline=None)
@given(name=st.sampled_from([FIRST, SECOND, THIRD, "head"]), place=st.integers(0), mask=st.integers(1, 255))
def test_any_byte_flip_is_found(name: str, place: int, mask: int) -> None:
    content = bytearray(valid()[name])
    content[place % len(content)] ^= mask
    check_found({**valid(), name: bytes(content)})


@settings(deadline=None)
@given(place=LINES)
def test_any_deleted_line_is_found(place: tuple[str, int]) -> None:
    name, number = place
    lines = valid()[name].splitlines(keepends=True)
    del lines[number]
    check_found({**valid(), name: b"".join(lines)})


@settings(deadline=None)
@given(
    name=st.sampled_from([FIRST, SECOND, THIRD]),
    keep=st.integers(0, 3),
    side=st.sampled_from(["head", "tail"]),
)
def test_any_cut_at_a_line_is_found(name: str, keep: int, side: Literal["head", "tail"]) -> None:
    lines = valid()[name].splitlines(keepends=True)
    kept = lines[:keep] if side == "head" else lines[4 - keep :]
    check_found({**valid(), name: b"".join(kept)})


@settings(deadline=None)
@given(name=st.sampled_from([FIRST, SECOND, THIRD]), cut=st.integers(1))
def test_any_cut_at_a_byte_is_found(name: str, cut: int) -> None:
    content = valid()[name]
    check_found({**valid(), name: content[: len(content) - 1 - cut % len(content)]})


@settings(deadline=None)
@given(one=LINES, other=LINES)
def test_any_copied_line_is_found(one: tuple[str, int], other: tuple[str, int]) -> None:
    lines = valid()[other[0]].splitlines(keepends=True)
    lines.insert(other[1], valid()[one[0]].splitlines(keepends=True)[one[1]])
    check_found({**valid(), other[0]: b"".join(lines)})


@settings(deadline=None)
@given(pair=st.lists(LINES, min_size=2, max_size=2, unique=True))
def test_any_swapped_lines_are_found(pair: list[tuple[str, int]]) -> None:
    lines = {name: content.splitlines(keepends=True) for name, content in valid().items()}
    (one, i), (other, j) = pair
    lines[one][i], lines[other][j] = lines[other][j], lines[one][i]
    check_found({name: b"".join(content) for name, content in lines.items()})


@settings(deadline=None)
@given(gone=st.sets(st.sampled_from([FIRST, SECOND, THIRD, "head"]), min_size=1, max_size=3))
def test_any_deleted_files_are_found(gone: set[str]) -> None:
    check_found({name: content for name, content in valid().items() if name not in gone})


@settings(deadline=None)
@given(place=LINES, junk=st.binary(max_size=200).filter(lambda junk: b"\n" not in junk))
def test_any_inserted_line_is_found(place: tuple[str, int], junk: bytes) -> None:
    lines = valid()[place[0]].splitlines(keepends=True)
    lines.insert(place[1], junk + b"\n")
    check_found({**valid(), place[0]: b"".join(lines)})


@settings(deadline=None)
@given(
    seq=st.integers(0, 2**63),
    size=st.integers(0, 2**70) | st.integers(0, 5000),
    synced=st.integers(0, 20),
    file=st.sampled_from(["", FIRST, SECOND, THIRD, "2026-03-09.ndjson", "../2026-03-01.ndjson"]) | st.text(),
)
def test_any_well_formed_head_that_lies_is_found(seq: int, size: int, synced: int, file: str) -> None:
    check_found({**valid(), "head": LedgerHead(seq, "f" * 64, file, size, synced, this_boot()).encode()})


def test_a_head_names_no_other_directory() -> None:
    head = LedgerHead(1, "f" * 64, "../2026-03-01.ndjson", 1, 1, "boot").encode()
    assert LedgerHead.parse(head) is None
    assert LedgerHead.parse(head.replace(b"../", b"")) is None


@settings(deadline=None)
@given(files=st.dictionaries(st.sampled_from([FIRST, SECOND, "head"]), st.binary(max_size=300), max_size=3))
def test_verify_and_writers_survive_any_bytes(files: dict[str, bytes]) -> None:
    with TemporaryDirectory() as made:
        directory = Path(made)
        for name, content in files.items():
            (directory / name).write_bytes(content)
        verify(directory)
        assert list(read(directory)) == []
        with Ledger(directory, clock=lambda: NOON + DAY) as ledger:
            ledger.append("decided", "r", {})
        assert [record.request for record in read(directory, limit=1)] == ["r"]
