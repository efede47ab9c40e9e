"""Whatever a process writes, in whatever pieces: every byte is counted and handed on, and both ends are kept."""

import asyncio
import contextlib
import os
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.confinement.sandbox import io
from paddock.confinement.sandbox.io import InputWriter, OutputReader
from paddock.model.capture import decode_stream

FEW = settings(max_examples=30, deadline=None)
"""Each example starts an event loop."""
PIECE = 1000
PIECES = st.lists(st.binary(max_size=70), max_size=12)


def read(pieces, *, kept, ceiling):
    """Return what a reader kept of pieces, what its sink saw, and how often the ceiling was exceeded."""

    async def go():
        ours, theirs = os.pipe()
        seen, exceeded = bytearray(), []
        reader = OutputReader(
            ours, kept=kept, ceiling=ceiling, exceeded=lambda: exceeded.append(1), sink=seen.extend
        )
        for piece in pieces:
            os.write(theirs, piece)
            await asyncio.sleep(0)
        os.close(theirs)
        return reader.finish(), bytes(seen), len(exceeded)

    return asyncio.run(go())


@FEW
@given(pieces=PIECES, kept=st.integers(1, 100), ceiling=st.integers(0, 300))
def test_every_byte_is_counted_and_handed_on(pieces, kept, ceiling):
    data = b"".join(pieces)
    captured, seen, exceeded = read(pieces, kept=kept, ceiling=ceiling)
    assert seen == data
    assert captured.total_bytes == len(data)
    assert exceeded == (len(data) > ceiling)
    assert captured.truncated == (len(data) > kept)
    if not captured.truncated:
        assert captured.head == data.decode("utf-8", "replace")


@FEW
@given(text=st.text(max_size=200), cuts=st.lists(st.integers(0, 800), max_size=6), kept=st.integers(8, 100))
def test_characters_are_never_cut(text, cuts, kept):
    data = text.encode()
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    captured, _, _ = read([data[a:b] for a, b in pairwise(edges)], kept=kept, ceiling=1000)
    assert text.startswith(captured.head)
    assert text.endswith(captured.tail)
    shown = len(captured.head.encode()) + len(captured.tail.encode())
    assert shown + captured.omitted_bytes == len(data)
    assert shown <= kept
    assert not captured.truncated or shown >= kept - 6


@FEW
@given(text=st.text(max_size=100), size=st.integers(1, 7))
def test_text_for_a_sink_comes_whole(text, size):
    seen = []
    take = decode_stream(seen.append)
    data = text.encode()
    for start in range(0, len(data), size):
        take(data[start : start + size])
    assert "".join(seen) == text
    assert "" not in seen


@FEW
@given(pieces=PIECES, size=st.integers(1, 7))
def test_bytes_that_are_no_text_do_not_stop_a_sink(pieces, size):
    data = b"".join(pieces)
    seen = []
    take = decode_stream(seen.append)
    for start in range(0, len(data), size):
        take(data[start : start + size])
    whole = data.decode("utf-8", "replace")
    assert whole.startswith("".join(seen))
    assert len(whole) - len("".join(seen)) <= 3  # bytes that may be the start of a character


@FEW
@given(size=st.integers(0, 300_000), read_first=st.integers(0, 300_000))
def test_a_writer_writes_all_or_until_nobody_reads(size, read_first):
    data = os.urandom(size)

    async def go():
        theirs, ours = os.pipe()
        writer = InputWriter(ours, data)
        os.set_blocking(theirs, False)
        got = bytearray()
        while len(got) < min(read_first, len(data)):
            await asyncio.sleep(0)
            with contextlib.suppress(BlockingIOError):
                got += os.read(theirs, min(read_first, len(data)) - len(got))
        os.close(theirs)
        for _ in range(5):
            await asyncio.sleep(0)
        writer.close()
        return bytes(got)

    assert asyncio.run(go()) == data[:read_first]


def test_floods_of_slow_output_take_turns(monkeypatch):
    """In each iteration of the event loop at most one reader takes long, and none takes a second turn before another."""
    now, steps = 0.0, []
    monkeypatch.setattr(io, "time", SimpleNamespace(monotonic=lambda: now))

    async def go():
        nonlocal now
        iteration, over = 0, asyncio.Event()
        ends = []

        def take(name, data):
            nonlocal now
            if data:
                now += 0.1  # such as the search for secrets
                steps.append((iteration, name))
                over.set() if len(steps) == 12 else None

        readers = []
        for name in "abc":
            ours, theirs = os.pipe()
            os.set_blocking(theirs, False)
            os.write(theirs, b"x" * 4 * PIECE)
            ends.append(theirs)
            monkeypatch.setattr(io, "_CHUNK_BYTES", PIECE)
            readers.append(
                OutputReader(ours, kept=1, ceiling=10**9, exceeded=lambda: None, sink=partial(take, name))
            )
        while not over.is_set():
            iteration += 1
            await asyncio.sleep(0)
        for reader in readers:
            reader.close()
        for end in ends:
            os.close(end)

    asyncio.run(go())
    assert len({iteration for iteration, _ in steps}) == 12
    assert [sorted(name for _, name in steps[at : at + 3]) for at in range(0, 12, 3)] == [["a", "b", "c"]] * 4
