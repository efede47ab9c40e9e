"""How programs of every language go wrong: memory, stack, time and output without end.

What takes the output is the same for all languages: some of them flood it, and with `PADDOCK_RELIABILITY_RUNS` set, all.
"""

import os
import signal
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paddock.model.limits import MIB, LimitOverrides
from paddock.model.outcome import Outcome

FAULTS = tomllib.loads(Path(__file__).with_name("errors.toml").read_text(encoding="utf-8"))
RUNTIMES = sorted(FAULTS)
FLOODING = (
    RUNTIMES if os.environ.get("PADDOCK_RELIABILITY_RUNS") else ["c", "java", "node", "python", "shell"]
)

NO_MEMORY = {"perl": "Out of memory!", "shell": "cannot allocate"}
"""What a runtime says that gets no more memory, where that is no evidence of it."""
HUGE = tomllib.loads(Path(__file__).with_name("huge.toml").read_text(encoding="utf-8"))
NO_STACK = {
    "java": "java.lang.StackOverflowError",
    "kotlin": "java.lang.StackOverflowError",
    "node": "Maximum call stack size exceeded",
    "python": "RecursionError",
    "r": "infinite recursion",
    "ruby": "stack level too deep",
    "typescript": "Maximum call stack size exceeded",
}
"""What a runtime says that limits its stack itself. In others, the stack may grow up to the memory limit."""
TIGHT = LimitOverrides(timeout_ms=60_000, memory_bytes=256 * MIB)
TIGHTEST = LimitOverrides(timeout_ms=60_000, memory_bytes=64 * MIB)
"""For a shell, whose recursion takes memory slowly."""

Fail = Callable[..., Iterator[Outcome]]


@pytest.fixture(scope="module")
def fail(toolchain_path, open_programs) -> Iterator[Fail]:
    """Yield what has the program of a runtime go wrong in each tier; each tells what became of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", toolchain_path)
        gates = [open_programs(tier, access="workspace-write") for tier in ("landlock", "namespaces")]
        made: set[str] = set()

        def run(name: str, fault: str, limits: LimitOverrides) -> Iterator[Outcome]:
            if name not in made:  # a compiler needs more of everything than is left for the fault
                assert gates[0].text(name, FAULTS[name], args=("nothing",)) == ""
                made.add(name)
            for programs in gates:
                work = {"args": (fault,), "access": "workspace-write", "output": {"persist": False}}
                outcome = programs.run(name, FAULTS[name], limits=limits, **work)
                assert outcome.program is not None, outcome.error
                assert (outcome.program.phase, outcome.program.survivors) == ("run", 0)
                assert list(programs.workspace.iterdir()) == []
                yield outcome

        yield run


@pytest.mark.parametrize("name", RUNTIMES)
def test_more_memory_than_there_is(fail, name):
    for outcome in fail(name, "memory", TIGHT):
        if name in NO_MEMORY and outcome.status == "failed":
            assert_failed(outcome, NO_MEMORY[name])
        else:
            assert (outcome.status, outcome.program.limit) == ("memory_limit", "memory")
            assert outcome.error.message == "The program used more memory than it may"
        assert outcome.error.hint == "it had 256 MiB; runtimes.memory_bytes is the maximum"


@pytest.mark.parametrize("name", HUGE)
def test_a_runtime_that_gets_no_more_memory_ends_at_the_memory_limit(toolchain_path, open_programs, name):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", toolchain_path)
        programs = open_programs("namespaces")
        outcome = programs.run(name, HUGE[name])
    assert outcome.program.phase == "run"
    assert (outcome.status, outcome.program.limit) == ("memory_limit", "memory")
    assert outcome.program.exit_code or outcome.program.signal == signal.SIGABRT
    assert outcome.error.message == "The program used more memory than it may"
    assert outcome.error.hint == "it had 1024 MiB; runtimes.memory_bytes is the maximum"


@pytest.mark.parametrize("name", RUNTIMES)
def test_recursion_without_end(fail, name):
    for outcome in fail(name, "recursion", TIGHTEST if name == "shell" else TIGHT):
        if name in NO_STACK:
            assert_failed(outcome, NO_STACK[name])
            assert "endless recursion" not in outcome.error.hint
        else:
            assert (outcome.status, outcome.program.limit) == ("memory_limit", "memory")


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_loop_without_end(fail, name):
    for outcome in fail(name, "loop", LimitOverrides(timeout_ms=500)):
        assert (outcome.status, outcome.program.limit) == ("timeout", "wall")
        assert outcome.error.message == "The program ran out of time"
        assert outcome.error.hint == "it had 500 ms; runtimes.timeout_ms is the maximum"


@pytest.mark.parametrize("name", FLOODING)
def test_a_hundred_megabytes_of_output(fail, name):
    outcomes = fail(name, "flood", LimitOverrides(timeout_ms=100_000))
    tiers = 2 if name in {"c", "python", "node"} else 1  # what takes the output is the same in both
    for outcome, _ in zip(outcomes, range(tiers), strict=False):
        stdout = outcome.program.stdout
        assert (outcome.status, outcome.program.exit_code) == ("ok", 0)
        assert stdout.total_bytes == 100 * MIB
        assert stdout.truncated
        assert len(stdout.head + stdout.tail) == MIB
        assert stdout.omitted_bytes == 99 * MIB


def assert_failed(outcome: Outcome, words: str) -> None:
    """Have a program end itself, or be ended by its own signal, with the words of its runtime."""
    program = outcome.program
    assert program is not None
    assert (outcome.status, program.limit) == ("failed", None)
    assert program.exit_code or program.signal
    assert words in program.stderr.head + program.stderr.tail
