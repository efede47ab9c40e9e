"""The body of a guest worker: one program in one locked process, then the end.

The zygote makes the isolate, runs the glue and rehearses a program. A worker is forked from it on V8's own thread, with
one connected socket and all of that in place; it gives up every power it has (`paddock.confine.lockdown`) and says
ready. No byte of guest code exists before that point. From then on its one thread waits for a message, runs one task,
reports, waits again (see `paddock.guest.v8`). Only the standard library may be imported here.
"""

import json
import os
import re
import resource
import select
import socket
import struct
import time
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NoReturn, cast

from paddock.guest import v8
from paddock.guest.rejections import Rejections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CAPACITY = 32768
"""UTF-16 units that fit into each half of the exchange buffer; glue/exchange.js has the same number."""

_HEADER = 64
_OPERATION, _OUT_LENGTH, _OUT_MORE, _QUEUED, _SETTLED, _OPEN_CALLS, _NEXT_DUE, _IN_LENGTH = range(8)
_SEND, _WAIT, _HALT, _NEXT, _CLOCK, _GATHER = 1, 3, 4, 5, 6, 7
_IDLE, _TIMER, _TAKE, _LISTEN = -1, -2, -3, -4

_LONGEST_WAIT = 2.0**30
"""Milliseconds that poll(2) can wait for; a timer that is due later is looked at again then."""

_PIECE = 1 << 16
_LENGTH = struct.Struct("<I")
_REPLY = re.compile(rb'\["reply", ?(\d+),')
_RUN = struct.Struct("<cQI")
"""Head of the message that starts a program: `R`, memory budget in bytes, length of the settings that follow it."""

_SPARE_MS = 5.0
"""A worker that waits for so long is a spare one, and has time."""

_REHEARSED = json.dumps(
    [
        "run",
        {
            "output": 1,
            "lines": 1,
            "calls": 1,
            "frame": 1 << 20,
            "result": 100,
            "sleep": 0,
            "seed": [1, 2, 3, 4],
            "raw": False,
            "vars": {"a": "b"},
            "commands": ["a.b"],
            "workspace": "",
            "input": 1,
        },
    ]
).encode()
_REHEARSALS = (
    b'"use strict";__paddock(async function(input){return [await input]})',
    b'"use strict";__paddock(async function(input){let a=1;return {b:await (input+a)}})',
)
"""One for the zygote, and another for its workers: V8 would not compile the same text again, and to compile touches
memory that is not yet a worker's own."""

"a".encode("utf-16-le").decode("utf-16-le")  # loads the codec while files can still be read


