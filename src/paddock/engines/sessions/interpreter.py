"""One interpreter that executes texts one after another, and in which nothing runs between them.

    start      launch the driver (`drivers/`), wait for its first frame, end the turn
    execute    begin a turn -> send the text -> frames: values shown, then the end -> end the turn -> read the rest of
               the output
    a limit    SIGINT; the text has two seconds to end; then every process is killed, and the interpreter is lost

With `background` a turn without a text follows each execution, until the next one or the first limit.

Status, limits, exit and time of an execution are what this side saw. A driver's frames say what a program shows and how
its text ended, and can be forged by the program, which harms nobody but itself.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from paddock.engines.programs.engine import HeldProgram, RuntimeEngine
from paddock.engines.programs.task import ProgramTask, Sinks, compute_cpu_ms
from paddock.engines.programs.workdir import WORKDIR, add_files, walk_files
from paddock.engines.sessions import bundles
from paddock.engines.sessions.channel import ChannelClosed, ChannelError, DriverChannel
from paddock.engines.sessions.languages import SessionDriver
from paddock.foundation.cancellation import call_when_set, run_shielded
from paddock.model.base import Json
from paddock.model.outcome import ErrorInfo, RawResult, Status
from paddock.model.process import Ceiling, ProcessResult, ProcessUsage
from paddock.model.program import CapturedStream, ProgramLimits
from paddock.model.session import Result
from paddock.policy.settings.schema import SessionSettings

if TYPE_CHECKING:
    from paddock.confinement.sandbox.process import RunningProcess
    from paddock.engines.changes.opening import OverlayRun
    from paddock.record.output.work_files import LeftFile

GRACE_MS = 2_000
"""Time in which a text must end after it was interrupted, in milliseconds."""
_START_MS = 30_000
_LATE_MS = 250
"""Time after which the supervisor kills by itself, if this process should be too busy to do so."""
_MAX_MESSAGE_CHARS = 2000
_MAX_QUICK_BYTES = 4 * 1024
"""Maximum size of a frame whose value is searched for secrets in less time than a thread takes."""
_END_S = 2.0
_MAX_OUTPUT_CHARS = 64 * 1024
"""Maximum length of the output in the background that the next execution reports."""

_BY_STOP: dict[str, tuple[Status, Ceiling | None]] = {
    "wall": (Status.TIMEOUT, "wall"),
    "cpu": (Status.TIMEOUT, "cpu"),
    "stdout": (Status.OUTPUT_LIMIT, "stdout"),
    "cancelled": (Status.CANCELLED, None),
}

Read = Callable[[Json], Result]
"""Checks a value that a driver sent, and removes secrets from it."""


class _ExecutionEnd(NamedTuple):
    """How a text ended, as its driver says."""

    exit_code: int = 0
    name: str = ""
    message: str = ""
    line: int | None = None

    @classmethod
    def read(cls, found: Json) -> "_ExecutionEnd":
        """Read the end from a frame; whatever is not as it should be counts as nothing."""
        given = cast("dict[str, Json]", found) if isinstance(found, dict) else {}
        error = given.get("error")
        told = cast("dict[str, Json]", error) if isinstance(error, dict) else {}
        code, line = given.get("exit_code"), told.get("line")
        return cls(
            exit_code=code & 255 if type(code) is int else 1,
            name=str(told.get("name", ""))[:100],
            message=str(told.get("message", ""))[:_MAX_MESSAGE_CHARS],
            line=line if type(line) is int and line > 0 else None,
        )


class _InterpreterTurn:
    """What is known of an execution while it runs."""

    def __init__(self, task: ProgramTask) -> None:
        self.task = task
        self.results: list[Result] = []
        self.end: _ExecutionEnd | None = None
        self.stopped_by = ""
        """Why it was interrupted: `wall`, `cpu`, `stdout` or `cancelled`."""
        self.killing: asyncio.TimerHandle | None = None


class Background:
    """What runs in a session between two executions, where policy grants it. The process is stopped at first.

    A turn in the background is a turn without a text: the supervisor measures and limits it as every turn. It ends with
    the next execution, or at its first limit of CPU time or output, and then the session is stopped as any other. Other
    limits kill.
    """

    def __init__(self, process: "RunningProcess", limits: ProgramLimits, lifetime_ms: int) -> None:
        """Limit each turn as one execution with `limits`, except for its wall time."""
        self._process = process
        self._lifetime_ms = lifetime_ms
        self.memory_bytes = limits.memory_bytes
        """Memory that the process may take."""
        self._cpu_ms = compute_cpu_ms(limits, limits.timeout_ms)
        self._running = False
        self._ending: asyncio.Future[ProcessUsage | None] | None = None
        self._output = ""

    def begin_turn(self) -> None:
        """Let the process run on. Does nothing while it does, and after its end."""
        if self._running or self._process.result.done():
            return
        self._running = True
        self._process.begin_output(None, self._on_limit)
        self._process.begin_turn(self._lifetime_ms, self._cpu_ms)

    async def end_turn(self) -> None:
        """Stop the process. Does nothing while it is stopped, and after its end."""
        if not self._running:
            return
        usage = await asyncio.shield(self._end_turn())
        self._running, self._ending = False, None
        if usage is not None:
            self._output = (self._output + self._process.end_output().text)[-_MAX_OUTPUT_CHARS:]

    def take_output(self) -> bytes:
        """Return what was written since the last call, or its end."""
        output, self._output = self._output, ""
        return output.encode()

    def _on_limit(self, _limit: str) -> None:
        self._end_turn()

    def _end_turn(self) -> "asyncio.Future[ProcessUsage | None]":
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._process.end_turn())
        return self._ending


class Interpreter:
    """A running interpreter; `start` it, and `close` it."""

    loss = "its interpreter has ended, with all variables and files"

    def __init__(
        self,
        held: HeldProgram,
        channel: DriverChannel,
        driver: SessionDriver,
        read: Read,
        background: Background | None,
    ) -> None:
        self._driver = driver
        self._held = held
        self._process = held.process
        self._channel = channel
        self._read = read
        self._seen: dict[str, tuple[int, ...]] = {}
        self._turn: _InterpreterTurn | None = None
        self._background = background

    @classmethod
    async def start(
        cls,
        engine: RuntimeEngine,
        task: ProgramTask,
        driver: SessionDriver,
        settings: SessionSettings,
        read: Read,
        *,
        stop: asyncio.Event | None = None,
        overlay: "OverlayRun | None" = None,
    ) -> "Interpreter | RawResult":
        """Start the interpreter of a program's language, or return why it cannot start. Raises EngineError.

        Setting `stop` ends the start. `overlay` opens the overlays of a session that has any.
        """
        channel = DriverChannel()
        held: HeldProgram | RawResult | None = None
        started = False
        try:
            launch = ("/bin/sh", "-c", driver.launch, "sh") if driver.launch else ()
            held = await engine.hold(
                task,
                driver.text,
                channel.theirs,
                launch=launch,
                compiler=driver.compile,
                lifetime_ms=settings.max_ms,
                disk_bytes=settings.disk_bytes,
                stop=stop,
                overlay=overlay,
            )
            channel.theirs.close()
            if isinstance(held, RawResult):
                return held
            granted = task.terms.grants.background
            background = Background(held.process, task.terms.limits, settings.max_ms) if granted else None
            made = cls(held, channel, driver, read, background)
            with call_when_set(stop, held.process.kill):
                why = await made._wait_until_ready(task)
            if why is not None:
                return why
            started = True
            return made
        finally:
            channel.theirs.close()
            if not started:
                channel.close()
                if isinstance(held, HeldProgram):
                    await run_shielded(held.end())

    async def _wait_until_ready(self, task: ProgramTask) -> RawResult | None:
        """Wait for the driver's first frame, and end that turn. Returns what happened instead."""
        reading = asyncio.ensure_future(self._channel.receive())
        try:
            await asyncio.wait(
                {reading, self._process.result},
                timeout=_START_MS / 1000,
                return_when=asyncio.FIRST_COMPLETED,
            )
            first = reading.result()[0] if reading.done() and reading.exception() is None else None
            if first is not None and "lacks" in first and self._driver.needs:
                self._process.kill()
                why = f"this session needs {self._driver.needs}, which its interpreter does not have"
                error = ErrorInfo(name="Unavailable", message=why, hint=self._driver.remedy, phase="decide")
                return RawResult(status=Status.UNAVAILABLE, error=error)
            if first is not None and await self._process.end_turn() is not None:
                self._held.process.end_output()
                await asyncio.to_thread(lambda: [None for _ in self.walk_new_files()])
                return None
        finally:
            reading.cancel()
        self._process.kill("wall")
        ended = await asyncio.shield(self._process.result)
        return self._held.conclude(ended, task, message="The interpreter of the session did not start")

    @property
    def workdir(self) -> Path:
        """Its working directory, whose files the program may change whenever it runs."""
        return self._held.slot.scratch / WORKDIR

    @asynccontextmanager
    async def stop_background(self) -> AsyncGenerator[None]:
        """Stop what runs in the background; let it go on afterwards."""
        if self._background is None:
            yield
            return
        await self._background.end_turn()
        try:
            yield
        finally:
            self._background.begin_turn()

    async def keep_changes(self, overlay: "OverlayRun | None") -> None:
        """Keep all changes of the session to its overlays so far. Call it while nothing runs in it."""
        if overlay is not None and self._held.overlays is not None:
            ended = self._process.result.result() if self._process.result.done() else None
            await overlay.keep(self._held.sandbox, self._held.overlays, ended)

    def add_files(self, task: ProgramTask) -> None:
        """Write the files of a program into the working directory. Raises InputFileError."""
        add_files(task, self._held.sandbox, self.workdir)

    @property
    def resident_bytes(self) -> int:
        """Its memory after the last execution; its limit, if it may take more meanwhile."""
        return self._process.resident_bytes if self._background is None else self._background.memory_bytes

    @property
    def lost(self) -> bool:
        """Whether it has ended."""
        return self._process.result.done()

    async def execute(
        self, task: ProgramTask, number: int, sinks: Sinks, stop: asyncio.Event | None
    ) -> tuple[RawResult, tuple[Result, ...]]:
        """Execute the text of a program and return its result, with the values that it showed.

        Call it within `stop_background`. Setting `stop`, or cancelling the task, interrupts it.
        """
        if self._background is not None and (output := self._background.take_output()):
            sinks.stdout(output)
        request = self._driver.pack_request(task.work.code or "", number, task.work.stdin)
        timeout_ms = task.terms.limits.timeout_ms
        turn = self._turn = _InterpreterTurn(task)
        self._process.begin_output(sinks.stdout, self.interrupt, timeout_ms)
        self._process.begin_turn(
            timeout_ms + GRACE_MS + _LATE_MS, compute_cpu_ms(task.terms.limits, timeout_ms)
        )
        if sinks.on_start is not None:
            sinks.on_start(self._process.measure)
        talking = asyncio.ensure_future(self._talk(request, turn))
        try:
            with call_when_set(stop, self.interrupt):
                await self._wait_for_end(talking)
        except asyncio.CancelledError:
            self.interrupt()
            await run_shielded(self._wait_for_end(talking))
            await run_shielded(self._conclude(turn, talking, sinks))
            raise
        result = await run_shielded(self._conclude(turn, talking, sinks))
        return result, tuple(turn.results)

    def interrupt(self, reason: str = "cancelled") -> None:
        """Interrupt the text that is executed; kill the interpreter if it does not end soon."""
        turn = self._turn
        if turn is None or turn.stopped_by:
            return
        turn.stopped_by = reason
        self._process.interrupt()
        turn.killing = asyncio.get_running_loop().call_later(GRACE_MS / 1000, self._process.kill, reason)

    async def _talk(self, request: bytes, turn: _InterpreterTurn) -> None:
        await self._channel.send(request)
        left = bundles.MAX_RESULTS_BYTES
        while True:
            frame, size = await self._channel.receive()
            left -= size
            if "done" in frame:
                turn.end = _ExecutionEnd.read(frame["done"])
                return
            if "display" not in frame:
                raise ChannelError("it sent a message that no driver sends")
            if left < -bundles.MAX_RESULTS_BYTES:
                raise ChannelError(f"it sent more than {2 * bundles.MAX_RESULTS_BYTES} bytes of values")
            if left < 0 or len(turn.results) == bundles.MAX_RESULTS:
                continue
            # Removing secrets from a large text takes long, and others wait for this loop.
            in_thread = size > _MAX_QUICK_BYTES
            read = asyncio.to_thread(self._read, frame["display"]) if in_thread else None
            turn.results.append(await read if read else self._read(frame["display"]))

    async def _wait_for_end(self, talking: "asyncio.Task[None]") -> None:
        await asyncio.wait({talking, self._process.result}, return_when=asyncio.FIRST_COMPLETED)

    async def _conclude(
        self, turn: _InterpreterTurn, talking: "asyncio.Task[None]", sinks: Sinks
    ) -> RawResult:
        """Freeze the interpreter, or see how it ended; return the result of the turn."""
        self._turn = None
        if turn.killing is not None:
            turn.killing.cancel()
        usage = None
        if turn.end is not None and (usage := await self._process.end_turn()) is not None:
            captured = self._process.end_output()
            if sinks.files is not None:
                await asyncio.to_thread(sinks.files, self.walk_new_files(), {})
            return self._judge_end(turn, turn.end, captured, usage)
        message = ""
        fault = talking.exception() if talking.done() else None
        if isinstance(fault, ChannelClosed):  # as when the process ends, which is reported a little later
            await asyncio.wait({self._process.result}, timeout=_END_S)
        if not self._process.result.done():
            self._process.kill("corrupted")
            await asyncio.wait({self._process.result})
            message = f"The channel to the session's interpreter is of no use any more: {fault}"
        talking.cancel()
        return self._held.conclude(self._process.result.result(), turn.task, message=message)

    def _judge_end(
        self, turn: _InterpreterTurn, end: _ExecutionEnd, captured: CapturedStream, usage: ProcessUsage
    ) -> RawResult:
        status, limit, message = Status.OK, None, ""
        if turn.stopped_by:
            status, limit = _BY_STOP[turn.stopped_by]
        elif end.exit_code or end.name:
            status = Status.FAILED
            message = f"{end.name}: {end.message}".removesuffix(": ") if end.name else ""
        ended = ProcessResult(
            status=status,
            limit=limit,
            exit_code=end.exit_code,
            stdout=captured,
            usage=usage,
            hidden=self._process.hidden,
            sandbox=self._held.sandbox.facts,
        )
        result = self._held.conclude(ended, turn.task, message=message)
        error: ErrorInfo | None = result.error
        if error is None or end.line is None or status is not Status.FAILED:
            return result
        return result.replace(error=error.replace(line=end.line))

    def walk_new_files(self) -> "Iterator[LeftFile]":
        """Yield the files of the working directory that are new or changed since the last walk."""
        for left in walk_files(self.workdir):
            facts = left.facts
            identity = facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
            if self._seen.get(left.path) != identity:
                self._seen[left.path] = identity
                yield left

    async def close(self) -> None:
        """Kill every process of it and remove its files. Does nothing the second time."""
        self._channel.close()
        await run_shielded(self._held.end())
