"""Bounds a server's messages that answer no request: its own requests, notifications, late answers, other output.

A server needs few of them. It is cut off if it sends too many, or if it does not read the answers to its requests.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from paddock.engines.servers.calls.stdio import MessageReader, PipeStream

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream, WriteStream

MAX_MESSAGES = 50_000
"""Burst limit of unsolicited messages, or of KiB in them."""
MESSAGES_PER_SECOND = 1_000
"""Refill rate of the limit, per second."""
MAX_OPEN_REQUESTS = 64
"""Maximum number of a server's requests that wait for our answer."""
ANSWER_TIMEOUT_S = 5.0
"""Maximum time in which a server with that many open requests must read an answer, in seconds."""
_PROGRESS = "notifications/progress"
_IGNORED_NOTIFICATIONS = frozenset({_PROGRESS, "notifications/message"})
STDERR_BYTES = 256 * 1024 * 1024
"""Burst limit of bytes on a server's stderr."""
STDERR_BYTES_PER_SECOND = 4 * 1024 * 1024


class RateAllowance:
    """An amount that is used up and refilled over time (a token bucket)."""

    def __init__(self, burst: float, per_second: float, clock: Callable[[], float]) -> None:
        self._burst = self._left = burst
        self._per_second = per_second
        self._clock = clock
        self._since = clock()

    def spend_amount(self, amount: float) -> bool:
        """Use an amount; return whether it was available."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._since) * self._per_second) - amount
        self._since = now
        return self._left >= 0


class UnsolicitedBudget:
    """The account of one connection. `on_broken` is called once with the reason to cut the server off."""

    def __init__(self, on_broken: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._on_broken = on_broken
        self._allowance = RateAllowance(MAX_MESSAGES, MESSAGES_PER_SECOND, clock)
        self._owed = 0
        """The library's own requests that are not answered yet."""
        self._open: Counter[object] = Counter()
        """Open requests of the server, by number: it may use a number twice."""
        self._writing = 0
        """Number of answers that are being written."""
        self._settled = asyncio.Event()

    def count_unasked(self, size: int = 0) -> bool:
        """Count an unsolicited message of `size` bytes; return whether the connection may continue."""
        if self._allowance.spend_amount(1 + size // 1024):
            return True
        self._on_broken(
            f"it sent more than {MAX_MESSAGES} messages, or KiB of them, that answer no call, faster than "
            f"{MESSAGES_PER_SECOND} a second; correct the server"
        )
        return False

    async def count_message(self, item: SessionMessage | Exception, size: int) -> bool:
        """Count a message of the server; return whether the connection may continue.

        With too many open requests, wait until the server has read an answer.
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
        """Write one of our messages; it counts as pending until it is written."""
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
                f"{MAX_OPEN_REQUESTS} of its requests were open, and it read no answer for {ANSWER_TIMEOUT_S:g} s; "
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
    """Messages of the server; ends when the server is cut off."""

    def __init__(
        self,
        source: "ReadStream[SessionMessage | Exception]",
        unasked: UnsolicitedBudget,
        on_progress: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self._source = source
        self._unasked = unasked
        self._on_progress = on_progress

    @property
    def last_context(self) -> object:
        """The context in which the last message was sent, if the stream knows it."""
        return getattr(self._source, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises EndOfStream."""
        while True:
            item = await self._source.receive()
            if not await self._unasked.count_message(item, getattr(self._source, "size", 0)):
                raise anyio.EndOfStream
            message = item.message if isinstance(item, SessionMessage) else None
            # The library would create a task for a notification that has no listener.
            if not isinstance(message, JSONRPCNotification) or message.method not in _IGNORED_NOTIFICATIONS:
                return item
            if message.method == _PROGRESS and message.params:
                self._on_progress(message.params)

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
