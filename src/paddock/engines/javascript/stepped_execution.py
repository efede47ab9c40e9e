"""Programs without a clock, for runs that are recorded or repeated: the parent decides what they receive, and when.

    record   the worker: "waits until 12.5" -> a reply of the host, or at that time the message "time" -> the tape
    repeat   the worker: "waits until 12.5" -> the first event of the recording that it can receive -> the tape

The worker reports each wait. By then the program has made all calls that it makes before the next message, so that the
first recorded event that answers one of them is the one that the program received when it was recorded.
"""

import asyncio
import math
import time
from collections import defaultdict, deque
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from paddock.engines.javascript import frames
from paddock.engines.javascript.execution import GuestExecution
from paddock.engines.javascript.outcome_mapping import HostEnd
from paddock.engines.javascript.tape import Event, ProgramCall, RecordedReplies
from paddock.engines.javascript.task import GuestTask, HostReply
from paddock.model.outcome import ConsoleLine, ErrorInfo, Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.model.base import Json

_MAX_WAIT_MS = 2.0**30
_LINE_BYTES = 64
"""What a line or an event takes in a recording besides its text, in bytes, about."""
_RECORDING_END = HostEnd(
    Status.CANCELLED,
    ErrorInfo(name="RecordingEnd", message="The recording ends here: its run was interrupted"),
)


class SteppedExecution(GuestExecution):
    """The parent's side of a program without a clock, whose calls the host answers."""

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - those of GuestExecution
        super().__init__(*args, **options)
        assert self._task.tape is not None
        self._tape = self._task.tape
        self._at = 0.0
        """The clock of the program, in milliseconds since it began."""
        self._began = time.perf_counter()
        self._alarm: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Send the program and wait until it or the worker has ended."""
        self._began = time.perf_counter()
        try:
            await super().run()
        finally:
            self._tape.has_begun = self.has_begun
            if self._alarm is not None:
                self._alarm.cancel()

    def on_message(self, message: frames.Message) -> None:
        """Handle a message. Messages after the end are ignored."""
        if not isinstance(message, frames.Waits):
            super().on_message(message)
        elif self.is_over:
            return
        elif self._are_too_many():
            self._refuse("too many messages")
        else:
            self._wait(message.due)

    def _wait(self, due: float | None) -> None:
        """Let the program wait for the next message, and move its clock when its timer is due."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if due is not None:
            wait_ms = min(max(0.0, due - self._measure_ms()), _MAX_WAIT_MS)
            self._alarm = asyncio.get_running_loop().call_later(wait_ms / 1000, self._send_time, due)

    def _send_time(self, due: float) -> None:
        self._alarm = None
        if not self.is_over:
            self._move_clock(max(self._measure_ms(), min(due, self._at + _MAX_WAIT_MS)))
            self._note_event(0)
            self._worker.send(frames.encode_time(self._at))

    def _measure_ms(self) -> float:
        return (time.perf_counter() - self._began) * 1000

    def _move_clock(self, at: float) -> None:
        # Rounded up, so that a timer is due by the rounded time.
        self._at = max(self._at, math.ceil(at * 1000) / 1000)

    def _note_event(self, number: int) -> None:
        if self._tape.take_room(_LINE_BYTES):
            self._tape.events.append(Event(number, self._at))

    def _call(self, call: ProgramCall) -> None:
        self._note_call(call, call.size)
        super()._call(call)

    def _refuse_call(self, call: frames.RefusedCall) -> None:
        self._note_call(call, _LINE_BYTES)
        super()._refuse_call(call)

    def _note_call(self, call: ProgramCall | frames.RefusedCall, size: int) -> None:
        if self._tape.take_room(size):
            self._tape.calls[call.number] = call
            self._tape.actions.append(call.number)

    def _keep(self, line: ConsoleLine) -> None:
        if self._tape.take_room(_LINE_BYTES + len(line.text)):
            self._tape.actions.append(line)
        super()._keep(line)

    def _reply(self, call: ProgramCall, started: float, reply: HostReply) -> None:
        self._move_clock(self._measure_ms())
        self._send_reply(call, started, reply)

    def _send_reply(self, call: ProgramCall, started: float, reply: HostReply) -> None:
        if self._tape.take_room(_LINE_BYTES):
            self._tape.replies[call.number] = reply
            self._note_event(call.number)
        super()._reply(call, started, reply)

    def _reply_error(self, number: int, name: str, text: str) -> None:
        self._move_clock(self._measure_ms())
        self._send_error(number, name, text)

    def _send_error(self, number: int, name: str, text: str) -> None:
        self._note_event(number)
        super()._reply_error(number, name, text)

    def _encode_reply(self, number: int, *, ok: bool, value: "Json") -> bytes:
        frame = frames.encode_reply(number, ok=ok, value=value, at=self._at)
        self._tape.take_room(len(frame))
        return frame


class RepeatedExecution(SteppedExecution):
    """The parent's side of a program whose calls a recording answers. Nothing leaves it."""

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - those of GuestExecution
        super().__init__(*args, **options)
        assert self._task.replies is not None
        self._replies: RecordedReplies = self._task.replies
        self._due: list[tuple[int, Callable[[], None] | None]] = []
        """A heap of the recorded events that may be sent: their places in order, and what sends the reply to a call."""
        self._places: defaultdict[int, deque[int]] = defaultdict(deque)
        """The places of the events that answer a recorded call, by its number."""
        for place, event in enumerate(self._replies.events):
            if event.number:
                self._places[event.number].append(place)
            else:
                self._due.append((place, None))
        self._unrecorded: deque[Callable[[], None]] = deque()
        """Sends the replies to calls that the recording does not have."""

    def _begin(self, call: ProgramCall) -> None:
        found = self._replies.find(call)
        if found.reply is None:  # the run ended before the reply
            return
        send = partial(self._answer, call, found.reply)
        if found.number:
            self._add_reply(found.number, send)
        else:
            self._unrecorded.append(send)

    def _add_reply(self, number: int, send: "Callable[[], None]") -> None:
        """Let the reply to a recorded call be sent in its place. The run has none if it was interrupted before."""
        if places := self._places[number]:
            heappush(self._due, (places.popleft(), send))

    def _answer(self, call: ProgramCall, reply: HostReply) -> None:
        self._pending_bytes -= call.size
        self._pending_values -= call.values
        self._send_reply(call, time.perf_counter(), reply)

    def _reply_error(self, number: int, name: str, text: str) -> None:
        send = partial(self._send_error, number, name, text)
        if self._places[number]:
            self._add_reply(number, send)
        else:
            self._unrecorded.append(send)

    def _wait(self, due: float | None) -> None:
        if self._unrecorded:
            self._unrecorded.popleft()()
            return
        if self._due:
            place, send = heappop(self._due)
            self._at = max(self._at, self._replies.events[place].at)
            (send or self._tell_time)()
            return
        if due is not None and self._replies.is_whole:
            self._move_clock(min(due, self._at + _MAX_WAIT_MS))
            self._tell_time()
        else:
            self._tape.reached_end = True
            self._conclude(_RECORDING_END)

    def _tell_time(self) -> None:
        self._note_event(0)
        self._worker.send(frames.encode_time(self._at))


def choose_execution(task: GuestTask) -> type[GuestExecution]:
    """Return the execution of a task with a tape."""
    return SteppedExecution if task.replies is None else RepeatedExecution
