"""Lines of a file, a pipe or standard input, read as they are needed beside an event loop."""

import asyncio
import os
import select
from collections.abc import AsyncGenerator
from contextlib import closing, suppress
from typing import IO

_CHUNK_BYTES = 256 * 1024


class LineSource:
    """Reads lines in a thread. Another thread can end a read that waits, which a buffered file does not allow."""

    def __init__(self, file: IO[bytes], max_bytes: int) -> None:
        """Cut lines that are longer than `max_bytes` to one byte more; the rest of such a line is dropped."""
        self._file = file.fileno()
        self._max_bytes = max_bytes
        self._left = bytearray()
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC)

    def read_line(self) -> bytes:
        """Return the next line with its end; b"" at the end of the file, or after `interrupt`."""
        searched = 0
        line = bytearray()
        while (end := self._left.find(b"\n", searched)) == -1:
            if len(self._left) > self._max_bytes:
                line = line or self._left[: self._max_bytes + 1]
                self._left.clear()
            searched = len(self._left)
            chunk = self._read_chunk()
            if not chunk:
                end = len(self._left) - 1
                break
            self._left += chunk
        line = line or self._left[: end + 1][: self._max_bytes + 1]
        del self._left[: end + 1]
        return bytes(line)

    def _read_chunk(self) -> bytes:
        ready, _, _ = select.select([self._file, self._wake], [], [])
        return b"" if self._wake in ready else os.read(self._file, _CHUNK_BYTES)

    def interrupt(self) -> None:
        """End a read that waits."""
        with suppress(OSError):
            os.write(self._waker, b"\0")

    def close(self) -> None:
        """Close what this opened; the file stays open."""
        os.close(self._wake)
        os.close(self._waker)


async def read_lines(file: IO[bytes], max_bytes: int) -> AsyncGenerator[bytes]:
    """Yield the lines of a file, cut as `LineSource` does. Raises OSError."""
    with closing(LineSource(file, max_bytes)) as source:
        while True:
            reading = asyncio.ensure_future(asyncio.to_thread(source.read_line))
            try:
                line = await asyncio.shield(reading)
            except asyncio.CancelledError:
                source.interrupt()
                await reading
                raise
            if not line:
                return
            yield line
