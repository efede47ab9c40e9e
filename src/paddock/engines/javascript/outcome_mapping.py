"""Map the end of a program to a status and, unless it is ok, to an error with the user's line and column."""

import re
import signal
from itertools import islice
from typing import NamedTuple

from paddock.engines.javascript import frames
from paddock.engines.javascript.child.v8 import EXIT_MEMORY
from paddock.engines.javascript.parse import ParsedProgram
from paddock.engines.javascript.task import GuestTask
from paddock.engines.javascript.worker_client import Worker
from paddock.model.late_pattern import compile_late
from paddock.model.limits import KIB
from paddock.model.outcome import ErrorInfo, Frame, Status
from paddock.model.texts import ellipsis


class HostEnd(NamedTuple):
    """An end by the host: a timeout, a cancellation, or a program that was not started."""

    status: Status
    error: ErrorInfo | None


End = (
    frames.Done
    | frames.OversizedResult
    | frames.Overflow
    | frames.Failed
    | frames.UnsettledPromise
    | frames.EngineFailure
    | frames.FrameError
    | HostEnd
    | None
)
"""How a program ended: by a message, a breach of the protocol, the host, or (None) without a message."""

STOPPED = HostEnd(Status.CANCELLED, ErrorInfo(name="Cancelled", message="Cancelled"))
"""The end of a program that its caller cancelled."""

Judgement = tuple[Status, ErrorInfo | None]

PROGRAM_NAME = "paddock:program"
"""The name of a program in the engine's stacks, which parse.js gives it."""
POSITION_PATTERN = compile_late(r"paddock:program:(\d{1,7}):(\d{1,7})")
_FRAME_PATTERN = compile_late(
    r"^ +at (?:(?:async )?([^\n()]{1,200}) \()?(?:async )?paddock:program:(\d{1,7}):(\d{1,7})\)?$",
    re.MULTILINE,
)
_REFUSAL_PATTERN = compile_late(r"paddock:program:(\d{1,7}): (.{1,500})")
_OUT_OF_MEMORY = compile_late(
    r"out of memory|invalid size error|Check failed: allocation|MemoryError|bad_alloc", re.IGNORECASE
)
_AWAIT = (
    "put `await` before the call, or collect the calls in `await Promise.all([...])`; "
    "`forEach` waits for none, `for (... of ...)` does"
)
_JSON_MEMORY_FACTOR = 4
"""V8 may need up to so many times its resident memory in order to write a large string as JSON (measured)."""
_ALLOCATION_FAILED = "Array buffer allocation failed"
_MAX_NAME_CHARS = 256 + len("...")
_MAX_TEXT_CHARS = 65_536 + len("...")
_MAX_CAUSE_CHARS = 1000 + len("...")
_MAX_NUMBER_CHARS = 40
_MAX_CALLS = _MAX_CAUSES = _MAX_FRAMES = 5


def place_in(stack: str) -> tuple[int, int] | tuple[None, None]:
    """Return line and column of the program's innermost frame, in the running code."""
    position = POSITION_PATTERN.search(stack)
    return (int(position[1]), int(position[2])) if position else (None, None)


def call_path(program: ParsedProgram, stack: str) -> tuple[Frame, ...]:
    """Return the program's own functions in a stack, in the user's coordinates."""
    found = ((match[1] or "", int(match[2]), int(match[3])) for match in _FRAME_PATTERN.finditer(stack))
    own = (
        (name, program.place(line, column)) for name, line, column in found if not program.wraps(line, column)
    )
    return tuple(
        Frame(function=name, line=spot.line, column=spot.column) for name, spot in islice(own, _MAX_FRAMES)
    )


def thrown_error(program: ParsedProgram, thrown: frames.Failed) -> ErrorInfo:
    """Return what a program threw, with the user's line and column and bounded texts."""
    text = "" if thrown.is_error else thrown.thrown[:_MAX_TEXT_CHARS]
    name, message = thrown.name[:_MAX_NAME_CHARS], thrown.message[:_MAX_TEXT_CHARS]
    info = program.error(name, message, text, *place_in(thrown.stack))
    if thrown.code is None:
        return info
    return info.model_copy(update={"code": thrown.code, "data": thrown.data})


def rejection_text(program: ParsedProgram, rejected: frames.Unhandled) -> str:
    """Return the console line for a rejected promise without a handler."""
    error = thrown_error(program, rejected.reason)
    named = f"{error.name}: {error.message}" if rejected.reason.is_error and error.message else error.message
    if not rejected.reason.is_error:
        named = "".join(rejected.reason.causes[:1]) or named
    place = f" (line {error.line}, column {error.column})" if error.line else ""
    return f"Unhandled rejection: {(named or error.name)[:_MAX_CAUSE_CHARS]}{place}"


def describe_inexact(program: ParsedProgram) -> str:
    """Return the warning about whole numbers in a program that JavaScript cannot hold; "" without one."""
    if not program.inexact:
        return ""
    shown = [(ellipsis(written, _MAX_NUMBER_CHARS), double) for written, double in program.inexact]
    names = ", ".join(f"{written} ({double} in calculations and strings)" for written, double in shown)
    return (
        f"JavaScript numbers cannot hold these literals exactly: {names}. A value that is only passed on, or that "
        f"equals such a literal, is sent with the literal's digits. Write {shown[0][0]}n, a BigInt, to calculate "
        "exactly"
    )


