r"""Send batches of programs to Ray and yield their results.

    feed -> a share -> Ray task -> answer -> results
      ^                             |
      \------- those that did not start: its time was over

Ray places tasks, and repeats one whose worker or node died. A task runs programs one after the other for about a
second, and returns the others unrun. Therefore shares are as large as the programs are short, long programs spread
over the cluster, and a cancellation or a death costs little. A task that dies with every retry is divided into its
programs, so that only the one at fault is `lost`.
"""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

from paddock.foundation.cancellation import cancel_all, run_shielded
from paddock.gate.batch.program import CaseResult, CaseVerdict, Program, ProgramResult
from paddock.gate.batch.runner import BatchOrigin, BatchRunner
from paddock.model.errors import PaddockError
from paddock.model.ids import mint_id
from paddock.model.outcome import ErrorInfo, Outcome, Status
from paddock.policy.settings.schema import Settings
from paddock.surfaces.client.ray.feed import Feed, Item, ProgramGroup
from paddock.surfaces.client.ray.frames import (
    MAX_SHARE,
    NodeAnswer,
    Terms,
    read_answer,
    shorten_reason,
    write_program,
    write_share,
)
from paddock.surfaces.client.ray.nodes import Resources, explain_missing, find_missing, load_ray, place
from paddock.surfaces.client.ray.purity import Purity
from paddock.surfaces.client.ray.worker import run_share

MAX_RETRIES = 32
"""Number of times that Ray repeats a task whose worker or node died. Without a bound, a program that kills its worker
would be repeated for ever."""
TASK_S = 1.0
"""Time that a task should take, in seconds."""
MAX_TASKS = 1024
"""Maximum number of tasks in flight, however large the cluster is."""
_TASKS_PER_CPU = 2
"""Tasks in flight for each CPU: one runs, and the next one is there when it ends."""
_SURVEY_S = 5.0
"""Time between two looks at the resources of the cluster, in seconds."""
_MISSING_S = 300.0
"""Time that tasks wait for a node with what they need, after the last one was lost, in seconds. Clusters that grow with
their load need minutes for a node."""
_END_S = 10.0
"""Maximum time that cancelled tasks have to end before their workers are killed, in seconds."""
_VERDICTS = {Status.LOST: CaseVerdict.LOST, Status.UNAVAILABLE: CaseVerdict.UNAVAILABLE}

RunHere = Callable[[Program], Coroutine[Any, Any, ProgramResult]]
"""Passes a program to the gate of this process, which refuses it."""


@dataclass(eq=False)
class _Task:
    """A task in flight."""

    reference: Any
    future: "asyncio.Future[object]"
    items: dict[str, Item]
    needs: dict[str, float]
    missing_since: float = math.inf


