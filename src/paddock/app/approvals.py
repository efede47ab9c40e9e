"""Asking a person before something runs: who is asked, what is remembered of the answer, what is recorded.

    decision asks -> record "asked" -> the clock of the run stands still -> answer -> record "answered" -> decision

Nothing here knows how people are reached: whoever brings a request brings an asker along, a session may have one of its
own, and where there is neither the answer is no. So is every other end: no answer in time, an asker that fails, a
question too many. An answer is an answer to one question, which holds the hash of all that would be done.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Self

from paddock.app.audit_facts import identity_facts
from paddock.app.work import kind_of
from paddock.audit.sink import AuditSink, Field
from paddock.hub.person import ServerForm, UnanswerableQuestion
from paddock.javascript.clock import Clock
from paddock.model.approval import YES, Answer, Question
from paddock.model.base import Json
from paddock.model.ids import new_id
from paddock.model.outcome import Decision
from paddock.model.request import ExecutionRequest
from paddock.policy import questions as asking
from paddock.policy.decision import Policy
from paddock.redaction.outgoing import OutgoingRedaction
from paddock.settings.rules import ApprovalSettings

Asker = Callable[[Question], Awaitable[Answer]]
"""Asks a person. Cancelled when nobody waits for the answer any more; an exception is a no."""


@dataclass(frozen=True, slots=True)
class ClientAsker:
    """Asks the person behind one of several clients, each of which has `approvals.max_waiting` of its own."""

    client: str
    ask: Asker

    async def __call__(self, question: Question) -> Answer:
        return await self.ask(question)


MAX_WAITING_RUNS = 32
"""Runs that wait for an answer at a time, of all clients together: each keeps a stopped process."""
MAX_QUESTIONS_PER_RUN = 50
"""Questions of one run. Who is asked for ever says yes in the end."""

NOBODY_TO_ASK = (
    "nobody can be asked here: run it on a terminal or from a client that can ask, or change the rule"
)

_CUT_SHORT = Answer(verdict="denied", by="paddock")
"""The wait for an answer ended before there was one."""


async def answer_unless_stopped(stop: asyncio.Event | None, asking: Awaitable[Answer]) -> Answer:
    """Return the answer, or a refusal as soon as `stop` is set: an asker may ignore that it is cancelled."""
    if stop is None:
        return await asking
    tasks = asyncio.ensure_future(asking), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].result() if tasks[0].done() else _CUT_SHORT
    finally:
        for task in tasks:
            task.cancel()


async def refuse_unasked(_question: Question) -> Answer:
    """Answer for a person who cannot be asked."""
    return Answer(verdict="unasked", told=NOBODY_TO_ASK)


@dataclass(slots=True)
class RunState:
    """What is known of one run while it lasts."""

    asker: Asker
    clock: Clock = field(default_factory=Clock)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One question at a time: a person reads one."""
    allowed: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])
    """Tools that may be called for the rest of it."""
    refused: dict[str, Answer] = field(default_factory=dict[str, Answer])
    """What was not allowed, by its hash; the same is not asked twice."""
    questions: int = 0


class CallContext(NamedTuple):
    """Who is behind a call, and where. Contexts of timers outlive calls, so that nothing that a call sends is in it."""

    request: str
    parent: str | None
    run: str
    actor: str
    surface: str
    workspace: Path

    @classmethod
    def from_request(cls, request: ExecutionRequest) -> Self:
        """Return what a question says of a request."""
        run = request.root or request.id
        return cls(request.id, request.parent, run, request.actor, request.surface, request.workspace)


