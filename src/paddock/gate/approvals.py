"""Ask a person before something runs, and record the question and the answer.

    decision "ask" -> record "asked" -> the run's clock stops -> answer -> record "answered" -> decision

This module does not know how to reach people. A request brings an `Asker` with it, or the opened Paddock has one:

    a terminal        `surfaces/cli/terminal.py`
    an MCP client     `surfaces/mcp_server/client_questions.py`, `pending_calls.py` if the client cannot ask
    the HTTP API      `surfaces/http_api/running.py`
    a server's users  `surfaces/tenants/tenant.py`, unless the surface has its own
    the library       `surfaces/client/function_askers.py`: a function of the caller

Those of a server's users, and of clients that cannot ask, keep the question where `paddock approve` or another user
answers it (`gate/questions.py`): in files of this machine, or in rows of all (`cluster/questions`).

A question that is not answered at once is reported to webhooks and notification channels (`engines/sdk/events.py`),
regardless of its asker.

Without an asker the answer is no. A timeout, a failing asker and a question beyond a limit also mean no. An answer
holds for one question, which contains the hash of everything that would be done.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Self

from paddock.engines.run_clock import RunClock
from paddock.engines.servers.person import ServerForm, UnanswerableQuestion
from paddock.gate.audit_facts import identity_facts
from paddock.gate.work import kind_of
from paddock.model.approval import YES, Answer, Question
from paddock.model.base import Json
from paddock.model.host_names import Authority
from paddock.model.ids import new_id
from paddock.model.network import HostDecision
from paddock.model.outcome import Decision
from paddock.model.printable import make_printable
from paddock.model.request import ExecutionRequest
from paddock.policy.decisions import question_texts
from paddock.policy.decisions.decision import Policy
from paddock.policy.redaction.outgoing import OutgoingRedaction
from paddock.policy.settings.rules import ApprovalSettings
from paddock.record.ledger.sink import AuditSink, Field

Asker = Callable[[Question], Awaitable[Answer]]
"""Ask a person. The call is cancelled when the answer is no longer needed; an exception counts as no."""

OnWaiting = Callable[[Question, Path], None]
"""Called with a question that begins to wait, and the workspace of its request."""


@dataclass(frozen=True, slots=True)
class ClientAsker:
    """Asks the person behind one of several clients. `approvals.max_waiting` applies to each client."""

    client: str
    ask: Asker

    async def __call__(self, question: Question) -> Answer:
        return await self.ask(question)


MAX_WAITING_RUNS = 32
"""Maximum number of runs that wait for an answer, over all clients. Each of them keeps a stopped process."""
MAX_QUESTIONS_PER_RUN = 50
"""Maximum number of questions of one run: a person who is asked too often says yes without reading."""

WAITING_AFTER_S = 0.3
"""Time after which a question counts as waiting, in seconds. Askers without a person answer earlier."""

NOBODY_TO_ASK = (
    "there is no person to ask here: run it on a terminal or from a client that can ask, or change the rule"
)

_CUT_SHORT = Answer(verdict="denied", by="paddock")
"""The answer while a question waits; it is recorded when the wait is cut short."""


async def answer_unless_stopped(stop: asyncio.Event | None, asking: Awaitable[Answer]) -> Answer:
    """Return the answer, or a refusal as soon as `stop` is set. An asker may ignore its cancellation."""
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
    """Refuse, because there is no person to ask."""
    return Answer(verdict="unasked", told=NOBODY_TO_ASK)


@dataclass(slots=True)
class RunState:
    """State of one run while it lasts."""

    asker: Asker
    clock: RunClock = field(default_factory=RunClock)
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a person is asked: a run asks one question at a time."""
    allowed: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])
    """Names of calls that a person allowed for the rest of the run."""
    refused: dict[str, Answer] = field(default_factory=dict[str, Answer])
    """Refusals by the question's hash, so that the same question is not asked twice."""
    questions: int = 0


class CallContext(NamedTuple):
    """Names the caller and the place of a call, for questions.

    The contexts of timers outlive calls. Therefore nothing that a call sends is kept here.
    """

    request: str
    parent: str | None
    run: str
    actor: str
    surface: str
    workspace: Path

    @classmethod
    def from_request(cls, request: ExecutionRequest) -> Self:
        """Return the context of a request."""
        run = request.root or request.id
        return cls(request.id, request.parent, run, request.actor, request.surface, request.workspace)


