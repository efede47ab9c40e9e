"""A JavaScript program that others kept from running: what it may have changed decides whether it may run again."""

import pytest

from paddock.engines.javascript.worker_client import Worker

HINT = "it waited 190 ms for a processor and had one for 1 ms; run it again when the machine is less busy"


@pytest.fixture(autouse=True)
def starved(monkeypatch):
    monkeypatch.setattr(Worker, "explain_starvation", lambda _, wall_ms: HINT if wall_ms == 2_000 else "")


def tell(outcome):
    return outcome.status.value, outcome.error.message, outcome.error.hint


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("for (;;);", "unavailable"),
        ("await new Promise(() => setTimeout(() => {}, 60_000))", "unavailable"),
        ("await servers.odd.call('echo', { text: 'a' }); for (;;);", "timeout"),
    ],
)
def test_a_program_without_calls_may_run_again(guest, program, status):
    outcome = guest.run(program, timeout_ms=2_000)
    assert tell(outcome) == (
        status,
        "The program ran out of time while other processes used the processors",
        HINT,
    )


def test_a_computation_may_run_again(guest):
    message = "The computation ran out of time while other processes used the processors"
    assert tell(guest.compute("for (;;);", timeout_ms=2_000)) == ("unavailable", message, HINT)
