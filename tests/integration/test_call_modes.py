"""Programs that may only read, and rehearsals: what the gate refuses and what it stubs."""

from typing import Any

import pytest

from paddock.model.outcome import PlannedCall

WRITE = "const pid = await servers.odd.pid({}); return [typeof pid, await servers.odd.echo({text: 'x'})]"


@pytest.fixture
def run(guest: Any) -> Any:
    def run(source: str, calls: str) -> Any:
        request = guest.request(source).model_copy(update={"calls": calls})
        return guest.execute(request)

    return run


def test_a_program_that_may_only_read(run: Any) -> None:
    outcome = run(WRITE, "read_only")
    assert outcome.error.message == (
        "odd/echo is not marked as read-only by its server, but this run may only read; "
        "rehearse it with dry_run, or use a run with calls = 'run'"
    )
    assert [(call.tool, call.status) for call in outcome.calls] == [("pid", "ok"), ("echo", "denied")]


def test_a_refused_call_can_be_caught(run: Any) -> None:
    outcome = run("try { await servers.odd.echo({}) } catch (error) { return error.name }", "read_only")
    assert outcome.value == "ToolError"


def test_a_rehearsal_calls_what_reads_and_lists_the_rest(run: Any) -> None:
    outcome = run(WRITE + "", "dry_run")
    assert outcome.value == ["number", {"dryRun": True, "server": "odd", "tool": "echo"}]
    assert outcome.planned == (PlannedCall(server="odd", tool="echo", arguments={"text": "x"}),)


def test_a_rehearsal_that_fails_still_tells_its_plan(run: Any) -> None:
    outcome = run("const all = await servers.odd.echo({text: 'x'}); for (const one of all) {}", "dry_run")
    assert (outcome.status, outcome.error.name) == ("failed", "TypeError")
    assert outcome.planned == (PlannedCall(server="odd", tool="echo", arguments={"text": "x"}),)


def test_no_plan_keeps_more_than_fits(run: Any) -> None:
    outcome = run("for (let i = 0; i < 3; i++) await servers.odd.echo({text: 'x'.repeat(600000)})", "dry_run")
    assert [call.arguments is None for call in outcome.planned] == [False, True, True]


def test_a_server_that_nobody_knows_is_no_write(run: Any) -> None:
    for calls in ("read_only", "dry_run"):
        assert (
            run("await servers.nobody.echo({})", calls).error.message
            == "Unknown server: nobody; known: odd, even."
        )


def test_a_secret_in_a_plan_is_hidden(run: Any) -> None:
    outcome = run("await servers.odd.echo({password: 'hunter2'})", "dry_run")
    assert outcome.planned[0].arguments == {"password": "[REDACTED:secret]"}
