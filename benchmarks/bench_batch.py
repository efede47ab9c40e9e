"""Many short programs by `Paddock.map`, beside the same programs started bare, as many at the same time."""

import resource
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

from benchmarks.measure import Line, Scale, at_least, interleaved, milliseconds, ratio
from benchmarks.peers import bare_environment
from paddock import BlockingPaddock, Case, Program

TITLE = "Batches"

_PARALLEL = 2
_OF_50_MS = "import time\nwhile time.process_time() < 0.05: pass\nprint(6 * 7)\n"
"""Takes 50 ms of CPU time, including the start of the interpreter."""
_PROGRAMS = {"of 50 ms": (_OF_50_MS, 0.92), "of one line": ("print(6 * 7)\n", 0.75)}
"""What is run, and the least rate of `map` against bare processes."""
_OVERRIDES: dict[str, Any] = {"runtimes.max_jobs": _PARALLEL}
_MIB = 1024


def measure(scale: Scale) -> list[Line]:
    with (
        tempfile.TemporaryDirectory(prefix="paddock-bench-") as workspace,
        BlockingPaddock(workspace, overrides=_OVERRIDES) as p,
    ):
        # The interpreter of programs without a workspace: version managers choose by the files of one.
        [result] = p.map([Program(language="python", code="import sys; print(sys.executable)")])
        interpreter = str(result.outcome.check().text).strip()
        return [
            *[line for which in _PROGRAMS for line in _measure_rate(p, interpreter, which, scale)],
            _measure_tests(p, scale),
            _measure_memory(p, scale.of(2000, 50)),
        ]


def _measure_rate(p: BlockingPaddock, interpreter: str, which: str, scale: Scale) -> list[Line]:
    rounds, programs = scale.of(10, 1), scale.of(100, 100)
    code, target = _PROGRAMS[which]
    bare = [interpreter, "-c", code]

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
            "map": lambda: milliseconds(lambda: run_map(p, programs, code, max_parallel=_PARALLEL)),
            "bare": lambda: milliseconds(run_bare),
        },
        rounds,
    )
    rates = {who: programs * 1000 / median(spent) for who, spent in figures.items()}
    return [
        Line(
            f"{rounds * programs} programs {which}, rate of `map` against bare processes",
            ratio(figures["bare"], figures["map"]),
            "x",
            at_least(target),
        ),
        Line(f"programs {which} by `map`, two at a time", rates["map"], "runs/s"),
        Line("floor: the same started bare, two at a time", rates["bare"], "runs/s"),
    ]


def run_map(p: BlockingPaddock, programs: int, code: str = _OF_50_MS, **options: Any) -> None:
    """Run programs, by default of 50 ms, and check all results. Options are those of `map`."""
    results = list(p.map(_make_programs(programs, code), **options))
    assert len(results) == programs
    assert all(result.outcome.check().text == "42\n" for result in results)


def _make_programs(number: int, code: str = _OF_50_MS) -> Iterator[Program]:
    return (Program(language="python", code=code) for _ in range(number))


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