class Approvals:
    """Settles decisions that ask, one for each gate."""

    def __init__(
        self,
        settings: ApprovalSettings,
        policy: Policy,
        audit: AuditSink,
        outgoing: OutgoingRedaction,
        asker: Asker | None = None,
    ) -> None:
        """Ask `asker` what nobody else was named for."""
        self._settings = settings
        self._policy = policy
        self._audit = audit
        self._outgoing = outgoing
        self._asker = asker or refuse_unasked
        self._runs: dict[str, RunState] = {}
        self._waiting: Counter[str] = Counter()
        """Runs that wait for an answer, by client."""

    def begin_run(self, request: ExecutionRequest, asker: Asker | None) -> None:
        """Know a request of a person or an agent, and whom to ask about it and its children, until it ends."""
        self._runs[request.id] = RunState(asker or self._asker)

    def end_run(self, request: ExecutionRequest) -> None:
        """Forget a request that has begun."""
        del self._runs[request.id]

    def clock_of(self, request: ExecutionRequest) -> Clock:
        """Return the clock of a request."""
        return self._find_run(request).clock

    async def settle(
        self, request: ExecutionRequest, decision: Decision, stop: asyncio.Event | None = None
    ) -> Decision:
        """Return what a decision that asks becomes: allowed or refused; refused when `stop` is set meanwhile.

        Raises LedgerError: then nobody was asked.
        """
        run = self._find_run(request)
        kind, work = kind_of(request), request.work
        name = kind.repeatable_name(work)
        subject = kind.make_subject(request, work)
        question = asking.make_question(
            request, decision, subject, self._outgoing, wait_ms=self._settings.wait_ms
        )
        async with run.turn:
            if name in run.allowed:
                answer = Answer(verdict="run", told="allowed for the rest of this run")
                return self._policy.apply_answer(request, decision, answer)
            answer = run.refused.get(question.sha256)
            if answer is None:
                facts = self._outgoing.facts(identity_facts(request, decision))
                answer = await self._ask_and_record(question, run, facts, parent=request.parent, stop=stop)
                if answer.verdict in ("denied", "expired"):
                    run.refused[question.sha256] = answer
                elif answer.verdict == "run" and name is not None:
                    run.allowed.add(name)
        return self._policy.apply_answer(request, decision, answer)

    async def confirm(
        self,
        what: str,
        arguments: Mapping[str, Json],
        reason: str,
        *,
        actor: str,
        surface: str,
        workspace: str,
        asker: Asker | None = None,
    ) -> Answer:
        """Return a person's answer to an act that is no request, such as `enable the server x`.

        Only an answer whose `verdict` is in `YES` allows it, and only this once. Raises LedgerError.
        """
        request = new_id()
        question = asking.make_act_question(
            request, what, arguments, reason, self._outgoing, wait_ms=self._settings.wait_ms
        ).model_copy(
            update={"actor": asking.make_printable(actor), "surface": surface, "workspace": workspace}
        )
        facts: dict[str, Field] = {"actor": question.actor, "surface": surface, "kind": "act"}
        facts |= {"name": question.what, "arguments_sha256": question.sha256}
        return await self._ask_and_record(question, RunState(asker or self._asker), facts, parent=None)

    async def pass_on(self, call: CallContext, server: str, form: ServerForm) -> Literal["accept", "decline"]:
        """Return what a person says to a question that a server asks in the midst of a call.

        Raises UnanswerableQuestion when nobody can be asked or answers, LedgerError when it cannot be recorded.
        """
        what = f"answer what server {server} asks in the midst of a call"
        shown = {"question": form.message, "answer": dict(form.values)}
        question = asking.make_act_question(
            call.request,
            what,
            shown,
            "the answer shown is all that is sent",
            self._outgoing,
            wait_ms=self._settings.wait_ms,
        )
        about = {"actor": asking.make_printable(call.actor), "surface": call.surface, "run": call.run}
        question = question.model_copy(
            update={**about, "workspace": asking.make_printable(str(call.workspace))}
        )
        facts: dict[str, Field] = {"actor": question.actor, "surface": question.surface, "kind": "question"}
        facts |= {"name": question.what, "arguments_sha256": question.sha256}
        run = self._runs.get(call.run) or RunState(self._asker)
        async with run.turn:
            answer = await self._ask_and_record(question, run, facts, parent=call.parent)
        if answer.verdict in YES:
            return "accept"
        if answer.verdict == "denied":
            return "decline"
        raise UnanswerableQuestion(answer.told)

    def _find_run(self, request: ExecutionRequest) -> RunState:
        return self._runs.get(request.root or request.id) or RunState(self._asker)

    async def _ask_and_record(
        self,
        question: Question,
        run: RunState,
        facts: Mapping[str, Field],
        *,
        parent: str | None,
        stop: asyncio.Event | None = None,
    ) -> Answer:
        """Ask, within all bounds, and record it."""
        about: dict[str, Field] = {"question": question.id, "call_sha256": question.sha256}
        self._audit.append("asked", question.request, {**facts, **about}, parent=parent)
        started = time.perf_counter()
        answer = _CUT_SHORT
        try:
            answer = await self._ask_within_limits(question, run, stop)
        finally:
            end: dict[str, Field] = {
                "answer": answer.verdict,
                "answered_by": asking.make_printable(answer.by),
            }
            end["ms"] = round((time.perf_counter() - started) * 1000, 3)
            self._audit.append("answered", question.request, {**about, **end}, parent=parent)
        return answer

    async def _ask_within_limits(
        self, question: Question, run: RunState, stop: asyncio.Event | None
    ) -> Answer:
        why = "; ".join(question.reasons)
        run.questions += 1
        if run.questions > MAX_QUESTIONS_PER_RUN:
            told = f"{why}: this run has asked {MAX_QUESTIONS_PER_RUN} times, and nobody is asked once more"
            return Answer(verdict="denied", by="paddock", told=told)
        client = run.asker.client if isinstance(run.asker, ClientAsker) else ""
        others, of_all = self._waiting[client], self._waiting.total()
        if others >= self._settings.max_waiting:
            told = f"{why}: {others} others wait for an answer (approvals.max_waiting); try again later"
            return Answer(verdict="unasked", by="paddock", told=told)
        if of_all >= max(MAX_WAITING_RUNS, self._settings.max_waiting):
            told = f"{why}: {of_all} runs of all clients wait for an answer; try again later"
            return Answer(verdict="unasked", by="paddock", told=told)
        self._waiting[client] += 1
        try:
            with run.clock.hold():
                answer = await _ask_person(run.asker, question, why, stop)
                await run.clock.ready()
                return answer
        finally:
            self._waiting[client] -= 1
            if not self._waiting[client]:
                del self._waiting[client]


async def _ask_person(asker: Asker, question: Question, why: str, stop: asyncio.Event | None) -> Answer:
    """Return what a person answers in time; no answer, or a failure to ask, is no yes."""
    try:
        async with asyncio.timeout(question.wait_ms / 1000):
            answer = await answer_unless_stopped(stop, asker(question))
    except TimeoutError:
        told = f"{why}: nobody answered within {question.wait_ms} ms (approvals.wait_ms)"
        return Answer(verdict="expired", told=told)
    except Exception as error:  # noqa: BLE001 - whoever asks may be anybody, and their failure is no yes
        told = f"{why}: asking failed ({type(error).__name__})"
        return Answer(verdict="unasked", by="paddock", told=told)
    if answer.verdict in YES and answer.verdict not in question.scopes:
        answer = answer.model_copy(update={"verdict": "once"})
    return answer.model_copy(update={"told": _explain_answer(answer, why)})


def _explain_answer(answer: Answer, why: str) -> str:
    match answer.verdict:
        case "once" | "run":
            return f"{why}: allowed by {answer.by}"
        case "denied":
            return f"{why}: denied by {answer.by}"
        case _:
            return f"{why}: {answer.told}" if answer.told else f"{why}: nobody answered"
