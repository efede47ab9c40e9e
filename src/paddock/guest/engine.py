"""The guest engine: one JavaScript or TypeScript program, one worker, one raw result.

    source -> intake (parse, strip types, wrap) -> worker (run, host calls) -> RawResult

The parent owns the clock and the budgets. Whatever the worker does, the result is there when the wall limit has passed:
the worker is killed, and what it had said up to then is kept.
"""

import asyncio
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from paddock.guest import frames
from paddock.guest.intake import Intake, Program, ProgramError
from paddock.guest.pool import Cost, Death, EngineProfile, Listener, Pool, Worker
from paddock.model.base import Json
from paddock.model.errors import EngineError, PaddockError
from paddock.model.limits import Grants, GuestLimits
from paddock.model.outcome import (
    CallRecord,
    ConsoleLine,
    ErrorInfo,
    RawResult,
    SandboxFacts,
    Status,
    Usage,
)
from paddock.model.request import GuestRun

TRUNCATED = "[output truncated]"

_EXIT_MEMORY = 71
_POSITION = re.compile(r"paddock:program:(\d{1,7}):(\d{1,7})")
_REFUSAL = re.compile(r"paddock:program:(\d{1,7}): (.{1,500})")
_OUT_OF_MEMORY = re.compile(r"out of memory|invalid size error|MemoryError", re.IGNORECASE)
_ALLOCATION_FAILED = "Array buffer allocation failed"
_BURY_SECONDS = 5.0
_CONSOLE_LINES = 100_000
"""Lines kept: an empty one costs the output budget nothing, and the host a good deal."""
_OTHER_MESSAGES = 16
_HELD_FRAMES = 4
"""How many largest messages the arguments of calls in flight may add up to."""
_NAME_LENGTH = 256 + len("...")
_TEXT_LENGTH = 65_536 + len("...")

OnConsole = Callable[[ConsoleLine], None]


@dataclass(frozen=True, slots=True)
class HostReply:
    """What the host answers to a call: a value, or the fields of the error that the program may catch."""

    status: Status
    value: Json = None
    error: dict[str, Json] = field(default_factory=dict[str, Json])


class Host(Protocol):
    """What the engine may ask of the gate on behalf of a program."""

    async def call(self, server: str, tool: str, arguments: dict[str, Json], *, raw: bool) -> HostReply:
        """Return the reply to a call of `tool` on `server`. Never raises for what the program did."""
        ...


@dataclass(frozen=True, slots=True)
class GuestJob:
    """One program with the limits and grants that policy decided."""

    work: GuestRun
    limits: GuestLimits
    grants: Grants
    workspace: Path


class GuestEngine:
    """Runs programs in the workers of a pool."""

    def __init__(self, pool: Pool, intake: Intake, most: int) -> None:
        """Run at most `most` programs at a time; further ones wait their turn, first come first served."""
        self._pool = pool
        self._intake = intake
        self._places = asyncio.Semaphore(most)

    async def run(self, job: GuestJob, host: Host, on_console: OnConsole | None = None) -> RawResult:
        """Return what became of the program. Cancelling the task kills the worker first.

        Raises EngineError when Paddock's own machinery failed before the program started.
        """
        profile: EngineProfile = "guest-jit" if job.grants.jit else "guest"
        self._pool.prepare(profile, 1)  # starts beside the reading of the program
        try:
            program = await self._intake.read(job.work.source, job.work.language)
        except ProgramError as error:
            return RawResult(status=Status.FAILED, error=error.info)
        async with self._places:
            worker = await self._pool.take(profile)
            try:
                facts = _facts(job.grants, self._pool.landlock_abi(profile))
                dialogue = _Dialogue(worker, job, program, host, on_console)
                return await _run(dialogue, worker, job, facts)
            finally:
                worker.kill()
                worker.dispose()


