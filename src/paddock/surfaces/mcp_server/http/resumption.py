"""Resume streams of 2025-11-25: a client that lost its connection gets the rest of the answer with `Last-Event-ID`.

    POST    event 3.0, empty, with `retry`    event 3.1: progress    connection lost
    GET     Last-Event-ID: 3.0                event 3.1              event 3.2: the answer, and the stream ends

Each session has its own events, in memory, and they go with it. The protocol library names streams by request ids,
which sessions share. Therefore `ResumableSessions` notes in a context variable which session a request belongs to: the
library's task of a session has the context of the request that opened it.

The library sends old events and then follows its live stream. It would lose what comes in between, and never end the
stream. Here `replay_events_after` returns after the last event of the stream, so that the library only closes it.
"""

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterable, MutableMapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import orjson
from mcp.server.streamable_http import GET_STREAM_KEY, EventMessage, EventStore
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse

from paddock.surfaces.http_server.asgi import App, Receive, Scope, Send, header_values, send_text
from paddock.surfaces.mcp_server.http.sessions import RESUME_HEADER, SESSION_HEADER

if TYPE_CHECKING:
    from mcp.server.streamable_http import EventCallback

RETRY_MS = 1000
"""Time after which a client should reconnect, in milliseconds. `AbandonedSessions` waits longer."""
MAX_STREAMS = 64
"""Maximum number of streams of one session whose events are kept."""
MAX_EVENTS = 256
"""Maximum number of events of one stream that are kept."""
MAX_BYTES = 4 * 1024 * 1024
"""Maximum size of the events of one session, in bytes."""
MAX_TOTAL_BYTES = 32 * 1024 * 1024
"""Maximum size of the events of all sessions of a server, or of one of its users, in bytes."""
RETENTION_S = 60.0
"""Time for which the events of a stream are kept after its answer, in seconds."""
_EVENT_ID = re.compile(r"([0-9]{1,15})\.([0-9]{1,15})", re.ASCII)
_UNKNOWN_EVENT: Final = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Last-Event-ID names no event that this session '
    b'still has. Open a stream without it, and send a lost request again if it may run twice."}}'
)


