"""Connections over HTTP that ask for nothing: they end, so that they take no place from those that do.

uvicorn waits for the beginning of a request as long as it takes, and answers others 503 meanwhile.
"""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0
"""Seconds for the head of a request, and between two parts of its body."""
STRANGERS = 64
"""Connections that have not sent the whole head of a request yet; a further one ends the oldest of them."""


class Patience:
    """The connections of one server that wait for a request."""

    def __init__(self, head_s: float = HEAD_S, strangers: int = STRANGERS) -> None:
        self.head_s = head_s
        self._most = strangers
        self._waiting: dict[Connection, None] = {}

    def protocol(self, **given: Any) -> "Connection":  # noqa: ANN401 - what uvicorn gives to its own protocols
        """Return the protocol of a further connection."""
        return Connection(self, **given)

    def begin(self, connection: "Connection") -> None:
        """Take note of one that has no request."""
        self._waiting[connection] = None
        if len(self._waiting) > self._most:
            oldest = next(iter(self._waiting))
            self.end(oldest)
            oldest.transport.abort()

    def end(self, connection: "Connection") -> None:
        """Forget one that has asked, or has gone."""
        self._waiting.pop(connection, None)


class Connection(H11Protocol):
    """A connection with time limits for what its client sends."""

    def __init__(self, patience: Patience, **given: Any) -> None:  # noqa: ANN401
        super().__init__(**given)
        self._patience = patience
        self._limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Follow asyncio.Protocol."""
        super().connection_made(transport)
        self._watch(begun=True)

    def data_received(self, data: bytes) -> None:
        """Follow asyncio.Protocol."""
        before = self.conn.their_state
        super().data_received(data)
        self._watch(begun=self.conn.their_state is not before or before is h11.SEND_BODY)

    def connection_lost(self, exc: Exception | None) -> None:
        """Follow asyncio.Protocol."""
        super().connection_lost(exc)
        self._patience.end(self)
        self._forget()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._watch(begun=True)

    def _watch(self, *, begun: bool) -> None:
        """See to it that what the client has begun to send is sent; `begun`: a new part of it, with its own time."""
        if self.transport.is_closing():
            return
        if self.conn.their_state is h11.IDLE:
            self._patience.begin(self)
        else:
            self._patience.end(self)
        if begun:
            self._forget()
            if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
                self._limit = self.loop.call_later(self._patience.head_s, self.transport.abort)

    def _forget(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