async def _run(dialogue: "_Dialogue", worker: Worker, job: GuestJob, facts: SandboxFacts) -> RawResult:
    started = time.perf_counter()
    try:
        async with asyncio.timeout(job.limits.wall_ms / 1000):
            await dialogue.run()
    except TimeoutError:
        dialogue.time_is_up()
    finally:
        cost = worker.cost()
        worker.listener = None
        worker.kill()
        await dialogue.stop_calls()
    wall_ms = (time.perf_counter() - started) * 1000
    if not dialogue.has_verdict:  # it crashed: how, its parent knows
        try:
            async with asyncio.timeout(_BURY_SECONDS):
                await worker.death
        except TimeoutError as error:
            raise EngineError(f"guest worker {worker.pid} did not end after SIGKILL") from error
    return dialogue.result(cost, wall_ms, facts)


def _facts(grants: Grants, landlock_abi: int) -> SandboxFacts:
    """Return what confines a worker; each of these has succeeded, or the worker would not have said ready."""
    own_user = os.geteuid() == 0  # only root can give its workers a user of their own
    layers = ["process", "no_new_privs", f"landlock-{landlock_abi}", "seccomp"]
    layers += ["uid"] if own_user else []
    layers += [] if grants.jit else ["jitless"]
    residual = () if own_user else ("the worker has the user of Paddock",)
    return SandboxFacts(tier="landlock", layers=tuple(layers), residual=residual)