class RayDriver:
    """Runs programs of a feed on a cluster, for one caller."""

    def __init__(self, ray: Any, terms: Terms, run_here: RunHere, max_parallel: int | None) -> None:  # noqa: ANN401
        """Use the module `ray`. At most `max_parallel` tasks are in flight; each runs one program at a time."""
        self._ray = ray
        self._terms = terms
        self._run_here = run_here
        self._max_parallel = max_parallel or MAX_TASKS
        self._cluster: Resources = {}
        self._survey: asyncio.Task[None] | None = None
        self._tasks: set[_Task] = set()
        self._program_s: float | None = None
        """Average time of a program, in seconds; None before the first answer."""
        self._remote: dict[frozenset[str], Any] = {}

    async def run(self, feed: Feed) -> AsyncGenerator[ProgramResult]:
        """Yield results as their tasks end. Closing the generator cancels all tasks."""
        try:
            while True:
                await self._look_at_cluster()
                for failed in self._start_tasks(feed):
                    yield failed
                while (refused := feed.take_refused()) is not None:
                    yield await self._run_here(refused.program)
                if feed.is_exhausted and not self._tasks:
                    return
                for task in await self._wait(feed):
                    self._tasks.discard(task)
                    for result in await self._take_answer(task, feed):
                        yield result
                for result in self._give_up():
                    yield result
        finally:
            await run_shielded(self._close(feed))

    def _start_tasks(self, feed: Feed) -> list[ProgramResult]:
        """Start as many tasks as there may be; return the programs that no node can run."""
        failed: list[ProgramResult] = []
        while (free := self._count_free()) > 0 and (taken := feed.take(self._share_size, free)):
            group, items = taken
            needs = place(sorted(group.languages), self._cluster)
            if missing := find_missing(needs, self._cluster):
                failed += [fail(item, Status.UNAVAILABLE, explain_missing(missing)) for item in items]
                continue
            try:
                self._start_task(group, items, needs)
            except self._ray.exceptions.RayError as error:
                reason = f"Ray accepts no task: {shorten_reason(str(error))}"
                failed += [fail(item, Status.UNAVAILABLE, reason) for item in items]
        return failed

    def _start_task(self, group: ProgramGroup, items: list[Item], needs: dict[str, float]) -> None:
        key = frozenset(needs)
        if key not in self._remote:
            options = {
                "num_cpus": 1,
                "max_retries": MAX_RETRIES,
                "retry_exceptions": False,
                "resources": needs,
            }
            self._remote[key] = self._ray.remote(run_share).options(name="paddock", **options)
        terms = self._terms if group.reads else self._terms.replace(workspace="")
        programs = [write_program(item.number, item.program) for item in items]
        reference = self._remote[key].remote(write_share(terms, TASK_S, programs))
        future = asyncio.wrap_future(reference.future())
        self._tasks.add(
            _Task(reference, future, {str(item.number): item for item in items}, {"CPU": 1, **needs})
        )

    def _count_free(self) -> int:
        cpus = int(self._cluster.get("CPU", 0)) or 1
        return min(self._max_parallel, MAX_TASKS, _TASKS_PER_CPU * cpus) - len(self._tasks)

    @property
    def _share_size(self) -> int:
        if self._program_s is None:
            return 1
        return max(1, min(MAX_SHARE, round(TASK_S / max(self._program_s, TASK_S / MAX_SHARE))))

    async def _wait(self, feed: Feed) -> "list[_Task]":
        """Wait for the end of a task, for programs if a task could start, or for a look at the cluster."""
        waiting = {task.future: task for task in self._tasks}
        reading = asyncio.ensure_future(feed.wait()) if self._count_free() > 0 else None
        try:
            futures: set[asyncio.Future[Any]] = {*waiting}
            if reading is not None and not feed.is_exhausted:
                futures.add(reading)
            done, _ = await asyncio.wait(futures, timeout=_SURVEY_S, return_when=asyncio.FIRST_COMPLETED)
            if reading is not None and reading.done():
                reading.result()
        finally:
            if reading is not None:
                reading.cancel()
        return [task for future, task in waiting.items() if future in done]

    async def _take_answer(self, task: _Task, feed: Feed) -> list[ProgramResult]:
        """Return the results of a task that has ended, and give back what it did not run."""
        try:
            answer = await read_answer(task.future.result(), frozenset(task.items))
        except Exception as error:  # noqa: BLE001 - Ray raises what a worker, or what is none, has sent
            return self._take_failure(task, error, feed)
        if answer.results:
            self._note_time(answer)
        results: list[ProgramResult] = []
        for result in answer.results:
            item = task.items.pop(result.id)
            if (result.verdict is None) is bool(item.program.tests):
                results.append(
                    fail(item, Status.LOST, "The answer of the worker has no verdict, or one too many.")
                )
            else:
                results.append(result.model_copy(update={"id": item.program.id}))
        if answer.refusal:
            reason = f"the node runs no programs: {shorten_reason(answer.refusal)}"
            results += [fail(item, Status.UNAVAILABLE, reason) for item in task.items.values()]
        else:
            feed.give_back(task.items.values())
        return results

    def _take_failure(self, task: _Task, error: Exception, feed: Feed) -> list[ProgramResult]:
        """Return the results of programs whose task failed; divide one that died with several."""
        errors = self._ray.exceptions
        items = [*task.items.values()]
        if isinstance(error, PaddockError):
            return [
                fail(item, Status.LOST, f"The answer of the worker is not valid: {error}") for item in items
            ]
        if isinstance(error, errors.TaskCancelledError):
            return [fail(item, Status.CANCELLED, "The task was cancelled in Ray.") for item in items]
        if isinstance(
            error, errors.RayTaskError | errors.RuntimeEnvSetupError | errors.TaskUnschedulableError
        ):
            lines = str(error).strip().splitlines() or [""]
            reason = f"Ray cannot run Paddock on its workers: {shorten_reason(lines[-1])}"
            return [fail(item, Status.UNAVAILABLE, reason) for item in items]
        if len(items) > 1:
            feed.give_back(items, alone=True)
            return []
        return [
            fail(
                item,
                Status.LOST,
                f"Ray lost its worker or its answer ({type(error).__name__}), with every retry.",
            )
            for item in items
        ]

    def _note_time(self, answer: NodeAnswer) -> None:
        seconds = answer.seconds / len(answer.results)
        if not 0 < seconds < math.inf:
            return
        # The first programs of a worker are slower than the others.
        self._program_s = seconds if self._program_s is None else (self._program_s + seconds) / 2

    async def _look_at_cluster(self) -> None:
        """Ask for the resources of the cluster; only the first time wait for them."""
        if not self._cluster:
            self._cluster = await asyncio.to_thread(self._ray.cluster_resources)
        if self._survey is None or self._survey.done():
            self._survey = asyncio.create_task(self._renew_resources())

    async def _renew_resources(self) -> None:
        await asyncio.sleep(_SURVEY_S)
        with suppress(Exception):  # the cluster may answer later
            self._cluster = await asyncio.to_thread(self._ray.cluster_resources)

    def _give_up(self) -> list[ProgramResult]:
        """Cancel the tasks that no node could run for a while, and return the results of their programs."""
        failed: list[ProgramResult] = []
        now = time.monotonic()
        for task in [*self._tasks]:
            missing = find_missing(task.needs, self._cluster)
            task.missing_since = min(task.missing_since, now) if missing else math.inf
            if now - task.missing_since >= _MISSING_S:
                self._tasks.discard(task)
                self._ray.cancel(task.reference)
                task.future.add_done_callback(_ignore)
                reason = explain_missing(missing)
                failed += [fail(item, Status.UNAVAILABLE, reason) for item in task.items.values()]
        return failed

    async def _close(self, feed: Feed) -> None:
        """Cancel the tasks, and wait until their programs have ended; kill the workers that take too long."""
        await feed.close()
        await cancel_all([] if self._survey is None else [self._survey])
        for force in (False, True):
            left = [task for task in self._tasks if not task.future.done()]
            for task in left:
                with suppress(Exception):  # the cluster may be gone
                    self._ray.cancel(task.reference, force=force)
            if left:
                await asyncio.wait([task.future for task in left], timeout=_END_S)
        for task in self._tasks:
            task.future.add_done_callback(_ignore)
        self._tasks.clear()


