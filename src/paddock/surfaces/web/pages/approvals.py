"""`/approvals`: the questions that wait for a person, buttons to answer them, and their history.

    GET  /approvals            the page
    GET  /approvals/waiting    the waiting questions alone; 204 while they are those that the browser has
    GET  /approvals/count      the number in the navigation; 204 likewise
    POST /approvals/ID         an answer

A form repeats the hash of the question that it shows, and an answer counts only for that.
"""

import asyncio
import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.model.errors import ApprovalError, LedgerError, StoreUnavailable
from paddock.record.ledger.questions import RecordedQuestion, find_questions
from paddock.surfaces.http_server.problems import INVALID_REQUEST, NOT_PERMITTED, Problem
from paddock.surfaces.web.render import render
from paddock.surfaces.web.request import find_form, find_viewer, go_to, read_page
from paddock.surfaces.web.shown_question import ShownQuestion, hash_shown, show_waiting

if TYPE_CHECKING:
    from paddock.gate.questions import AnswerableQuestions
    from paddock.model.approval import Verdict, WaitingQuestion
    from paddock.surfaces.web.viewer import Viewer

PAGE_QUESTIONS = 25
"""Maximum number of questions on a page of the history."""
MAX_SHOWN_QUESTIONS = 20
"""Maximum number of waiting questions on the page, the oldest ones."""
_UNAVAILABLE = "Questions cannot be read or answered just now. Load the page again later."
_NOT_WAITING = (
    "This question does not wait any more, and your answer changed nothing: it was answered elsewhere, it has expired, "
    "or the program that asked has ended. The history shows which."
)
_DONE: "dict[str, str]" = {
    "once": "You allowed this call, once.",
    "run": "You allowed this call, and all such calls of its run.",
    "denied": "You denied this call.",
}
"""What the page says after an answer, by verdict."""
_ANSWERS = {
    "once": ("allowed once", "allowed"),
    "run": ("allowed for the run", "allowed"),
    "denied": ("denied", "denied"),
    "expired": ("no answer in time", "timeout"),
    "unasked": ("no person to ask", "unavailable"),
    "": ("not answered", "unavailable"),
}
"""Text and colour of answers in the history."""


class Notice(NamedTuple):
    """What came of a form."""

    text: str
    kind: Literal["good", "warn", "bad"]


class _Waiting(NamedTuple):
    questions: list[ShownQuestion]
    problem: str = ""
    left_out: int = 0
    """How many further questions wait."""

    @property
    def digest(self) -> str:
        """What changes when the list does."""
        text = " ".join(
            [
                self.problem,
                str(self.left_out),
                *(f"{each.digest}{each.may_answer}" for each in self.questions),
            ]
        )
        return hashlib.sha256(text.encode()).hexdigest()[:32]


class HistoryRow(NamedTuple):
    """A question in the history."""

    ts: str
    id: str
    """ID of the record."""
    what: str
    actor: str
    rule: str
    answer: str
    state: str
    """The colour of the answer."""
    by: str
    ms: float | None

    @classmethod
    def from_records(
        cls, found: RecordedQuestion, waiting: frozenset[str], given: tuple[str, str] = ("", "")
    ) -> "HistoryRow":
        """Return the row of a question. `waiting` are the IDs of those that still wait.

        `given` is the ID of a question with an answer that may not be on the record yet.
        """
        asked = {name: str(value) for name, value in found.asked.fields.items()}
        end = found.answered.fields if found.answered is not None else {}
        name = asked.get("name", "")
        what = (
            name if asked.get("kind") in {"act", "connection", "question"} else f"{asked.get('kind')} {name}"
        )
        if asked.get("kind") == "changes":
            what = f"{asked.get('action', '')} {asked.get('changes', '')}"
        has_new = found.answered is None and asked.get("question") == given[0]
        verdict, ms = given[1] if has_new else str(end.get("answer", "")), end.get("ms")
        is_waiting = found.answered is None and asked.get("question", "") in waiting
        answer = ("waits", "waiting") if is_waiting else _ANSWERS.get(verdict, (verdict, "unavailable"))
        return cls(
            found.asked.ts,
            found.asked.id,
            what,
            asked.get("actor", ""),
            asked.get("rule", ""),
            *answer,
            str(end.get("answered_by", "")),
            ms if isinstance(ms, int | float) else None,
        )


async def show_approvals(request: Request) -> Response:
    """Show the page."""
    done = _DONE.get(request.query_params.get("answered", ""))
    return await _show(request, None if done is None else Notice(done, "good"))


async def show_questions(request: Request) -> Response:
    """Show the waiting questions alone, if they are others than those that the browser has."""
    waiting = await _list_waiting(find_viewer(request))
    if request.query_params.get("seen") == waiting.digest:
        return Response(status_code=204)
    return render(request, "approvals_waiting.html", listed=waiting, is_fresh=True)


