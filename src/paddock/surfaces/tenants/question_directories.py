"""Questions of a server's users: each user has a directory of them, and nobody answers a question of their own.

The rows of `paddock.cluster.questions` are used instead where several machines share them.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from paddock.gate.question_directory import QuestionDirectory
from paddock.gate.questions import AnswerableQuestions, FileQuestions, Questions
from paddock.model.approval import Verdict, WaitingQuestion
from paddock.model.errors import ApprovalError
from paddock.surfaces.tenants.narrowing import USERS_DIRECTORY, find_approvals_directory, make_user_key

_log = logging.getLogger("paddock.surfaces.tenants")


class QuestionDirectories:
    """The questions of all users, in a directory for each; see `paddock.gate.questions.QuestionStore`."""

    def __init__(self, serve_directory: Path) -> None:
        self._serve_directory = serve_directory

    def of_actor(self, actor: str) -> Questions:
        """Return the questions of one user."""
        directory = find_approvals_directory(self._serve_directory, make_user_key(actor))
        return FileQuestions(QuestionDirectory(directory))

    def of_others(self, actor: str) -> AnswerableQuestions:
        """Return the questions of all users except one."""
        return ManyQuestions(lambda: self.list_all(without=actor))

    def list_all(self, *, without: str | None = None) -> Iterator[FileQuestions]:
        """Yield the questions of each user, except those of the actor `without`."""
        skipped = None if without is None else make_user_key(without)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for each in sorted((self._serve_directory / USERS_DIRECTORY).iterdir()):
                if each.name != skipped:
                    directory = find_approvals_directory(self._serve_directory, each.name)
                    yield FileQuestions(QuestionDirectory(directory))

    async def remove_abandoned(self) -> None:
        """Remove the questions of servers that have ended, of all users. A problem is logged."""
        for each in self.list_all():
            try:
                await each.remove_abandoned()
            except ApprovalError as error:
                _log.warning("questions of a user cannot wait for an answer: %s", error)


class ManyQuestions:
    """The questions of several directories, for somebody who may answer them.

    A directory that cannot be used is left out. Its user's questions wait in vain, and expire.
    """

    def __init__(
        self,
        list_parts: Callable[[], Iterable[AnswerableQuestions]],
        first: AnswerableQuestions | None = None,
    ) -> None:
        """Ask `list_parts` at each use: users come and go. `first` comes before them, and is never left out."""
        self._list_parts = list_parts
        self._first = first

    async def list_waiting(self) -> list[WaitingQuestion]:
        """Return the waiting questions of all, oldest first. Raises ApprovalError if `first` cannot be used."""
        found = [] if self._first is None else await self._first.list_waiting()
        for part in self._list_parts():
            with contextlib.suppress(ApprovalError):
                found += await part.list_waiting()
        return sorted(found, key=lambda waiting: waiting.question.id)

    async def find_question(self, id_: str) -> WaitingQuestion:
        """Return the question with an id. Raises ApprovalError."""
        return (await self._find(id_))[1]

    async def give_answer(
        self, waiting: WaitingQuestion, verdict: Verdict, by: str, *, at_terminal: bool = False
    ) -> None:
        """Answer a question where it waits. Raises ApprovalError."""
        part, _ = await self._find(waiting.question.id)
        await part.give_answer(waiting, verdict, by, at_terminal=at_terminal)

    async def _find(self, id_: str) -> tuple[AnswerableQuestions, WaitingQuestion]:
        problem: ApprovalError | None = None
        for part in chain([self._first] if self._first else [], self._list_parts()):
            try:
                return part, await part.find_question(id_)
            except ApprovalError as error:
                problem = problem or error
        raise problem or ApprovalError(f"{id_[:50]!r} does not wait for an answer")