class Approvals:
    """Settles decisions that ask. A gate has one."""

    def __init__(
        self,
        settings: ApprovalSettings,
        policy: Policy,
        audit: AuditSink,
        outgoing: OutgoingRedaction,
        asker: Asker | None = None,
    ) -> None:
        """Use `asker` for requests that bring no asker."""
        self._settings = settings
        self._policy = policy
        self._audit = audit
        self._outgoing = outgoing
        self._asker = asker or refuse_unasked
        self.on_waiting: OnWaiting | None = None
        self._runs: dict[str, RunState] = {}
        self._waiting: Counter[str] = Counter()
        """Number of runs that wait for an answer, by client."""

    def begin_run(self, request: ExecutionRequest, asker: Asker | None) -> None:
        """Register a top-level request until `end_run`. `asker` answers for it and its children."""
        self._runs[request.id] = RunState(asker or self._asker)

    def end_run(self, request: ExecutionRequest) -> None:
        """Remove a request from the register."""
        del self._runs[request.id]

    def is_asking(self, run: str) -> bool:
        """Return whether a person is asked about a run, or about a call of it, just now."""
        state = self._runs.get(run)
        return state is not None and state.asking.locked()

    def clock_of(self, request: ExecutionRequest) -> RunClock:
        """Return the clock of a request."""
        return self._find_run(request).clock

    async def settle(
        self, request: ExecutionRequest, decision: Decision, stop: asyncio.Event | None = None
    ) -> Decision:
        """Return the decision after a person's answer. It refuses when `stop` is set during the wait.

        Raises LedgerError when the question cannot be recorded; then it is not asked.
        """
        run = self._find_run(request)
        kind, work = kind_of(request), request.work
        name, subject = kind.repeatable_name(work), kind.make_subject(request, work)
        if decision.flow is not None and decision.flow.effect == "ask":
            name, subject = None, subject._replace(is_repeatable=False)  # each call may send something else
        question = question_texts.make_question(
            request, decision, subject, self._outgoing, wait_ms=self._settings.wait_ms
        )
        async with run.asking:
            if name in run.allowed:
                answer = Answer(verdict="run", told="allowed for the rest of this run")
                return self._policy.apply_answer(request, decision, answer)
            answer = run.refused.get(question.sha256)
            if answer is None:
                facts = identity_facts(request, decision)
                why = "; ".join(decision.asks)
                answer = await self._ask_and_record(
                    question, run, facts, request.workspace, parent=request.parent, stop=stop, why=why
                )
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
        """Return a person's answer about an act that is no request, such as `enable the server x`.

        The act is allowed if the answer's `verdict` is in `YES`, and only this once. Raises LedgerError.
        """
        request = new_id()
        question = question_texts.make_act_question(
            request, what, arguments, reason, self._outgoing, wait_ms=self._settings.wait_ms
        ).model_copy(update={"actor": make_printable(actor), "surface": surface, "workspace": workspace})
        facts: dict[str, Field] = {"actor": question.actor, "surface": surface, "kind": "act"}
        facts |= {"name": question.what, "arguments_sha256": question.sha256}
        run = RunState(asker or self._asker)
        return await self._ask_and_record(question, run, facts, Path(workspace), parent=None)

    async def pass_on_question(
        self, call: CallContext, server: str, form: ServerForm
    ) -> Literal["accept", "decline"]:
        """Ask a person about a question that a server sends during a call, and return the answer.

        Raises UnanswerableQuestion if there is no person to ask or no answer, and LedgerError if it cannot be recorded.
        """
        what = f"answer what server {server} asks during a call"
        shown: dict[str, Json] = {"question": form.message, "answer": dict(form.values)}
        answer = await self._ask_during(call, "question", what, shown, "only this answer is sent")
        if answer.verdict in YES:
            return "accept"
        if answer.verdict == "denied":
            return "decline"
        raise UnanswerableQuestion(answer.told)

    async def ask_about_host(self, call: CallContext, authority: Authority, decision: HostDecision) -> bool:
        """Ask a person whether a program may connect to a host, or send it a request, and return the answer.

        Raises LedgerError.
        """
        shown: dict[str, Json] = {"host": authority.host, "port": authority.port}
        what = f"connect a program to {authority}"
        if decision.asked_request:
            shown["request"] = decision.asked_request
            what = f"send {decision.asked_request} to {authority} for a program"
        return (await self._ask_during(call, "connection", what, shown, decision.reason)).verdict in YES

    async def _ask_during(
        self, call: CallContext, kind: str, what: str, shown: Mapping[str, Json], reason: str
    ) -> Answer:
        """Ask a person about something that happens during a request, and return the answer. Raises LedgerError."""
        question = question_texts.make_act_question(
            call.request, what, shown, reason, self._outgoing, wait_ms=self._settings.wait_ms
        )
        about = {"actor": make_printable(call.actor), "surface": call.surface, "run": call.run}
        question = question.model_copy(update={**about, "workspace": make_printable(str(call.workspace))})
        facts: dict[str, Field] = {"actor": question.actor, "surface": question.surface, "kind": kind}
        facts |= {"name": question.what, "arguments_sha256": question.sha256}
        run = self._runs.get(call.run) or RunState(self._asker)
        async with run.asking:
            return await self._ask_and_record(question, run, facts, call.workspace, parent=call.parent)

    def _find_run(self, request: ExecutionRequest) -> RunState:
        return self._runs.get(request.root or request.id) or RunState(self._asker)

    async def _ask_and_record(
        self,
        question: Question,
        run: RunState,
        facts: Mapping[str, Field],
        workspace: Path,
        *,
        parent: str | None,
        stop: asyncio.Event | None = None,
        why: str = "",
    ) -> Answer:
        """Ask a question within the limits. Record the question and the answer.

        `why` is the explanation for the caller, if it must be shorter than the one for the person.
        """
        about: dict[str, Field] = {"question": question.id, "call_sha256": question.sha256}
        self._audit.append("asked", question.request, {**facts, **about}, parent=parent)
        started = time.perf_counter()
        answer = _CUT_SHORT
        try:
            reason = make_printable(self._outgoing.text(why)) if why else "; ".join(question.reasons)
            answer = await self._ask_within_limits(question, run, stop, reason, workspace)
        finally:
            end: dict[str, Field] = {
                "answer": answer.verdict,
                "answered_by": make_printable(answer.by),
            }
            end["ms"] = round((time.perf_counter() - started) * 1000, 3)
            self._audit.append("answered", question.request, {**about, **end}, parent=parent)
        return answer

    async def _ask_within_limits(
        self, question: Question, run: RunState, stop: asyncio.Event | None, why: str, workspace: Path
    ) -> Answer:
        run.questions += 1
        if run.questions > MAX_QUESTIONS_PER_RUN:
            message = f"{why}: this run has already asked {MAX_QUESTIONS_PER_RUN} times, which is the limit"
            return Answer(verdict="denied", by="paddock", told=message)
        client = run.asker.client if isinstance(run.asker, ClientAsker) else ""
        others, of_all = self._waiting[client], self._waiting.total()
        if others >= self._settings.max_waiting:
            limit = f"the limit of waiting questions is reached ({others}, approvals.max_waiting)"
            message = f"{why}: {limit}; try again later"
            return Answer(verdict="unasked", by="paddock", told=message)
        if of_all >= max(MAX_WAITING_RUNS, self._settings.max_waiting):
            message = (
                f"{why}: the limit of waiting questions of all clients is reached ({of_all}); try again later"
            )
            return Answer(verdict="unasked", by="paddock", told=message)
        self._waiting[client] += 1
        loop = asyncio.get_running_loop()
        waiting = loop.call_later(WAITING_AFTER_S, self._report_waiting, question, workspace)
        try:
            with run.clock.pause():
                answer = await _ask_person(run.asker, question, why, stop)
                await run.clock.ready()
                return answer
        finally:
            waiting.cancel()
            self._waiting[client] -= 1
            if not self._waiting[client]:
                del self._waiting[client]

    def _report_waiting(self, question: Question, workspace: Path) -> None:
        if self.on_waiting is not None:
            self.on_waiting(question, workspace)


async def _ask_person(asker: Asker, question: Question, why: str, stop: asyncio.Event | None) -> Answer:
    """Return a person's answer. A timeout or a failing asker gives a verdict that allows nothing."""
    try:
        async with asyncio.timeout(question.wait_ms / 1000):
            answer = await answer_unless_stopped(stop, asker(question))
    except TimeoutError:
        message = f"{why}: there was no answer within {question.wait_ms} ms (approvals.wait_ms)"
        return Answer(verdict="expired", told=message)
    except Exception as error:  # noqa: BLE001 - an asker is foreign code: any failure means no
        message = f"{why}: asking failed ({type(error).__name__})"
        return Answer(verdict="unasked", by="paddock", told=message)
    if answer.verdict in YES and answer.verdict not in question.scopes:
        answer = answer.model_copy(update={"verdict": "once"})
    match answer.verdict:
        case "once" | "run":
            told = f"{why}: allowed by {answer.by}"
        case "denied":
            told = f"{why}: denied by {answer.by}"
        case _:
            told = f"{why}: {answer.told}" if answer.told else f"{why}: there was no answer"
    return answer.model_copy(update={"told": told})
