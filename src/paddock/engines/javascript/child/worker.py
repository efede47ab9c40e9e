"""A guest worker: one locked process that runs one program and then ends, or the programs of one session.

The fork server makes the isolate, runs the bootstrap and rehearses a program. It forks a worker on V8's thread, with
one connected socket. The worker gives up every power (`sandbox.child.lockdown`) and sends `ready`; it receives no guest
code before that. Then its only thread waits for a message or a timer, lets the bootstrap handle it, runs all
microtasks, and waits again. This loop is in this module and calls V8 directly (`v8_native`). Only programs and large
strings are tasks of mini-racer.

    task of mini-racer ends -> `_take_turns`: microtasks -> wait -> the bootstrap handles the message -> microtasks ...
                                  a program to compile, or a large string to fetch: back to a task of mini-racer

In a session, the worker sends `idle` after the end of a program, when nothing is left to run. The parent then stops the
process until the next program. To end a program, the parent sends a signal, by which V8 stops running it
(`v8_native.call_on_signal`), and then the message `end`.
"""

import codecs
import json
import os
import re
import resource
import select
import socket
import struct
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, NoReturn, cast

from paddock.engines.javascript.child import v8
from paddock.engines.javascript.child.unhandled_rejections import UnhandledRejections
from paddock.engines.javascript.child.v8_native import NativeIsolate

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.engines.javascript.child.bootstrap import Library

EXCHANGE_CHARS = 32768
"""Size of each half of the exchange buffer, in UTF-16 units; bootstrap/exchange.js has the same number."""

_HEADER_BYTES = 64
_OPERATION, _OUT_LENGTH, _OUT_MORE, _QUEUED, _SETTLED, _OPEN_CALLS, _NEXT_DUE, IN_LENGTH = range(8)
_SEND, _FILL, _WAIT, _HALT, _CLOCK, _GATHER, _MEET, _RANDOM, _LOAD, _GIVE = range(1, 11)
_IDLE, _TIMER, _TAKE, _FOLLOW = -1, -2, -3, -4

_MAX_TURNS = 256
"""Maximum turns of the bootstrap in a row. Then mini-racer gets one, for tasks that V8 has posted to itself."""

MAX_WAIT_MS = 2.0**30
"""Maximum wait of poll(2), in milliseconds; a timer that is due later is checked again then."""

_NEVER = float("inf")
_EMPTY_VIEW = memoryview(b"")
_RECEIVE_BYTES = 1 << 16
_LENGTH = struct.Struct("<I")
_REPLY = re.compile(rb'[ \t]?\["reply", ?(\d+),')
_RUN = struct.Struct("<cQI")
"""Head of the message that starts a program: `R`, `S` in a session, `T` if the parent has its clock; memory budget in
bytes, length of the settings that follow it."""
_END = b'["end"]'

_SOON_S = 0.001
"""Maximum busy-poll time, in seconds. A miss disables polling for the next wait."""

_MAY_WAIT_AWAKE = len(os.sched_getaffinity(0)) > 1
"""Whether to busy-poll: not on the only processor, which the parent needs."""

_SPARE_MS = 25.0
"""A worker that waits longer than this is a spare one and has time for a rehearsal, in milliseconds.

A rehearsal takes more processor time than it saves. Therefore programs in quick succession should find workers that
have waited less: such a program takes about 3 ms, and the worker that it takes was started four programs before."""

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
"""One for the fork server and another for its workers. V8 would not compile the same text again, and compiling copies
memory that the worker shares with the fork server."""


class Channel:
    """Length-prefixed messages over a blocking socket (four bytes little-endian, then UTF-8)."""

    def __init__(self, connection: socket.SocketType) -> None:
        self._connection = connection
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._pending = bytearray()
        self._quick = False

    def send(self, text: bytes) -> None:
        """Write one whole message; exit if the parent has died."""
        try:
            self._connection.sendall(_LENGTH.pack(len(text)) + text)
        except OSError:
            os._exit(0)

    def is_readable(self, within_ms: float) -> bool:
        """Return whether a message arrives within so many milliseconds."""
        return bool(self._poll.poll(within_ms))

    def receive(self, timeout_ms: float | None = None) -> bytes | None:
        """Return the next message; None if none arrives within `timeout_ms` milliseconds."""
        if not self._pending:  # a message that has begun to arrive is read to its end, whatever the timeout
            if timeout_ms is not None and not self._poll.poll(timeout_ms):
                return None
            part = self._await_piece() if timeout_ms is None else self._piece()
            if len(part) >= _LENGTH.size and len(part) == _LENGTH.size + _LENGTH.unpack_from(part)[0]:
                return part[_LENGTH.size :]  # exactly one message, as for most replies
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
        """Wait for data. Busy-poll first if the last wait was short: sleeping and waking up takes as long as a call."""
        began = time.monotonic()
        while self._quick and not self._poll.poll(0):
            os.sched_yield()  # to the parent, if it has no other processor
            self._quick = time.monotonic() < began + _SOON_S
        part = self._piece()
        self._quick = _MAY_WAIT_AWAKE and time.monotonic() < began + _SOON_S
        return part

    def _piece(self) -> bytes:
        try:
            part = self._connection.recv(_RECEIVE_BYTES)
        except OSError:
            part = b""
        return part or os._exit(0)  # no program outlives its parent


