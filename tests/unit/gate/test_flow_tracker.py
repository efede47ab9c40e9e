"""Programs that can send what another call reads meanwhile, and runs, sessions and clients that meet."""

import asyncio
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from paddock.gate.flow.tracker import FlowState, FlowTracker, Read
from paddock.gate.work import KINDS
from paddock.model.outcome import Decision, Outcome, RawResult, Status
from paddock.model.program import ProgramEnd, ProgramGrants, ProgramLimits, ProgramTerms
from paddock.model.request import ExecutionRequest, GuestRun, RuntimeRun, ServerCall
from paddock.model.session import SessionEnd, make_handle
from paddock.policy.decisions.decision import Policy
from paddock.policy.decisions.flow import FlowPolicy
from paddock.policy.redaction.known import KnownSecrets
from paddock.policy.redaction.outgoing import OutgoingRedaction
from paddock.policy.settings.flow import FlowLabel, FlowRule, FlowSettings
from paddock.policy.settings.schema import RedactionSettings, Settings

FLOW = FlowSettings(
    label=(FlowLabel(tool="mail/*", source=("private",)), FlowLabel(tool="web/*", sink="external")),
    rule=(FlowRule(source=("private",), sink="external", effect="deny"),),
)
ALLOWED = Decision(allowed=True)
ONLINE = Decision(
    allowed=True,
    program=ProgramTerms(limits=ProgramLimits(), grants=ProgramGrants(network="hosts")),
)
MAIL = ServerCall(server="mail", tool="read")
POST = ServerCall(server="web", tool="post")
PROGRAM = RuntimeRun(runtime="python", code="send()", network="hosts", hosts=("evil.example",))
OK, INVALID = RawResult(status=Status.OK, value="x", has_value=True), RawResult(status=Status.INVALID)
STARVED = RawResult(status=Status.UNAVAILABLE, program=ProgramEnd(runtime="python", limit="wall"))
"""The end of a program that began, and got too little CPU for the rest."""


class Desk:
    """A tracker with the requests of some runs."""

    def __init__(self, *labels: FlowLabel) -> None:
        settings = Settings(flow=FLOW.model_copy(update={"label": labels or FLOW.label}))
        outgoing = OutgoingRedaction(RedactionSettings(), KnownSecrets())
        servers = cast("Any", None)  # no call depends on annotations
        rules, policy = FlowPolicy(settings, KINDS), Policy(settings, KINDS)
        absent = cast("Any", None)
        self.tracker = FlowTracker(rules, policy, servers, outgoing, absent, find_changes=absent)

    def begin(self, client: str = "", session: str | None = None) -> ExecutionRequest:
        request = ExecutionRequest(workspace=Path("/w"), work=GuestRun(source="", session=session))
        self.tracker.begin_run(request, client)
        return request

    def judge(self, run: ExecutionRequest, work: Any, decision: Decision = ALLOWED) -> tuple[Any, Decision]:
        child = ExecutionRequest(workspace=Path("/w"), work=work, parent=run.id, root=run.id)
        return child, asyncio.run(self.tracker.judge(child, decision))

    def enter(self, call: tuple[ExecutionRequest, Decision]) -> str | None:
        request, decision = call
        assert decision.flow is not None
        rule = self.tracker.enter(request, decision.flow)
        return None if rule is None else self.tracker.explain(request, rule)

    def call(self, run: ExecutionRequest, work: Any, result: RawResult | None = OK) -> bool:
        """Make a call; return whether it was allowed."""
        request, decision = self.judge(run, work)
        if decision.allowed:
            assert self.enter((request, decision)) is None
            self.tracker.leave(request, result)
        return decision.allowed


def test_labels_can_be_read_in_a_thread_while_calls_begin() -> None:
    state = FlowState(set())

    class Labels(tuple[str, ...]):
        """Labels of a call; another one begins whenever they are read."""

        __slots__ = ()

        def __iter__(self) -> Iterator[str]:
            state.in_flight[f"call {len(state.in_flight)}"] = Read("", "", "", ("untrusted",))
            return super().__iter__()

    state.in_flight["first"] = Read("", "", "", Labels(("private",)))
    assert state.labels == {"private"}
    assert state.labels == {"private", "untrusted"}


def test_a_source_is_refused_while_a_program_can_send_its_result() -> None:
    desk = Desk()
    run = desk.begin()
    program = desk.judge(run, PROGRAM, ONLINE)
    source = desk.judge(run, MAIL)
    assert desk.enter(program) is None
    assert desk.enter(source) == (
        "mail/read is denied by policy flow rule 1: running a python program runs at the same time and can send what "
        "this call reads; call it after the program has ended"
    )
    desk.tracker.leave(program[0], OK)
    assert desk.call(run, MAIL)


