"""Questions that wait for a person in another process, wherever they are kept.

    Questions             those of one asker; what a request needs to ask, and its owner to look
    AnswerableQuestions   those that one person may see and answer
    QuestionStore         those of all users of a server

On one machine they are files: `FileQuestions` by `question_directory`; those of a server's users in
`surfaces/tenants/question_directories.py`. Several machines share rows of the database: `paddock.cluster.questions`.
`open_local_questions` and `tenants.open_stores` choose. `tests/contract/test_questions.py` holds for both.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from paddock.gate.question_directory import QuestionDirectory
from paddock.model.approval import Answer, Question, Verdict, WaitingQuestion
from paddock.policy.settings.schema import Settings

if TYPE_CHECKING:
    from paddock.gate.cluster import Cluster


class AnswerableQuestions(Protocol):
    """Questions that wait, for those who may see and answer them."""

    async def list_waiting(self) -> list[WaitingQuestion]:
        """Return the waiting questions, oldest first; a bounded number. Raises ApprovalError and StoreUnavailable."""
        ...

    async def find_question(self, id_: str) -> WaitingQuestion:
        """Return the question with an id. Raises ApprovalError and StoreUnavailable."""
        ...

    async def give_answer(
        self, waiting: WaitingQuestion, verdict: Verdict, by: str, *, at_terminal: bool = False
    ) -> None:
        """Answer a question. Raises ApprovalError if it has an answer already or no longer waits; StoreUnavailable.

        Raises AskerEnded if the process that asked has ended, where that can be known.
        No actor answers its own question. A person `at_terminal` may answer every question, because requests of the
        command line ask on their own terminal instead.
        """
        ...


class Questions(AnswerableQuestions, Protocol):
    """The questions of one asker."""

    def keep_question(self, question: Question) -> AbstractAsyncContextManager[None]:
        """Keep a question during the context. Raises ApprovalError."""
        ...

    async def wait_for_answer(self, question: Question) -> Answer:
        """Wait for the answer to a kept question. Raises ApprovalError if the answer belongs to another question."""
        ...

    async def remove_abandoned(self) -> None:
        """Remove the questions of processes that have ended. Raises ApprovalError."""
        ...


class QuestionStore(Protocol):
    """The questions of all users of a server."""

    def of_actor(self, actor: str) -> Questions:
        """Return the questions of one user."""
        ...

    def of_others(self, actor: str) -> AnswerableQuestions:
        """Return the questions of all users except one."""
        ...

    async def remove_abandoned(self) -> None:
        """Remove the questions of processes that have ended, of all users. A problem is logged."""
        ...


class FileQuestions:
    """The questions in one directory; see `QuestionDirectory`. Lists are read in a thread."""

    def __init__(self, directory: QuestionDirectory) -> None:
        self._directory = directory

    @asynccontextmanager
    async def keep_question(self, question: Question) -> AsyncGenerator[None]:
        with self._directory.keep_question(question):
            yield

    async def wait_for_answer(self, question: Question) -> Answer:
        return await self._directory.wait_for_answer(question)

    async def list_waiting(self) -> list[WaitingQuestion]:
        return await asyncio.to_thread(self._directory.list_waiting)

    async def find_question(self, id_: str) -> WaitingQuestion:
        return await asyncio.to_thread(self._directory.find_question, id_)

    async def give_answer(
        self, waiting: WaitingQuestion, verdict: Verdict, by: str, *, at_terminal: bool = False
    ) -> None:
        await asyncio.to_thread(self._directory.give_answer, waiting, verdict, by, at_terminal=at_terminal)

    async def remove_abandoned(self) -> None:
        await asyncio.to_thread(self._directory.remove_abandoned)


async def ask_and_wait(questions: Questions, question: Question) -> Answer:
    """Keep a question until somebody answers it, and return the answer. Raises ApprovalError."""
    async with questions.keep_question(question):
        return await questions.wait_for_answer(question)


def open_local_questions(settings: Settings, cluster: "Cluster | None") -> Questions:
    """Return the questions of clients on this machine; with a cluster, people on all machines can answer them.

    Raises ConfigurationError if `cluster.key_file` cannot be used.
    """
    if cluster is None:
        return FileQuestions(QuestionDirectory(settings.approvals.directory))
    from paddock.cluster.questions import LOCAL, open_questions

    return open_questions(settings.cluster, cluster.database, cluster.node, cluster.listener).of_actor(LOCAL)