def describe_uncalled(program: ParsedProgram) -> str:
    """Return the warning for a program that only declares functions and classes; "" for any other."""
    if not program.uncalled:
        return ""
    names = " and ".join(", ".join(f"`{function.name}`" for function in program.uncalled).rsplit(", ", 1))
    example = next(
        (function for function in program.uncalled if not function.call.startswith("new ")),
        program.uncalled[0],
    )
    return f"Nothing was called: the program only declares {names}. End it with `return await {example.call}`"


class OutcomeMapping(NamedTuple):
    """Maps the end of one program."""

    task: GuestTask
    program: ParsedProgram
    worker: Worker

    def on(self, end: End) -> Judgement:
        """Return the status and the error of an end. For None, the worker must be dead."""
        match end:
            case frames.Done() as done:
                return self._map_value(done)
            case frames.Failed() as failed:
                return self._map_error(failed)
            case frames.UnsettledPromise():
                hint = "it waits for a promise that nothing can settle: no timer and no call is pending"
                return Status.TIMEOUT, ErrorInfo(name="Timeout", message="Execution timeout", hint=hint)
            case frames.Overflow() | frames.OversizedResult():
                return Status.OUTPUT_LIMIT, ErrorInfo(name="OutputLimit", message=self._too_large(end))
            case frames.EngineFailure(text):
                return Status.FAILED, self._map_engine_refusal(text)
            case frames.FrameError() as error:
                return self._map_broken(error)
            case HostEnd() as judged:
                return judged
            case None:
                return self._map_crash()

    def _too_large(self, end: frames.Overflow | frames.OversizedResult) -> str:
        profile, limits = self.task.work.profile, self.task.limits
        if isinstance(end, frames.Overflow):
            kib, odd = divmod(limits.output_bytes, KIB)
            return f"output exceeded {limits.output_bytes} bytes" if odd else f"output exceeded {kib} KB"
        characters = end.characters
        if characters > limits.result_bytes:
            bound = f"limits.{profile}.result_bytes is {limits.result_bytes}"
        else:
            bound = f"limits.{profile}.frame_bytes, which holds for its UTF-8, is {limits.frame_bytes}"
        return f"The result has {characters} characters as JSON, and {bound}"

    def _map_broken(self, error: frames.FrameError) -> Judgement:
        if isinstance(error, frames.TooDeepMessage):
            message = f"The program returned or passed {error}"
            return Status.FAILED, ErrorInfo(name="RangeError", message=message, hint="flatten the value")
        if isinstance(error, frames.TooManyValues):
            message = f"The program returned or passed {error}"
            hint = f"return or print less at once, or raise `limits.{self.task.work.profile}.frame_values`"
            return Status.FAILED, ErrorInfo(name="RangeError", message=message, hint=hint)
        return Status.LOST, ErrorInfo(name="WorkerLost", message=f"the worker broke the protocol: {error}")

    def _map_value(self, done: frames.Done) -> Judgement:
        if not done.open_calls or self.task.work.raw_results:
            return Status.OK, None
        names = ", ".join(sorted(set(done.open_calls))[:_MAX_CALLS])
        message = f"the program ended without waiting for {names}"
        info = self.program.error("UnawaitedCall", message, "", *place_in(done.site))
        return Status.FAILED, info.model_copy(update={"hint": _AWAIT})

    def _map_error(self, failed: frames.Failed) -> Judgement:
        info = thrown_error(self.program, failed)
        if not self.task.work.raw_results:
            info = info.model_copy(update={"frames": call_path(self.program, failed.stack)})
        if failed.name == "RangeError" and failed.message == _ALLOCATION_FAILED:
            return Status.MEMORY_LIMIT, info.model_copy(update={"hint": self._memory_hint()})
        causes = "; ".join(cause[:_MAX_CAUSE_CHARS] for cause in failed.causes[:_MAX_CAUSES])
        hint = f"{'caused by' if failed.is_error else 'it threw'} {causes}" if causes else ""
        if not hint and not self.task.work.raw_results:
            from paddock.engines.javascript.hints import advice_for_computations, write_hint

            hint = (advice_for_computations if self.task.work.computes else write_hint)(
                info, self.program.source
            )
        return Status.FAILED, info.model_copy(update={"hint": hint}) if hint else info

    def _map_engine_refusal(self, text: str) -> ErrorInfo:
        """Read V8's message about a program that the parser accepted and the engine rejected."""
        head = _REFUSAL_PATTERN.match(text)
        if head is None:
            return ErrorInfo(name="SyntaxError", message="the engine cannot read the program")
        column = text.split("\n")[2].find("^") + 1 if text.count("\n") > 1 else 1
        name, _, message = head[2].partition(": ")
        return self.program.error(name, message, "", int(head[1]), max(1, column))

    def _map_crash(self) -> Judgement:
        death = self.worker.death.result()
        words = self.worker.last_words()
        # V8 prints why it crashes, but its allocator crashes silently when the data segment is used up.
        mute = death.code == -signal.SIGTRAP and not words.strip()
        starved = mute and _JSON_MEMORY_FACTOR * death.cost.peak_bytes >= self.task.limits.memory_bytes
        if starved or death.code == EXIT_MEMORY or _OUT_OF_MEMORY.search(words):
            hint = self._memory_hint()
            return Status.MEMORY_LIMIT, ErrorInfo(name="MemoryLimit", message="Out of memory", hint=hint)
        what = f"signal {-death.code}" if death.code < 0 else f"exit status {death.code}"
        return Status.LOST, ErrorInfo(
            name="WorkerLost",
            message=f"the engine crashed ({what})",
            hint="calls that the program had made before are not undone",
        )

    def _memory_hint(self) -> str:
        return f"the memory limit is {self.task.limits.memory_bytes} bytes"
