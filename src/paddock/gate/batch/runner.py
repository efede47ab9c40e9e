"""Run the programs of a batch, and judge those that have tests. Each run is one request to the gate.

    program without tests   one request -> its outcome
    program with tests      for each test one request, with its standard input alone -> comparison -> verdict
                            (a checker is another request, with files)

Each test starts in a new slot, so that no test finds anything of another one. A compiled program is compiled for its
first test, and comes from the cache of compiled programs for the others. The expected output stays in this process;
only a checker gets it, too. A verdict depends only on what the parent saw: how the process ended, and the bytes that it
wrote to standard output.
"""

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Sequence,
)
from contextlib import suppress
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from paddock.engines.programs.recipe import is_compiled
from paddock.foundation.cancellation import cancel_all
from paddock.gate.batch.compare import compare
from paddock.gate.batch.program import Case, CaseResult, CaseVerdict, Checker, Program, ProgramResult
from paddock.model.errors import PaddockError
from paddock.model.limits import KIB, MIB, LimitOverrides
from paddock.model.outcome import Outcome, Status
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.model.texts import ellipsis
from paddock.model.work_files import InputFile
from paddock.policy.settings.schema import RuntimeSettings

T = TypeVar("T")
R = TypeVar("R")

JUDGED_OUTPUT_BYTES = 16 * MIB
"""Default of `output_bytes` for a program with tests: so much output is kept in memory for each running program."""
MAX_STREAM_BYTES = 8 * KIB
"""Maximum bytes of each stream that are kept of a test."""
MAX_ATTEMPTS = 3
"""How often a program is run that others kept from running. A program cannot prolong that: it is the same number for
all."""
_MAX_QUICK_BYTES = 64 * KIB
"""Maximum size of an output that is compared faster than a thread starts."""
_MESSAGE_CHARS = 200

_VERDICTS = {
    Status.OK: CaseVerdict.ACCEPTED,
    Status.FAILED: CaseVerdict.RUNTIME_ERROR,
    Status.TIMEOUT: CaseVerdict.TIME_LIMIT,
    Status.MEMORY_LIMIT: CaseVerdict.MEMORY_LIMIT,
    Status.OUTPUT_LIMIT: CaseVerdict.OUTPUT_LIMIT,
    Status.PROCESS_LIMIT: CaseVerdict.RUNTIME_ERROR,
    Status.LOST: CaseVerdict.LOST,
    Status.CANCELLED: CaseVerdict.LOST,
    Status.UNAVAILABLE: CaseVerdict.UNAVAILABLE,
}
"""Verdicts by status, before the output is compared; every other status is `internal`."""


class Execute(Protocol):
    """`Gate.execute`, as far as a batch needs it."""

    async def __call__(
        self,
        request: ExecutionRequest,
        *,
        on_raw_stdout: Callable[[bytes], None] | None = None,
        patient: bool = False,
    ) -> Outcome:
        """Run a request and return its outcome."""
        ...


class BatchOrigin(NamedTuple):
    """Who sends the requests of a batch, and from where."""

    workspace: Path
    actor: str
    surface: str


