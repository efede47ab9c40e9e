"""Pure computations: a program that gets one string, emits another, and cannot call the host.

The program goes to V8 unchanged: our parser does not read it, and nothing is wrapped around it. A worker may send only
output and the end of the program. Any other message breaks the protocol, so that even a breached worker cannot reach a
server.
"""

import hashlib
import os
import re
import struct

from paddock.engines.javascript import frames
from paddock.engines.javascript.guest_turn import GuestTurn
from paddock.engines.javascript.outcome_mapping import POSITION_PATTERN, HostEnd, OutcomeMapping
from paddock.engines.javascript.parse import ParsedProgram
from paddock.engines.javascript.source_map import SourceMap
from paddock.engines.javascript.task import GuestTask
from paddock.engines.javascript.worker_client import Worker, WorkerUsage
from paddock.model.late_pattern import compile_late
from paddock.model.outcome import ConsoleLine, ErrorInfo, RawResult, SandboxFacts, Status, Usage

_SOURCE_URL = "\n//# sourceURL=paddock:program"
"""On a separate line, so that it cannot turn an invalid text into a program."""

_SEED_AND_INSTANT = struct.Struct("<4IQ")
"""What a hash determines: the seed of `Math.random`, and the present time."""
_FIRST_INSTANT_MS = 946_684_800_000
_INSTANT_RANGE_MS = 1 << 40
"""Range of the present time, in milliseconds after the start of the year 2000; it ends in 2034."""

_THROWN_PATTERN = compile_late(r"[^\n]{0,99}?:(\d{1,7}): (.*?)\n[^\n]*\n( *)\^+\n", re.DOTALL)
"""V8's report: position, thrown value, the line of the source, a caret below it. The stack follows.

The position begins with the name that the program gives itself, or `<anonymous>` if V8 failed to read its end."""
_CUT_THROWN_PATTERN = compile_late(r"[^\n]{0,99}?:(\d{1,7}): (.*)()")
"""The same report, cut off within a long line."""
_ERROR_NAME_PATTERN = compile_late(r"([A-Za-z_$][\w$]{0,60}Error|Error)(?:: |$)")

_MAX_WARNINGS = 8
"""Maximum number of warnings; bootstrap/numbers.js has the same number."""
_WARNING_CHARS = 1000

_NEVER_SETTLED = ErrorInfo(
    name="Error",
    message="the program evaluates to a promise that nothing can settle any more",
    hint="a computation has no timers and nothing to wait for: code after such an `await` never runs",
)


class Computation(GuestTurn):
    """The parent's side of one computation."""

    noun = "computation"
    reports = (
        frames.Done,
        frames.Overflow,
        frames.EngineFailure,
        frames.Failed,
        frames.UnsettledPromise,
    )

    def __init__(self, worker: Worker, task: GuestTask) -> None:
        source, code = task.work.source, task.work.source + _SOURCE_URL
        program = ParsedProgram(
            source=source, code=code, language="javascript", positions=SourceMap(prefix=0)
        )
        super().__init__(worker, task, program)
        self._emitted: list[str] = []
        self._bytes = 0
        self._warnings: list[ConsoleLine] = []

    async def run(self) -> None:
        """Send the program and wait until it or the worker has ended."""
        limits, work = self._task.limits, self._task.work
        given = work.input if isinstance(work.input, str) else ""
        if work.deterministic:
            *seed, instant = derive_seeds(work.source, given)
        else:
            *seed, _ = _SEED_AND_INSTANT.unpack(os.urandom(_SEED_AND_INSTANT.size))
            instant = None  # the real present
        settings = {
            "input": given,
            "output": limits.output_bytes,
            "partial": work.partial,
            "seed": seed,
            "instant": instant,
            "exact": work.exact,
            "frame": limits.frame_bytes,
        }
        self._worker.serve(self, limits)
        self._worker.send(
            frames.encode_start(settings, self._program.code, limits.memory_bytes, world="compute")
        )
        if self._worker.is_alive():
            await self._ended

    def on_message(self, message: frames.Message) -> None:
        """Handle a message. Messages after the end are ignored."""
        if self._ended.done():
            return
        match message:
            case frames.Emitted(text):
                self._take(text)
            case frames.Done(value=str(text)):
                self._take(text)
                self._conclude(message)
            case frames.Overflow() | frames.EngineFailure() | frames.Failed() | frames.UnsettledPromise():
                self._conclude(message)
            case ConsoleLine(level="warn", text=text) if (
                len(self._warnings) < _MAX_WARNINGS and len(text) <= _WARNING_CHARS
            ):
                self._warnings.append(message)
            case frames.ConsoleCut():
                pass
            case _:
                self._refuse("a message that no computation may send")

    def _explain_timeout(self, limit_ms: int) -> HostEnd:
        error = ErrorInfo(name="Timeout", message=f"execution exceeded {limit_ms} ms")
        return self._explain_starvation(limit_ms) or HostEnd(Status.TIMEOUT, error)

    def result(self, cost: WorkerUsage, wall_ms: float, facts: SandboxFacts) -> RawResult:
        """Return the facts of the computation, with the output before an error if the request asked for it."""
        if isinstance(self._end, frames.EngineFailure):
            status, error = Status.FAILED, self._read_error(self._end.text)
        elif isinstance(self._end, frames.UnsettledPromise):
            status, error = Status.FAILED, _NEVER_SETTLED
        else:
            status, error = OutcomeMapping(self._task, self._program, self._worker).on(self._end)
        has_value = status in (Status.OK, Status.OUTPUT_LIMIT) or self._task.work.partial
        return RawResult(
            status=status,
            value="".join(self._emitted) if has_value else None,
            has_value=has_value,
            console=tuple(self._warnings),
            error=error,
            usage=Usage(
                wall_ms=round(wall_ms, 3),
                cpu_ms=round(cost.cpu_ms, 3),
                peak_bytes=cost.peak_bytes,
                emitted_bytes=self._bytes,
            ),
            sandbox=facts,
        )

    def _take(self, text: str) -> None:
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            self._refuse("half of a character")
            return
        if self._bytes + size > self._task.limits.output_bytes:
            self._refuse("more output than allowed")  # the bootstrap keeps this limit unless it is breached
            return
        self._bytes += size
        self._emitted.append(text)

    def _read_error(self, text: str) -> ErrorInfo:
        """Read V8's report about a program. A program that forges one affects only its own result."""
        head = _THROWN_PATTERN.match(text) or _CUT_THROWN_PATTERN.match(text)
        if head is None:
            return ErrorInfo(name="Error", message="the engine cannot run the program")
        thrown = head[2]
        named = _ERROR_NAME_PATTERN.match(thrown)
        name, message = (named[1], thrown[named.end() :]) if named else ("Thrown", thrown)
        place = POSITION_PATTERN.search(text, head.end())
        line, column = (int(place[1]), int(place[2])) if place else (int(head[1]), len(head[3]) + 1)
        from paddock.engines.javascript.hints import advice_for_computations

        error = self._program.error(name, message, "" if named else thrown, line, column)
        return error.model_copy(update={"hint": advice_for_computations(error, self._program.source)})


def derive_seeds(source: str, given: str) -> tuple[int, int, int, int, int]:
    """Return four seed words for `Math.random` and the present time in ms, from a SHA-256 of program and input."""
    digest = hashlib.sha256()
    for text in (source, given):
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    *seed, instant = _SEED_AND_INSTANT.unpack_from(digest.digest())
    return seed[0], seed[1], seed[2], seed[3], _FIRST_INSTANT_MS + instant % _INSTANT_RANGE_MS
