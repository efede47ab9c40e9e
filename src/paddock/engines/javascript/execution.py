"""The parent's side of one running program. The parent itself enforces every budget."""

import asyncio
import os
import select
import struct
import time
from collections import deque
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.engines.javascript import frames
from paddock.engines.javascript.busy_poll import SOON_S, BusyPoll
from paddock.engines.javascript.guest_turn import GuestTurn
from paddock.engines.javascript.outcome_mapping import (
    PROGRAM_NAME,
    End,
    HostEnd,
    OutcomeMapping,
    describe_inexact,
    describe_uncalled,
    rejection_text,
)
from paddock.engines.javascript.parse import ParsedProgram
from paddock.engines.javascript.task import GuestTask, Host, HostReply
from paddock.engines.javascript.worker_client import Worker, WorkerListener, WorkerUsage
from paddock.foundation.large_json import count_in_slices, let_others_run
from paddock.model.compat import SDK_ALIAS
from paddock.model.errors import PaddockError
from paddock.model.json_meter import COUNTED_BYTES, MAX_CHECKED_VALUES
from paddock.model.outcome import (
    CallRecord,
    ConsoleLine,
    ErrorInfo,
    OnConsole,
    RawResult,
    SandboxFacts,
    Status,
    Usage,
)

if TYPE_CHECKING:
    from paddock.model.base import Json

TRUNCATION_MARK = "[output truncated]"

_SEED = struct.Struct("4I")
"""The seed of the program's `Math.random`."""

_STOP_TIMEOUT_S = 5.0
_MAX_CONSOLE_LINES = 100_000
"""Maximum console lines: an empty line costs nothing of the output budget, but memory of the host."""
_MAX_OTHER_MESSAGES = 16
_MAX_PENDING_FRAMES = 4
"""Maximum size of the arguments of all calls in flight, in messages of maximum size."""


_OUT_OF_PLACE: dict[type, str] = {
    frames.Ready: "a second ready message",
    frames.Idle: "a message that only a worker of a session may send",
    frames.Waits: "a message that only a worker without a clock may send",
}