class BatchRunner:
    """Runs programs through a gate, such as `gate.execute` of an `OpenPaddock`, with its settings."""

    def __init__(self, execute: Execute, origin: BatchOrigin, settings: RuntimeSettings) -> None:
        self._execute_request = execute
        self._origin = origin
        self._compile_timeout_ms = settings.timeout_ms
        self._max_jobs = settings.max_jobs
        self._languages = frozenset(settings.languages)
        self._recipes = settings.recipes

    def map(
        self, programs: Iterable[Program] | AsyncIterable[Program], max_parallel: int | None = None
    ) -> AsyncGenerator[ProgramResult]:
        """Yield the results of programs as they end; at most `max_parallel` run, and at most `runtimes.max_jobs`.

        Programs of a sequence whose language the gate rejects are sent first, so that a mistake is found at once.
        """
        if isinstance(programs, Sequence):
            programs = sorted(programs, key=self.has_language)
        parallel = min(max_parallel or self._max_jobs, self._max_jobs)
        return map_concurrently(self.run, programs, parallel=parallel)

    def has_language(self, program: Program) -> bool:
        """Return whether there are runtimes for the language of a program and of its checker."""
        used = (program.language, *([program.checker.language] if program.checker is not None else []))
        return all(name in self._languages for name in used)

    async def run(self, program: Program) -> ProgramResult:
        """Run a program, with all its tests if it has any. Raises LedgerError when the record cannot be written."""
        if not program.tests:
            outcome = await self._execute(program.make_work(program.stdin), self._make_limits(program))
            return ProgramResult(id=program.id, outcome=outcome)
        results: list[CaseResult] = []
        work = program.make_work(None)
        work = work.model_copy(update={"output": work.output.replace(kept_bytes=MAX_STREAM_BYTES)})
        for case in program.tests:
            result = await self._run_case(program, case, work.model_copy(update={"stdin": case.stdin}))
            if result.verdict is CaseVerdict.COMPILE_ERROR:
                return _conclude(program, [result.replace(name=each.name) for each in program.tests])
            results.append(result)
            if program.stop_on_failure and result.verdict is not CaseVerdict.ACCEPTED:
                break
        return _conclude(program, results)

    async def _run_case(self, program: Program, case: Case, work: RuntimeRun) -> CaseResult:
        limits = self._make_limits(program)
        limits = limits.replace(
            timeout_ms=case.timeout_ms or program.timeout_ms,
            memory_bytes=case.memory_bytes or program.memory_bytes,
            compile_timeout_ms=limits.compile_timeout_ms or self._compile_timeout_ms,
            output_bytes=program.output_bytes or JUDGED_OUTPUT_BYTES,
        )
        written: list[bytes] = []
        outcome = await self._execute(work, limits, written)
        verdict, message = _judge_end(outcome), "" if outcome.error is None else outcome.error.message
        if verdict is CaseVerdict.ACCEPTED:
            actual = b"".join(written)
            if program.checker is not None:
                verdict, message = await self._check(program.checker, case, actual)
            else:
                given = case.expect, actual, program.compare
                quick = len(actual) <= _MAX_QUICK_BYTES
                message = compare(*given) if quick else await asyncio.to_thread(compare, *given)
                verdict = CaseVerdict.WRONG_ANSWER if message else CaseVerdict.ACCEPTED
        return CaseResult(name=case.name, verdict=verdict, message=message, outcome=outcome)

    def _make_limits(self, program: Program) -> LimitOverrides:
        """Return the limits of a program; that of a compile step only if it may have one."""
        limits = program.make_limits()
        if limits.compile_timeout_ms is None or is_compiled(program.language, self._recipes):
            return limits
        return limits.replace(compile_timeout_ms=None)

    async def _check(self, checker: Checker, case: Case, actual: bytes) -> tuple[CaseVerdict, str]:
        """Return what a checker finds of the actual output."""
        given = {"input": case.stdin, "expected": case.expect, "actual": actual}
        work = RuntimeRun.model_validate(
            {
                "runtime": checker.language,
                "code": checker.code,
                "args": tuple(given),
                "files": [InputFile(path=name, data=data) for name, data in given.items()],
                "outputs": (),
                "access": "none",
                "output": {"persist": False, "kept_bytes": MAX_STREAM_BYTES},
            }
        )
        limits = LimitOverrides(
            timeout_ms=checker.timeout_ms,
            memory_bytes=checker.memory_bytes,
            compile_timeout_ms=self._compile_timeout_ms,
        )
        outcome = await self._execute(work, limits)
        program = outcome.program
        said = (
            ""
            if program is None
            else f"{program.stdout.text}\n{program.stderr.text}".strip().partition("\n")[0]
        )
        message = ellipsis(said, _MESSAGE_CHARS)
        if outcome.ok:
            return CaseVerdict.ACCEPTED, message
        verdict = _judge_end(outcome)
        if verdict is CaseVerdict.RUNTIME_ERROR and program is not None and program.exit_code == 1:
            return CaseVerdict.WRONG_ANSWER, message or "the checker rejects the output"
        fault = f"the checker failed: {outcome.error.message}" if outcome.error else "the checker failed"
        return (CaseVerdict.INTERNAL if verdict.is_known else verdict), fault

    async def _execute(
        self, work: RuntimeRun, limits: LimitOverrides, written: list[bytes] | None = None
    ) -> Outcome:
        """Run a program, and again if others kept it from running; `written` gets its standard output."""
        actor, surface, workspace = self._origin.actor, self._origin.surface, self._origin.workspace
        on_raw_stdout = None if written is None else written.append
        attempt = 1
        while True:
            request = ExecutionRequest(
                actor=actor, surface=surface, workspace=workspace, work=work, limits=limits
            )
            outcome = await self._execute_request(request, on_raw_stdout=on_raw_stdout, patient=True)
            # It reached its wall limit because others used the processors, and changed nothing.
            starved = (
                outcome.status is Status.UNAVAILABLE
                and outcome.program is not None
                and outcome.program.limit == "wall"
            )
            if not starved or attempt == MAX_ATTEMPTS:
                return outcome
            attempt += 1
            if written is not None:
                written.clear()