def test_a_program_that_waited_is_refused_after_a_source_was_called() -> None:
    desk = Desk()
    run = desk.begin()
    program = desk.judge(run, PROGRAM, ONLINE)
    assert desk.call(run, MAIL)
    assert (desk.enter(program) or "").startswith(
        "running a python program is denied by policy flow rule 1: this run has read private data (mail/read) meanwhile"
    )
    assert desk.call(desk.begin(), MAIL)


def test_a_program_without_a_network_is_no_sink() -> None:
    desk = Desk()
    run = desk.begin()
    assert desk.call(run, MAIL)
    _, decision = desk.judge(
        run, RuntimeRun(runtime="python", code="1"), Decision(allowed=True, program=ProgramTerms())
    )
    assert (decision.allowed, decision.flow) == (True, None)


@pytest.mark.parametrize(("result", "counts"), [(OK, True), (INVALID, False), (None, True), (STARVED, True)])
def test_a_call_counts_as_soon_as_it_is_sent(result: RawResult | None, counts: bool) -> None:
    desk = Desk()
    run = desk.begin()
    call = desk.judge(run, MAIL)
    assert desk.enter(call) is None
    assert not desk.call(run, POST)
    desk.tracker.leave(call[0], result)
    assert desk.call(run, POST) is not counts


def test_a_call_that_outlives_its_run_is_remembered() -> None:
    desk = Desk()
    run = desk.begin("client")
    call = desk.judge(run, MAIL)
    assert desk.enter(call) is None
    desk.tracker.end_run(run)
    _, decision = desk.judge(run, POST)
    assert not decision.allowed
    desk.tracker.leave(call[0], OK)
    assert not desk.call(desk.begin("client"), POST)
    assert desk.call(desk.begin("other"), POST)


def test_what_a_run_started_has_its_labels_after_its_end() -> None:
    desk = Desk()
    reader, other = desk.begin(), desk.begin()
    assert desk.call(reader, MAIL)
    desk.tracker.end_run(reader)
    desk.tracker.end_run(other)
    assert not desk.call(reader, POST)
    assert desk.call(other, POST)
    for _ in range(1000):
        desk.tracker.end_run(desk.begin())
    assert not desk.call(other, POST)  # forgotten


def test_a_method_of_a_server_is_labelled_as_what_reads() -> None:
    """It has no annotations, so that no label about `open_world` misses it."""
    desk = Desk(
        FlowLabel(server="mail", read_only=True, source=("private",)),
        FlowLabel(server="notes", open_world=False, source=("private",)),
        FlowLabel(read_only=False, sink="external"),
    )
    for server in ("mail", "notes"):
        _, decision = desk.judge(
            desk.begin(), ServerCall(server=server, tool="resources/read", is_method=True)
        )
        assert decision.flow is not None
        assert (decision.flow.reads, decision.flow.sinks) == (("private",), ())


def test_a_part_of_a_long_key_is_not_shown() -> None:
    lines = [hashlib.sha256(bytes([at])).hexdigest() for at in range(25)]
    key = "\n".join(("-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----"))
    desk = Desk()
    run = desk.begin()
    assert desk.call(run, MAIL, OK.replace(value=key))
    _, decision = desk.judge(run, POST.model_copy(update={"arguments": {"text": lines[12]}}))
    assert decision.flow is not None
    assert decision.flow.shown == ("arguments.text has [REDACTED] (64 characters of mail/read)",)


def test_sessions_and_clients_that_meet_share_what_they_have_read() -> None:
    desk = Desk()
    handle = make_handle()
    first = desk.begin("a", "new")
    desk.tracker.note_result(first, OK.replace(session=SessionEnd(id=handle, state="kept")))
    desk.tracker.end_run(first)
    second = desk.begin("b", handle)
    assert desk.call(second, MAIL)
    desk.tracker.end_run(second)
    assert not desk.call(desk.begin("a"), POST)
    assert not desk.call(desk.begin("c", handle), POST)
    assert not desk.call(desk.begin("c"), POST)
    assert desk.call(desk.begin("d"), POST)


def test_a_stored_outcome_gives_its_labels_to_the_request_with_its_key() -> None:
    desk = Desk()
    run = desk.begin("client")
    desk.tracker.note_outcome(run, Outcome(id="1", status=Status.OK))
    assert desk.call(run, POST)
    desk.tracker.note_outcome(run, Outcome(id="2", status=Status.OK, labels=("private",)))
    denied = desk.judge(desk.begin("client"), POST)[1]
    assert denied.reasons[0].startswith(
        "web/post is denied by policy flow rule 1: this client has read private data (a stored outcome); "
    )


def test_a_client_that_fetches_a_run_has_its_labels() -> None:
    desk = Desk()
    run = desk.begin("first")
    assert desk.call(run, MAIL)
    desk.tracker.end_run(run)
    desk.tracker.note_fetch("second", run.id)
    assert not desk.call(desk.begin("second"), POST)
    assert desk.call(desk.begin("third"), POST)
    desk.tracker.note_fetch("third", "forgotten")
    assert not desk.call(desk.begin("third"), POST)
