"""Split the output of a stdio server into lines: answers go to waiting requests, the rest into a bounded queue.

    pipe -> line -> counted if it is long -> stdio_rpc if it answers a request -> else the queue of the library

A line with too many values is dropped while it arrives, and fails the one call that it answers. While a large line is
decoded, and while the library is behind, nothing is read: the server waits, and memory stays bounded.
"""

import asyncio
from collections import deque
from typing import Protocol, cast

from paddock.foundation.large_json import MIN_SLICED_VALUES
from paddock.model.json_meter import COUNTED_BYTES, MAX_VALUES, JsonMeter

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Maximum size of one message of a server, in bytes. A longer one breaks the connection."""
MAX_DEPTH = 500
"""Maximum depth of arrays and objects in one message of a server."""
_QUEUED_BYTES = 1024 * 1024
"""Maximum bytes of lines that wait for the library. Beyond it, reading pauses."""
_LINES_PER_TURN = 32
"""Maximum number of lines for the library before other tasks run."""
_LINE_END_BYTES = 256
"""Bytes kept of the head and the tail of a dropped line: they contain the number of its request."""


class PendingRequests(Protocol):
    """The requests that wait for answers."""

    def take_answer(self, line: bytes) -> bool:
        """Use a line that answers a request; return whether it did."""
        ...

    async def take_large(self, line: bytes) -> bool:
        """Do the same in slices."""
        ...

    def fail_dropped(self, start: bytes, end: bytes, why: str) -> bool:
        """Fail the request that a dropped line answers; return whether there was one."""
        ...


class ServerOutput(asyncio.Protocol):
    """Receives the output of a server, and queues the lines that answer no request of `stdio_rpc`."""

    def __init__(self) -> None:
        self.rpc: PendingRequests | None = None
        self.max_values = MAX_VALUES
        self.fault = ""
        """Why reading ended before the server closed its output."""
        self._transport: asyncio.ReadTransport | None = None
        self._complete: deque[bytes] = deque()
        """Unprocessed ends of lines; the first one continues `_begun`."""
        self._pending = b""
        self._begun = bytearray()
        self._counted = 0
        self._meter: JsonMeter | None = None
        self._dropped: tuple[bytes, bytes, str] | None = None
        """Head and tail of a line that is being dropped, and the reason."""
        self._decoding: asyncio.Task[None] | None = None
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._taken = 0
        self._arrived = asyncio.Event()
        self._over = False

    @property
    def begun_bytes(self) -> int:
        """Size of the part that is kept of a line that has not ended."""
        return len(self._begun)

    @property
    def queued_lines(self) -> tuple[bytes, ...]:
        """The lines that were read and not taken yet."""
        return tuple(self._queue)

    async def next_line(self) -> bytes | None:
        """Return the next line that answered no request; None at the end."""
        self._taken += 1
        if self._taken % _LINES_PER_TURN == 0:
            await asyncio.sleep(0)
        while not self._queue:
            if self._over:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        line = self._queue.popleft()
        self._queued -= len(line)
        self._resume_reading()
        return line

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.ReadTransport", transport)  # other event loops have other classes

    def data_received(self, data: bytes) -> None:
        *complete, self._pending = data.split(b"\n")
        self._complete.extend(complete)
        self._split_lines()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop decoding: a line without an end is not a message."""
        if self._decoding is not None:
            self._decoding.cancel()
        self._end_output("")

    def _split_lines(self) -> None:
        """Process the lines that have arrived, until one that must be decoded in slices."""
        while self._complete and not self._over:
            part = self._complete.popleft()
            if self._begun or self._dropped or len(part) > COUNTED_BYTES:
                self._extend_line(part)
                self._finish_line()
                if self._decoding is not None:
                    return
            elif self.rpc is None or not self.rpc.take_answer(part):
                self._queue_line(part)
        rest, self._pending = self._pending, b""
        if rest and not self._over:
            self._extend_line(rest)

    def _extend_line(self, part: bytes) -> None:
        if self._dropped is not None:
            start, end, why = self._dropped
            self._dropped = start, (end + part)[-_LINE_END_BYTES:], why
            return
        self._begun += part
        if len(self._begun) <= COUNTED_BYTES:
            return
        if self._meter is None:
            self._meter, self._counted = JsonMeter(MAX_DEPTH), 0
        self._meter.feed(bytes(self._begun[self._counted :]))
        self._counted = len(self._begun)
        if self._meter.too_deep:
            self._drop_line(f"it is nested more than {MAX_DEPTH} deep")
        elif self._meter.values > self.max_values:
            values = f"it has more than {self.max_values} values"
            self._drop_line(f"{values}; ask for less at once, or raise `servers.answer_values`")
        elif len(self._begun) > MAX_LINE_BYTES:
            self._end_output(f"a message is longer than {MAX_LINE_BYTES} bytes")

    def _drop_line(self, why: str) -> None:
        self._dropped = bytes(self._begun[:_LINE_END_BYTES]), bytes(self._begun[-_LINE_END_BYTES:]), why
        self._begun.clear()

    def _finish_line(self) -> None:
        """Pass on the current line, which is complete."""
        line, values = bytes(self._begun), self._meter.values if self._meter is not None else 0
        self._begun.clear()
        self._meter = None
        if self._dropped is not None:
            start, end, why = self._dropped
            self._dropped = None
            if self.rpc is None or not self.rpc.fail_dropped(start, end, why):
                self._end_output(f"a message was not read, because {why}")
        elif values > MIN_SLICED_VALUES and self.rpc is not None:
            self._decoding = asyncio.create_task(self._decode_large(self.rpc, line))
            self._pause_reading()
        elif self.rpc is None or not self.rpc.take_answer(line):
            self._queue_line(line)

    async def _decode_large(self, rpc: PendingRequests, line: bytes) -> None:
        if not await rpc.take_large(line):
            self._queue_line(line)
        self._decoding = None
        self._split_lines()
        self._resume_reading()

    def _queue_line(self, line: bytes) -> None:
        self._queue.append(line)
        self._queued += len(line)
        self._arrived.set()
        if self._queued > _QUEUED_BYTES:
            self._pause_reading()

    def _pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if (
            self._transport is None
            or self._over
            or self._decoding is not None
            or self._queued > _QUEUED_BYTES
        ):
            return
        self._transport.resume_reading()

    def _end_output(self, fault: str) -> None:
        if not self._over:
            self._over, self.fault = True, fault
            self._arrived.set()
            self._pause_reading()
