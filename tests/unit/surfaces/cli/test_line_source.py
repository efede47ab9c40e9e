"""Lines beside an event loop: whole, bounded, and no longer waited for than anyone wants them."""

import asyncio
import os
import tempfile
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.surfaces.cli.batch import LineSource, read_lines


def read_all(data, max_bytes):
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        with closing(LineSource(file, max_bytes)) as source:
            return list(iter(source.read_line, b""))


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=8), st.booleans())
def test_lines_are_those_of_the_file(lines, ended):
    data = b"\n".join(lines) + (b"\n" if ended else b"")
    found = read_all(data, 100)
    assert b"".join(found) == data
    assert [line.find(b"\n") for line in found[:-1]] == [len(line) - 1 for line in found[:-1]]


@given(st.integers(1, 40), st.integers(1, 10))
def test_a_long_line_is_cut_and_the_next_one_is_whole(size, max_bytes):
    first, second = read_all(b"x" * size + b"\ny\n", max_bytes)
    assert first == (b"x" * size + b"\n")[: max_bytes + 1]
    assert second == b"y\n"[: max_bytes + 1]


def test_a_line_of_megabytes_is_dropped_after_its_bound():
    first, second = read_all(b"x" * 3_000_000 + b"\ny\n", 10)
    assert (first, second) == (b"x" * 11, b"y\n")


@pytest.mark.parametrize("written", [b"", b"half a line"])
def test_a_cancelled_read_ends_though_nothing_comes(written):
    async def go(file):
        lines = read_lines(file, 100)
        assert await anext(lines) == b"one\n"
        waiting = asyncio.ensure_future(anext(lines))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        return waiting.cancelled()

    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as file, os.fdopen(writer, "wb", buffering=0) as other:
        other.write(b"one\n" + written)
        assert asyncio.run(go(file))
