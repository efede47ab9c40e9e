"""A program that others kept from running, by a sandbox that says so: what it may have changed decides what that is."""

import pytest

from paddock import BlockingPaddock
from paddock.confinement.sandbox import process
from paddock.engines.programs import outcome_mapping
from paddock.model.process import ProcessUsage

MESSAGE = "The program ran out of time while other processes used the processors"
SLEEP = "print('so far', flush=True)\nimport time\ntime.sleep(600)"
WRITES_AND_SLEEPS = "echo so far; sleep 600"
"""A shell starts soon: the text must be there in time."""


@pytest.fixture(autouse=True)
def starved(monkeypatch):
    monkeypatch.setattr(outcome_mapping, "count_processors", lambda: 2.0)
    monkeypatch.setattr(process, "_make_usage", lambda _: ProcessUsage(wall_ms=1000, stalled_ms=990))


def test_a_judged_program_has_no_verdict(batch):
    result = batch.judge(SLEEP, ("", "so far"), timeout_ms=300)
    assert (result.verdict.value, [(case.verdict.value, case.message) for case in result.tests]) == (
        "unavailable",
        [("unavailable", MESSAGE)],
    )


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"access": "none"}, "unavailable"),
        ({"access": "read-only"}, "unavailable"),
        ({"access": "workspace-write"}, "timeout"),
        ({"access": "none", "network": "full"}, "timeout"),
    ],
)
def test_only_a_program_that_changed_nothing_may_run_again(tmp_path, options, status):
    granted = {"runtimes": {"access": "workspace-write", "network": "full"}}
    with BlockingPaddock(tmp_path, overrides=granted) as paddock:
        outcome = paddock.exec("shell", WRITES_AND_SLEEPS, timeout_ms=3000, **options)
    assert (outcome.status.value, outcome.error.message, outcome.text) == (status, MESSAGE, "so far\n")
    assert outcome.error.hint == (
        "it had 3000 ms; runtimes.timeout_ms is the maximum; it waited 990 ms for a processor and had one for 0 ms; run it "
        "again when the machine is less busy"
    )


def test_a_session_has_changed_its_variables(batch):
    with batch.paddock.session("python") as session:
        session.run("x = 1").check()
        outcome = session.run("import time\ntime.sleep(600)", timeout_ms=300)
        assert (outcome.status.value, outcome.error.message) == ("timeout", MESSAGE)
        assert session.run("print(x)").text == "1\n"
