"""Questions that wait in files, as those of an agent whose client cannot ask."""

import asyncio
import time
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.support.http_api import POLL_S
from tests.support.processes import PATIENCE_S

from paddock.gate.question_directory import QuestionDirectory
from paddock.gate.questions import FileQuestions, ask_and_wait
from paddock.model.approval import Answer, Question
from paddock.model.ids import new_id

ENDED = Answer(verdict="unasked", by="nobody")
"""What a question gets whose asker ended before an answer."""


def make_question(**fields: object) -> Question:
    """Return a question of an agent."""
    id_ = new_id()
    given = {
        "id": id_,
        "request": id_,
        "run": id_,
        "actor": "agent",
        "surface": "mcp",
        "what": "call odd/echo",
        "details": '{"text": "hello", "times": 3}',
        "reasons": ("echoes carry far",),
        "rule": "user rule 1",
        "sha256": "0" * 64,
        "scopes": ("once", "run"),
        "wait_ms": 60_000,
        **fields,
    }
    return Question.model_validate(given)


@contextmanager
def asking(home: Path, question: Question) -> Generator["Future[Answer]"]:
    """Ask a question in a home as an agent's server does; yield its answer once it waits."""
    directory = QuestionDirectory(home / ".local/state/paddock/approvals")
    questions = FileQuestions(directory)
    with ThreadPoolExecutor(1) as thread:
        stop = asyncio.Event()
        loop: asyncio.AbstractEventLoop | None = None

        async def ask() -> Answer:
            nonlocal loop
            loop = asyncio.get_running_loop()
            asked = asyncio.ensure_future(ask_and_wait(questions, question))
            ended = asyncio.ensure_future(stop.wait())
            await asyncio.wait({asked, ended}, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                return asked.result()
            asked.cancel()
            await asyncio.wait({asked})
            return ENDED

        answer = thread.submit(asyncio.run, ask())
        try:
            wait_until_kept(directory, question)
            yield answer
        finally:
            if loop is not None and not answer.done():
                loop.call_soon_threadsafe(stop.set)


def wait_until_kept(directory: QuestionDirectory, question: Question) -> None:
    """Wait until a question can be found."""
    until = time.monotonic() + PATIENCE_S
    while question.id not in {each.question.id for each in directory.list_waiting()}:
        assert time.monotonic() < until, "the question is not kept"
        time.sleep(POLL_S)
