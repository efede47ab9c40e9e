"""The driver with a Ray that answers at once: what fails in the cluster becomes a status."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from paddock import Case, Outcome, Program, ProgramResult, Status
from paddock.model.errors import PaddockError
from paddock.surfaces.client.ray import driver
from paddock.surfaces.client.ray.driver import RayDriver
from paddock.surfaces.client.ray.feed import Feed
from paddock.surfaces.client.ray.frames import NodeAnswer, ProgramShare, Terms, read_share, write_answer

TERMS = Terms(workspace="/w", actor="ada", timeout_ms=1000, memory_bytes=1 << 20)


class _RayError(Exception):
    pass


ERRORS = {
    name: type(name, (_RayError,), {})
    for name in (
        *("TaskCancelledError", "RayTaskError", "RuntimeEnvSetupError", "TaskUnschedulableError"),
        *("WorkerCrashedError", "NodeDiedError"),
    )
}
Answering = Callable[[ProgramShare], NodeAnswer | Exception | None]
"""What becomes of a task; None for one that waits."""


class Ray:
    """Stands for the module `ray`."""

    def __init__(self, answer: Answering, resources: Iterable[dict[str, float]]) -> None:
        self.exceptions = SimpleNamespace(RayError=_RayError, **ERRORS)
        self.batches: list[ProgramShare] = []
        self.cancelled: list[tuple[object, bool]] = []
        self.disconnected = False
        self._answer = answer
        self._resources = iter(resources)
        self._last: dict[str, float] = {}

    def cluster_resources(self) -> dict[str, float]:
        self._last = next(self._resources, self._last)
        return self._last

    def remote(self, _function: object) -> "Ray":
        return self

    def options(self, **_options: object) -> Any:
        def send(data: bytes) -> Any:
            if self.disconnected:
                raise _RayError("not connected")
            batch = read_share(data)
            self.batches.append(batch)
            future: Future[object] = Future()
            match self._answer(batch):
                case None:
                    pass
                case Exception() as error:
                    future.set_exception(error)
                case answer:
                    future.set_result(write_answer(answer))
            return SimpleNamespace(future=lambda: future, ended=future)

        return SimpleNamespace(remote=send)

    def cancel(self, reference: Any, *, force: bool = False) -> None:
        self.cancelled.append((reference, force))
        if force and not reference.ended.done():
            reference.ended.set_exception(ERRORS["WorkerCrashedError"]())


def answer_well(batch: ProgramShare, seconds: float = 0.01) -> NodeAnswer:
    results = [
        ProgramResult(id=program.id, outcome=Outcome(id="x", status=Status.OK)) for program in batch.programs
    ]
    return NodeAnswer(results=tuple(results), seconds=seconds * len(results))


def run(
    answer: Answering,
    programs: Iterable[Program] | AsyncIterable[Program],
    resources: Iterable[dict[str, float]] = ({"CPU": 2.0},),
    most: int | None = None,
) -> tuple[Ray, list[tuple[str, str, str | None]]]:
    async def refuse(program: Program) -> ProgramResult:
        return ProgramResult(id=program.id, outcome=Outcome(id="x", status=Status.DENIED))

    async def go() -> tuple[Ray, list[tuple[str, str, str | None]]]:
        ray = Ray(answer, resources)
        found = RayDriver(ray, TERMS, refuse, most).run(Feed(programs, lambda each: each.code != "denied"))
        return ray, [
            (each.id, each.outcome.status.value, each.outcome.error and each.outcome.error.message)
            async for each in found
        ]

    return asyncio.run(go())


async def forbid(_program: Program) -> ProgramResult:
    """Stand for the gate of this process, which gets no program."""
    raise AssertionError


def make(number: int, **fields: Any) -> list[Program]:
    return [Program(id=f"p{n}", language="python", code="", **fields) for n in range(number)]


def test_batches_are_as_large_as_programs_are_short() -> None:
    ray, found = run(lambda batch: answer_well(batch, 0.02), make(500), most=1)
    assert [name for name, _, _ in found] == [f"p{n}" for n in range(500)]
    sizes = [len(batch.programs) for batch in ray.batches]
    assert (sizes[:3], max(sizes), sum(sizes)) == ([1, 50, 50], 50, 500)
    ray, _ = run(lambda batch: answer_well(batch, 10), make(8))
    assert [len(batch.programs) for batch in ray.batches] == [1] * 8


def test_programs_that_did_not_start_are_sent_again() -> None:
    def answer(batch: ProgramShare) -> NodeAnswer:
        return NodeAnswer(results=answer_well(batch).results[:1], seconds=0.01)

    ray, found = run(answer, make(10), most=1)
    assert [name for name, _, _ in found] == [f"p{n}" for n in range(10)]
    assert [batch.programs[0].id for batch in ray.batches] == [str(n) for n in range(10)]


def test_what_policy_refuses_is_not_sent() -> None:
    ray, found = run(answer_well, [Program(id="no", language="python", code="denied"), *make(1)])
    assert sorted(found) == [("no", "denied", None), ("p0", "ok", None)]
    assert [len(batch.programs) for batch in ray.batches] == [1]


def test_only_a_program_that_reads_the_workspace_names_it() -> None:
    ray, _ = run(answer_well, [*make(1), *make(1, access="read-only")], most=1)
    assert [batch.terms.workspace for batch in ray.batches] == ["", "/w"]


@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        ("TaskCancelledError", "cancelled", "The task was cancelled in Ray."),
        ("RayTaskError", "unavailable", "Ray cannot run Paddock on its workers: why"),
        ("RuntimeEnvSetupError", "unavailable", "Ray cannot run Paddock on its workers: why"),
        ("TaskUnschedulableError", "unavailable", "Ray cannot run Paddock on its workers: why"),
        (
            "WorkerCrashedError",
            "lost",
            "Ray lost its worker or its answer (WorkerCrashedError), with every retry.",
        ),
        ("NodeDiedError", "lost", "Ray lost its worker or its answer (NodeDiedError), with every retry."),
    ],
)
def test_an_error_of_ray_is_a_status(name: str, status: str, message: str) -> None:
    _, found = run(lambda _: ERRORS[name]("first line\nwhy"), make(1))
    assert found == [("p0", status, message)]


def test_a_task_that_died_is_divided() -> None:
    def answer(batch: ProgramShare) -> NodeAnswer | Exception:
        return (
            ERRORS["NodeDiedError"]() if "1" in {each.id for each in batch.programs} else answer_well(batch)
        )

    ray, found = run(answer, make(4), most=1)
    assert [(name, status) for name, status, _ in found] == [
        ("p0", "ok"),
        ("p1", "lost"),
        ("p2", "ok"),
        ("p3", "ok"),
    ]
    assert [[each.id for each in batch.programs] for batch in ray.batches] == [
        ["0"],
        ["1", "2", "3"],
        ["1"],
        ["2"],
        ["3"],
    ]


def test_a_cluster_that_is_gone_makes_programs_unavailable() -> None:
    async def go() -> list[str]:
        ray = Ray(answer_well, [{"CPU": 1.0}])
        found: list[str] = []
        async for result in RayDriver(ray, TERMS, forbid, 1).run(Feed(make(4), lambda _: True)):
            found.append(result.outcome.status.value)
            ray.disconnected = True
        return found

    assert asyncio.run(go()) == ["ok", "unavailable", "unavailable", "unavailable"]


def test_a_node_that_refuses_makes_programs_unavailable() -> None:
    _, found = run(lambda _: NodeAnswer(refusal="no\nledger"), make(1))
    assert found == [("p0", "unavailable", "the node runs no programs: no\\u000aledger")]


def test_a_lost_program_with_tests_has_a_verdict_for_each() -> None:
    async def go() -> list[ProgramResult]:
        ray = Ray(lambda _: ERRORS["NodeDiedError"](), [{"CPU": 1.0}])
        programs = make(1, tests=(Case(name="a", expect="1"), Case(name="b", expect="2")))
        return [
            each async for each in RayDriver(ray, TERMS, forbid, None).run(Feed(programs, lambda _: True))
        ]

    [result] = asyncio.run(go())
    assert (result.verdict, [(case.name, case.verdict) for case in result.tests]) == (
        "lost",
        [("a", "lost"), ("b", "lost")],
    )


def test_tasks_that_no_node_can_run_any_more_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_SURVEY_S", 0.01)
    monkeypatch.setattr(driver, "_MISSING_S", 0.05)
    declared = {"CPU": 1.0, "paddock:python": 1.0}
    ray, found = run(lambda _: None, make(2), [declared, {"CPU": 1.0, "paddock:c": 1.0}])
    assert sorted((name, status) for name, status, _ in found) == [
        ("p0", "unavailable"),
        ("p1", "unavailable"),
    ]
    assert {message for _, _, message in found} == {
        "no node of the Ray cluster declares python; install it on a node, and start the node with: "
        'ray start --resources "$(paddock runtimes --ray-resources)"'
    }
    assert [force for _, force in ray.cancelled] == [False, False]


def test_leaving_kills_the_workers_that_do_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_END_S", 0.01)

    async def go() -> Ray:
        ray = Ray(lambda batch: None if batch.programs[0].id != "0" else answer_well(batch), [{"CPU": 1.0}])
        results = RayDriver(ray, TERMS, forbid, None).run(Feed(make(5), lambda _: True))
        assert (await anext(results)).id == "p0"
        await results.aclose()
        return ray

    ray = asyncio.run(go())
    assert [force for _, force in ray.cancelled] == [False, True]


def test_an_input_that_is_cancelled_is_an_error() -> None:
    """It must not look like the end of the input."""

    async def programs() -> AsyncGenerator[Program]:
        for program in make(3):
            yield program
        raise asyncio.CancelledError

    with pytest.raises(PaddockError, match="The programs ended early"):
        run(answer_well, programs())