class Channel:
    """Length-prefixed messages over a blocking socket (four bytes little-endian, then UTF-8)."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._pending = bytearray()

    def send(self, text: bytes) -> None:
        """Write one message whole; the end of the parent is the end of this process."""
        try:
            self._connection.sendall(_LENGTH.pack(len(text)) + text)
        except OSError:
            os._exit(0)

    def hears(self, within_ms: float) -> bool:
        """Return whether something comes within so many milliseconds."""
        return bool(self._poll.poll(within_ms))

    def receive(self, timeout_ms: float | None = None) -> bytes | None:
        """Return the next message, or None when `timeout_ms` milliseconds have passed without one."""
        if not self._pending:
            if timeout_ms is not None and not self._poll.poll(timeout_ms):
                return None
            part = self._piece()
            if len(part) >= _LENGTH.size and len(part) == _LENGTH.size + _LENGTH.unpack_from(part)[0]:
                return part[_LENGTH.size :]  # one message and nothing else, as most answers come
            self._pending += part
        self._fill(_LENGTH.size)
        end = _LENGTH.size + _LENGTH.unpack_from(self._pending)[0]
        self._fill(end)
        message = bytes(self._pending[_LENGTH.size : end])
        del self._pending[:end]
        return message

    def _fill(self, count: int) -> None:
        while len(self._pending) < count:
            self._pending += self._piece()

    def _piece(self) -> bytes:
        try:
            part = self._connection.recv(_PIECE)
        except OSError:
            part = b""
        return part or os._exit(0)


class Guest:
    """The dialogue between the glue in V8 and the parent."""

    def __init__(self, isolate: v8.Isolate, glue: str) -> None:
        self._isolate = isolate
        self._step = isolate.evaluate(glue, keep=True)
        self._ignored = isolate.array(isolate.poster())
        exchange = isolate.call(self._step, self._ignored)
        assert isinstance(exchange, memoryview)
        exchange = cast("memoryview[int]", exchange)
        self._header = exchange[:_HEADER].cast("d")
        self._out = exchange[_HEADER : _HEADER + 2 * CAPACITY]
        self._in = exchange[_HEADER + 2 * CAPACITY :]
        self._outgoing: list[bytes] = []
        self._rehearsing = False
        self._incoming = b""
        self._program: bytes | None = None
        self._taking = False
        self._started = False
        self._deferred: deque[bytes] = deque()
        self._channel: Channel
        self._rejections: Rejections | None = None
        self._data_bytes = 0

    def hand_over(self, become: "Callable[[], tuple[Channel, int]]") -> None:
        """Have V8's thread rehearse a program and call `become`, and be the worker that this returns in.

        `become` is called when no JavaScript runs, and returns in forked children only: the channel to the parent,
        and the data segment that budgets come on top of.
        """

        def go_on() -> None:
            v8.keep_thread()
            with suppress(AttributeError):  # a library may hide V8's own interface; then they are not told of
                self._rejections = Rejections(self._isolate.library, self._gathers)
            self._start(*become())

        self._isolate.on_post = self._posted
        self._rehearse(_REHEARSALS[0], go_on)

    def _start(self, channel: Channel, data_bytes: int) -> None:
        self._channel = channel
        self._data_bytes = data_bytes
        channel.send(b'["ready"]')
        if channel.hears(_SPARE_MS):
            self._serve()
        else:
            # What the zygote compiled is there, but its memory is not yet this process's own.
            self._rehearse(_REHEARSALS[1], self._serve)

    def _serve(self) -> None:
        self._isolate.on_turn = self._turned
        self._queue(_LISTEN)

    def _rehearse(self, program: bytes, go_on: "Callable[[], None]") -> None:
        """Go through a program as far as all of them go, then call `go_on`."""
        tasks: Iterator[Callable[[], None]] = iter(
            (
                partial(self._deliver, _REHEARSED),
                partial(self._isolate.queue_script, program),
                partial(self._queue, _IDLE),
                partial(self._deliver, b'["rehearse"]'),
                partial(self._deliver, b'["forget"]'),
                self._end_rehearsal,
            )
        )

        def turn(_: object) -> None:
            task = next(tasks, go_on)
            task()

        self._rehearsing = True
        self._isolate.on_turn = turn
        turn(None)

    def _end_rehearsal(self) -> None:
        self._rehearsing = False
        self._queue(_IDLE)

    def _posted(self) -> None:
        header = self._header
        operation = header[_OPERATION]
        if operation == _NEXT:
            self._await()
            return
        if operation == _CLOCK:
            header[_OUT_LENGTH] = _milliseconds()
            return
        if operation == _HALT:
            self._halt()
        if operation == _WAIT:
            self._hand_in(self._answer(int(header[_OUT_LENGTH])))
            return
        if operation != _SEND:
            self._fill()
            return
        length = min(int(header[_OUT_LENGTH]), CAPACITY)
        self._outgoing.append(bytes(self._out[: 2 * length]))
        if not header[_OUT_MORE]:
            text = b"".join(self._outgoing).decode("utf-16-le", "surrogatepass")
            self._outgoing.clear()
            if not self._rehearsing:
                self._channel.send(text.encode("utf-8", "replace"))

    def _gathers(self) -> bool:
        """Return whether the glue asks for the promises that nobody asked about."""
        header = self._header
        asks = header[_OPERATION] == _GATHER
        if asks:
            header[_OPERATION] = 0
        return asks

    def _answer(self, call: int) -> bytes:
        """Wait for the answer to a call; what comes before it has its turn later."""
        while True:
            message = self._channel.receive()
            assert message is not None
            reply = _REPLY.match(message)
            if reply is not None and int(reply[1]) == call:
                return message
            self._deferred.append(message)

    def _halt(self) -> NoReturn:
        """Never return to the program, which has emitted more than it may; the parent ends the process."""
        self._channel.send(b'["overflow"]')
        while True:
            self._channel.receive()

    def _turned(self, result: object) -> None:
        if isinstance(result, v8.ScriptError):
            self._channel.send(json.dumps(["broken", str(result)[:8192]]).encode())
        elif self._taking and isinstance(result, bytes):
            self._channel.send(result)
        self._taking = False
        if self._program is not None:
            program, self._program = self._program, None
            self._isolate.queue_script(program)
        else:
            # mini-racer runs microtasks after the callback of the task that queued them, so only the next task
            # can know what there is to wait for.
            self._queue(_LISTEN)

    def _await(self) -> None:
        """Wait, in the middle of the glue's task, for the next thing to do, and hand it in."""
        header = self._header
        if header[_QUEUED]:
            self._taking = True
            header[_IN_LENGTH] = _TAKE
            return
        due = header[_NEXT_DUE]
        timeout = None if due == float("inf") else min(max(0.0, due - _milliseconds()), _LONGEST_WAIT)
        if self._started and not header[_SETTLED] and timeout is None and not header[_OPEN_CALLS]:
            self._hand_in(b'["stuck"]')
            return
        if header[_SETTLED]:
            timeout = None  # the program has ended; the parent reads what it cost and ends the process
        message = self._deferred.popleft() if self._deferred else self._channel.receive(timeout)
        if message is None:
            header[_IN_LENGTH] = _TIMER
        elif message[:1] == b"R":
            _, budget, size = _RUN.unpack_from(message)
            ceiling = self._data_bytes + budget
            resource.setrlimit(resource.RLIMIT_DATA, (ceiling, ceiling))
            self._program = message[_RUN.size + size :]
            self._started = True
            self._hand_in(message[_RUN.size : _RUN.size + size])
        else:
            self._hand_in(message)

    def _deliver(self, message: bytes) -> None:
        self._hand_in(message)
        self._isolate.queue(self._step, self._ignored)

    def _hand_in(self, message: bytes) -> None:
        self._incoming = message.decode("utf-8").encode("utf-16-le")
        self._fill()

    def _queue(self, what: int) -> None:
        self._header[_IN_LENGTH] = what
        self._isolate.queue(self._step, self._ignored)

    def _fill(self) -> None:
        part = self._incoming[: 2 * CAPACITY]
        self._incoming = self._incoming[2 * CAPACITY :]
        self._in[: len(part)] = part
        self._header[_IN_LENGTH] = len(part) // 2


def _milliseconds() -> float:
    """Return the time that timers count."""
    return time.monotonic() * 1000


def data_segment(status: int) -> int:
    """Return the bytes this process's data segment has now, what RLIMIT_DATA counts; closes `status`."""
    match = re.search(rb"VmData:\s*(\d+) kB", os.read(status, 4096))
    os.close(status)
    assert match is not None
    return int(match[1]) * 1024
