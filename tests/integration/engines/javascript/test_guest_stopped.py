"""Programs that their user stops: each ends at once, and nothing of what it said and did is lost."""

import asyncio

import pytest

from paddock.model.limits import LimitOverrides
from paddock.model.request import ExecutionRequest, GuestRun


def stopped(guest, source):
    """Return what became of a program that is stopped at its first line."""
    stop = asyncio.Event()
    execute = guest.session.gate.execute(guest.request(source), stop=stop, on_console=lambda _: stop.set())
    return guest.runner.run(execute)


def test_what_it_said_and_called_is_told(guest):
    outcome = stopped(
        guest,
        "await servers.odd.call('echo', { text: 'x' }); const hanging = servers.odd.call('hang');"
        " console.log('so far'); await hanging",
    )
    assert (outcome.status, outcome.error.name, outcome.error.message) == (
        "cancelled",
        "Cancelled",
        "Cancelled",
    )
    assert [line.text for line in outcome.console] == ["so far"]
    assert [(call.server, call.tool, call.status) for call in outcome.calls] == [("odd", "echo", "ok")]
    assert (outcome.in_flight, outcome.usage.host_calls, outcome.sandbox.tier) == (1, 2, "landlock")
    assert outcome.usage.peak_bytes > 0


def test_one_that_computes_ends_too(guest):
    outcome = stopped(guest, "console.log('so far'); for (;;);")
    assert (outcome.status, [line.text for line in outcome.console]) == ("cancelled", ["so far"])
    assert guest.value("return 1") == 1


@pytest.mark.parametrize("profile", ["script", "compute"])
def test_one_that_is_stopped_before_it_begins_does_nothing(guest, profile):
    stop = asyncio.Event()
    stop.set()
    request = ExecutionRequest(
        workspace=guest.workspace,
        work=GuestRun(source="for (;;);", profile=profile),
        limits=LimitOverrides(timeout_ms=60_000),
    )
    outcome = guest.execute(request, stop=stop)
    assert (outcome.status, outcome.console, outcome.value) == ("cancelled", (), None)


def test_a_stop_that_comes_too_late_changes_nothing(guest):
    outcome = guest.execute(guest.request("return 1"), stop=asyncio.Event())
    assert (outcome.status, outcome.value) == ("ok", 1)
