"""Rules with the effect `ask`: a person decides before the call, and nothing of the program runs meanwhile."""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.person import Person
from tests.support.processes import running_workers
from tests.support.servers import make_entry, write_servers
from tests.support.session import SessionRunner

from paddock.gate.approvals import MAX_QUESTIONS_PER_RUN, Asker
from paddock.model.approval import Answer, Question
from paddock.model.limits import LimitOverrides
from paddock.model.outcome import Outcome
from paddock.model.request import ExecutionRequest, GuestRun, ServerCall
from paddock.policy.settings.rules import ApprovalSettings, PolicySettings, Rule
from paddock.policy.settings.schema import AuditSettings, GrantSettings, SdkSettings, Settings

RULES = (
    Rule(effect="ask", tool="odd/echo", reason="echoes carry far"),
    Rule(effect="ask", jit=True),
    Rule(effect="ask", runtime="*", access="workspace-write"),
    Rule(effect="ask", method="vault.*"),
)


class Desk(SessionRunner):
    """One session with rules that ask."""

    def __init__(self, directory: Path, rules: tuple[Rule, ...], approvals: ApprovalSettings) -> None:
        super().__init__(directory / "ws")
        self.workspace.mkdir()
        entry = make_entry("odd")
        write_servers(self.workspace, {"odd": entry})
        settings = Settings(
            audit=AuditSettings(directory=directory / "audit"),
            grants=GrantSettings(jit=True),
            sdk=SdkSettings(execute=("*",)),
            policy=PolicySettings(rule=rules),
            approvals=approvals,
        )
        self.start(settings)

    def request(self, source: str, **fields: Any) -> ExecutionRequest:
        limits = LimitOverrides(timeout_ms=fields.pop("timeout_ms", 600_000))
        return ExecutionRequest(
            workspace=self.workspace, work=GuestRun(source=source), limits=limits, **fields
        )

    def run(self, source: str, asker: Asker | None, **fields: Any) -> Outcome:
        return self.execute(self.request(source, **fields), asker=asker)

    def records(self, directory: Path, *events: str) -> list[dict[str, Any]]:
        files = sorted(directory.glob("audit/*.ndjson"))
        lines = [line for file in files for line in file.read_text().splitlines()]
        return [record for line in lines if (record := json.loads(line)).get("event") in events]


Open = Callable[..., Desk]


@pytest.fixture
def open_desk(tmp_path: Path) -> Iterator[Open]:
    with ExitStack() as desks:

        def made(*rules: Rule, **settings: Any) -> Desk:
            return desks.enter_context(Desk(tmp_path, rules or RULES, ApprovalSettings(**settings)))

        yield made


ECHO = "return await servers.odd.echo({text: 'hi'})"
CAUGHT = "try { %s } catch (e) { return [e.name, e.code, e.message, e.server, e.tool, e.retryable] }"


def test_a_person_allows_one_call(open_desk: Open) -> None:
    person = Person("once")
    outcome = open_desk().run(ECHO, person.ask)
    assert (outcome.value, [call.status for call in outcome.calls]) == ("hi", ["ok"])
    [question] = person.asked
    assert question.model_dump(include={"what", "details", "reasons", "rule", "scopes", "run"}) == {
        "what": "call odd/echo",
        "details": '{"text": "hi"}',
        "reasons": ("echoes carry far",),
        "rule": "policy rule 1",
        "scopes": ("once", "run"),
        "run": outcome.id,
    }


@pytest.mark.parametrize(
    ("asker", "code", "why"),
    [
        (Person("denied").ask, "approval_denied", "denied by the test"),
        (
            None,
            "approval_unavailable",
            "there is no person to ask here: run it on a terminal or from a client that can ask, or change the rule",
        ),
    ],
)
def test_a_refusal_is_an_error_that_can_be_caught(
    open_desk: Open, asker: Asker | None, code: str, why: str
) -> None:
    outcome = open_desk().run(CAUGHT % ECHO, asker)
    assert outcome.value == ["ToolError", code, f"echoes carry far: {why}", "odd", "echo", False]
    assert [call.status for call in outcome.calls] == ["denied"]


