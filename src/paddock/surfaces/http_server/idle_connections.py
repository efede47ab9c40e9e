"""End idle HTTP connections, so that they do not use up the server's connections.

uvicorn waits for the head of a request without a limit, and answers others 503 meanwhile.
"""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

RECEIVE_TIMEOUT_S = 10.0
"""Maximum time for the head of a request, and between two parts of its body, in seconds."""
SEND_TIMEOUT_S = 30.0
"""Maximum time in which a client must take what is buffered for it, in seconds."""
MAX_HEAD_BYTES = 64 * 1024
"""Maximum size of the head of a request."""
KEEP_ALIVE_S = 5.0
"""Time for which a connection is kept open after an answer, in seconds."""
MAX_IDLE_CONNECTIONS = 64
"""Maximum number of connections without a complete head; a further one closes the oldest of them."""


class IdleConnections:
    """The connections of one server that wait for the head of a request."""

    def __init__(
        self,
        max_idle: int = MAX_IDLE_CONNECTIONS,
        keep_alive_s: float = KEEP_ALIVE_S,
        *,
        counts_reused: bool = False,
        spared_s: float = 0,
    ) -> None:
        """Keep a connection open for `keep_alive_s` after an answer.

        With `counts_reused`, `max_idle` also counts connections that have been answered and wait for another request.
        No connection is closed for a further one before it has waited for `spared_s`. If thousands of clients connect
        at once, the kernel holds the requests of all of them before the first one is read.
        """
        self.keep_alive_s = keep_alive_s
        self.counts_reused = counts_reused
        self._max_idle = max_idle
        self._spared_s = spared_s
        self._waiting: dict[TimedConnection, float] = {}
        """Since when they wait, on the clock of the event loop; the oldest first."""
        self._trimming: asyncio.TimerHandle | None = None

    def add(self, connection: "TimedConnection") -> None:
        """Add a connection that waits for a head."""
        self._waiting[connection] = connection.loop.time()
        if len(self._waiting) > self._max_idle and self._trimming is None:
            self._trim(connection.loop)

    def _trim(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close the oldest connections beyond the maximum, now or as soon as they are not spared any more."""
        self._trimming = None
        while len(self._waiting) > self._max_idle:
            oldest, since = next(iter(self._waiting.items()))
            if loop.time() < (until := since + self._spared_s):
                self._trimming = loop.call_at(until, self._trim, loop)
                return
            self.discard(oldest)
            oldest.transport.abort()

    def discard(self, connection: "TimedConnection") -> None:
        """Remove a connection that has sent a head, or has closed."""
        self._waiting.pop(connection, None)


class _StrictConnection(h11.Connection):
    """Reads requests whose body has one length: a proxy in front could take the other one (RFC 9112, 6.1 and 6.3)."""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if b"transfer-encoding" in names and (b"content-length" in names or event.http_version < b"1.1"):
                raise h11.RemoteProtocolError("the length of the body is ambiguous")
        return event


class TimedConnection(H11Protocol):
    """A connection whose client must send its request, and take the answer, in limited time."""

    def __init__(self, idle: IdleConnections, **given: Any) -> None:  # noqa: ANN401 - of uvicorn
        super().__init__(**given)
        self.conn = _StrictConnection(h11.SERVER, MAX_HEAD_BYTES)
        self._idle = idle
        self._limit: asyncio.TimerHandle | None = None
        self._unsent: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._idle.add(self)
        self._start_timeout(RECEIVE_TIMEOUT_S)

    def data_received(self, data: bytes) -> None:
        """Extend the time for a part of a body, but not for a part of a head."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._idle.discard(self)
            self._start_timeout(RECEIVE_TIMEOUT_S)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._idle.discard(self)
        self._cancel_timeout()
        self._cancel_unsent()

    def pause_writing(self) -> None:
        """Give the client limited time to take what is buffered for it."""
        super().pause_writing()
        self._start_unsent()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_unsent()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._start_unsent()
            return
        if self.conn.their_state is h11.IDLE and self._idle.counts_reused:
            self._idle.add(self)
        self._start_timeout(self._idle.keep_alive_s + RECEIVE_TIMEOUT_S)

    def _start_timeout(self, seconds: float) -> None:
        """Start the timeout if it is the client's turn to send."""
        self._cancel_timeout()
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing():
            self._limit = self.loop.call_later(seconds, self.transport.abort)

    def _cancel_timeout(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _start_unsent(self) -> None:
        if self._unsent is None:
            self._unsent = self.loop.call_later(SEND_TIMEOUT_S, self.transport.abort)

    def _cancel_unsent(self) -> None:
        if self._unsent is not None:
            self._unsent.cancel()
            self._unsent = None
