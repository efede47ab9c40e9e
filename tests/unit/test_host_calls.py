"""A program's calls at the gate: it goes on with the result, and its calls are answered once, whatever happens."""

import asyncio
from pathlib import Path

import pytest

from paddock.guest.job import HostReply
from paddock.host_calls import HostCalls
from paddock.model.errors import LedgerError
from paddock.model.outcome import CallRecord, Decision, ErrorInfo, Outcome, PlannedCall, RawResult, Status
from paddock.model.request import ExecutionRequest, GuestRun

PARENT = ExecutionRequest(workspace=Path("/w"), work=GuestRun(source="1"))
GOOD = RawResult(status=Status.OK, value={"a": 1}, has_value=True)
BAD = RawResult(
    status=Status.FAILED,
    value="no",
    has_value=True,
    error=ErrorInfo(name="ToolError", message="no", phase="call"),
)
TOLD = {"name": "ToolError", "message": "no", "retryable": False, "server": "s", "tool": "t"}
PLANNED = PlannedCall(server="s", tool="t", arguments={})


@pytest.fixture
def said():
    """Return what happened, in order."""
    return []


def calls(said, result, *, after=None):
    """Return the calls of a program whose gate comes to a result, and then to what is `after` it."""

    async def carry_out(request, on_result):
        assert (request.parent, request.surface, request.work.tool) == (PARENT.id, "guest", "t")
        if result is not None:
            on_result(result)
        if isinstance(after, Exception):
            raise after
        said.append("recorded")
        return after or Outcome(id=request.id, decision=Decision(allowed=True), **vars(result))

    return HostCalls(carry_out, lambda _: None, PARENT, "run", said.append)


def call(made, said, *, raw=False):
    asyncio.run(made.call("s", "t", {}, said.append, raw=raw))
    return [one.model_copy(update={"ms": 0}) if isinstance(one, CallRecord) else one for one in said]


def heard(status):
    return CallRecord(server="s", tool="t", status=status, ms=0)


def test_a_program_goes_on_before_the_end_of_its_call_is_recorded(said):
    made = calls(said, GOOD)
    assert call(made, said) == [HostReply(Status.OK, {"a": 1}), heard(Status.OK), "recorded"]


@pytest.mark.parametrize(("raw", "name"), [(False, "ToolError"), (True, "Error")])
def test_a_failed_call_is_told_with_what_the_tool_said(said, raw, name):
    reply = HostReply(Status.FAILED, error={**TOLD, "name": name, "content": "no"})
    assert call(calls(said, BAD), said, raw=raw) == [reply, heard(Status.FAILED), "recorded"]


def test_what_did_not_run_is_answered_when_that_is_recorded(said):
    refusal = ErrorInfo(name="PolicyError", message="no", phase="decide")
    made = calls(said, None, after=Outcome(id="x", status=Status.DENIED, error=refusal))
    assert call(made, said) == ["recorded", HostReply(Status.DENIED, error=TOLD), heard(Status.DENIED)]


def test_a_rehearsed_call_is_in_the_plan(said):
    stub = Outcome(id="x", status=Status.OK, value="stub", has_value=True, planned=(PLANNED,))
    made = calls(said, None, after=stub)
    assert call(made, said) == ["recorded", HostReply(Status.OK, "stub"), heard(Status.OK)]
    assert made.plan.calls == (PLANNED,)


def test_without_its_record_a_call_is_not_made(said):
    error = {"name": "Error", "message": "the call cannot be recorded, so it was not made"}
    made = calls(said, None, after=LedgerError("full"))
    assert call(made, said) == [HostReply(Status.ERROR, error=error), heard(Status.ERROR)]


def test_a_call_that_was_made_is_not_said_not_to_be(said):
    made = calls(said, GOOD, after=LedgerError("full"))
    assert call(made, said) == [HostReply(Status.OK, {"a": 1}), heard(Status.OK)]