class _Stream:
    """The events that belong to one request, or to none."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.events: list[tuple[int, EventMessage, int]] = []
        """Each with its index and its size in bytes."""
        self.size = 0
        """Size of the events, in bytes."""
        self.next_index = 0
        self.ended_s: float | None = None
        """When the answer was added, in seconds of `time.monotonic`."""
        self.readers = 0
        """How often the stream was resumed. The last reader is served, so that reconnecting costs one connection."""
        self.changed = asyncio.Event()

    def add(self, message: JSONRPCMessage | None) -> str:
        """Add a message, or only an id for an event without one; return its id."""
        index, self.next_index = self.next_index, self.next_index + 1
        id_ = f"{self.number}.{index}"
        if message is not None:
            self.events.append((index, EventMessage(message, id_), _measure(message)))
            self.size += self.events[-1][2]
            if len(self.events) > MAX_EVENTS:
                self.size -= self.events.pop(0)[2]
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self.ended_s = time.monotonic()
        self.wake()
        return id_

    def clear(self) -> None:
        """Forget the events."""
        self.events.clear()
        self.size = 0

    def wake(self) -> None:
        """Let readers look again."""
        self.changed.set()
        self.changed = asyncio.Event()


class SessionEvents:
    """The events of one session."""

    def __init__(self, sessions: "Callable[[], Iterable[SessionEvents]]" = tuple) -> None:
        """Share the room for all events with the other `sessions`."""
        self._sessions = sessions
        self._streams: dict[int, _Stream] = {}
        """The oldest first."""
        self._open: dict[str, _Stream] = {}
        """Streams that are not at their end, by what the library calls them."""
        self._closed = False
        self._count = 0

    def add(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Add an event to the stream of a request and return its id. Forget what is too old or too much."""
        stream = self._open.get(stream_id)
        if stream is None or (message is None and stream_id != GET_STREAM_KEY):
            self._count += 1
            stream = self._open[stream_id] = self._streams[self._count] = _Stream(self._count)
        id_ = stream.add(message)
        if stream.ended_s is not None:
            del self._open[stream_id]
        self._forget()
        return id_

    def find(self, event_id: str) -> tuple[_Stream, int] | None:
        """Return the stream and the index of an event; None if it is not kept."""
        found = _EVENT_ID.fullmatch(event_id)
        stream = self._streams.get(int(found[1])) if found else None
        if found is None or stream is None or int(found[2]) >= stream.next_index:
            return None
        return stream, int(found[2])

    async def follow(self, event_id: str, send: "EventCallback") -> None:
        """Send the events after one, and later ones until the answer, the end of the session, or another reader."""
        if (found := self.find(event_id)) is None:
            return
        stream, sent = found
        stream.readers += 1
        reader = stream.readers
        stream.wake()
        while not self._closed and reader == stream.readers:
            changed = stream.changed
            later = [each for each in stream.events if each[0] > sent]
            for index, event, _ in later:
                await send(event)
                sent = index
            if not later:
                if stream.ended_s is not None or stream.number not in self._streams:
                    return
                await changed.wait()

    def close(self) -> None:
        """Forget all events, and end all readers."""
        self._closed = True
        for stream in self._streams.values():
            stream.wake()
        self._streams.clear()
        self._open.clear()

    @property
    def size(self) -> int:
        """Size of the events, in bytes."""
        return sum(each.size for each in self._streams.values())

    def forget_old_streams(self) -> None:
        """Forget the streams whose answer was added some time ago."""
        until = time.monotonic() - RETENTION_S
        for stream in [*self._streams.values()]:
            if stream.ended_s is not None and stream.ended_s < until:
                self._drop(stream)

    def _find_room(self) -> int:
        """Return how many bytes this session may keep."""
        others = [each for each in self._sessions() if each is not self]
        if sum(each.size for each in others) + MAX_BYTES > MAX_TOTAL_BYTES:
            for each in others:
                each.forget_old_streams()
        return min(MAX_BYTES, MAX_TOTAL_BYTES - sum(each.size for each in others))

    def _forget(self) -> None:
        """Keep to the limits: without ended streams first, then without the oldest messages, but never an answer."""
        self.forget_old_streams()
        ended = [each for each in self._streams.values() if each.ended_s is not None]
        size, room = self.size, self._find_room()
        for stream in ended:
            if len(self._streams) > MAX_STREAMS or size > room:
                size -= stream.size
                self._drop(stream)
        for stream in [*self._streams.values()]:
            if len(self._streams) > MAX_STREAMS:
                self._drop(stream)
            elif size > room:
                size -= stream.size
                stream.clear()

    def _drop(self, stream: _Stream) -> None:
        del self._streams[stream.number]
        self._open = {name: each for name, each in self._open.items() if each is not stream}
        stream.wake()


_current: ContextVar[SessionEvents] = ContextVar("events of an MCP session")


class CurrentSessionStore(EventStore):
    """The library's interface to the events of the session to which the running task belongs."""

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Add an event and return its id."""
        return _current.get().add(stream_id, message)

    async def replay_events_after(self, last_event_id: str, send_callback: "EventCallback") -> None:
        """Send all further events of the stream. The library then closes the response."""
        await _current.get().follow(last_event_id, send_callback)


class ResumableSessions:
    """An ASGI application that gives each session of another application its events."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._sessions: WeakValueDictionary[bytes, SessionEvents] = WeakValueDictionary()
        """The library's task of a session keeps the events, in its context. A deleted session's are empty at once."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on. One that resumes a stream which is not kept is rejected."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sessions = header_values(scope, SESSION_HEADER)
        known = self._sessions.get(sessions[0]) if sessions else None
        events = known or SessionEvents(self._sessions.values)  # the library reports an unknown session
        resumed = header_values(scope, RESUME_HEADER)
        if (
            known is not None
            and resumed
            and scope["method"] == "GET"
            and known.find(resumed[0].decode("latin-1")) is None
        ):
            await send_text(send, 400, _UNKNOWN_EVENT, kind=b"application/json")
            return

        async def send_and_note_session(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start" and not sessions:
                opened = dict(message.get("headers", ())).get(SESSION_HEADER)
                if opened is not None:
                    self._sessions[opened] = events
            await send(message)

        token = _current.set(events)
        try:
            await self._app(scope, receive, send_and_note_session)
        finally:
            _current.reset(token)
            if scope["method"] == "DELETE" and sessions:
                self._sessions.pop(sessions[0], None)
                events.close()


def _measure(message: JSONRPCMessage) -> int:
    """Return about how many bytes a message takes."""
    match message:
        case JSONRPCResponse():
            body: Any = message.result
        case JSONRPCError():
            body = message.error.model_dump()
        case _:
            body = message.params
    try:
        return len(orjson.dumps(body))
    except TypeError:  # an integer that is too large for it
        return len(json.dumps(body, default=str))