async def show_count(request: Request) -> Response:
    """Show the number in the navigation, if it is another one than the browser has."""
    count = await find_viewer(request).count_waiting()
    if request.query_params.get("seen") == str(count):
        return Response(status_code=204)
    return render(request, "waiting.html", waiting=count)


async def answer(request: Request) -> Response:
    """Answer a question. The first answer counts, and the record has the name of the person."""
    viewer, form = find_viewer(request), find_form(request)
    verdict = _read_verdict(form.get("verdict"))
    try:
        questions = await _find_right(viewer, request.path_params["id"])
        waiting = await questions.find_question(request.path_params["id"])
    except StoreUnavailable:
        return await _show(request, Notice(_UNAVAILABLE, "bad"), 503)
    except ApprovalError:
        return await _show(request, Notice(_NOT_WAITING, "warn"), 409)
    question = waiting.question
    if question.actor == viewer.actor:
        raise _refuse_own()
    if form.get("shown") != hash_shown(question):
        text = "The question was changed since this page showed it, and your answer did not count. Read it again."
        return await _show(request, Notice(text, "warn"), 409)
    if verdict == "run" and "run" not in question.scopes:
        raise Problem(INVALID_REQUEST, "This question can be allowed only once.")
    by = f"{viewer.name} (page)"
    try:
        await questions.give_answer(waiting, verdict, by, at_terminal=viewer.is_owner)
    except StoreUnavailable:
        return await _show(request, Notice(_UNAVAILABLE, "bad"), 503)
    except ApprovalError as error:
        return await _show(request, Notice(f"Your answer changed nothing: {error}.", "warn"), 409)
    return go_to(request, f"/approvals?answered={verdict}&question={question.id}")


def _read_verdict(given: str | None) -> "Verdict":
    match given:
        case "once" | "run" | "denied":
            return given
        case _:
            raise Problem(INVALID_REQUEST, "An answer is one of: once, run, denied.")


async def _find_right(viewer: "Viewer", id_: str) -> "AnswerableQuestions":
    """Return the questions that a viewer may answer. Raises Problem, ApprovalError and StoreUnavailable."""
    own = viewer.own_questions
    if own is not None and any(each.question.id == id_ for each in await own.list_waiting()):
        raise _refuse_own()
    if viewer.questions is None:
        text = "This token may not answer questions. The owner of the server can make one that may."
        raise Problem(NOT_PERMITTED, text)
    return viewer.questions


def _refuse_own() -> Problem:
    return Problem(NOT_PERMITTED, "This question is your own. Another person answers it.")


async def _list_waiting(viewer: "Viewer") -> _Waiting:
    own: list[WaitingQuestion] = []
    try:
        with suppress(ApprovalError):  # questions cannot be kept at all
            own = await _list(viewer.own_questions)
        others = await _list(viewer.questions)
    except StoreUnavailable:
        return _Waiting([], _UNAVAILABLE)
    except ApprovalError as error:
        return _Waiting([], f"{error}." if viewer.is_owner else _UNAVAILABLE)
    shown = [show_waiting(each, may_answer=False) for each in own]
    # Nobody answers their own question, wherever it is kept.
    shown += [show_waiting(each, may_answer=each.question.actor != viewer.actor) for each in others]
    oldest = sorted(shown, key=lambda each: each.question.id)[:MAX_SHOWN_QUESTIONS]
    return _Waiting(oldest, left_out=len(shown) - len(oldest))


async def _list(questions: "AnswerableQuestions | None") -> "list[WaitingQuestion]":
    return [] if questions is None else await questions.list_waiting()


async def _show(request: Request, notice: Notice | None, status: int = 200) -> Response:
    viewer = find_viewer(request)
    page = read_page(request)

    def read() -> list[RecordedQuestion]:
        list(viewer.opened.gate.audit.query(limit=0))  # writes what is in memory
        return find_questions(
            viewer.settings.audit.directory,
            actor=viewer.find_recorded_actor(),
            skip=(page - 1) * PAGE_QUESTIONS,
            limit=PAGE_QUESTIONS + 1,
        )

    try:
        history, unread = await asyncio.to_thread(read), ""
    except LedgerError as error:
        history, unread = [], f"{error}." if viewer.is_owner else "The record cannot be read just now."
    listed = await _list_waiting(viewer)
    waiting = frozenset(each.question.id for each in listed.questions)
    verdict = request.query_params.get("answered", "")
    given = (request.query_params.get("question", ""), verdict if verdict in _DONE else "")
    return render(
        request,
        "approvals.html",
        status=status,
        notice=notice,
        listed=listed,
        is_fresh=False,
        history=[HistoryRow.from_records(each, waiting, given) for each in history[:PAGE_QUESTIONS]],
        unread=unread,
        page=page,
        has_more=len(history) > PAGE_QUESTIONS,
    )


ROUTES = (
    Route("/approvals", show_approvals, methods=["GET"]),
    Route("/approvals/waiting", show_questions, methods=["GET"]),
    Route("/approvals/count", show_count, methods=["GET"]),
    Route("/approvals/{id}", answer, methods=["POST"]),
)
