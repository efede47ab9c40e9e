"""Who is asked, what holds of the answer, and what is recorded of both."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from paddock.engines.servers.person import ServerForm, UnanswerableQuestion
from paddock.gate import approvals as approvals_module
from paddock.gate.approvals import MAX_WAITING_RUNS, Approvals, Asker, CallContext, ClientAsker
from paddock.gate.work import KINDS
from paddock.model.approval import Answer, Question, Verdict
from paddock.model.errors import LedgerError
from paddock.model.outcome import Decision
from paddock.model.request import ExecutionRequest, GuestRun, ServerCall
from paddock.policy.decisions.decision import Policy
from paddock.policy.redaction.known import KnownSecrets
from paddock.policy.redaction.outgoing import OutgoingRedaction
from paddock.policy.settings.rules import ApprovalSettings
from paddock.policy.settings.schema import RedactionSettings, Settings

ASKING = Decision(allowed=False, asks=("why",), reasons=("why",), rule="user rule 1")
ROOT = ExecutionRequest(id="00", actor="ada", surface="mcp", workspace=Path("/w"), work=GuestRun(source="1"))


class Ledger:
    """Notes what is appended, or fails."""

    def __init__(self, *, broken: bool = False) -> None:
        self.broken = broken
        self.told: list[tuple[str, str, str | None, dict[str, Any]]] = []

    def append(
        self, event: str, request: str, fields: Mapping[str, Any], *, parent: str | None = None
    ) -> str:
        if self.broken:
            raise LedgerError("full")
        self.told.append((event, request, parent, dict(fields)))
        return "id"


class Person:
    """Gives its answers one after the other, and remembers what it was asked."""

    def __init__(self, *verdicts: Verdict) -> None:
        self.asked: list[Question] = []
        self._verdicts = iter(verdicts)

    async def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        return Answer(verdict=next(self._verdicts), by="bo\u202eb")


def call(tool: str = "push", **fields: Any) -> ExecutionRequest:
    """Return a call that a program makes below `ROOT`."""
    given = {"id": "01", "parent": "00", "root": "00", "actor": "ada", "surface": "guest", **fields}
    work = ServerCall(server="git", tool=tool)
    return ExecutionRequest(workspace=Path("/w"), work=work, **given)


def with_approvals(
    work: Callable[[Approvals], Awaitable[Any]],
    asker: Asker | None,
    *,
    own: Asker | None = None,
    ledger: Ledger | None = None,
    **settings: int,
) -> Any:
    """Return what some work gives within a run that brings `own` along, in a session with `asker`."""

    async def within() -> Any:
        outgoing = OutgoingRedaction(RedactionSettings(), KnownSecrets())
        approvals = Approvals(
            ApprovalSettings(**settings), Policy(Settings(), KINDS), ledger or Ledger(), outgoing, asker
        )  # pyright: ignore[reportArgumentType]
        approvals.begin_run(ROOT, own)
        return await work(approvals)

    return asyncio.run(within())


def test_only_whoever_the_run_brings_along_is_asked() -> None:
    for asker, own in ((Person("once"), None), (Person(), Person("once"))):
        found = with_approvals(lambda approvals: approvals.settle(call(), ASKING), asker, own=own)
        assert (found.allowed, found.answer, found.asks, found.rule) == (True, "once", (), "user rule 1")
        assert found.reasons == ("why: allowed by bo\u202eb",)
        assert len((own or asker).asked) == 1
    found = with_approvals(lambda approvals: approvals.settle(call(), ASKING), None)
    assert (found.allowed, found.answer) == (False, "unasked")


def test_a_stop_that_is_not_set_waits_for_the_answer_and_one_that_is_ends_the_question() -> None:
    async def answered(approvals: Approvals) -> Decision:
        return await approvals.settle(call(), ASKING, asyncio.Event())

    assert with_approvals(answered, Person("once")).allowed
    ended: list[str] = []
    stop = asyncio.Event()

    async def thinks(_question: Question) -> Answer:
        stop.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("asker")
        raise AssertionError

    async def stopped(approvals: Approvals) -> tuple[Decision, list[str]]:
        found = await approvals.settle(call(), ASKING, stop)
        await asyncio.sleep(0)
        return found, [*ended]

    found, at_once = with_approvals(stopped, thinks)
    assert (found.allowed, found.answer, at_once) == (False, "denied", ["asker"])


def test_a_yes_for_the_run_holds_for_one_tool_and_only_where_it_was_offered() -> None:
    def settling(*requests: ExecutionRequest) -> Callable[[Approvals], Awaitable[list[str | None]]]:
        async def work(approvals: Approvals) -> list[str | None]:
            return [(await approvals.settle(each, ASKING)).answer for each in requests]

        return work

    person = Person("run", "once")
    found = with_approvals(settling(call(), call(id="02"), call("pull")), person)
    assert (found, [asked.what for asked in person.asked]) == (
        ["run", "run", "once"],
        ["call git/push", "call git/pull"],
    )
    method = call("resources/read")
    method = method.model_copy(update={"work": method.work.model_copy(update={"is_method": True})})
    person = Person("run", "denied")
    assert with_approvals(settling(method, call("resources/read"), method), person) == [
        "run",
        "denied",
        "run",
    ]
    assert [asked.what for asked in person.asked] == [
        "call the method git/resources/read",
        "call git/resources/read",
    ]
    person = Person("run", "run")
    alone = call(parent=None)
    assert with_approvals(settling(alone, alone), person) == ["once", "once"]
    assert [asked.scopes for asked in person.asked] == [("once",), ("once",)]


def test_what_was_refused_is_not_asked_again_and_what_nobody_was_asked_is() -> None:
    for verdicts, asked in ((("denied",), 1), (("expired",), 1), (("unasked", "once"), 2)):
        person = Person(*verdicts)

        async def work(approvals: Approvals) -> Decision:
            await approvals.settle(call(), ASKING)
            return await approvals.settle(call(id="02"), ASKING)

        found = with_approvals(work, person)
        assert (found.allowed, len(person.asked)) == (asked == 2, asked)


def test_the_record_is_made_before_anybody_is_asked_and_after_the_answer() -> None:
    ledger = Ledger()

    async def looks(question: Question) -> Answer:
        assert [event for event, *_ in ledger.told] == ["asked"]
        return Answer(verdict="once", by=f"bo\u202eb {question.id[:0]}")

    with_approvals(lambda approvals: approvals.settle(call(), ASKING), looks, ledger=ledger)
    (asked, *about), (answered, *same) = ((event, *rest) for event, *rest in ledger.told)
    assert (asked, answered, about[:2], same[:2]) == ("asked", "answered", ["01", "00"], ["01", "00"])
    facts, end = about[2], same[2]
    assert {name: facts[name] for name in ("actor", "surface", "kind", "name", "rule")} == {
        "actor": "ada",
        "surface": "guest",
        "kind": "server",
        "name": "git/push",
        "rule": "user rule 1",
    }
    assert end.pop("ms") >= 0
    assert end == {
        "question": facts["question"],
        "call_sha256": facts["call_sha256"],
        "answer": "once",
        "answered_by": r"bo\u202eb ",
    }


def test_without_its_record_nobody_is_asked() -> None:
    person = Person("once")
    with pytest.raises(LedgerError):
        with_approvals(lambda approvals: approvals.settle(call(), ASKING), person, ledger=Ledger(broken=True))
    assert person.asked == []


def test_no_more_wait_at_a_time_than_the_settings_say() -> None:
    person = Person("once", "once", "once")

    async def work(approvals: Approvals) -> list[Decision]:
        within: list[Decision] = []

        async def thinks(question: Question) -> Answer:
            other = call("pull", root="other", parent="other")
            within.append(await approvals.settle(other, ASKING))
            return await person(question)

        busy = ROOT.model_copy(update={"id": "busy"})
        approvals.begin_run(busy, thinks)
        first = await approvals.settle(call(root="busy"), ASKING)
        approvals.end_run(busy)
        return [first, *within, *[await approvals.settle(call(tool), ASKING) for tool in "ab"]]

    found = with_approvals(work, person, max_waiting=1)
    assert [(each.allowed, each.answer) for each in found] == [
        (True, "once"),
        (False, "unasked"),
        (True, "once"),
        (True, "once"),
    ]
    assert found[1].reasons == (
        "why: the limit of waiting questions is reached (1, approvals.max_waiting); try again later",
    )


def test_each_client_has_questions_of_its_own_up_to_a_bound_for_all() -> None:
    async def work(approvals: Approvals) -> list[tuple[str, ...]]:
        go, asked = asyncio.Event(), asyncio.Semaphore(0)

        async def thinks(_question: Question) -> Answer:
            asked.release()
            await go.wait()
            return Answer(verdict="once", by="ada")

        async def one(run: str, client: str) -> Decision:
            approvals.begin_run(ROOT.model_copy(update={"id": run}), ClientAsker(client, thinks))
            return await approvals.settle(call(root=run), ASKING)

        waiting: list[asyncio.Task[Decision]] = []
        for number in range(MAX_WAITING_RUNS):
            waiting.append(asyncio.create_task(one(f"run {number}", f"client {number // 2}")))
            await asked.acquire()
            if number == 3:
                refused = await one("more", "client 0")
        last = await one("last", "client 100")
        go.set()
        assert all(decision.allowed for decision in await asyncio.gather(*waiting))
        again = await one("again", "client 0")
        assert again.allowed
        return [refused.reasons, last.reasons]

    assert with_approvals(work, Person(), max_waiting=2) == [
        ("why: the limit of waiting questions is reached (2, approvals.max_waiting); try again later",),
        (
            f"why: the limit of waiting questions of all clients is reached ({MAX_WAITING_RUNS}); try again later",
        ),
    ]


def test_a_run_asks_fifty_times_and_not_once_more() -> None:
    person = Person(*["once"] * 50)

    async def work(approvals: Approvals) -> list[Decision]:
        return [await approvals.settle(call(f"t{number}"), ASKING) for number in range(51)]

    *found, last = with_approvals(work, person)
    assert all(each.allowed for each in found)
    assert (last.allowed, last.answer) == (False, "denied")
    assert last.reasons == ("why: this run has already asked 50 times, which is the limit",)


def test_an_act_may_bring_along_who_is_asked() -> None:
    person = Person("denied")

    async def work(approvals: Approvals) -> Answer:
        return await approvals.confirm(
            "enable x", {}, "why", actor="ada", surface="mcp", workspace="/w", asker=person
        )

    assert with_approvals(work, Person()).verdict == "denied"
    assert len(person.asked) == 1


def test_an_act_is_confirmed_once_and_recorded() -> None:
    ledger = Ledger()

    async def work(approvals: Approvals) -> Answer:
        about = {"actor": "ada\u202e", "surface": "mcp", "workspace": "/w"}
        return await approvals.confirm("enable x", {"a": 1}, "it runs commands", **about)

    person = Person("run")
    assert with_approvals(work, person, ledger=ledger).verdict == "once"
    [question] = person.asked
    assert question.model_dump(include={"what", "details", "reasons", "actor", "surface", "workspace"}) == {
        "what": "enable x",
        "details": '{"a": 1}',
        "reasons": ("it runs commands",),
        "actor": r"ada\u202e",
        "surface": "mcp",
        "workspace": "/w",
    }
    (_, request, parent, facts), _ = ledger.told
    assert (request, parent) == (question.request, None)
    assert facts == {
        "actor": r"ada\u202e",
        "surface": "mcp",
        "kind": "act",
        "name": "enable x",
        "arguments_sha256": question.sha256,
        "question": question.id,
        "call_sha256": question.sha256,
    }


@pytest.mark.parametrize(
    ("verdict", "told"), [("once", "accept"), ("run", "accept"), ("denied", "decline"), ("expired", None)]
)
def test_a_question_of_a_server_is_passed_on_with_what_would_be_sent(
    verdict: Verdict, told: str | None
) -> None:
    ledger, person = Ledger(), Person(verdict)

    async def work(approvals: Approvals) -> str:
        return await approvals.pass_on_question(
            CallContext.from_request(call()), "git", ServerForm("Sure?", {"sure": True})
        )

    if told is None:
        with pytest.raises(UnanswerableQuestion, match="only this answer is sent: there was no answer"):
            with_approvals(work, None, own=person, ledger=ledger)
    else:
        assert with_approvals(work, None, own=person, ledger=ledger) == told
    [question] = person.asked
    assert question.model_dump(
        include={"request", "run", "what", "details", "actor", "workspace", "scopes"}
    ) == {
        "request": "01",
        "run": "00",
        "what": "answer what server git asks during a call",
        "details": '{"question": "Sure?", "answer": {"sure": true}}',
        "actor": "ada",
        "workspace": "/w",
        "scopes": ("once",),
    }
    (_, _, parent, facts), (_, _, _, end) = ledger.told
    assert (parent, end["answer"]) == ("00", "once" if told == "accept" else verdict)
    assert facts == {
        "actor": "ada",
        "surface": "guest",
        "kind": "question",
        "name": question.what,
        "arguments_sha256": question.sha256,
        "question": question.id,
        "call_sha256": question.sha256,
    }


def test_a_person_reads_one_question_at_a_time_whoever_asks() -> None:
    heard: list[str] = []

    async def reads(question: Question) -> Answer:
        heard.append(f"asked {question.what}")
        for _ in range(5):
            await asyncio.sleep(0)  # others may go on
        heard.append(f"answered {question.what}")
        return Answer(verdict="once", by="bob")

    async def work(approvals: Approvals) -> list[object]:
        form = ServerForm("Sure?", {"sure": True})
        passed = (
            approvals.pass_on_question(CallContext.from_request(call()), server, form)
            for server in ("git", "time")
        )
        found = await asyncio.gather(*passed, approvals.settle(call(), ASKING))
        return [*found[:-1], found[-1].allowed]

    assert with_approvals(work, None, own=reads) == ["accept", "accept", True]
    assert [each.split()[0] for each in heard] == ["asked", "answered"] * 3
    assert [each.split(maxsplit=1)[1] for each in heard[::2]] == [
        each.split(maxsplit=1)[1] for each in heard[1::2]
    ]


def test_an_answer_counts_that_comes_together_with_the_stop() -> None:
    stop = asyncio.Event()

    async def answers(_question: Question) -> Answer:
        stop.set()
        return Answer(verdict="once", by="bob")

    found = with_approvals(lambda approvals: approvals.settle(call(), ASKING, stop), answers)
    assert (found.allowed, found.reasons) == (True, ("why: allowed by bob",))


def test_names_of_who_is_behind_a_call_come_plain_to_who_is_asked() -> None:
    ledger, person = Ledger(), Person("once")

    async def work(approvals: Approvals) -> str:
        behind = CallContext.from_request(call(actor="a\u202eda"))._replace(workspace=Path("/w\u202e"))
        return await approvals.pass_on_question(behind, "git", ServerForm("Sure?", {}))

    assert with_approvals(work, None, own=person, ledger=ledger) == "accept"
    [question] = person.asked
    assert (question.actor, question.workspace) == ("a\\u202eda", "/w\\u202e")
    assert ledger.told[0][3]["actor"] == question.actor


def test_a_question_that_waits_is_reported_once_and_one_that_is_answered_at_once_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: list[tuple[Question, Path]] = []
    waits = asyncio.Event()

    async def thinks(_question: Question) -> Answer:
        await waits.wait()
        return Answer(verdict="once", by="bob")

    def report(question: Question, workspace: Path) -> None:
        reported.append((question, workspace))
        waits.set()

    async def work(approvals: Approvals) -> bool:
        approvals.on_waiting = report
        return (await approvals.settle(call(), ASKING)).allowed

    assert with_approvals(work, thinks)
    [(question, workspace)] = reported
    assert (question.what, question.request, question.run, workspace) == (
        "call git/push",
        "01",
        "00",
        Path("/w"),
    )
    monkeypatch.setattr(approvals_module, "WAITING_AFTER_S", 3600)  # "at once" on the slowest machine
    assert with_approvals(work, Person("once"))
    assert not with_approvals(work, None)
    assert reported == [(question, workspace)]
