"""The body of a guest worker: one program in one locked process, then the end.

The fork server makes the isolate, runs the glue and rehearses a program. A worker is forked from it on V8's own
thread, with one connected socket and all of that in place; it gives up every power it has (`sandbox.child.lockdown`)
and says ready. No byte of guest code exists before that point. From then on its one thread waits for a message or a
timer, has the glue act on it, runs what promises have queued, and waits again: a loop in here, which calls V8 by
itself (see `v8_native`). Programs and large texts alone are tasks of mini-racer.
"""

import codecs
import json
import os
import re
import resource
import select
import socket
import struct
import time
from collections import deque
from typing import TYPE_CHECKING, NoReturn, cast

from paddock.javascript.child import v8
from paddock.javascript.child.unhandled_rejections import UnhandledRejections
from paddock.javascript.child.v8_native import NativeIsolate

if TYPE_CHECKING:
    from collections.abc import Callable

EXCHANGE_CHARS = 32768
"""UTF-16 units that fit into each half of the exchange buffer; glue/exchange.js has the same number."""

_HEADER_BYTES = 64
_OPERATION, _OUT_LENGTH, _OUT_MORE, _QUEUED, _SETTLED, _OPEN_CALLS, _NEXT_DUE, _IN_LENGTH = range(8)
_SEND, _FILL, _WAIT, _HALT, _CLOCK, _GATHER, _MEET, _RANDOM, _LOAD, _GIVE = range(1, 11)
_IDLE, _TIMER, _TAKE, _FOLLOW = -1, -2, -3, -4

_MAX_TURNS = 256
"""How often in a row the glue has its turn before mini-racer has one, for tasks that V8 has posted to itself."""

_MAX_WAIT_MS = 2.0**30
"""Milliseconds that poll(2) can wait for; a timer that is due later is looked at again then."""

_EMPTY_VIEW = memoryview(b"")
_RECEIVE_BYTES = 1 << 16
_LENGTH = struct.Struct("<I")
_REPLY = re.compile(rb'[ \t]?\["reply", ?(\d+),')
_RUN = struct.Struct("<cQI")
"""Head of the message that starts a program: `R`, memory budget in bytes, length of the settings that follow it."""

_SOON_S = 0.001
"""What does not come so soon is not waited for awake, neither then nor the next time."""

_MAY_WAIT_AWAKE = len(os.sched_getaffinity(0)) > 1
"""Not on the only processor: the parent needs it."""

_SPARE_MS = 5.0
"""A worker that waits for so long is a spare one, and has time."""