def test_an_asker_that_fails_is_a_no(open_desk: Open) -> None:
    async def broken(_question: Question) -> Answer:
        raise ValueError("secret")

    outcome = open_desk().run(CAUGHT % ECHO, broken)
    assert outcome.value[1:3] == ["approval_unavailable", "echoes carry far: asking failed (ValueError)"]


def test_no_answer_in_time_is_a_no(open_desk: Open) -> None:
    async def thinks(_question: Question) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    outcome = open_desk(wait_ms=50).run(CAUGHT % ECHO, thinks)
    assert outcome.value[1:3] == [
        "approval_expired",
        "echoes carry far: there was no answer within 50 ms (approvals.wait_ms)",
    ]


def test_yes_for_the_run_holds_for_this_tool_in_this_run_alone(open_desk: Open) -> None:
    desk = open_desk(Rule(effect="ask", server="odd"))
    person = Person("run", "denied", "denied")
    source = "const a = await servers.odd.echo({text: '1'}); const b = await servers.odd.echo({text: '2'});"
    other = "let c; try { c = await servers.odd.pid({}) } catch (e) { c = e.code } return [a, b, c]"
    assert desk.run(source + other, person.ask).value == [1, 2, "approval_denied"]
    assert [question.what for question in person.asked] == ["call odd/echo", "call odd/pid"]
    assert desk.run(CAUGHT % ECHO, person.ask).value[1] == "approval_denied"


@pytest.mark.parametrize("glob", ["sums/get-sum", "sums/get_sum", "sums/*"])
def test_a_call_by_an_alias_is_asked_about_once_by_the_name_of_the_tool(
    open_desk: Open, tmp_path: Path, glob: str
) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([{"name": "get-sum", "inputSchema": {"type": "object"}}]))
    desk, person = open_desk(Rule(effect="ask", tool=glob)), Person("once", "once")
    entry = make_entry("turncoat", tools)
    write_servers(desk.workspace, {"sums": entry})
    source = "return [await servers.sums.get_sum({ a: 1 }), await servers.sums.get_sum({ a: 2 })]"
    assert desk.run(source, person.ask).value == [{"a": 1}, {"a": 2}]
    assert [question.what for question in person.asked] == ["call sums/get-sum"] * 2
    assert [record["name"] for record in desk.records(tmp_path, "asked")] == ["sums/get-sum"] * 2


def test_yes_once_is_not_yes_to_another_call(open_desk: Open) -> None:
    person = Person("once", "denied")
    source = "await servers.odd.echo({text: 'a'}); " + CAUGHT % "await servers.odd.echo({text: 'b'})"
    assert open_desk().run(source, person.ask).value[1] == "approval_denied"
    first, second = person.asked
    assert first.sha256 != second.sha256


def test_the_same_call_is_not_asked_about_again_after_a_no(open_desk: Open) -> None:
    person = Person("denied")
    source = (
        "const seen = []; for (let i = 0; i < 3; i++)"
        " try { await servers.odd.echo({text: 'a'}) } catch (e) { seen.push(e.code) } return seen"
    )
    assert open_desk().run(source, person.ask).value == ["approval_denied"] * 3
    assert len(person.asked) == 1


def test_nobody_is_asked_for_ever(open_desk: Open) -> None:
    person = Person(*["denied"] * MAX_QUESTIONS_PER_RUN)
    source = (
        f"let last; for (let i = 0; i <= {MAX_QUESTIONS_PER_RUN}; i++)"
        " try { await servers.odd.echo({text: String(i)}) } catch (e) { last = e.message } return last"
    )
    outcome = open_desk().run(source, person.ask)
    assert outcome.value == "echoes carry far: this run has already asked 50 times, which is the limit"


def test_parallel_calls_are_asked_about_one_after_the_other(open_desk: Open) -> None:
    open_now: list[int] = []

    async def one(_question: Question) -> Answer:
        open_now.append(len(open_now) + 1)
        assert len(open_now) == 1
        await asyncio.sleep(0)
        open_now.pop()
        return Answer(verdict="once", by="the test")

    source = "return await Promise.all(['a', 'b', 'c'].map(text => servers.odd.echo({text})))"
    assert open_desk().run(source, one).value == ["a", "b", "c"]


