"""A program's calls at the gate: it goes on with the result, and its calls are answered once, whatever happens."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from paddock.engines.javascript.task import HostReply
from paddock.gate.program_calls import ProgramCalls
from paddock.model.errors import LedgerError
from paddock.model.outcome import (
    CallRecord,
    ConsoleLine,
    Decision,
    ErrorInfo,
    Outcome,
    PlannedCall,
    RawResult,
    Status,
)
from paddock.model.request import Caller, ExecutionRequest, GuestRun, SdkCall, ServerCall

PARENT = ExecutionRequest(workspace=Path("/w"), work=GuestRun(source="1"))
COMPAT = PARENT.model_copy(update={"work": GuestRun(source="1", raw_results=True)})
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


def calls(said, result, *, after=None, parent=PARENT):
    """Return the calls of a program whose gate comes to a result, and then to what is `after` it."""

    async def carry_out(request, on_result):
        assert (request.parent, request.surface, request.work.tool) == (parent.id, "guest", "t")
        if result is not None:
            on_result(result)
        if isinstance(after, Exception):
            raise after
        said.append("recorded")
        return after or Outcome(id=request.id, decision=Decision(allowed=True), **vars(result))

    return ProgramCalls(carry_out, lambda _: None, parent, "run", said.append)


def call(made, said, *, raw=False):
    asyncio.run(made.call("s", "t", {}, said.append, raw=raw))
    return [one.model_copy(update={"ms": 0}) if isinstance(one, CallRecord) else one for one in said]


def heard(status):
    return CallRecord(server="s", tool="t", status=status, ms=0)


def test_a_program_goes_on_before_the_end_of_its_call_is_recorded(said):
    made = calls(said, GOOD)
    assert call(made, said) == [HostReply(Status.OK, {"a": 1}), heard(Status.OK), "recorded"]


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(("parent", "name"), [(PARENT, "ToolError"), (COMPAT, "Error")])
def test_a_failed_call_is_told_with_what_the_tool_said(said, parent, name, raw):
    reply = HostReply(Status.FAILED, error={**TOLD, "name": name, "content": "no"})
    assert call(calls(said, BAD, parent=parent), said, raw=raw) == [reply, heard(Status.FAILED), "recorded"]


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


def test_a_call_is_a_request_of_its_own_that_may_do_no_more_than_its_program():
    asked = []

    async def carry_out(request, on_result):
        asked.append(request)
        on_result(GOOD)
        return GOOD

    for root in (None, "00"):
        parent = PARENT.model_copy(update={"root": root, "actor": "ada", "depth": 3, "jit": True})
        made = ProgramCalls(carry_out, lambda _: None, parent, "read_only")
        asyncio.run(made.call("s", "t", {"a": 1}, lambda _: None, raw=True))
        [request] = asked
        assert request == ExecutionRequest(
            id=request.id,
            parent=PARENT.id,
            root=root or PARENT.id,
            actor="ada",
            surface="guest",
            workspace=Path("/w"),
            work=ServerCall(server="s", tool="t", arguments={"a": 1}, raw=True),
            calls="read_only",
        )
        asked.clear()


@pytest.mark.parametrize("root", [None, "00"])
def test_a_method_is_a_request_of_its_own_that_may_do_no_more_than_its_program(root):
    asked, replies = [], []

    async def carry_out(request, _):
        asked.append(request)
        return GOOD

    parent = PARENT.model_copy(update={"root": root, "actor": "ada", "depth": 3, "jit": True})
    made = ProgramCalls(carry_out, lambda _: None, parent, "dry_run")
    asyncio.run(made.sdk("vault.get", ["k"], replies.append))
    [request] = asked
    assert request == ExecutionRequest(
        id=request.id,
        parent=PARENT.id,
        root=root or PARENT.id,
        actor="ada",
        surface="guest",
        workspace=Path("/w"),
        work=SdkCall(method="vault.get", arguments=("k",)),
        caller=Caller(method="vault.get", profile="execute"),
        calls="dry_run",
        depth=4,
    )
    assert replies == [HostReply(Status.OK, value={"a": 1})]


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (
            RawResult(
                status=Status.DENIED, error=ErrorInfo(name="ApprovalDenied", message="no", phase="decide")
            ),
            {"name": "ApprovalDenied", "message": "no", "retryable": False, "code": "approval_denied"},
        ),
        (
            RawResult(
                status=Status.UNAVAILABLE, error=ErrorInfo(name="EngineError", message="full", phase="decide")
            ),
            {"name": "EngineError", "message": "full", "retryable": True},
        ),
        (RawResult(status=Status.LOST), {"name": "Error", "message": "lost", "retryable": False}),
        (
            RawResult(status=Status.FAILED, value="half", has_value=True),
            {"name": "Error", "message": "failed", "retryable": False, "partial": "half"},
        ),
    ],
)
def test_a_method_that_brings_no_result_is_told_as_an_error(result, error):
    replies = []

    async def carry_out(_request, _):
        return result

    made = ProgramCalls(carry_out, lambda _: None, PARENT, "run")
    asyncio.run(made.sdk("vault.get", ["k"], replies.append))
    assert replies == [HostReply(result.status, error={**error, "status": result.status.value})]


def test_a_rehearsed_method_is_in_the_plan_and_an_unrecorded_one_is_not_run():
    replies = []

    async def carry_out(_request, _):
        return RawResult(status=Status.OK, value=1, has_value=True, planned=(PLANNED,))

    made = ProgramCalls(carry_out, lambda _: None, PARENT, "dry_run")
    asyncio.run(made.sdk("vault.get", ["k"], replies.append))
    assert (made.plan.calls, replies) == ((PLANNED,), [HostReply(Status.OK, value=1)])

    async def fails(_request, _):
        raise LedgerError("full")

    asyncio.run(ProgramCalls(fails, lambda _: None, PARENT, "run").sdk("vault.get", ["k"], replies.append))
    error = {"name": "Error", "message": "the call cannot be recorded, so it was not made"}
    assert replies[1:] == [HostReply(Status.ERROR, error=error)]


def test_what_is_to_be_said_of_a_tool_is_said_once(said):
    line = ConsoleLine(level="warn", text="s.t: arguments are not checked")
    made = calls(said, GOOD.model_copy(update={"console": (line,)}))
    call(made, said)
    call(made, said)
    replies = [one for one in said if isinstance(one, HostReply)]
    assert replies == [HostReply(Status.OK, {"a": 1}, warning=line.text), HostReply(Status.OK, {"a": 1})]


def test_the_seeds_programs_hear_nothing_of_it(said):
    line = ConsoleLine(level="warn", text="s.t: arguments are not checked")
    made = calls(said, GOOD.model_copy(update={"console": (line,)}))
    seed = PARENT.model_copy(update={"work": GuestRun(source="1", raw_results=True)})
    assert call(replace(made, parent=seed), said)[0] == HostReply(Status.OK, {"a": 1})


CODED = ErrorInfo(name="ToolError", message="no", phase="call", code=-32050, data={"retry": True})


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(
    ("parent", "further"),
    [(PARENT, {"code": -32050, "data": {"retry": True}}), (COMPAT, {"name": "Error"})],
)
def test_code_and_data_of_a_servers_error_are_told(said, parent, further, raw):
    made = calls(said, RawResult(status=Status.FAILED, error=CODED), parent=parent)
    assert call(made, said, raw=raw)[0] == HostReply(Status.FAILED, error={**TOLD, **further})


@pytest.mark.parametrize(
    ("result", "reply"),
    [
        (GOOD, HostReply(Status.OK, {"a": 1})),
        (BAD, HostReply(Status.FAILED, error={**TOLD, "tool": "get-sum", "content": "no"})),
    ],
)
def test_a_call_by_an_alias_is_reported_by_the_name_of_the_tool(said, result, reply):
    known, asked = {}, []

    async def carry_out(request, on_result):
        asked.append(request.work.tool)
        known["get_sum"] = "get-sum"  # its server was started for it
        on_result(result)
        return result

    made = ProgramCalls(
        carry_out,
        lambda _: None,
        PARENT,
        "run",
        said.append,
        resolve_alias=lambda _, tool: known.get(tool, tool),
    )
    asyncio.run(made.call("s", "get_sum", {"a": 1}, said.append, raw=False))
    assert asked == ["get_sum"]
    assert said == [reply, CallRecord(server="s", tool="get-sum", status=result.status, ms=said[1].ms)]
