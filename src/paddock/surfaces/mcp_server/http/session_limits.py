"""Limit the HTTP sessions of 2025-11-25: a session beyond the limit ends the one that has been idle for longest.

Many clients never delete their sessions, and the library keeps an idle one for half an hour. Without this, they would
lock out all other clients. A session with a request or a stream is not idle. A client whose session was ended opens
another one, as after any end of a session.
"""

from collections import Counter
from collections.abc import MutableMapping
from typing import Any

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from paddock.surfaces.http_server.asgi import App, Receive, Scope, Send
from paddock.surfaces.mcp_server.http.abandoned import SESSION_HEADER, end_session

_VERSION_HEADER = b"mcp-protocol-version"
_SESSION_NOT_FOUND = 404


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
        elif scope.get("method") == "POST" and _has_sessions(headers):
            await self._open_session(scope, receive, send)
        else:
            await self._app(scope, receive, send)

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


def _has_sessions(headers: dict[bytes, bytes]) -> bool:
    """Return whether a request's revision has sessions; the request that opens a session may not name one."""
    version = headers.get(_VERSION_HEADER)
    return version is None or version.decode("latin-1") in HANDSHAKE_PROTOCOL_VERSIONS