def test_too_many_runs_that_wait_are_refused(open_desk: Open) -> None:
    desk = open_desk(max_waiting=1)

    async def both() -> tuple[Outcome, Outcome]:
        waiting, go = asyncio.Event(), asyncio.Event()

        async def slow(_question: Question) -> Answer:
            waiting.set()
            await go.wait()
            return Answer(verdict="once", by="the test")

        first = asyncio.create_task(desk.session.gate.execute(desk.request(ECHO), asker=slow))
        await waiting.wait()
        second = await desk.session.gate.execute(desk.request(CAUGHT % ECHO), asker=slow)
        go.set()
        return await first, second

    first, second = desk.runner.run(both())
    assert first.value == "hi"
    assert second.value[1:3] == [
        "approval_unavailable",
        "echoes carry far: the limit of waiting questions is reached (1, approvals.max_waiting); try again later",
    ]


def held(count: int) -> bool:
    """Tell whether so many programs are there and all are stopped, which takes the kernel a moment."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        states = [state(worker) for worker in running_workers(os.getpid())]
        if states == ["T"] * count:
            return True
    return False


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "gone"  # one before it was still dying


def test_a_program_that_computes_while_a_person_thinks_is_stopped(open_desk: Open) -> None:
    seen: list[bool] = []
    desk, stop = open_desk(), asyncio.Event()

    async def look(_question: Question) -> Answer:
        seen.append(held(1))
        stop.set()
        return Answer(verdict="once", by="the test")

    spin = "servers.odd.echo({text: 'x'}); await null; for (;;) {}"
    outcome = desk.execute(desk.request(spin), asker=look, stop=stop)
    assert (outcome.status, seen) == ("cancelled", [True])


def test_a_program_and_the_one_it_runs_are_both_stopped(open_desk: Open) -> None:
    desk = open_desk()
    scripts = desk.workspace / ".paddock/scripts"
    scripts.mkdir(parents=True)
    (scripts / "inner.js").write_text(ECHO)
    runs: list[tuple[str, bool]] = []

    async def look(question: Question) -> Answer:
        runs.append((question.run, held(2)))
        return Answer(verdict="once", by="the test")

    outcome = desk.run("return await paddock.script.run('inner')", look)
    assert (outcome.value, runs) == ("hi", [(outcome.id, True)])


def test_what_is_cancelled_while_a_person_thinks_is_over(open_desk: Open, tmp_path: Path) -> None:
    desk = open_desk()

    async def main() -> None:
        asked = asyncio.Event()

        async def thinks(_question: Question) -> Answer:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        task = asyncio.create_task(desk.session.gate.execute(desk.request(ECHO), asker=thinks))
        await asked.wait()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    desk.runner.run(main())
    [answered] = desk.records(tmp_path, "answered")
    assert (answered["answer"], answered["answered_by"]) == ("denied", "paddock")


def test_what_is_stopped_while_a_person_thinks_is_refused(open_desk: Open) -> None:
    desk = open_desk()

    async def main() -> Outcome:
        stop = asyncio.Event()

        async def thinks(_question: Question) -> Answer:
            stop.set()
            await asyncio.Event().wait()
            raise AssertionError

        return await desk.session.gate.execute(desk.request("return 1", jit=True), asker=thinks, stop=stop)

    outcome = desk.runner.run(main())
    assert (outcome.status, outcome.decision.answer) == ("denied", "denied")


def test_the_record_says_who_answered_and_holds_no_payload(open_desk: Open, tmp_path: Path) -> None:
    desk = open_desk()
    outcome = desk.run("return await servers.odd.echo({text: 'payload-1234'})", Person("once").ask)
    records = desk.records(tmp_path, "asked", "answered", "started")
    assert [record["event"] for record in records] == ["started", "asked", "answered", "started"]
    asked, answered = records[1], records[2]
    assert asked["name"] == "odd/echo"
    assert asked["rule"] == "policy rule 1"
    assert asked["call_sha256"] == answered["call_sha256"]
    assert (answered["answer"], answered["answered_by"]) == ("once", "the test")
    assert {record["parent"] for record in records[1:3]} == {outcome.id}
    assert "payload-1234" not in json.dumps(records)


def test_a_secret_in_the_name_of_a_tool_is_nowhere(open_desk: Open, tmp_path: Path) -> None:
    desk, person = open_desk(Rule(effect="ask", server="*")), Person("once")
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([{"name": "hunter2hunter2", "inputSchema": {"type": "object"}}]))
    write_servers(desk.workspace, {"odd": make_entry("turncoat", tools)})
    desk.session.outgoing.known_secrets.learn("hunter2hunter2")
    call = CAUGHT % "await servers.odd.call('hunter2hunter2', {})"
    desk.run(call, person.ask)
    why = ("odd/[REDACTED:vault] needs a person's approval, says policy rule 1",)
    assert [(asked.what, asked.reasons) for asked in person.asked] == [("call odd/[REDACTED:vault]", why)]
    [planned] = desk.run(call, None, calls="dry_run").planned
    assert (planned.tool, planned.asks) == ("[REDACTED:vault]", why)
    assert [record["name"] for record in desk.records(tmp_path, "asked")] == ["odd/[REDACTED:vault]"]
    assert "hunter2" not in "".join(path.read_text() for path in tmp_path.glob("audit/*.ndjson"))


def test_a_grant_is_asked_for_before_the_program_runs(open_desk: Open) -> None:
    desk, person = open_desk(), Person("denied", "once")
    refused = desk.run("return 1", person.ask, jit=True)
    assert (refused.status, refused.error and refused.error.name) == ("denied", "ApprovalDenied")
    assert refused.usage.wall_ms == 0
    assert desk.run("return 1", person.ask, jit=True).value == 1
    assert person.asked[0].what == "run the JavaScript program program, with just-in-time compilation"
    assert person.asked[0].scopes == ("once",)
    assert desk.run("return 1", person.ask).value == 1


def test_a_method_of_the_sdk_is_asked_about(open_desk: Open) -> None:
    person = Person("denied")
    source = "try { await paddock.vault.list() } catch (e) { return [e.name, e.code] }"
    assert open_desk().run(source, person.ask).value == ["ApprovalDenied", "approval_denied"]
    assert person.asked[0].what == "call paddock.vault.list"


def test_a_rehearsal_lists_what_would_be_asked(open_desk: Open) -> None:
    person = Person()
    desk = open_desk()
    outcome = desk.run(ECHO, person.ask, calls="dry_run")
    assert outcome.value == {"dryRun": True, "server": "odd", "tool": "echo"}
    assert [(call.tool, call.asks) for call in outcome.planned] == [("echo", ("echoes carry far",))]
    listed = desk.run("return await paddock.vault.list()", person.ask, calls="dry_run")
    assert [(call.server, call.tool) for call in listed.planned] == [("paddock", "vault.list")]
    assert listed.error is not None
    assert listed.error.message == (
        "paddock.vault.list needs a person's approval, says policy rule 4: a rehearsal asks no person"
    )
    call = ServerCall(server="odd", tool="echo", arguments={"text": "hi"})
    request = ExecutionRequest(workspace=desk.workspace, work=call, calls="dry_run")
    [planned] = desk.execute(request, asker=person.ask).planned
    assert planned.asks == ("echoes carry far",)
    assert person.asked == []


def test_an_act_that_is_no_request_is_confirmed(open_desk: Open, tmp_path: Path) -> None:
    desk, person = open_desk(), Person("run", "denied")

    async def confirm(asker: Asker | None) -> Answer:
        return await desk.session.gate.approvals.confirm(
            "enable the server x",
            {"package": "x@1"},
            "servers are programs that run unconfined",
            actor="a",
            surface="mcp",
            workspace="/w",
            asker=asker,
        )

    askers: list[Callable[[Question], Awaitable[Answer]] | None] = [person.ask, person.ask, None]
    verdicts = [desk.runner.run(confirm(asker)).verdict for asker in askers]
    assert verdicts == ["once", "denied", "unasked"]
    assert person.asked[0].details == '{"package": "x@1"}'
    assert [record["answer"] for record in desk.records(tmp_path, "answered")] == verdicts
