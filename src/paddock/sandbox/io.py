"""The server's ends of a process's three pipes. Nothing here waits for the process, and nothing makes it wait.

Output is read as soon as it comes, to the end of the process, whatever its size: the start and the end stay in memory,
everything goes to a sink. A process that floods, never ends a line, closes its streams or leaves them to others is
treated like any other.
"""

import asyncio
import codecs
import contextlib
import os
import time
from collections.abc import Callable

from paddock.model.capture import HeadAndTail
from paddock.model.program import CapturedStream
from paddock.sandbox.protocol import Sink

_CHUNK_BYTES = 64 * 1024
"""What a pipe holds: no program has a larger one, and no more is looked through for secrets at a time."""
_TURN_S = 0.01
"""After so long the event loop gets its turn, however much more there is."""
_MAX_CHUNKS_AFTER_END = 64
"""Reads after the process is gone: more than any pipe holds, so that nobody who got hold of one keeps us here."""


class OutputReader:
    """One output stream, read until its end or until `finish`."""

    def __init__(
        self, file: int, *, kept: int, ceiling: int, exceeded: Callable[[], None], sink: Sink | None
    ) -> None:
        self._file = file
        self._kept = HeadAndTail(kept)
        self._ceiling = ceiling
        self._exceeded = exceeded
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        os.set_blocking(file, False)
        self._loop.add_reader(file, self._readable)

    def finish(self) -> CapturedStream:
        """Take what is in the pipe, close it, and return what was kept. Only after the process has ended."""
        for _ in range(_MAX_CHUNKS_AFTER_END):
            if self._file < 0 or not self._read_ready():
                break
        self.close()
        return self._kept.make_captured()

    def close(self) -> None:
        """Stop reading; harmless when it has stopped."""
        if self._file >= 0:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = -1
            if self._sink is not None:
                self._sink(b"")

    def _readable(self) -> None:
        until = time.monotonic() + _TURN_S
        while self._read_ready() and time.monotonic() < until:
            pass

    def _read_ready(self) -> bool:
        try:
            data = os.read(self._file, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.close()
            return False
        self._take(data)
        return True

    def _take(self, data: bytes) -> None:
        before = self._kept.total
        self._kept.take(data)
        if before <= self._ceiling < self._kept.total:
            self._exceeded()
        if self._sink is not None:
            self._sink(data)


class InputWriter:
    """Standard input, written as fast as the process takes it; one that never reads is nobody's fault."""

    def __init__(self, file: int, data: bytes) -> None:
        self._file = file
        self._data = memoryview(data)
        self._loop = asyncio.get_running_loop()
        if not data:
            os.close(file)
            self._file = -1
            return
        os.set_blocking(file, False)
        self._loop.add_writer(file, self._writable)

    def close(self) -> None:
        """Stop writing; harmless when all is written."""
        if self._file >= 0:
            self._loop.remove_writer(self._file)
            os.close(self._file)
            self._file = -1

    def _writable(self) -> None:
        with contextlib.suppress(BlockingIOError):
            try:
                self._data = self._data[os.write(self._file, self._data) :] if self._data else self._data
            except BrokenPipeError:
                self._data = self._data[:0]
            if not self._data:
                self.close()


def decode_stream(sink: Callable[[str], None]) -> Sink:
    """Return a sink of bytes that hands `sink` text, however the pieces cut its characters (UTF-8, RFC 3629)."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def take(data: bytes) -> None:
        if text := decoder.decode(data):
            sink(text)

    return take
