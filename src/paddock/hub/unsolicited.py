"""Bounds what a server sends that answers no request of ours: its own requests, notifications, late answers, noise.

A server needs few of them. One that floods us, or whose requests we cannot answer because it does not read, is cut off.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from paddock.hub.stdio import MessageReader, PipeStream

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream, WriteStream

MAX_MESSAGES = 50_000
"""Messages, or KiB of them, that answer nothing and may come at once."""
MESSAGES_PER_SECOND = 1_000
"""What is granted again each second."""
MAX_OPEN_REQUESTS = 64
"""Requests of a server that may wait for our answer."""
ANSWER_TIMEOUT_S = 5.0
"""Seconds in which a server with as many open requests must take an answer."""
_IGNORED_NOTIFICATIONS = frozenset({"notifications/progress", "notifications/message"})
STDERR_BYTES = 256 * 1024 * 1024
"""Bytes that a server may write to its standard error at once."""
STDERR_BYTES_PER_SECOND = 4 * 1024 * 1024


class RateAllowance:
    """An amount that is used up, and granted again as time goes by."""

    def __init__(self, most: float, per_second: float, clock: Callable[[], float]) -> None:
        self._most = self._left = most
        self._per_second = per_second
        self._clock = clock
        self._since = clock()

    def spend_amount(self, amount: float) -> bool:
        """Use up an amount; return whether there was as much."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._since) * self._per_second) - amount
        self._since = now
        return self._left >= 0


class UnsolicitedBudget:
    """The account of one connection. `on_broken` is told once why the server must be cut off."""

    def __init__(self, on_broken: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._on_broken = on_broken
        self._allowance = RateAllowance(MAX_MESSAGES, MESSAGES_PER_SECOND, clock)
        self._owed = 0
        """Requests of ours that the library has sent and that are not answered."""
        self._open: Counter[object] = Counter()
        """Requests of the server that wait, by number: it may use one twice."""
        self._writing = 0
        """Answers of ours that are being written."""
        self._settled = asyncio.Event()

    def count_unasked(self, size: int = 0) -> bool:
        """Count a message of `size` bytes that answers nothing; return whether the connection can go on."""
        if self._allowance.spend_amount(1 + size // 1024):
            return True
        self._on_broken(
            f"it sent more than {MAX_MESSAGES} messages, or KiB of them, that answer no call, faster than "
            f"{MESSAGES_PER_SECOND} a second; correct the server"
        )
        return False

    async def count_message(self, item: SessionMessage | Exception, size: int) -> bool:
        """Count a message from the server; return whether the connection can go on.

        With too many open requests, waits until the server has taken an answer.
        """
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, JSONRPCResponse | JSONRPCError) and self._owed:
            self._owed -= 1
            return True
        if not self.count_unasked(size):
            return False
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._settle_request((message.params or {}).get("requestId"))
        if not isinstance(message, JSONRPCRequest):
            return True
        self._open[message.id] += 1
        return await self._has_room()

    async def send_message(self, item: SessionMessage, sink: "WriteStream[SessionMessage]") -> None:
        """Write one of our messages, and know until then that it is on its way."""
        message = item.message
        if isinstance(message, JSONRPCRequest):
            self._owed += 1
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            await sink.send(item)
            return
        self._settle_request(message.id)
        self._writing += 1
        try:
            await sink.send(item)
        finally:
            self._writing -= 1
            self._settled.set()

    async def _has_room(self) -> bool:
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                while self._open.total() + self._writing > MAX_OPEN_REQUESTS:
                    self._settled.clear()
                    await self._settled.wait()
        except TimeoutError:
            self._on_broken(
                f"{MAX_OPEN_REQUESTS} of its requests were open, and it took no answer for {ANSWER_TIMEOUT_S:g} s; "
                "correct the server"
            )
            return False
        return True

    def _settle_request(self, number: object) -> None:
        if not isinstance(number, int | str) or number not in self._open:
            return
        self._open[number] -= 1
        if not self._open[number]:
            del self._open[number]
        self._settled.set()


class CountedReader(MessageReader):
    """Messages of the server; the end of those of one that is cut off."""

    def __init__(self, source: "ReadStream[SessionMessage | Exception]", unasked: UnsolicitedBudget) -> None:
        self._source = source
        self._unasked = unasked

    @property
    def last_context(self) -> object:
        """The context of who has sent the last message, where the stream knows it."""
        return getattr(self._source, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises EndOfStream."""
        while True:
            item = await self._source.receive()
            if not await self._unasked.count_message(item, getattr(self._source, "size", 0)):
                raise anyio.EndOfStream
            if not _is_unheard(item):
                return item

    async def aclose(self) -> None:
        """Close the stream below."""
        await self._source.aclose()


class CountedWriter(PipeStream):
    """Messages of ours."""

    def __init__(self, sink: "WriteStream[SessionMessage]", unasked: UnsolicitedBudget) -> None:
        self._sink = sink
        self._unasked = unasked

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message."""
        await self._unasked.send_message(item, self._sink)

    async def aclose(self) -> None:
        """Close the stream below."""
        await self._sink.aclose()


def _is_unheard(item: SessionMessage | Exception) -> bool:
    """Return whether a message is a notification that nobody here listens to; the library would make a task of it."""
    message = item.message if isinstance(item, SessionMessage) else None
    return isinstance(message, JSONRPCNotification) and message.method in _IGNORED_NOTIFICATIONS