def _judge_end(outcome: Outcome) -> CaseVerdict:
    """Return the verdict on how a program ended; `accepted` means that its output decides."""
    verdict = _VERDICTS.get(outcome.status, CaseVerdict.INTERNAL)
    if verdict.is_known and outcome.program is not None and outcome.program.phase == "compile":
        return CaseVerdict.COMPILE_ERROR
    return verdict


def _conclude(program: Program, results: list[CaseResult]) -> ProgramResult:
    failed = [each for each in results if each.verdict is not CaseVerdict.ACCEPTED]
    known = (each for each in failed if each.verdict.is_known)
    decisive = next(known, None) or next(iter(failed), results[-1])
    return ProgramResult(
        id=program.id, outcome=decisive.outcome, verdict=decisive.verdict, tests=tuple(results)
    )


class _WorkerEnd(NamedTuple):
    """The end of one worker."""

    error: Exception | None


class _MappedResult(NamedTuple, Generic[R]):
    value: R


async def map_concurrently(
    work: Callable[[T], Awaitable[R]], items: Iterable[T] | AsyncIterable[T], *, parallel: int
) -> AsyncGenerator[R]:
    """Yield the results of work on each item, in the order in which they are ready.

        items -> `parallel` workers -> at most `parallel` waiting results -> the caller

    A worker takes the next item after its last result was accepted. Therefore a slow caller slows the workers down, and
    an endless input needs no memory.

    Raises the first error of the input or of the work, after the work under way was cancelled. Closing the generator
    cancels it, too.
    """
    source = _iterate(items)
    ready: asyncio.Queue[_MappedResult[R] | _WorkerEnd] = asyncio.Queue(parallel)
    turn = asyncio.Lock()

    async def take_items() -> None:
        while True:
            async with turn:  # an async generator serves one caller at a time
                item = await anext(source)
            await ready.put(_MappedResult(await work(item)))

    async def take_all() -> None:
        error = None
        try:
            with suppress(StopAsyncIteration):
                await take_items()
        except Exception as problem:  # noqa: BLE001 - the caller gets it
            error = problem
        except asyncio.CancelledError:
            if closing:
                raise
            error = PaddockError("It ended early: the work, or what the items come from, was cancelled.")
        await ready.put(_WorkerEnd(error))

    workers = [asyncio.create_task(take_all()) for _ in range(parallel)]
    left, closing = parallel, False
    try:
        while left:
            result = await ready.get()
            if isinstance(result, _MappedResult):
                yield result.value
            elif result.error is not None:
                raise result.error
            else:
                left -= 1
    finally:
        closing = True
        await cancel_all(workers)


async def _iterate(items: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
