"""End HTTP sessions whose client has disappeared. Only 2025-11-25 needs this, because it has its own cancellation.

Theory of operation. In that revision a broken connection does not cancel a call: the client may reconnect. But a killed
client never does, and its programs would run until their limits. A server may end any session at any time. Therefore a
session ends if the connection of a call breaks, it has no other connection, and no request arrives for some seconds.
This ends its programs. Idle sessions stay.
"""

import asyncio
from collections import Counter
from collections.abc import MutableMapping
from typing import Any

from paddock.surfaces.http_server.asgi import App, Receive, Scope, Send

GRACE_S = 5.0
"""Seconds in which a client can reconnect."""

SESSION_HEADER = b"mcp-session-id"


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
            if scope["method"] == "POST" and not complete:
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
