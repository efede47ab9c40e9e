"""The parent's ends of a process's three pipes. The parent never blocks on the process, nor the process on the parent.

Output of any size is read as soon as it arrives, until the process ends. Its head and tail stay in memory; all of it
goes to a sink. This also holds for a process that floods its output, never ends a line, closes its streams or passes
them to other processes.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

from paddock.confinement.sandbox.protocol import Sink
from paddock.model.capture import HeadAndTail
from paddock.model.program import CapturedStream

_CHUNK_BYTES = 64 * 1024
"""Size of a pipe, which no program can enlarge. A larger chunk would take longer to search for secrets."""
_TURN_S = 0.01
"""Maximum time of reading before the event loop runs other tasks, in seconds."""
_MAX_CHUNKS_AFTER_END = 64
"""Maximum reads after the process has ended. A pipe holds less; another process may still write to it for ever."""


class _Turns:
    """Lets only one reader take long in each iteration of the event loop, one after the other.

    Searching a hostile chunk for secrets takes up to a tenth of a second. Without turns, the loop would stand still for
    as many of these times as there are floods.
    """

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: dict[Callable[[], None], None] = {}

    def must_wait(self, read: Callable[[], None]) -> bool:
        """Return whether another reader took long in this iteration; then `read` is called in a later one."""
        if self._is_taken:
            self._waiting[read] = None
        return self._is_taken

    def take(self) -> None:
        """Have other readers wait for the next iteration."""
        self._is_taken = True
        asyncio.get_running_loop().call_soon(self._pass_on)

    def _pass_on(self) -> None:
        self._is_taken = False
        while self._waiting and not self._is_taken:
            read = next(iter(self._waiting))
            del self._waiting[read]
            read()


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()


class OutputReader:
    """Reads one output stream until its end or until `finish`."""

    def __init__(
        self, file: int, *, kept: int, ceiling: int, exceeded: Callable[[], None], sink: Sink | None
    ) -> None:
        self._file = file
        self._kept_bytes = kept
        self._kept = HeadAndTail(kept)
        self._ceiling = ceiling
        self._exceeded = exceeded
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._turns = _turns.setdefault(self._loop, _Turns())
        os.set_blocking(file, False)
        self._loop.add_reader(file, self._readable)

    def finish(self) -> CapturedStream:
        """Read the rest of the pipe, close it and return the captured stream. Call it after the process has ended."""
        self._read_rest()
        self.close()
        return self._kept.make_captured()

    def begin_capture(self, sink: Sink | None, exceeded: Callable[[], None]) -> None:
        """Pass on what arrives from now on, and count it from zero. What was not read before belongs to it."""
        self._kept = HeadAndTail(self._kept_bytes)
        self._sink, self._exceeded = sink, exceeded

    def end_capture(self) -> CapturedStream:
        """Read what the pipe holds, and return what came since `begin_capture`. Call it when nothing can write."""
        self._read_rest()
        captured, sink = self._kept.make_captured(), self._sink
        self.begin_capture(None, lambda: None)
        if sink is not None and self._file >= 0:  # `close` has told the sink otherwise
            sink(b"")
        return captured

    def close(self) -> None:
        """Stop reading. Does nothing the second time."""
        if self._file >= 0:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = -1
            if self._sink is not None:
                self._sink(b"")

    def _read_rest(self) -> None:
        for _ in range(_MAX_CHUNKS_AFTER_END):
            if not self._read_ready():
                break

    def _readable(self) -> None:
        if self._turns.must_wait(self._readable):
            return
        until = time.monotonic() + _TURN_S
        while self._read_ready() and time.monotonic() < until:
            pass
        if time.monotonic() >= until:
            self._turns.take()

    def _read_ready(self) -> bool:
        if self._file < 0:  # closed while it waited for its turn
            return False
        try:
            data = os.read(self._file, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.close()
            return False
        before = self._kept.total
        self._kept.take(data)
        if before <= self._ceiling < self._kept.total:
            self._exceeded()
        if self._sink is not None:
            self._sink(data)
        return True


class InputWriter:
    """Writes standard input as fast as the process reads it. It is no error if the process never reads."""

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
        """Stop writing. Does nothing after all data has been written."""
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
