"""The gate's side of programs in language runtimes: what the moment must allow, the engine, and what may be told.

admit    the working directory is there and inside; a turn among the jobs that run
run      engine -> RawResult, its streams without secrets
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Protocol

from paddock.model.outcome import Decision, RawResult
from paddock.model.program import Captured, Executables, Runtime
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.model.settings import RuntimeSettings
from paddock.policy.jail import JailError, resolve
from paddock.policy.redact import redact_text
from paddock.policy.rules import refuse
from paddock.runtimes.job import ProgramJob, Sinks
from paddock.runtimes.turns import Turns


class Engine(Protocol):
    """What the gate needs of the engine of programs."""

    def executables(self, runtime: Runtime) -> Executables:
        """Return what can run the programs of a runtime."""
        ...

    async def run(self, job: ProgramJob, sinks: Sinks) -> RawResult:
        """Return what became of a program. Cancelling the task ends it first."""
        ...


class Programs:
    """Admits and runs programs. `engine` is asked for at the first use: most requests are of another kind."""

    def __init__(self, settings: RuntimeSettings, engine: Callable[[], Engine]) -> None:
        self._make_engine = engine
        self._turns = Turns(settings.max_jobs, waiting=settings.max_waiting, wait_ms=settings.max_wait_ms)

    @cached_property
    def _engine(self) -> Engine:
        return self._make_engine()

    def executables(self, runtime: Runtime) -> Executables:
        """Return what can run the programs of a runtime."""
        return self._engine.executables(runtime)

    @asynccontextmanager
    async def admit(
        self, request: ExecutionRequest, work: RuntimeRun, decision: Decision
    ) -> AsyncGenerator[Decision]:
        """Yield the decision that holds now: what was allowed may be refused by the moment (S10, S12, S16)."""
        try:
            resolve(request.workspace, work.cwd)
        except JailError as error:
            yield refuse(request, decision, "runtimes.cwd", str(error))
            return
        async with self._turns.take(request.actor) as full:
            yield refuse(request, decision, "runtimes.max_jobs", full) if full else decision

    async def run(self, request: ExecutionRequest, work: RuntimeRun, decision: Decision) -> RawResult:
        """Return what became of a program that was admitted. Raises EngineError when nothing ran."""
        assert decision.program is not None
        cwd = resolve(request.workspace, work.cwd)
        job = ProgramJob(work, decision.program, request.workspace, cwd)
        result = await self._engine.run(job, Sinks(stdout=_nobody, stderr=_nobody))
        if (program := result.program) is None:
            return result
        streams = {name: _clean(getattr(program, name)) for name in ("stdout", "stderr")}
        return result.model_copy(update={"program": program.model_copy(update=streams)})


def _nobody(_data: bytes) -> None:
    """Take output that nobody waits for."""


def _clean(stream: Captured) -> Captured:
    texts = {"head": redact_text(stream.head), "tail": redact_text(stream.tail)}
    return stream.model_copy(update=texts)
