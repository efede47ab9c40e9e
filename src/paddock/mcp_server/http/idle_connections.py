"""End idle HTTP connections, so that they do not use up the server's connections.

uvicorn waits for the head of a request without a limit, and answers others 503 meanwhile.
"""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

RECEIVE_TIMEOUT_S = 10.0
"""Maximum time for the head of a request, and between two parts of its body, in seconds."""
MAX_IDLE_CONNECTIONS = 64
"""Maximum number of connections without a complete head; a further one closes the oldest of them."""


class IdleConnections:
    """The connections of one server that have sent no complete head yet."""

    def __init__(self) -> None:
        self._waiting: dict[TimedConnection, None] = {}

    def add(self, connection: "TimedConnection") -> None:
        """Add a new connection."""
        self._waiting[connection] = None
        if len(self._waiting) > MAX_IDLE_CONNECTIONS:
            oldest = next(iter(self._waiting))
            self.discard(oldest)
            oldest.transport.abort()

    def discard(self, connection: "TimedConnection") -> None:
        """Remove a connection that has sent a head, or has closed."""
        self._waiting.pop(connection, None)


class TimedConnection(H11Protocol):
    """A connection whose client must send its request in limited time."""

    def __init__(self, unauthenticated: IdleConnections, **given: Any) -> None:  # noqa: ANN401 - of uvicorn
        super().__init__(**given)
        self._unauthenticated = unauthenticated
        self._limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._unauthenticated.add(self)
        self._start_timeout()

    def data_received(self, data: bytes) -> None:
        """Extend the time for a part of a body, but not for a part of a head."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._unauthenticated.discard(self)
            self._start_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unauthenticated.discard(self)
        self._cancel_timeout()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._start_timeout()

    def _start_timeout(self) -> None:
        """Start the timeout if it is the client's turn to send."""
        self._cancel_timeout()
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing():
            self._limit = self.loop.call_later(RECEIVE_TIMEOUT_S, self.transport.abort)

    def _cancel_timeout(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
