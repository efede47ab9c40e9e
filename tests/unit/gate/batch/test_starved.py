"""A program that others kept from running is run again, at most a few times, and has no verdict after that."""

import asyncio
from pathlib import Path

import pytest

from paddock.gate.batch.program import Case, Program
from paddock.gate.batch.runner import MAX_ATTEMPTS, BatchOrigin, BatchRunner
from paddock.model.outcome import Outcome, Status
from paddock.model.program import ProgramEnd
from paddock.policy.settings.schema import RuntimeSettings

STARVED = Outcome(id="s", status=Status.UNAVAILABLE, program=ProgramEnd(runtime="python", limit="wall"))
RIGHT = Outcome(id="r", status=Status.OK, program=ProgramEnd(runtime="python", exit_code=0))
SLOW = Outcome(id="t", status=Status.TIMEOUT, program=ProgramEnd(runtime="python", limit="wall"))
MISSING = Outcome(id="m", status=Status.UNAVAILABLE)
BROKEN = Outcome(id="b", status=Status.UNAVAILABLE, program=ProgramEnd(runtime="python"))


def run(outcomes, program):
    """Return the result of a program that ends in these ways one after the other, and the ids of its requests."""
    requests = []

    async def execute(request, *, on_raw_stdout=None, patient=False):
        assert patient
        requests.append(request.id)
        if on_raw_stdout is not None:
            on_raw_stdout(b"42\n")
        return outcomes[len(requests) - 1]

    runner = BatchRunner(execute, BatchOrigin(Path("/"), "ada", "test"), RuntimeSettings())
    result = asyncio.run(runner.run(program))
    assert len(set(requests)) == len(requests)
    return result, len(requests)


@pytest.mark.parametrize(
    ("outcomes", "verdict", "attempts"),
    [
        ([RIGHT], "accepted", 1),
        ([STARVED, RIGHT], "accepted", 2),  # only the output of the last attempt is compared
        ([STARVED, SLOW], "time_limit", 2),
        ([STARVED] * 9, "unavailable", MAX_ATTEMPTS),
        ([SLOW], "time_limit", 1),
        ([MISSING], "unavailable", 1),
        ([BROKEN], "unavailable", 1),
    ],
)
def test_a_starved_test_is_run_again_within_bounds(outcomes, verdict, attempts):
    program = Program(language="python", code="print(42)", tests=(Case(expect=b"42"),))
    result, count = run(outcomes, program)
    assert result.verdict is not None
    assert (result.verdict.value, count) == (verdict, attempts)


def test_a_program_without_tests_is_run_again_too():
    result, count = run([STARVED, RIGHT], Program(language="python", code="print(42)"))
    assert (result.outcome, count) == (RIGHT, 2)
