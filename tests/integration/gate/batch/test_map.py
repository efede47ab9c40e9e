"""`Paddock.map` and the executor: lazy, patient, complete, and of bounded memory."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError, as_completed

import pytest
from tests.support.processes import PATIENCE_S

from paddock import (
    BlockingPaddock,
    Case,
    Paddock,
    Program,
    ProgramExecutor,
    RequestError,
    Settings,
)
from paddock.policy.settings.schema import ArtifactSettings, AuditSettings, RuntimeSettings

SQUARE = "print(int(input()) ** 2)"


@pytest.fixture
def tight(tmp_path, workspace):
    """Settings with one slot and no queue: a second program at the same time is refused."""
    return Settings(
        audit=AuditSettings(directory=tmp_path / "audit"),
        artifacts=ArtifactSettings(directory=tmp_path / "artifacts"),
        runtimes=RuntimeSettings(max_jobs=1, max_waiting=0, max_wait_ms=1, timeout_ms=120_000),
    )


def squares(number):
    return (Program(id=str(n), language="python", code=SQUARE, stdin=f"{n}\n") for n in range(number))


def test_each_result_has_the_id_of_its_program(workspace):
    async def go():
        async with Paddock(workspace, overrides={"runtimes.timeout_ms": 120_000}) as p:
            return {result.id: result.outcome.check().text async for result in p.map(squares(8))}

    assert asyncio.run(go()) == {str(n): f"{n * n}\n" for n in range(8)}


def test_a_busy_paddock_denies_nothing_of_a_batch(workspace, tight):
    async def go():
        async with Paddock(workspace, settings=tight) as p:

            async def collect():
                return [result async for result in p.map(squares(4), max_parallel=3)]

            found = await asyncio.gather(collect(), collect(), collect())
            return [result.outcome.status.value for results in found for result in results]

    assert asyncio.run(go()) == ["ok"] * 12


def test_a_program_beside_a_batch_is_still_refused_by_the_queue(workspace, tight):
    async def go():
        started = asyncio.Event()
        async with Paddock(workspace, settings=tight) as p:
            slow = asyncio.create_task(
                p.exec("python", "print(1, flush=True); input()", on_output=lambda *_: started.set())
            )
            endless = asyncio.create_task(
                p.exec("python", "import time; print(1, flush=True); time.sleep(3600)")
            )
            await asyncio.wait({slow, endless}, return_when=asyncio.FIRST_COMPLETED)
            outcomes = [task.result() for task in (slow, endless) if task.done()]
            for task in (slow, endless):
                task.cancel()
            await asyncio.wait({slow, endless})
            return [outcome.status.value for outcome in outcomes]

    assert "unavailable" in asyncio.run(go())


def test_failures_are_results_beside_the_others(workspace):
    programs = [
        Program(id="fails", language="python", code="exit(3)"),
        Program(id="no-such", language="no-such", code=""),
        Program(id="judged", language="python", code="print(1)", tests=[Case(expect="1")]),
    ]
    with BlockingPaddock(workspace, overrides={"runtimes.timeout_ms": 120_000}) as p:
        found = {
            result.id: (result.outcome.status.value, result.verdict, result.ok) for result in p.map(programs)
        }
    assert found == {
        "fails": ("failed", None, False),
        "no-such": ("invalid", None, False),
        "judged": ("ok", "accepted", True),
    }


def test_the_blocking_map_reads_an_iterator_that_uses_the_same_paddock(workspace):
    threads = set()
    with BlockingPaddock(workspace, overrides={"runtimes.timeout_ms": 120_000}) as p:

        def programs():
            for number in range(3):
                threads.add(threading.current_thread().name)
                text = p.execute(f"return {number}").value
                yield Program(id=str(number), language="python", code=f"print({text})")

        assert sorted(result.outcome.text for result in p.map(programs())) == ["0\n", "1\n", "2\n"]
    assert "paddock" not in threads


def test_leaving_the_loop_ends_the_programs(workspace):
    def endless():
        yield Program(language="python", code="print(1)")
        while True:
            yield Program(language="python", code="import time; time.sleep(3600)")

    with BlockingPaddock(workspace, overrides={"runtimes.max_jobs": 2}) as p:
        results = p.map(endless())
        assert next(results).ok
        results.close()
        [result] = p.map([Program(language="python", code="print(2)")])
        assert result.outcome.text == "2\n"


def test_an_invalid_number_is_refused(workspace):
    with (
        BlockingPaddock(workspace) as p,
        pytest.raises(RequestError, match="`max_parallel` must be at least 1, not 0"),
    ):
        next(p.map([], max_parallel=0))


MEMORY = """
import gc, json, os, sys, tracemalloc
from paddock import BlockingPaddock, Outcome, Program, ProgramResult

