"""The gate's side of programs in language runtimes: what the moment must allow, the engine, and what may be told.

admit    the working directory is there and inside; a turn among the jobs that run
run      engine -> RawResult, its streams without secrets
"""

import asyncio
import hashlib
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from paddock.model.canonical import in_order
from paddock.model.outcome import Decision, ErrorInfo, RawResult, Status
from paddock.model.program import Executables, ProgramEnd, signal_name
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.policy.workdir import JailError, resolve_cwd
from paddock.runtimes.admission_queue import AdmissionQueue, QueueFullError
from paddock.runtimes.task import ProgramTask, Sinks
from paddock.settings.schema import RuntimeSettings

if TYPE_CHECKING:
    from paddock.model.artifact import RunFacts
    from paddock.output.artifacts import Artifacts
    from paddock.output.recorder import OnOutput


BUSY_ERROR_NAME = "Busy"
"""Name of the error of a program that did not get its turn."""
_WITHDRAWN = ErrorInfo(
    name="Cancelled", message="It was cancelled while it waited for its turn; nothing ran.", phase="decide"
)


class Engine(Protocol):
    """What the gate needs of the engine of programs."""

    async def run(self, job: ProgramTask, sinks: Sinks, stop: asyncio.Event | None = None) -> RawResult:
        """Return what became of a program; setting `stop`, or cancelling the task, ends it first."""
        ...


class Programs:
    """Admits and runs programs. Engine and artifacts are asked for at the first use: most requests need neither."""

    def __init__(
        self,
        settings: RuntimeSettings,
        engine: Callable[[], Engine],
        artifacts: "Callable[[], Artifacts]",
        hide: Callable[[str], str],
    ) -> None:
        """Keep texts of requests as `hide` returns them."""
        self._added = settings.recipes
        self._names = settings.languages
        self._make_engine = engine
        self._artifacts = artifacts
        self._hide = hide
        self._queue = AdmissionQueue(
            settings.max_jobs, waiting=settings.max_waiting, wait_ms=settings.max_wait_ms
        )

    @cached_property
    def _engine(self) -> Engine:
        return self._make_engine()

    @property
    def waiting(self) -> int:
        """How many programs wait for their turn."""
        return self._queue.waiting

    def executables(self, runtime: str) -> Executables:
        """Return what can run the programs of a runtime."""
        from paddock.runtimes.recipe import executables  # most requests are of another kind

        return executables(runtime, self._added)

    def explain_unknown(self, runtime: str) -> str:
        """Return that there is no such runtime, and which there are; empty where there is."""
        if runtime in self._names:
            return ""
        from paddock.runtimes.recipe import no_runtime

        return no_runtime(runtime, self._added)

    @asynccontextmanager
    async def admit(
        self, actor: str, work: RuntimeRun, stop: asyncio.Event | None = None
    ) -> AsyncGenerator[RawResult | None]:
        """Wait for the turn of a program; give the result of one that did not get it, or was stopped meanwhile."""
        try:
            is_in = await self._queue.enter(actor, stop, size=_count_waiting_bytes(work))
        except QueueFullError as error:
            fault = ErrorInfo(name=BUSY_ERROR_NAME, message=str(error), hint=error.hint, phase="decide")
            yield RawResult(status=Status.UNAVAILABLE, error=fault)
            return
        if not is_in:
            yield RawResult(status=Status.CANCELLED, error=_WITHDRAWN)
            return
        try:
            yield None
        finally:
            self._queue.leave()

    async def run(
        self,
        request: ExecutionRequest,
        work: RuntimeRun,
        decision: Decision,
        on_output: "OnOutput | None" = None,
        stop: asyncio.Event | None = None,
    ) -> RawResult:
        """Return what became of a program that was admitted; `on_output` sees its output as it comes.

        Nothing leaves here that holds a secret. Raises EngineError when nothing ran.
        """
        from paddock.runtimes.recipe import recipes

        terms = decision.program
        assert terms is not None
        try:
            cwd = resolve_cwd(request.workspace, work.cwd)
            job = ProgramTask(work, terms, request.workspace, cwd, recipes(self._added)[work.runtime])
        except JailError as error:  # it has gone since the program was admitted
            fault = ErrorInfo(name="Invalid", message=str(error), phase="decide")
            return RawResult(status=Status.INVALID, error=fault)
        recording = self._artifacts().record(
            persist=work.output.persist,
            kept_bytes=terms.limits.stdout_bytes,
            kept_stderr_bytes=terms.limits.stderr_bytes,
            on_output=on_output,
        )
        # Its turn comes when this task waits for the program.
        asyncio.get_running_loop().call_soon(recording.prepare, request.workspace)
        try:
            result = await self._engine.run(job, Sinks(recording.stdout, recording.stderr), stop)
            if (program := result.program) is None:
                return result
            handle = await recording.finish(self._make_run_facts(request, work, decision, result, program))
        finally:
            await recording.discard()
        streams = {"stdout": recording.make_captured("stdout"), "stderr": recording.make_captured("stderr")}
        kept = {"artifact": handle, "not_kept": recording.refusal if work.output.persist else ""}
        return result.replace(program=program.replace(**streams, **kept), redactions=recording.redactions)

    def _make_run_facts(
        self,
        request: ExecutionRequest,
        work: RuntimeRun,
        decision: Decision,
        result: RawResult,
        program: ProgramEnd,
    ) -> "RunFacts":
        """Return what the manifest of stored output says: names and numbers, no contents."""
        from paddock.model.artifact import RunFacts  # its models take 7 ms to build, for programs alone

        code, stdin = ("yes" if given is not None else "no" for given in (work.code, work.stdin))
        args = in_order({"runtime": work.runtime, "args": work.args, "phase": program.phase})
        return RunFacts(
            workspace=str(request.workspace),
            runtime=work.runtime,
            request=request.id,
            status=result.status.value,
            phase=program.phase,
            args_hash=hashlib.sha256(args).hexdigest(),
            exit_code=program.exit_code,
            signal=None if program.signal is None else signal_name(program.signal),
            duration_ms=result.usage.wall_ms,
            policy_audit_hash=decision.audit_hash,
            relative_cwd=self._hide(work.cwd),
            output_mode=work.output.mode,
            command_summary=f"executable={program.executable} argCount={len(work.args)} code={code} stdin={stdin}",
        )


def _count_waiting_bytes(work: RuntimeRun) -> int:
    """Return the bytes that a program holds in memory while it waits, at most."""
    texts = sys.getsizeof(work.code) + sum(map(sys.getsizeof, work.args))
    return texts + len(work.stdin or b"")
