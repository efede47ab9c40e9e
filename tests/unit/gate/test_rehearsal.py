"""A rehearsal: what it answers, what it lists, and that it asks nobody."""

from pathlib import Path

import pytest

from paddock.gate.gate import is_listed_instead_of_asked
from paddock.gate.program_calls import MAX_KEPT_CHARS, Plan
from paddock.gate.work import KINDS, kind_of
from paddock.model.limits import Calls, Grants
from paddock.model.outcome import Decision, PlannedCall
from paddock.model.request import Caller, ExecutionRequest, GuestRun, RuntimeRun, SdkCall, ServerCall

CALL = ServerCall(server="git", tool="push", arguments={"force": True})
PROGRAM = RuntimeRun(runtime="shell", code="true")


def request(work: GuestRun | RuntimeRun | SdkCall | ServerCall, **fields: object) -> ExecutionRequest:
    return ExecutionRequest(workspace=Path("/w"), work=work, **fields)


def plan(asked: ExecutionRequest, decision: Decision) -> PlannedCall:
    return kind_of(asked).make_planned_call(asked, asked.work, decision)


@pytest.mark.parametrize(
    ("asked", "granted", "rehearses"),
    [
        ("dry_run", "run", True),
        ("run", "dry_run", True),
        ("read_only", "read_only", False),
        ("run", "run", False),
    ],
)
def test_what_belongs_to_a_rehearsal_asks_nobody(asked: Calls, granted: Calls, *, rehearses: bool) -> None:
    decision = Decision(allowed=False, asks=("why",), grants=Grants(calls=granted))
    for work, fields in ((CALL, {}), (CALL, {"parent": "00"}), (PROGRAM, {"parent": "00"})):
        assert is_listed_instead_of_asked(request(work, calls=asked, **fields), decision) is rehearses
    # What a person starts is asked about: it runs, although its calls do not.
    assert not is_listed_instead_of_asked(request(PROGRAM, calls=asked), decision)
    assert not is_listed_instead_of_asked(request(GuestRun(source="1"), calls=asked), decision)


def test_a_call_that_is_not_made_is_answered_with_a_stub() -> None:
    assert KINDS["server"].stub_result(CALL) == {"dryRun": True, "server": "git", "tool": "push"}
    assert KINDS["server"].stub_result(CALL.model_copy(update={"raw": True})) == {
        "content": [{"type": "text", "text": "git.push was not called: this is a dry run"}]
    }


def test_a_call_is_listed_with_what_would_be_asked() -> None:
    decision = Decision(allowed=False, asks=("why",))
    assert plan(request(CALL), decision) == PlannedCall(
        server="git", tool="push", arguments={"force": True}, asks=("why",)
    )
    by_program = request(PROGRAM, caller=Caller(method="exec", profile="script"))
    assert plan(by_program, decision) == PlannedCall(
        server="paddock", tool="exec", arguments={"code": "true", "cwd": "."}, asks=("why",)
    )
    assert plan(request(PROGRAM), decision).tool == "runtime"


def test_a_list_keeps_no_more_arguments_than_there_is_room_for() -> None:
    plan = Plan()
    large = {"text": "x" * (MAX_KEPT_CHARS - 20)}
    for arguments in (large, {"a": 1}, {"text": "x" * 100}, {}):
        plan.add_call(PlannedCall(server="s", tool="t", arguments=arguments))
    assert [call.arguments for call in plan.calls] == [large, {"a": 1}, None, None]