class InputBuffer:
    """Hands texts to V8 in pieces that fit into the exchange buffer; the header has the length of each."""

    def __init__(self, header: "memoryview[float]", buffer: "memoryview[int]") -> None:
        self._header = header
        self._buffer = buffer
        self._rest = _EMPTY_VIEW

    def put(self, message: bytes) -> None:
        """Put the first piece of a message into the buffer, instead of what is left of the one before."""
        self._rest = memoryview(codecs.utf_16_le_encode(message.decode("utf-8"))[0])
        self.fill()

    def fill(self) -> None:
        """Put the next piece into the buffer; an empty one at the end."""
        part = self._rest[: 2 * EXCHANGE_CHARS]
        rest = self._rest[2 * EXCHANGE_CHARS :]
        self._rest = rest or _EMPTY_VIEW  # an empty slice would keep the whole text in memory
        self._buffer[: len(part)] = part
        self._header[IN_LENGTH] = len(part) // 2

    @property
    def remaining(self) -> int:
        """Bytes of the message that are still to come, as UTF-16."""
        return len(self._rest)


class Guest:
    """Passes messages between the bootstrap in V8 and the parent."""

    def __init__(self, isolate: v8.Isolate, bootstrap: str, libraries: "tuple[Library, ...]" = ()) -> None:
        """Run the bootstrap, which may load `libraries` later. Raises LibraryError for another version of V8."""
        self._libraries = libraries
        self._library = 0
        self.native = NativeIsolate(isolate.library)
        self._rejections = UnhandledRejections(self.native)
        self._isolate = isolate
        self._task = isolate.evaluate(bootstrap, keep=True)
        self._nothing = isolate.evaluate("[]", keep=True)
        exchange = isolate.call(self._task, self._nothing)  # its first call returns the buffer (exchange.js)
        assert isinstance(exchange, memoryview)
        exchange = cast("memoryview[int]", exchange)
        self._header = exchange[:_HEADER_BYTES].cast("d")
        self._out = exchange[_HEADER_BYTES : _HEADER_BYTES + 2 * EXCHANGE_CHARS]
        self._in = exchange[_HEADER_BYTES + 2 * EXCHANGE_CHARS :]
        self._input = InputBuffer(self._header, self._in)
        self._outgoing: list[bytes] = []
        self._rehearsing = True
        self._program: bytes | None = None
        """A program that was received, until mini-racer gets it to compile it."""
        self._taking = False
        """Whether the next task of mini-racer returns a large text."""
        self._started = False
        self._in_session = False
        self._is_stepped = False
        """Whether the parent has the clock of the program, and its timers."""
        self._ceiling = 0
        """Limit of the data segment, in bytes; 0 before the first program."""
        self._idle = False
        """Whether `idle` was sent after the last program."""
        self._deferred: deque[bytes] = deque()
        self.channel: Channel
        self._data_bytes = 0

    def hand_over(self, become: "Callable[[], tuple[Channel, int]]") -> None:
        """Rehearse a program on V8's thread and call `become`; a child in which that returns becomes a worker.

        `become` is called when no JavaScript runs, and returns only in forked children. It returns the channel to the
        parent, and the size of the data segment, to which the memory budget is added.
        """

        def meet(_: object) -> None:
            # This runs on V8's thread, between two tasks. The thread forks, and is the only one in a child.
            v8.keep_thread()
            self.native.enter()
            # Before the bootstrap's second call, which passes its functions on by a rejected promise (`_take_claims`).
            self._rejections.listen(self._take_claims)
            self._isolate.on_turn = on_turn
            self._isolate.queue(self._task, self._nothing)

        def on_turn(_: object) -> None:
            self._rehearse(_REHEARSALS[0], lambda: self._start(*become()))

        self._isolate.on_turn = meet
        self._isolate.queue_script(b"undefined")

    def _start(self, channel: Channel, data_bytes: int) -> None:
        self.channel = channel
        self._data_bytes = data_bytes
        channel.send(b'["ready"]')
        if channel.is_readable(_SPARE_MS):
            self._serve()  # a program waits already, and a rehearsal would delay it
        else:
            # The compiled code is inherited from the fork server, but its memory is still shared.
            self._rehearse(_REHEARSALS[1], self._serve)

    def _rehearse(self, program: bytes, go_on: "Callable[[], None]") -> None:
        """Run the steps that all programs have in common, then call `go_on`. Called between two tasks."""

        def ran(_: object) -> None:
            self._rehearse_turn()  # the microtasks of the program, which has returned its promise
            for message in (b'["rehearse"]', b'["forget"]'):
                self._rehearse_turn(message)
            self._rehearsing = False
            go_on()

        self._rehearsing = True
        self._isolate.on_turn = ran
        self._rehearse_turn(_REHEARSAL_JOB)
        self._isolate.queue_script(program)

    def _rehearse_turn(self, message: bytes = b'["wake"]') -> None:
        """Rehearse one turn of `_take_turns`."""
        scope = self.native.open_scope()
        self.native.checkpoint()
        self._input.put(message)
        self.native.step()
        self.native.checkpoint()
        self.native.close_scope(scope)

    def _serve(self) -> None:
        self._isolate.on_turn = self._take_turns
        self._take_turns(None)

    def _take_turns(self, result: object) -> None:
        """Run turns of the bootstrap after a task of mini-racer has ended, until the next task is necessary."""
        if isinstance(result, v8.ScriptError):
            self._report_broken(str(result))
        elif isinstance(result, v8.PromiseHandle):
            # The program's script returned its promise. mini-racer owns the handle: one of its tasks passes it on.
            self._header[IN_LENGTH] = _FOLLOW
            self._isolate.follow(self._task, result, self._nothing)
            return
        elif self._taking and isinstance(result, bytes):
            self.channel.send(result)  # the task returned a text that is too large for the exchange buffer
        self._taking = False
        native = self.native
        for _ in range(_MAX_TURNS):
            # mini-racer has no scope open, so that handles would never be freed.
            scope = native.open_scope()
            native.checkpoint()  # microtasks decide what to wait for
            self._await_task()  # blocks: the only place where an idle worker waits
            if not self._taking and not native.step():  # the bootstrap handles the message or the timer
                # It catches exceptions itself: a signal has ended it, or it could not even report one.
                self._report_broken("the bootstrap script failed")
            native.close_scope(scope)
            if self._program is not None:
                # Only mini-racer compiles a script. Its end comes back here as `result`.
                program, self._program = self._program, None
                self._isolate.queue_script(program)
                return
            if self._taking:
                break  # the next task fetches the large text
        else:
            self._header[IN_LENGTH] = _IDLE  # an empty task, in which mini-racer does what V8 has posted
        self._isolate.queue(self._task, self._nothing)

    def _report_broken(self, why: str) -> None:
        self.channel.send(json.dumps(["broken", why[:8192]]).encode())

    def _on_post(self) -> None:
        """Carry out what the bootstrap requests during a turn."""
        operation = self._header[_OPERATION]
        if operation == _SEND:
            self.send_text()
        elif operation == _CLOCK:
            self._header[_OUT_LENGTH] = _milliseconds()
        elif operation == _WAIT:  # a synchronous call: the program runs on only with its reply
            self._input.put(self._answer(int(self._header[_OUT_LENGTH])))
        elif operation == _HALT:
            self._halt()
        elif operation == _FILL:
            self._input.fill()
        elif operation == _RANDOM:
            # The incoming half is free: the bootstrap reads a whole message before it runs a program's code.
            count = min(int(self._header[_OUT_LENGTH]), 2 * EXCHANGE_CHARS)
            self._in[:count] = os.urandom(count)
        elif operation == _LOAD:
            self._library = self.native.run(self._libraries[int(self._header[_OUT_LENGTH])])

    def send_text(self) -> None:
        header = self._header
        # A program that has breached the engine can write any number into the header: never trust its lengths.
        part = self._out[: 2 * min(int(header[_OUT_LENGTH]), EXCHANGE_CHARS)]
        if header[_OUT_MORE] or self._outgoing:
            self._outgoing.append(bytes(part))
            if header[_OUT_MORE]:
                return
            part = b"".join(self._outgoing)
            self._outgoing.clear()
        if not self._rehearsing:  # the parent never sees a rehearsal; the fork server has no channel to it
            text, _ = codecs.utf_16_le_decode(part, "surrogatepass", True)
            self.channel.send(text.encode("utf-8", "replace"))

    def _take_claims(self, reason: int) -> bool:
        """Handle a promise that the bootstrap rejected in order to call the worker; return whether it is one.

        A rejection is the only way in which JavaScript hands over an object: `_on_post` passes none.
        """
        operation = self._header[_OPERATION]
        if operation == _GATHER:
            self._rejections.give(reason)
        elif operation == _MEET:
            self.native.introduce(reason, self._on_post)
        elif operation == _GIVE and self._library:
            self.native.put(reason, 0, self._library)
        else:
            return False
        self._header[_OPERATION] = 0  # the next rejection may be the program's own
        return True

    def _answer(self, call: int) -> bytes:
        """Wait for the reply to a call; defer the messages that arrive before it."""
        while True:
            message = self._receive_step(_NEVER) if self._is_stepped else self.channel.receive()
            assert message is not None
            reply = _REPLY.match(message)
            if reply is not None and int(reply[1]) == call:
                return message
            self._deferred.append(message)

    def _halt(self) -> NoReturn:
        """Never return to a program that has emitted more than it may; the parent ends the process."""
        self.channel.send(b'["overflow"]')
        while True:
            self.channel.receive()

    def _await_task(self) -> None:
        """Wait for the next message or timer, and pass it to the bootstrap."""
        header = self._header
        if header[_QUEUED]:  # the bootstrap has a text for the parent that the buffer cannot hold
            self._taking = True
            header[IN_LENGTH] = _TAKE
            return
        due = header[_NEXT_DUE]
        timeout = None if due == _NEVER else min(max(0.0, due - _milliseconds()), MAX_WAIT_MS)
        if self._started and not header[_SETTLED] and timeout is None and not header[_OPEN_CALLS]:
            # Nothing can happen any more: no timer, no call. Without this the program would wait for its wall time.
            self._input.put(b'["stuck"]')
            return
        if header[_SETTLED]:
            timeout = MAX_WAIT_MS  # the parent reads the program's cost and ends the process, or stops it
            if self._in_session and not self._idle:
                self._idle = True
                self.channel.send(b'["idle"]')
        # Replies that came while the program waited for another one (`_answer`) are first, in their order.
        if self._deferred:
            message = self._deferred.popleft()
        elif self._is_stepped and not header[_SETTLED]:
            message = self._receive_step(due)
        else:
            message = self.channel.receive(timeout)
        if message is None:
            header[IN_LENGTH] = _TIMER  # also after MAX_WAIT_MS: the bootstrap checks whether a timer is due
        elif message[:1] in b"RST":  # every other message is JSON, which begins with `[`, a space or a tab
            self._begin(message)
        else:
            if message == _END:
                self.native.cancel_termination()  # the signal before it has stopped the program
            self._input.put(message)

    def _receive_step(self, due: float) -> bytes | None:
        """Report that the program waits, for a timer or for no time, and return what the parent lets it have."""
        self.channel.send(json.dumps(["waits", None if due == _NEVER else due]).encode())
        return self.channel.receive()

    def _begin(self, message: bytes) -> None:
        """Take a program. Limit the memory of the process; a program of a session cannot raise the limit again."""
        kind, budget, size = _RUN.unpack_from(message)
        ceiling = self._ceiling = min(self._data_bytes + budget, self._ceiling or sys.maxsize)
        resource.setrlimit(resource.RLIMIT_DATA, (ceiling, ceiling))
        self._program = message[_RUN.size + size :]
        self._started, self._in_session, self._idle = True, kind == b"S", False
        self._is_stepped = kind == b"T"
        # The program before may have been interrupted within a text, and while it waited for a reply.
        self._outgoing.clear()
        self._deferred.clear()
        if self._in_session:
            self.native.cancel_termination()  # a signal may have come after the end of the program before
        # The turn that follows configures the bootstrap; `_take_turns` then has the program compiled.
        self._input.put(message[_RUN.size : _RUN.size + size])


def _milliseconds() -> float:
    return time.monotonic() * 1000


def data_segment(status: int) -> int:
    """Return the present size of this process's data segment, which RLIMIT_DATA limits, in bytes; close `status`."""
    match = re.search(rb"VmData:\s*(\d+) kB", os.read(status, 4096))
    os.close(status)
    assert match is not None
    return int(match[1]) * 1024
