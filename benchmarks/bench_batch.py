"""Many short programs by `Paddock.map`, beside the same programs started bare, as many at the same time."""

import resource
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import Line, Scale, at_least, interleaved, milliseconds, ratio
from benchmarks.peers import bare_environment
from paddock import BlockingPaddock, Case, Program

TITLE = "Batches"

_PARALLEL = 2
_PROGRAM = "import time\nwhile time.process_time() < 0.05: pass\nprint(6 * 7)\n"
"""Takes 50 ms of CPU time, including the start of the interpreter."""
_OVERRIDES: dict[str, Any] = {"runtimes.max_jobs": _PARALLEL}
_MIB = 1024


def measure(scale: Scale) -> list[Line]:
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as workspace:
        source = Path(workspace, "program.py")
        source.write_text(_PROGRAM)
        with BlockingPaddock(workspace, overrides=_OVERRIDES) as p:
            interpreter = str(p.exec("python", "import sys; print(sys.executable)").check().text).strip()
            return [
                *_measure_rate(p, [interpreter, str(source)], scale),
                _measure_tests(p, scale),
                _measure_memory(p, scale.of(2000, 50)),
            ]


def _measure_rate(p: BlockingPaddock, bare: list[str], scale: Scale) -> list[Line]:
    rounds, programs = scale.of(10, 1), scale.of(100, 100)

    def start_bare(_: int) -> None:
        # Programs of Paddock are sessions of their own, to which Linux gives a share of a busy machine (sched(7)).
        done = subprocess.run(
            bare, env=bare_environment(), capture_output=True, check=True, start_new_session=True
        )
        assert done.stdout == b"42\n"

    def run_bare() -> None:
        with ThreadPoolExecutor(_PARALLEL) as pool:
            for _ in pool.map(start_bare, range(programs)):
                pass

    figures = interleaved(
        {
            "map": lambda: milliseconds(lambda: run_map(p, programs, max_parallel=_PARALLEL)),
            "bare": lambda: milliseconds(run_bare),
        },
        rounds,
    )
    rates = {who: programs * 1000 / median(spent) for who, spent in figures.items()}
    return [
        Line(
            f"{rounds * programs} programs of 50 ms, rate of `map` against bare processes",
            ratio(figures["bare"], figures["map"]),
            "x",
            at_least(0.9),
        ),
        Line("programs of 50 ms by `map`, two at a time", rates["map"], "runs/s"),
        Line("floor: the same started bare, two at a time", rates["bare"], "runs/s"),
    ]


def run_map(p: BlockingPaddock, programs: int, **options: Any) -> None:
    """Run programs of 50 ms, and check all results. Options are those of `map`."""
    results = list(p.map(_make_programs(programs), **options))
    assert len(results) == programs
    assert all(result.outcome.check().text == "42\n" for result in results)


def _make_programs(number: int) -> Iterator[Program]:
    return (Program(language="python", code=_PROGRAM) for _ in range(number))


def _measure_tests(p: BlockingPaddock, scale: Scale) -> Line:
    tests = [Case(stdin=f"{n}\n", expect=f"{2 * n}\n") for n in range(scale.of(100, 5))]
    program = Program(language="python", code="print(int(input()) * 2)", tests=tests)

    def judge() -> None:
        [result] = p.map([program])
        assert result.ok, result.verdict

    judge()
    spent = [milliseconds(judge) for _ in range(scale.of(5, 1))]
    return Line("a Python program judged, for each of its tests", median(spent) / len(tests), "ms")


def _measure_memory(p: BlockingPaddock, programs: int) -> Line:
    for _ in p.map(_make_programs(20)):
        pass
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in p.map(Program(language="python", code="print(1)") for _ in range(programs)):
        pass
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return Line(f"growth of this process during {programs} programs, at its peak", grown / _MIB, "MiB")