def fail(item: Item, status: Status, reason: str) -> ProgramResult:
    """Return the result of a program of which no node has answered."""
    name = {Status.LOST: "Lost", Status.CANCELLED: "Cancelled"}.get(status, "Unavailable")
    hint = "it changes nothing, so it is safe to run it again" if status is not Status.CANCELLED else ""
    error = ErrorInfo(
        name=name, message=reason, hint=hint, phase="run" if status is Status.LOST else "decide"
    )
    outcome = Outcome(id=mint_id(), status=status, error=error)
    verdict = _VERDICTS.get(status, CaseVerdict.LOST) if item.program.tests else None
    cases = [
        CaseResult(
            name=case.name, verdict=_VERDICTS.get(status, CaseVerdict.LOST), message=reason, outcome=outcome
        )
        for case in item.program.tests
    ]
    return ProgramResult(id=item.program.id, outcome=outcome, verdict=verdict, tests=tuple(cases))


def _ignore(future: "asyncio.Future[object]") -> None:
    """Retrieve an error that nobody waits for, which asyncio would report otherwise."""
    if not future.cancelled():
        future.exception()


async def map_on_ray(
    programs: Iterable[Program] | AsyncIterable[Program],
    settings: Settings,
    origin: BatchOrigin,
    runner: BatchRunner,
    max_parallel: int | None,
) -> AsyncGenerator[ProgramResult]:
    """Yield results as the tasks of their programs end; `runner` refuses what policy does not allow.

    Raises PaddockError without a cluster, and RequestError for a program that may have effects: of a list before
    anything starts.
    """
    purity = Purity(settings, origin)

    def check(program: Program) -> bool:
        return purity.require_pure(program) and program.language in settings.runtimes.languages

    ray = load_ray()
    if isinstance(programs, Sequence):
        for program in programs:
            check(program)
    terms = Terms(
        workspace=str(origin.workspace),
        actor=origin.actor,
        timeout_ms=settings.runtimes.timeout_ms,
        memory_bytes=settings.runtimes.memory_bytes,
    )
    driver = RayDriver(ray, terms, runner.run, max_parallel)
    async with aclosing(driver.run(Feed(programs, check))) as results:
        async for result in results:
            yield result
