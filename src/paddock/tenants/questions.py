"""Questions of a server's users: each user has a directory of them, and nobody answers a question of their own."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from paddock.app.pending_approvals import PendingApprovals, WaitingQuestion
from paddock.model.approval import Answer, Question
from paddock.model.errors import ApprovalError
from paddock.tenants.narrowing import USERS_DIRECTORY, find_approvals_directory, make_user_key


def list_inboxes(serve_directory: Path, *, without: str | None = None) -> Iterator[PendingApprovals]:
    """Yield the questions of each user, except those of the actor `without`."""
    skipped = None if without is None else make_user_key(without)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for each in sorted((serve_directory / USERS_DIRECTORY).iterdir()):
            if each.name != skipped:
                yield PendingApprovals(find_approvals_directory(serve_directory, each.name))


def list_waiting(serve_directory: Path, *, without: str | None = None) -> list[WaitingQuestion]:
    """Return the waiting questions of all users, oldest first, except those of the actor `without`.

    A directory that cannot be used is left out. Its user's questions wait in vain, and expire.
    """
    found: list[WaitingQuestion] = []
    for inbox in list_inboxes(serve_directory, without=without):
        with contextlib.suppress(ApprovalError):
            found += inbox.list_waiting()
    return sorted(found, key=lambda waiting: waiting.question.id)


def find_question(inboxes: Iterator[PendingApprovals], id_: str) -> tuple[PendingApprovals, WaitingQuestion]:
    """Return a waiting question and where it waits. Raises ApprovalError."""
    problem: ApprovalError | None = None
    for inbox in inboxes:
        try:
            return inbox, inbox.find_question(id_)
        except ApprovalError as error:
            problem = problem or error
    raise problem or ApprovalError(f"{id_[:50]!r} does not wait for an answer")


async def ask_in_inbox(inbox: PendingApprovals, question: Question) -> Answer:
    """Keep a question until it is answered by another user or at a terminal, and return the answer."""
    with inbox.keep_question(question):
        return await inbox.wait_for_answer(question)
