import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.record.ledger import line_format
from paddock.record.ledger import read as ledger_read
from paddock.record.ledger.line_format import MAX_LINE_BYTES, Line, lines, lines_backwards
from paddock.record.ledger.read import read


def both_ways(content: bytes) -> tuple[list[Line], list[Line]]:
    fd = os.memfd_create("lines")
    try:
        os.write(fd, content)
        return list(lines(fd, 0, len(content))), list(lines_backwards(fd, len(content)))
    finally:
        os.close(fd)


@settings(deadline=None)
@given(
    pieces=st.lists(st.binary(max_size=20).map(lambda piece: piece.replace(b"\n", b"-")), max_size=9),
    rest=st.sampled_from([b"", b"torn"]),
    chunk=st.integers(1, 50),
)
def test_lines_are_the_same_both_ways(pieces: list[bytes], rest: bytes, chunk: int) -> None:
    content = b"".join(piece + b"\n" for piece in pieces)
    ends = [sum(len(piece) + 1 for piece in pieces[: number + 1]) for number in range(len(pieces))]
    whole = [Line(piece, end, whole=True) for piece, end in zip(pieces, ends, strict=True)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(line_format, "_CHUNK_BYTES", chunk)
        forwards, backwards = both_ways(content + rest)
    assert forwards == [*whole, *([Line(rest, len(content) + 4, whole=False)] if rest else [])]
    assert backwards == whole[::-1]


@pytest.mark.parametrize(
    "size", [MAX_LINE_BYTES - 1, MAX_LINE_BYTES, MAX_LINE_BYTES + 1, MAX_LINE_BYTES + 2, 1_000_000]
)
def test_long_lines_are_cut(size: int) -> None:
    forwards, backwards = both_ways(b"a\n" + b"x" * size + b"\nb\n")
    kept = b"x" * min(size, MAX_LINE_BYTES + 1)
    assert forwards == [
        Line(b"a", 2, whole=True),
        Line(kept, size + 3, whole=True),
        Line(b"b", size + 5, whole=True),
    ]
    assert backwards == forwards[::-1]


def test_since_opens_no_older_files(
    directory: Path, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in range(3):
        write(1, day=day)
    opened: list[str] = []

    def noting(where: Path, name: str, **order: bool) -> Iterator[Line]:
        opened.append(name)
        return line_format.read_lines(where, name, **order)

    monkeypatch.setattr(ledger_read, "read_lines", noting)
    assert [record.seq for record in read(directory, since=datetime(2026, 3, 2, tzinfo=UTC))] == [3, 2]
    assert opened == ["2026-03-03.ndjson", "2026-03-02.ndjson"]


def test_no_ledger_has_no_records(directory: Path) -> None:
    assert list(read(directory)) == []