def run(p, count):
    for _ in p.map(Program(language="python", code="print('x' * 1000)") for _ in range(count)):
        pass
    gc.collect()
    kept = [each for each in gc.get_objects() if type(each) in {Outcome, Program, ProgramResult}]
    return len(kept), tracemalloc.get_traced_memory()[0]

tracemalloc.start()
with BlockingPaddock(sys.argv[1], overrides={"runtimes.timeout_ms": 120_000, "runtimes.max_jobs": 2}) as p:
    print(json.dumps([run(p, 100), run(p, int(sys.argv[2]))]))
"""


def test_memory_does_not_grow_with_the_number_of_programs(workspace):
    """No result, program or outcome is kept; what a process holds after 100 programs it holds after many.

    The process is one of the test's own, where nothing else takes memory. The long form has two thousand programs:
    TEST_BATCH_PROGRAMS=2000.
    """
    count = int(os.environ.get("TEST_BATCH_PROGRAMS", "500")) - 100
    command = [sys.executable, "-c", MEMORY, str(workspace), str(count)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (first, before), (last, after) = json.loads(found)
    assert last <= first + 2
    assert after - before < count * 1000  # less than the output of one program for each


def test_an_executor_runs_programs(workspace):
    with ProgramExecutor(workspace, overrides={"runtimes.timeout_ms": 120_000}) as executor:
        futures = {executor.submit(program): program.id for program in squares(5)}
        found = {futures[future]: future.result().outcome.text for future in as_completed(futures)}
        assert found == {str(n): f"{n * n}\n" for n in range(5)}
        assert [result.id for result in executor.map(squares(4))] == ["0", "1", "2", "3"]
    with pytest.raises(RuntimeError, match="this executor was shut down; make another one"):
        executor.submit(next(squares(1)))


def test_an_executor_waits_for_its_programs_or_cancels_those_that_wait(workspace):
    started = threading.Event()
    executor = ProgramExecutor(workspace, max_workers=1, overrides={"runtimes.timeout_ms": 120_000})
    first = executor.submit(Program(language="python", code="print(1)"))
    first.add_done_callback(lambda _: started.set())
    deadline = time.monotonic() + PATIENCE_S
    while not (first.running() or first.done()):
        assert time.monotonic() < deadline
    waiting = [executor.submit(Program(language="python", code="print(2)")) for _ in range(20)]
    assert waiting[-1].cancel()
    executor.shutdown(wait=True, cancel_futures=True)
    assert started.wait(0)
    assert first.result().outcome.text == "1\n"
    assert all(future.done() for future in waiting)
    with pytest.raises(CancelledError):
        waiting[-1].result()


def test_an_executor_serves_an_event_loop(workspace):
    async def go(executor):
        loop = asyncio.get_running_loop()
        programs = [Program(language="python", code=f"print({number})") for number in range(3)]
        results = await asyncio.gather(
            *(asyncio.wrap_future(executor.submit(program), loop=loop) for program in programs)
        )
        return [result.outcome.text for result in results]

    with ProgramExecutor(workspace) as executor:
        assert asyncio.run(go(executor)) == ["0\n", "1\n", "2\n"]


def test_an_executor_reports_faults_of_paddock_on_the_future(workspace, tmp_path):
    settings = Settings(audit=AuditSettings(directory=tmp_path / "audit"))
    with ProgramExecutor(workspace, settings=settings) as executor:
        executor.submit(Program(language="python", code="1")).result()
        with pytest.raises(TimeoutError):
            list(
                executor.map(
                    [Program(language="python", code="import time; time.sleep(3600)", timeout_ms=3000)],
                    timeout=0.1,
                )
            )
