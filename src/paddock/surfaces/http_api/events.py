"""The events of an execution as server-sent events (HTML Living Standard, section 9.2).

started   {"id"}             first; the id of the execution
console   {"level", "text"}  a line of a program in the V8 guest
output    {"stream", "text"} output of a program in a language runtime, redacted
call      CallRecord         a call of a tool has ended
question  Question           it waits for a person
dropped   {"events"}         the client reads too slowly: so many events are missing
outcome   Outcome            last; or `problem` with a problem document
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial

from paddock.model.artifact import Stream
from paddock.model.base import Json
from paddock.model.capture import decode_stream
from paddock.model.limits import MIB
from paddock.model.numbers import dumps
from paddock.model.outcome import CallRecord, ConsoleLine

MAX_WAITING_BYTES = 4 * MIB
"""Maximum size of the events that wait for one client, in bytes. Further ones are dropped, except the last."""
PING_S = 15.0
"""Time without an event after which a comment is sent, in seconds, so that proxies keep the connection open."""
MEDIA_TYPE = "text/event-stream"
_NAMES = ("started", "console", "output", "call", "question", "dropped", "outcome", "problem")
EVENT_SCHEMA: Json = {
    "type": "object",
    "description": "One server-sent event; `data` is JSON.",
    "properties": {
        "event": {"type": "string", "enum": [*_NAMES]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["event", "data"],
}
"""Schema of one event, for the OpenAPI document."""


class Listener:
    """The events of one execution for one client. Events are put in on the loop that reads them."""

    def __init__(self, max_bytes: int = MAX_WAITING_BYTES) -> None:
        self._max_bytes = max_bytes
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._dropped = 0
        self._ended = False
        self._ready = asyncio.Event()

    def put(self, name: str, data: Json) -> None:
        """Add an event, or drop it if too many wait."""
        self._put(name, dumps(data, separators=(",", ":")).encode(), last=False)

    def end(self, name: str, data: bytes) -> None:
        """Add the last event, whose data is JSON in one line already. It is never dropped."""
        self._put(name, data, last=True)

    def _put(self, name: str, data: bytes, *, last: bool) -> None:
        if self._ended:
            return
        event = b"event: %s\ndata: %s\n\n" % (name.encode(), data)
        if self._bytes + len(event) > self._max_bytes and not last:
            self._dropped += 1
        else:
            self._note_dropped()
            self._append(event)
        self._ended = last
        self._ready.set()

    def _note_dropped(self) -> None:
        if self._dropped:
            self._append(b'event: dropped\ndata: {"events":%d}\n\n' % self._dropped)
            self._dropped = 0

    def _append(self, event: bytes) -> None:
        self._waiting.append(event)
        self._bytes += len(event)

    async def stream(self, ping_s: float = PING_S) -> AsyncGenerator[bytes]:
        """Yield the events until the last one, and comments while there is none."""
        while True:
            while self._waiting:
                event = self._waiting.popleft()
                self._bytes -= len(event)
                yield event
            if self._ended:
                return
            self._ready.clear()
            try:
                async with asyncio.timeout(ping_s):
                    await self._ready.wait()
            except TimeoutError:
                yield b": still running\n\n"


class Publisher:
    """The watchers of one execution, for the gate. They pass each event to all listeners."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        decoders = {name: decode_stream(partial(self._put_output, name)) for name in ("stdout", "stderr")}
        self._decoders: Mapping[str, Callable[[bytes], None]] = decoders

    def add(self, listener: Listener) -> None:
        """Add a listener, which gets all events from now on."""
        self._listeners.add(listener)

    def remove(self, listener: Listener) -> None:
        """Remove a listener, whose client is gone."""
        self._listeners.discard(listener)

    def on_console(self, line: ConsoleLine) -> None:
        """Pass on a console line."""
        self.put("console", line.model_dump(mode="json"))

    def on_call(self, call: CallRecord) -> None:
        """Pass on a call that has ended."""
        self.put("call", call.model_dump(mode="json"))

    def on_output(self, stream: Stream, data: bytes) -> None:
        """Pass on output."""
        if self._listeners:
            self._decoders[stream](data)

    def put(self, name: str, data: Json) -> None:
        """Pass on an event."""
        for listener in self._listeners:
            listener.put(name, data)

    def end(self, name: str, data: bytes) -> None:
        """Pass on the last event."""
        for listener in self._listeners:
            listener.end(name, data)

    def _put_output(self, stream: str, text: str) -> None:
        self.put("output", {"stream": stream, "text": text})