class _Dialogue(Listener):
    """One program's conversation with the host."""

    def __init__(
        self, worker: Worker, job: GuestJob, program: Program, host: Host, on_console: OnConsole | None
    ) -> None:
        self._worker = worker
        self._job = job
        self._program = program
        self._host = host
        self._on_console = on_console
        self._ended = asyncio.get_running_loop().create_future()
        self._console: list[ConsoleLine] = []
        self._console_bytes = 0
        self._heard = 0
        self._cut = False
        self._calls: list[CallRecord] = []
        self._asked = 0
        self._held_bytes = 0
        self._fault: BaseException | None = None
        self._turns = asyncio.Semaphore(job.limits.parallel_calls)
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._end: frames.Done | frames.Failed | frames.Stuck | frames.Broken | frames.FrameError | None = (
            None
        )
        self._timeout: ErrorInfo | None = None
        self._in_flight: list[str] = []

    async def run(self) -> None:
        """Send the program and wait until the worker has gone."""
        limits, work = self._job.limits, self._job.work
        settings: dict[str, Json] = {
            "output": limits.output_bytes,
            "lines": _CONSOLE_LINES,
            "calls": limits.host_calls,
            "frame": self._worker.frame_bytes,
            "result": limits.result_bytes,
            "sleep": limits.sleep_ms,
            "raw": work.raw_results,
            "vars": work.vars,
            "workspace": str(self._job.workspace),
        }
        if work.input is not None:
            settings["input"] = work.input
        self._worker.listener = self
        self._worker.send(frames.start(settings, self._program.code, limits.memory_bytes))
        if not self._worker.is_alive():
            return
        await self._ended
        if self._fault is not None:
            what = type(self._fault).__name__
            raise PaddockError(f"a call of the program failed inside Paddock ({what})") from self._fault

    # Listener
    def heard(self, message: frames.Message) -> None:
        if self._ended.done():
            return
        self._heard += 1
        if self._heard > _CONSOLE_LINES + 2 * self._job.limits.host_calls + _OTHER_MESSAGES:
            self._refuse("messages beyond all bounds")
            return
        match message:
            case ConsoleLine():
                self._print(message)
            case frames.ConsoleCut():
                self._print_cut()
            case frames.Call():
                self._call(message)
            case frames.Ready():
                self._refuse("a second greeting")
            case _:
                self._end = self._end or message
                self._finish()

    def broken(self, error: frames.FrameError) -> None:
        self._end = self._end or error
        self._finish()

    def gone(self) -> None:
        self._finish()

    def _refuse(self, what: str) -> None:
        """End a worker that does what the glue never does."""
        self._worker.kill()
        self.broken(frames.FrameError(what))

    def _finish(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    def _print(self, line: ConsoleLine) -> None:
        self._console_bytes += len(line.text.encode("utf-8", "surrogatepass"))
        if self._cut or self._console_bytes > self._job.limits.output_bytes:
            self._print_cut()  # the glue keeps this budget itself; a breached one does not
            if self._console_bytes > 2 * self._job.limits.output_bytes:
                self._refuse("output beyond all bounds")
            return
        self._console.append(line)
        if self._on_console is not None:
            self._on_console(line)

    def _print_cut(self) -> None:
        if not self._cut:
            self._cut = True
            line = ConsoleLine(level="log", text=TRUNCATED)
            self._console.append(line)
            if self._on_console is not None:
                self._on_console(line)

    def _call(self, call: frames.Call) -> None:
        self._asked += 1
        if self._asked > self._job.limits.host_calls:  # the glue keeps this limit itself
            self._refuse("calls beyond their limit")
            return
        self._held_bytes += call.size
        if self._held_bytes > _HELD_FRAMES * self._worker.frame_bytes:
            self._held_bytes -= call.size
            limit = _HELD_FRAMES * self._worker.frame_bytes
            text = f"The arguments of the calls in flight are larger than {limit} bytes"
            error: dict[str, Json] = {"name": "LimitError", "message": text}
            self._worker.send(frames.reply(call.number, ok=False, value=error))
            return
        task = asyncio.create_task(self._answer(call))
        self._tasks[task] = f"{call.server}.{call.tool}"
        task.add_done_callback(lambda done: self._answered(done, call.size))

    def _answered(self, task: asyncio.Task[None], size: int) -> None:
        self._tasks.pop(task, None)
        self._held_bytes -= size
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._fault = self._fault or fault
            self._finish()

    async def _answer(self, call: frames.Call) -> None:
        async with self._turns:
            started = time.perf_counter()
            reply = await self._host.call(call.server, call.tool, call.arguments, raw=call.raw)
            ms = (time.perf_counter() - started) * 1000
        self._calls.append(
            CallRecord(server=call.server, tool=call.tool, status=reply.status, ms=round(ms, 3))
        )
        good = reply.status is Status.OK
        self._worker.send(frames.reply(call.number, ok=good, value=reply.value if good else reply.error))

    async def stop_calls(self) -> None:
        """Cancel what the program still waits for: nothing goes on after its end (X17)."""
        self._in_flight = list(self._tasks.values())
        if tasks := list(self._tasks):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_BURY_SECONDS)

    def time_is_up(self) -> None:
        """Record where the program stood when the wall limit had passed."""
        limit = self._job.limits.wall_ms
        if _is_computing(self._worker.pid):
            text, hint = (
                f"Script execution timed out after {limit}ms",
                "it was computing when its time was up",
            )
        elif self._tasks:
            text, hint = "Execution timeout", f"it was waiting for {', '.join(sorted(self._tasks.values()))}"
        else:
            text, hint = "Execution timeout", "it was waiting for a timer"
        self._timeout = ErrorInfo(name="Timeout", message=text, hint=f"{hint}; the limit is {limit} ms")

    @property
    def has_verdict(self) -> bool:
        """Whether the dialogue itself tells how the program ended."""
        return self._end is not None or self._timeout is not None

    def result(self, cost: Cost | None, wall_ms: float, facts: SandboxFacts) -> RawResult:
        """Return the facts of the execution; `cost` is missing when the worker was gone before it could be read."""
        status, error = self._verdict()
        if cost is None:
            cost = self._worker.death.result().cost if self._worker.death.done() else Cost(0.0, 0)
        done = self._end if isinstance(self._end, frames.Done) and status is Status.OK else None
        return RawResult(
            status=status,
            value=done.value if done else None,
            has_value=done.has_value if done else False,
            console=tuple(self._console),
            console_truncated=self._cut,
            error=error,
            calls=tuple(self._calls),
            in_flight=len(self._in_flight),
            usage=Usage(
                wall_ms=round(wall_ms, 3),
                cpu_ms=round(cost.cpu_ms, 3),
                peak_bytes=cost.peak_bytes,
                host_calls=self._asked,
                console_bytes=self._console_bytes,
            ),
            sandbox=facts,
        )

    def _verdict(self) -> tuple[Status, ErrorInfo | None]:
        match self._end:
            case frames.Done() as done:
                return self._returned(done)
            case frames.Failed() as failed:
                return self._threw(failed)
            case frames.Stuck():
                hint = "it waits for a promise that nothing can settle: no timer and no call is pending"
                return Status.TIMEOUT, ErrorInfo(name="Timeout", message="Execution timeout", hint=hint)
            case frames.Broken(text):
                return Status.FAILED, self._refused(text)
            case frames.TooDeep() as error:
                return Status.FAILED, ErrorInfo(
                    name="RangeError", message=f"The program handed over {error}", hint="flatten the value"
                )
            case frames.FrameError() as error:
                return Status.LOST, ErrorInfo(
                    name="WorkerLost", message=f"the worker broke the protocol: {error}"
                )
            case None if self._timeout is not None:
                return Status.TIMEOUT, self._timeout
            case None:
                return self._crashed(self._worker.death.result())

    def _returned(self, done: frames.Done) -> tuple[Status, ErrorInfo | None]:
        if not done.open_calls or self._job.work.raw_results:
            return Status.OK, None
        names = ", ".join(sorted(set(done.open_calls))[:5])
        return Status.FAILED, ErrorInfo(
            name="UnawaitedCall",
            message=f"the program ended while it had not waited for {names}",
            hint="put `await` before the call, or collect the calls in `await Promise.all([...])`",
        )

    def _threw(self, failed: frames.Failed) -> tuple[Status, ErrorInfo | None]:
        position = _POSITION.search(failed.stack)
        line, column = (int(position[1]), int(position[2])) if position else (None, None)
        thrown = "" if failed.is_error else failed.thrown[:_TEXT_LENGTH]
        name, message = failed.name[:_NAME_LENGTH], failed.message[:_TEXT_LENGTH]
        info = self._program.error(name, message, thrown, line, column)
        if failed.name == "RangeError" and failed.message == _ALLOCATION_FAILED:
            return Status.MEMORY_LIMIT, info.model_copy(update={"hint": self._memory_hint()})
        return Status.FAILED, info

    def _refused(self, text: str) -> ErrorInfo:
        """Read V8's message about a program that the parser took and the engine did not."""
        head = _REFUSAL.match(text)
        if head is None:
            return ErrorInfo(name="SyntaxError", message="the engine cannot read the program")
        column = text.split("\n")[2].find("^") + 1 if text.count("\n") > 1 else 1
        name, _, message = head[2].partition(": ")
        return self._program.error(name, message, head[2], int(head[1]), max(1, column))

    def _crashed(self, death: Death) -> tuple[Status, ErrorInfo | None]:
        words = self._worker.last_words()
        if death.code == _EXIT_MEMORY or _OUT_OF_MEMORY.search(words):
            message = "Out of memory"
            return Status.MEMORY_LIMIT, ErrorInfo(
                name="MemoryLimit", message=message, hint=self._memory_hint()
            )
        what = f"signal {-death.code}" if death.code < 0 else f"exit status {death.code}"
        return Status.LOST, ErrorInfo(
            name="WorkerLost",
            message=f"the engine crashed ({what})",
            hint="what the program had done before that remains done",
        )

    def _memory_hint(self) -> str:
        return f"the memory limit is {self._job.limits.memory_bytes} bytes"


def _is_computing(pid: int) -> bool:
    """Return whether any thread of the process is running right now, that is: not waiting."""
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            if (task / "stat").read_text().rpartition(")")[2].split()[0] == "R":
                return True
    return False