_REHEARSAL_JOB = json.dumps(
    [
        "run",
        {
            "output": 1,
            "lines": 1,
            "calls": 1,
            "frame": 1 << 20,
            "result": 100,
            "kept": 0,
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
"""One for the fork server, and another for its workers: V8 would not compile the same text again, and to compile
touches memory that is not yet a worker's own."""


class Channel:
    """Length-prefixed messages over a blocking socket (four bytes little-endian, then UTF-8)."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._pending = bytearray()
        self._quick = False

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
            part = self._await_piece() if timeout_ms is None else self._piece()
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

    def _await_piece(self) -> bytes:
        """Wait for a piece, awake at first if the last one came soon: to sleep and be woken takes as long as a call."""
        asked = time.monotonic()
        while self._quick and not self._poll.poll(0):
            os.sched_yield()  # to the parent, where it has no other processor
            self._quick = time.monotonic() < asked + _SOON_S
        part = self._piece()
        self._quick = _MAY_WAIT_AWAKE and time.monotonic() < asked + _SOON_S
        return part

    def _piece(self) -> bytes:
        try:
            part = self._connection.recv(_RECEIVE_BYTES)
        except OSError:
            part = b""
        return part or os._exit(0)


class Guest:
    """The dialogue between the glue in V8 and the parent."""

    def __init__(self, isolate: v8.Isolate, glue: str, libraries: tuple[bytes, ...] = ()) -> None:
        """Run the glue, which may load `libraries` later. Raises LibraryError when V8's interface is another one."""
        self._libraries = libraries
        self._library = 0
        self._native = NativeIsolate(isolate.library)
        self._rejections = UnhandledRejections(self._native)
        self._isolate = isolate
        self._task = isolate.evaluate(glue, keep=True)
        self._nothing = isolate.evaluate("[]", keep=True)
        exchange = isolate.call(self._task, self._nothing)
        assert isinstance(exchange, memoryview)
        exchange = cast("memoryview[int]", exchange)
        self._header = exchange[:_HEADER_BYTES].cast("d")
        self._out = exchange[_HEADER_BYTES : _HEADER_BYTES + 2 * EXCHANGE_CHARS]
        self._in = exchange[_HEADER_BYTES + 2 * EXCHANGE_CHARS :]
        self._outgoing: list[bytes] = []
        self._rehearsing = True
        self._incoming = _EMPTY_VIEW
        self._program: bytes | None = None
        self._taking = False
        self._started = False
        self._deferred: deque[bytes] = deque()
        self._channel: Channel
        self._data_bytes = 0

    def hand_over(self, become: "Callable[[], tuple[Channel, int]]") -> None:
        """Have V8's thread rehearse a program and call `become`, and be the worker that this returns in.

        `become` is called when no JavaScript runs, and returns in forked children only: the channel to the parent,
        and the data segment that budgets come on top of.
        """

        def meet(_: object) -> None:
            v8.keep_thread()
            self._native.enter()
            self._rejections.listen(self._take_claims)
            self._isolate.on_turn = on_turn
            self._isolate.queue(self._task, self._nothing)

        def on_turn(_: object) -> None:
            self._rehearse(_REHEARSALS[0], lambda: self._start(*become()))

        self._isolate.on_turn = meet
        self._isolate.queue_script(b"undefined")

    def _start(self, channel: Channel, data_bytes: int) -> None:
        self._channel = channel
        self._data_bytes = data_bytes
        channel.send(b'["ready"]')
        if channel.hears(_SPARE_MS):
            self._serve()
        else:
            # What the fork server compiled is there, but its memory is not yet this process's own.
            self._rehearse(_REHEARSALS[1], self._serve)

    def _rehearse(self, program: bytes, go_on: "Callable[[], None]") -> None:
        """Go through a program as far as all of them go, then call `go_on`. Called between two tasks."""

        def ran(_: object) -> None:
            self._act()
            for message in (b'["rehearse"]', b'["forget"]'):
                self._act(message)
            self._rehearsing = False
            go_on()

        self._rehearsing = True
        self._isolate.on_turn = ran
        self._act(_REHEARSAL_JOB)
        self._isolate.queue_script(program)

    def _act(self, message: bytes = b'["wake"]') -> None:
        """Rehearse one turn of `_turned`."""
        scope = self._native.open_scope()
        self._native.checkpoint()
        self._hand_in(message)
        self._native.step()
        self._native.checkpoint()
        self._native.close_scope(scope)

    def _serve(self) -> None:
        self._isolate.on_turn = self._take_turns
        self._take_turns(None)

    def _take_turns(self, result: object) -> None:
        """Have the glue take its turns, from the end of one task of mini-racer to what makes the next one necessary."""
        if isinstance(result, v8.ScriptError):
            self._interrupt_program(str(result))
        elif isinstance(result, v8.PromiseHandle):
            self._header[_IN_LENGTH] = _FOLLOW
            self._isolate.follow(self._task, result, self._nothing)
            return
        elif self._taking and isinstance(result, bytes):
            self._channel.send(result)
        self._taking = False
        native = self._native
        for _ in range(_MAX_TURNS):
            # No scope of mini-racer's is open, so handles would stay for ever.
            scope = native.open_scope()
            native.checkpoint()  # only then is it known what there is to wait for
            self._await_task()
            if not self._taking and not native.step():
                self._interrupt_program("the glue failed")
            native.close_scope(scope)
            if self._program is not None:
                program, self._program = self._program, None
                self._isolate.queue_script(program)
                return
            if self._taking:
                break
        else:
            self._header[_IN_LENGTH] = _IDLE
        self._isolate.queue(self._task, self._nothing)

    def _interrupt_program(self, why: str) -> None:
        self._channel.send(json.dumps(["broken", why[:8192]]).encode())

    def _on_post(self) -> None:
        """Do what the glue asks for in the middle of a turn."""
        operation = self._header[_OPERATION]
        if operation == _SEND:
            self._send()
        elif operation == _CLOCK:
            self._header[_OUT_LENGTH] = _milliseconds()
        elif operation == _WAIT:
            self._hand_in(self._answer(int(self._header[_OUT_LENGTH])))
        elif operation == _HALT:
            self._halt()
        elif operation == _FILL:
            self._fill()
        elif operation == _RANDOM:
            count = min(int(self._header[_OUT_LENGTH]), 2 * EXCHANGE_CHARS)
            self._in[:count] = os.urandom(count)
        elif operation == _LOAD:
            self._library = self._native.run(self._libraries[int(self._header[_OUT_LENGTH])])

    def _send(self) -> None:
        header = self._header
        part = self._out[: 2 * min(int(header[_OUT_LENGTH]), EXCHANGE_CHARS)]
        if header[_OUT_MORE] or self._outgoing:
            self._outgoing.append(bytes(part))
            if header[_OUT_MORE]:
                return
            part = b"".join(self._outgoing)
            self._outgoing.clear()
        if not self._rehearsing:
            text, _ = codecs.utf_16_le_decode(part, "surrogatepass", True)
            self._channel.send(text.encode("utf-8", "replace"))

    def _take_claims(self, reason: int) -> bool:
        """Act on a promise that the glue has rejected to reach the worker; return whether it is one."""
        operation = self._header[_OPERATION]
        if operation == _GATHER:
            self._rejections.give(reason)
        elif operation == _MEET:
            self._native.introduce(reason, self._on_post)
        elif operation == _GIVE and self._library:
            self._native.put(reason, 0, self._library)
        else:
            return False
        self._header[_OPERATION] = 0
        return True

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

    def _await_task(self) -> None:
        """Wait for the next thing to do, and hand it in."""
        header = self._header
        if header[_QUEUED]:
            self._taking = True
            header[_IN_LENGTH] = _TAKE
            return
        due = header[_NEXT_DUE]
        timeout = None if due == float("inf") else min(max(0.0, due - _milliseconds()), _MAX_WAIT_MS)
        if self._started and not header[_SETTLED] and timeout is None and not header[_OPEN_CALLS]:
            self._hand_in(b'["stuck"]')
            return
        if header[_SETTLED]:
            timeout = _MAX_WAIT_MS  # the parent reads what the program cost, and ends the process
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

    def _hand_in(self, message: bytes) -> None:
        self._incoming = memoryview(codecs.utf_16_le_encode(message.decode("utf-8"))[0])
        self._fill()

    def _fill(self) -> None:
        part = self._incoming[: 2 * EXCHANGE_CHARS]
        rest = self._incoming[2 * EXCHANGE_CHARS :]
        self._incoming = rest or _EMPTY_VIEW  # an empty rest would keep the whole text in memory
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