class GuestExecution(GuestTurn):
    """The parent's side of one running program."""

    noun = "program"
    reports = (
        frames.Done,
        frames.OversizedResult,
        frames.Failed,
        frames.UnsettledPromise,
        frames.EngineFailure,
    )

    def __init__(
        self,
        worker: Worker,
        task: GuestTask,
        program: ParsedProgram,
        host: Host,
        on_console: OnConsole | None,
        *,
        busy_poll: BusyPoll,
        number: int = 0,
        listener: WorkerListener | None = None,
    ) -> None:
        """Prepare a program. In a session it has a `number` from 1, and `listener` passes on the worker's messages."""
        super().__init__(worker, task, program)
        self._busy_poll = busy_poll
        self._number = number
        self._listener = listener or self
        self.has_begun = False
        """Whether its worker has received the program."""
        self._answered = 0.0
        """When the last reply was sent to the program."""
        self._quick = False
        """Whether its last call arrived soon after a reply."""
        self._host = host
        self._on_console = on_console
        self._console: list[ConsoleLine] = []
        self._console_bytes = 0
        self._messages = 0
        self._cut = False
        self._calls: list[tuple[tuple[str, str], Status, float]] = []
        """Server and tool, status and seconds of each call. `result` makes the records, when no program waits."""
        self._asked = 0
        self._pending_bytes = 0
        self._pending_values = 0
        self._fault: BaseException | None = None
        self._waiting: deque[frames.ServerCallFrame | frames.SdkCallFrame] = deque()
        self._open_calls: dict[asyncio.Task[None] | None, frames.ServerCallFrame | frames.SdkCallFrame] = {}
        self._in_flight = 0
        self._room = 0 if task.sink is None else task.sink.limit
        """Number of further characters that are accepted of a result over its limit."""

    async def run(self) -> None:
        """Send the program and wait until it or the worker has ended."""
        limits, work = self._task.limits, self._task.work
        settings = {
            "output": limits.output_bytes,
            "lines": _MAX_CONSOLE_LINES,
            "calls": limits.host_calls,
            "frame": limits.frame_bytes,
            "result": limits.result_bytes,
            "kept": self._room,
            "sleep": limits.sleep_ms,
            "seed": _SEED.unpack(os.urandom(_SEED.size)),
            "raw": work.raw_results,
            "vars": work.vars,
            "commands": self._task.commands,
            "workspace": str(self._task.workspace),
            "alias": SDK_ALIAS,
        }
        if work.input is not None:
            settings["input"] = work.input
        places = self._program.positions
        if self._number:
            settings["session"] = self._number
        elif places.map is not None and not work.raw_results:
            settings["positions"] = places.prefix, places.insertions, places.map
        if self._program.numbers:
            settings["numbers"] = self._program.numbers
        if (tape := self._task.tape) is not None:
            settings |= tape.start.settings
        code = self._program.code + self._mark
        kind: frames.StartKind = b"R" if tape is None else b"T"
        frame = frames.encode_start(settings, code, limits.memory_bytes, kind=b"S" if self._number else kind)
        if len(frame) > COUNTED_BYTES and (refused := await self._refuse_input(settings)) is not None:
            self._end = refused
            return
        if not work.raw_results:
            self._warn(describe_inexact(self._program))
        self.has_begun = True
        self._worker.serve(self._listener, limits)
        self._worker.send(frame)
        if not self._worker.is_alive():
            return
        await self._ended
        if self._fault is not None:
            what = type(self._fault).__name__
            raise PaddockError(f"what serves the program failed outside of it ({what})") from self._fault

    @property
    def _mark(self) -> str:
        """The suffix of the program's name in stacks. Each program of a session has another one."""
        return f"-{self._number}" if self._number else ""

    def _name_plainly(self, stack: str) -> str:
        """Return a stack in which this program, and no other of its session, has the usual name."""
        return stack.replace(f"{PROGRAM_NAME}{self._mark}:", f"{PROGRAM_NAME}:") if self._number else stack

    async def _refuse_input(self, settings: "dict[str, Json]") -> HostEnd | None:
        """Return the end of a program whose input has too many values; None if it may start."""
        max_values = self._task.limits.frame_values
        await let_others_run()  # writing it took long
        meter = await count_in_slices(frames.encode_value(settings), max_values)
        if meter.values <= max_values:
            return None
        what = "variables" if self._task.work.input is None else "input"
        message = f"The {what} of the program holds more than {max_values} values"
        error = ErrorInfo(name="RangeError", message=message, hint=f"pass less, or raise `{self._key}`")
        return HostEnd(Status.INVALID, error)

    @property
    def _key(self) -> str:
        """The setting that bounds the values in a message."""
        return f"limits.{self._task.work.profile}.frame_values"

    def on_message(self, message: frames.Message) -> None:
        """Handle a message. Messages after the end are ignored."""
        if self._ended.done():
            return
        if isinstance(message, frames.ResultPiece):
            self._take(message.text)
            return
        self._busy_poll.end()
        if self._are_too_many():
            self._refuse("too many messages")
            return
        match message:
            case frames.ServerCallFrame() | frames.SdkCallFrame():
                self._call(message)
            case frames.RefusedCall():
                self._refuse_call(message)
            case ConsoleLine():
                self._print(message)
            case frames.ConsoleCut():
                self._print_cut()
            case frames.Unhandled():
                stack = self._name_plainly(message.reason.stack)
                plain = message._replace(reason=message.reason._replace(stack=stack))
                self._warn(rejection_text(self._program, plain))
            case frames.Ready() | frames.Emitted() | frames.Overflow() | frames.Idle() | frames.Waits():
                self._refuse(_OUT_OF_PLACE.get(type(message), "a message that only computations may send"))
            case _:
                self._report(message)

    def _are_too_many(self) -> bool:
        """Count a message; return whether there were more than the bootstrap sends."""
        self._messages += 1
        return self._messages > _MAX_CONSOLE_LINES + 2 * self._task.limits.host_calls + _MAX_OTHER_MESSAGES

    def _report(self, end: End) -> None:
        if isinstance(end, frames.Failed):
            end = end._replace(stack=self._name_plainly(end.stack))
        elif isinstance(end, frames.Done):
            end = end._replace(site=self._name_plainly(end.site))
            if not self._task.work.raw_results:
                self._warn(describe_uncalled(self._program))
        elif isinstance(end, frames.EngineFailure):
            end = end._replace(text=self._name_plainly(end.text))
        self._conclude(end)

    def _take(self, text: str) -> None:
        self._room -= len(text)
        if self._task.sink is None or self._room < 0:
            self._refuse("a result larger than may be kept")  # the bootstrap itself keeps this limit
        else:
            self._task.sink.take(text)

    def _print(self, line: ConsoleLine) -> None:
        self._console_bytes += len(line.text.encode("utf-8", "surrogatepass"))
        if self._cut or self._console_bytes > self._task.limits.output_bytes:
            self._print_cut()  # the bootstrap keeps this budget unless it is breached
            if self._console_bytes > 2 * self._task.limits.output_bytes:
                self._refuse("too much output")
            return
        self._keep(line)

    def _warn(self, text: str) -> None:
        """Add a line to the console, unless it is empty. It counts for the program's budget here, not in the guest."""
        if not text:
            return
        line = ConsoleLine(level="warn", text=text)
        if self._console_bytes + len(text.encode("utf-8", "surrogatepass")) <= self._task.limits.output_bytes:
            self._print(line)
        else:
            self._print_cut()

    def _print_cut(self) -> None:
        if not self._cut:
            self._cut = True
            self._keep(ConsoleLine(level="log", text=TRUNCATION_MARK))

    def _keep(self, line: ConsoleLine) -> None:
        self._console.append(line)
        if self._on_console is None:
            return
        try:
            self._on_console(line)
        except Exception as error:  # noqa: BLE001 - the listener is the caller's code
            self._fault = self._fault or error
            self._on_console = None
            self._conclude(None)

    def _call(self, call: frames.ServerCallFrame | frames.SdkCallFrame) -> None:
        self._asked += 1
        self._quick = time.perf_counter() < self._answered + SOON_S
        if self._asked > self._task.limits.host_calls:  # the bootstrap itself keeps this limit
            self._refuse("calls beyond their limit")
            return
        limits = self._task.limits
        if self._pending_bytes + call.size > (max_bytes := _MAX_PENDING_FRAMES * limits.frame_bytes):
            text = f"The arguments of the calls in flight are larger than {max_bytes} bytes"
            self._reply_error(call.number, "LimitError", text)
            return
        if self._pending_values + call.values > (max_values := limits.frame_values):
            text = f"The arguments of the calls in flight hold more than {max_values} values"
            how = f"Pass less at once, or raise `{self._key}`."
            self._reply_error(call.number, "LimitError", f"{text}. {how}")
            return
        self._pending_bytes += call.size
        self._pending_values += call.values
        if len(self._open_calls) < self._task.limits.parallel_calls:
            self._begin(call)
        else:
            self._waiting.append(call)

    def _refuse_call(self, call: frames.RefusedCall) -> None:
        """Reject a call whose arguments were not decoded, because they have too many values."""
        self._asked += 1
        if self._asked > self._task.limits.host_calls:
            self._refuse("calls beyond their limit")
            return
        what = f"{'' if call.server == 'paddock' else 'servers.'}{call.server}"
        max_values = self._task.limits.frame_values
        text = f"{what}: the arguments of {call.name} hold more than {max_values} values"
        how = f"Pass less at once, or raise `{self._key}`."
        if max_values >= MAX_CHECKED_VALUES and (call.server != "paddock" or call.name == "tool"):
            # Raising the limit would not help: the check against the tool's schema has this limit.
            how = f"Pass less at once: tools take at most {MAX_CHECKED_VALUES}."
        self._reply_error(call.number, "RangeError", f"{text}. {how}")

    def _reply_error(self, number: int, name: str, text: str) -> None:
        error: dict[str, Json] = {"name": name, "message": text}
        self._worker.send(self._encode_reply(number, ok=False, value=error))

    def _begin(self, call: frames.ServerCallFrame | frames.SdkCallFrame) -> None:
        self._open_calls[asyncio.create_task(self._serve(call))] = call

    async def _serve(self, call: frames.ServerCallFrame | frames.SdkCallFrame) -> None:
        on_reply = partial(self._reply, call, time.perf_counter())
        try:
            if isinstance(call, frames.ServerCallFrame):
                await self._host.call(
                    call.server,
                    call.tool,
                    call.arguments,
                    on_reply,
                    raw=call.raw,
                    encoded=call.encoded,
                    is_method=call.is_method,
                )
            else:
                await self._host.sdk(call.name, call.arguments, on_reply)
            # Wait for a worker that does not read; further replies would pile up in memory.
            await self._worker.drain()
        except Exception as fault:  # noqa: BLE001 - a fault of Paddock, not of the program
            self._fault = self._fault or fault
            self._conclude(None)
        finally:
            # A callback of the task would cost each call a turn of the event loop.
            self._open_calls.pop(asyncio.current_task(), None)
            self._pending_bytes -= call.size
            self._pending_values -= call.values
            if self._waiting and not self._ended.done():
                self._begin(self._waiting.popleft())

    def _reply(
        self, call: frames.ServerCallFrame | frames.SdkCallFrame, started: float, reply: HostReply
    ) -> None:
        self._answered = time.perf_counter()
        if reply.warning:
            self._warn(reply.warning)
        good, status = reply.status is Status.OK, reply.status
        frame = self._encode_reply(call.number, ok=good, value=reply.value if good else reply.error or {})
        if len(frame) > self._task.limits.frame_bytes:
            status = Status.OUTPUT_LIMIT
            frame = self._encode_reply(call.number, ok=False, value=self._too_large(call, len(frame)))
        self._worker.send(frame)
        self._calls.append((_names(call), status, self._answered - started))
        if self._quick:
            self._busy_poll.begin()

    def _encode_reply(self, number: int, *, ok: bool, value: "Json") -> bytes:
        return frames.encode_reply(number, ok=ok, value=value)

    def _too_large(self, call: frames.ServerCallFrame | frames.SdkCallFrame, size: int) -> "Json":
        """Return the error for an answer that does not fit into a message, which is not the program's fault."""
        server, tool = _names(call)
        from_server = isinstance(call, frames.ServerCallFrame)
        what = f"Server {server}: the answer of {tool}" if from_server else f"{server}: the result of {tool}"
        max_bytes, profile = self._task.limits.frame_bytes, self._task.work.profile
        text = f"{what} takes {size} bytes, and a program can receive at most {max_bytes}"
        return {
            "name": "ToolError" if from_server else "LimitError",
            "message": f"{text}. Ask for less at once, or raise `limits.{profile}.frame_bytes`.",
            "server": server,
            "tool": tool,
            "retryable": False,
        }

    async def stop_calls(self) -> None:
        """Cancel the program's open calls, so that none continues after its end."""
        self._in_flight = len(self._open_calls) + len(self._waiting)
        self._waiting.clear()
        if calls := [call for call in self._open_calls if call is not None]:
            for call in calls:
                call.cancel()
            await asyncio.wait(calls, timeout=_STOP_TIMEOUT_S)

    def _explain_timeout(self, limit_ms: int) -> HostEnd:
        # A call may have changed something, and a program of a session its variables.
        status = Status.TIMEOUT if self._asked or self._number else Status.UNAVAILABLE
        if (starved := self._explain_starvation(limit_ms, status)) is not None:
            return starved
        if _is_computing(self._worker.pid) or _has_unread_messages(self._worker):
            text = f"Script execution timed out after {limit_ms}ms"
            hint = "it was computing when its time was up"
        elif self._open_calls:
            waited = sorted(".".join(_names(call)) for call in (*self._open_calls.values(), *self._waiting))
            text, hint = "Execution timeout", f"it was waiting for {', '.join(waited)}"
        else:
            text, hint = "Execution timeout", "it was waiting for a timer"
        error = ErrorInfo(name="Timeout", message=text, hint=f"{hint}; the limit is {limit_ms} ms")
        return HostEnd(Status.TIMEOUT, error)

    def result(self, cost: WorkerUsage, wall_ms: float, facts: SandboxFacts) -> RawResult:
        """Return the facts of the execution."""
        status, error = OutcomeMapping(self._task, self._program, self._worker).on(self._end)
        done = self._end if isinstance(self._end, frames.Done) and status is Status.OK else None
        return RawResult(
            status=status,
            value=done.value if done else None,
            has_value=done.has_value if done else False,
            console=tuple(self._console),
            console_truncated=self._cut,
            error=error,
            calls=tuple(
                CallRecord(server=server, tool=tool, status=status, ms=round(seconds * 1000, 3))
                for (server, tool), status, seconds in self._calls
            ),
            in_flight=self._in_flight,
            usage=Usage(
                wall_ms=round(wall_ms, 3),
                cpu_ms=round(cost.cpu_ms, 3),
                peak_bytes=cost.peak_bytes,
                host_calls=self._asked,
                console_bytes=self._console_bytes,
            ),
            sandbox=facts,
        )


def _names(call: frames.ServerCallFrame | frames.SdkCallFrame) -> tuple[str, str]:
    """Return the server and the tool of a call, as people know them."""
    return (call.server, call.tool) if isinstance(call, frames.ServerCallFrame) else ("paddock", call.name)


def _is_computing(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "R"
    return False


def _has_unread_messages(worker: Worker) -> bool:
    """Return whether a worker's messages are unread: a host that reads late blocks it while it writes."""
    if not worker.is_alive() or worker.transport is None:
        return False
    poll = select.poll()
    poll.register(worker.transport.get_extra_info("socket"), select.POLLIN)
    return [happened for _, happened in poll.poll(0)] == [select.POLLIN]
