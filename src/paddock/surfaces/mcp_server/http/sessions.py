"""End HTTP sessions of 2025-11-25: of clients that have disappeared, and the one that has been idle for longest.

A broken connection does not cancel a call in that revision: the client may reconnect. But a killed client never does,
and its programs would run until their limits. A server may end any session at any time. Therefore a session ends if the
connection of a call breaks, it has no other connection, and no request arrives for some seconds. This ends its
programs.

Idle sessions stay, up to a limit. Many clients never delete their sessions, and the library keeps an idle one for half
an hour. Beyond the limit a new session ends the one that has been idle for longest; otherwise they would lock out all
other clients. A session with a request or a stream is not idle. A client whose session was ended opens another one, as
after any end of a session.
"""

import asyncio
from collections import Counter
from collections.abc import MutableMapping
from typing import Any

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from paddock.surfaces.http_server.asgi import App, Receive, Scope, Send, header_values

GRACE_S = 5.0
"""Seconds in which a client can reconnect."""

SESSION_HEADER = b"mcp-session-id"
RESUME_HEADER = b"last-event-id"
"""The last event that a client has of the stream that it resumes."""
_VERSION_HEADER = b"mcp-protocol-version"
_SESSION_NOT_FOUND = 404


class AbandonedSessions:
    """An ASGI application that deletes another application's sessions whose clients have disappeared."""

    def __init__(self, app: App, grace_s: float = GRACE_S) -> None:
        self._app = app
        self._grace_s = grace_s
        self._open: Counter[bytes] = Counter()
        self._dropped: dict[bytes, Scope] = {}
        self._timers: dict[bytes, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and record how its connection ends."""
        session = dict(scope.get("headers", ())).get(SESSION_HEADER)
        if session is None:
            await self._app(scope, receive, send)
            return
        complete = False

        async def send_and_note_end(message: MutableMapping[str, Any]) -> None:
            nonlocal complete
            await send(message)
            complete = message["type"] == "http.response.body" and not message.get("more_body", False)

        self._cancel_end(session)
        self._open[session] += 1
        try:
            await self._app(scope, receive, send_and_note_end)
        finally:
            self._open[session] -= 1
            if not complete and (scope["method"] == "POST" or header_values(scope, RESUME_HEADER)):
                self._dropped[session] = scope
            if not self._open[session]:
                del self._open[session]
                if session in self._dropped:
                    later = asyncio.get_running_loop().call_later
                    self._timers[session] = later(self._grace_s, self._end_abandoned, session)

    def _cancel_end(self, session: bytes) -> None:
        """Keep a session, because its client is connected."""
        self._dropped.pop(session, None)
        if timer := self._timers.pop(session, None):
            timer.cancel()

    def _end_abandoned(self, session: bytes) -> None:
        scope = self._dropped.pop(session)
        del self._timers[session]
        task = asyncio.create_task(end_session(self._app, session, scope))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class SessionLimit:
    """An ASGI application that frees a session of another application when its limit is reached."""

    def __init__(self, app: App, places: int) -> None:
        self._app = app
        self._places = places
        self._opening = 0
        self._requests: Counter[bytes] = Counter()
        self._begun: dict[bytes, Scope] = {}
        """The request that opened each session. The session whose last request is oldest comes first."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; if it opens a session, free one first when necessary."""
        headers = dict(scope.get("headers", ()))
        session = headers.get(SESSION_HEADER)
        if session is not None:
            await self._forward_in_session(session, scope, receive, send)
            return
        version = headers.get(_VERSION_HEADER)  # the request that opens a session may not name one
        has_sessions = version is None or version.decode("latin-1") in HANDSHAKE_PROTOCOL_VERSIONS
        handle = self._open_session if scope.get("method") == "POST" and has_sessions else self._app
        await handle(scope, receive, send)

    async def _forward_in_session(self, session: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        ended = scope["method"] == "DELETE"

        async def send_and_note_end(message: MutableMapping[str, Any]) -> None:
            nonlocal ended
            ended = ended or message.get("status") == _SESSION_NOT_FOUND
            await send(message)

        self._requests[session] += 1
        try:
            await self._app(scope, receive, send_and_note_end)
        finally:
            self._on_request_end(session)
            if ended:
                self._begun.pop(session, None)

    async def _open_session(self, scope: Scope, receive: Receive, send: Send) -> None:
        session: bytes | None = None

        async def send_and_note_session(message: MutableMapping[str, Any]) -> None:
            nonlocal session
            if (
                session is None
                and (session := dict(message.get("headers", ())).get(SESSION_HEADER)) is not None
            ):
                self._begun[session] = scope
                self._requests[session] += 1
            await send(message)

        self._opening += 1
        try:
            if len(self._begun) + self._opening > self._places:
                await self._end_oldest_idle_session()
            await self._app(scope, receive, send_and_note_session)
        finally:
            self._opening -= 1
            if session is not None:
                self._on_request_end(session)

    def _on_request_end(self, session: bytes) -> None:
        """Record the end of a request."""
        self._requests[session] -= 1
        if not self._requests[session]:
            del self._requests[session]
        if session in self._begun:
            self._begun[session] = self._begun.pop(session)

    async def _end_oldest_idle_session(self) -> None:
        oldest = next((each for each in self._begun if each not in self._requests), None)
        if oldest is not None:
            await end_session(self._app, oldest, self._begun.pop(oldest))


async def end_session(app: App, session: bytes, scope: Scope) -> None:
    """Delete a session with the credentials of a request that its client sent."""
    kept = [
        each for each in scope["headers"] if each[0] != SESSION_HEADER and not each[0].startswith(b"content-")
    ]
    await app(
        {**scope, "method": "DELETE", "headers": [(SESSION_HEADER, session), *kept]},
        _receive_nothing,
        _discard_message,
    )


async def _receive_nothing() -> MutableMapping[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _discard_message(_message: MutableMapping[str, Any]) -> None:
    pass
