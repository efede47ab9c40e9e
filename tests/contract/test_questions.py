"""One contract for waiting questions: in files of a directory, and in rows of a database."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.leases import hold_lease
from tests.support.listening import open_listener
from tests.support.postgres import Postgres

from paddock.cluster.database import Database
from paddock.cluster.listener import ANSWERS
from paddock.cluster.migrate import migrate
from paddock.cluster.node import ClusterNode
from paddock.cluster.questions import MAX_BODY_BYTES, SharedQuestions
from paddock.cluster.seals import Seals
from paddock.gate.question_directory import QuestionDirectory
from paddock.gate.questions import FileQuestions, Questions, ask_and_wait
from paddock.model.approval import Answer, Question
from paddock.model.errors import ApprovalError
from paddock.model.ids import new_id

ACTOR = "token:ada"
KEY = b"k" * 32


class Ends(NamedTuple):
    """The questions of one asker, as two processes have them."""

    asker: Questions
    other: Questions


OpenEnds = Callable[[], Any]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture(
    params=[
        "files",
        pytest.param("rows", marks=pytest.mark.slow),
        pytest.param("sealed rows", marks=pytest.mark.slow),
    ]
)
def open_ends(request: pytest.FixtureRequest, tmp_path: Path) -> OpenEnds:
    if request.param == "files":

        @asynccontextmanager
        async def open_files() -> AsyncGenerator[Ends]:
            directory = tmp_path / "approvals"
            yield Ends(*(FileQuestions(QuestionDirectory(directory)) for _ in range(2)))

        return open_files
    url = request.getfixturevalue("postgres").make_database(f"d{secrets.token_hex(8)}")
    seals = Seals([KEY]) if request.param == "sealed rows" else Seals()

    @asynccontextmanager
    async def open_rows() -> AsyncGenerator[Ends]:
        async with Database(url) as one, Database(url) as two, open_listener(url) as listener:
            await migrate(one)
            hold_lease(url, "a", "boot")
            answers = listener.follow(ANSWERS)
            asker = SharedQuestions(one, ClusterNode("a", "boot"), seals, answers=answers)
            yield Ends(asker.of_actor(ACTOR), SharedQuestions(two, None, seals).of_everybody())

    return open_rows


def make_question(**fields: Any) -> Question:
    given: dict[str, Any] = {
        "id": new_id(),
        "request": "r",
        "run": "r",
        "actor": ACTOR,
        "what": "call odd/echo",
    }
    given |= {"details": "{}", "reasons": ("why",), "sha256": "a" * 64, "scopes": ("once", "run")}
    return Question(**{**given, "wait_ms": 60_000, **fields})


def run(open_ends: OpenEnds, work: Callable[[Ends], Awaitable[None]]) -> None:
    async def main() -> None:
        async with open_ends() as ends:
            await work(ends)

    asyncio.run(main())


async def begin(ends: Ends, question: Question) -> asyncio.Task[Answer]:
    """Ask a question, and return when it waits."""
    task = asyncio.create_task(ask_and_wait(ends.asker, question))
    while question.id not in [each.question.id for each in await ends.other.list_waiting()]:
        assert not task.done(), task
        await asyncio.sleep(0)
    return task


def test_an_answer_is_that_of_whoever_gave_it(open_ends: OpenEnds) -> None:
    async def work(ends: Ends) -> None:
        question = make_question()
        task = await begin(ends, question)
        waiting = await ends.other.find_question(question.id)
        assert waiting.question == question
        await ends.other.give_answer(waiting, "run", "grace\x1b[2J")
        assert await task == Answer(verdict="run", by="grace\\u001b[2J")
        assert await ends.other.list_waiting() == []

    run(open_ends, work)


def test_of_many_answers_the_first_counts(open_ends: OpenEnds) -> None:
    async def work(ends: Ends) -> None:
        question = make_question()
        task = await begin(ends, question)
        waiting = await ends.other.find_question(question.id)
        names = [f"person {number}" for number in range(8)]
        given = await asyncio.gather(
            *(
                ends.other.give_answer(waiting, "denied" if name == names[0] else "once", name)
                for name in names
            ),
            return_exceptions=True,
        )
        accepted = [name for name, error in zip(names, given, strict=True) if error is None]
        refusals = {str(error) for error in given if error is not None}
        assert [(await task).by] == accepted
        assert refusals <= {
            f"{question.id} already has an answer; the first answer counts",
            f"{question.id} does not wait for an answer; `paddock approve` lists the waiting questions",
        }

    run(open_ends, work)


def test_no_actor_answers_its_own_question(open_ends: OpenEnds) -> None:
    async def work(ends: Ends) -> None:
        question = make_question()
        task = await begin(ends, question)
        waiting = await ends.asker.find_question(question.id)
        for end in ends:
            with pytest.raises(ApprovalError) as refused:
                await end.give_answer(waiting, "once", ACTOR)
            assert str(refused.value) == (
                f"{question.id} is a question of {ACTOR}, which cannot answer its own questions"
            )
        await ends.other.give_answer(waiting, "denied", "ada@desk", at_terminal=True)
        assert await task == Answer(verdict="denied", by="ada@desk")

    run(open_ends, work)


def test_who_answers_too_late_is_told(open_ends: OpenEnds) -> None:
    async def work(ends: Ends) -> None:
        question = make_question()
        task = await begin(ends, question)
        waiting = await ends.other.find_question(question.id)
        task.cancel()
        await asyncio.wait({task})
        for late in (ends.other.give_answer(waiting, "once", "grace"), ends.other.find_question(question.id)):
            with pytest.raises(ApprovalError) as refused:
                await late
            assert str(refused.value) == (
                f"{question.id} does not wait for an answer; `paddock approve` lists the waiting questions"
            )

    run(open_ends, work)


def test_an_expired_question_does_not_wait(open_ends: OpenEnds) -> None:
    async def work(ends: Ends) -> None:
        question = make_question(wait_ms=1)
        async with ends.asker.keep_question(question):
            while await ends.other.list_waiting():
                pass
            with pytest.raises(ApprovalError, match="does not wait for an answer"):
                await ends.other.find_question(question.id)

    run(open_ends, work)


@pytest.mark.parametrize(
    "id_", ["", "../x", "a\0b", "01JD3W0ZV6N4YQ1R2X5T7B8C9D\n", "٣" * 26, "' or true --"]
)
def test_a_forged_id_is_no_question(open_ends: OpenEnds, id_: str) -> None:
    async def work(ends: Ends) -> None:
        with pytest.raises(ApprovalError, match="is not the id of a question"):
            await ends.other.find_question(id_)

    run(open_ends, work)


def test_what_is_shown_is_spelled_out(open_ends: OpenEnds) -> None:
    async def work(ends: Ends) -> None:
        question = make_question(what="a\x1b[2J", details="b\u202e", workspace="d\t", reasons=("e\0",))
        task = await begin(ends, question)
        waiting = await ends.other.find_question(question.id)
        shown = waiting.question
        assert (shown.what, shown.details, shown.workspace) == ("a\\u001b[2J", "b\\u202e", "d\\u0009")
        assert shown.reasons == ("e\\u0000",)
        await ends.other.give_answer(waiting, "once", "grace")
        assert (await task).verdict == "once"

    run(open_ends, work)


def test_a_question_that_is_too_large_is_not_kept(open_ends: OpenEnds) -> None:
    async def work(ends: Ends) -> None:
        with pytest.raises(ApprovalError, match="exceeds the limit of 262144 bytes"):
            await ask_and_wait(ends.asker, make_question(details="x" * MAX_BODY_BYTES))
        assert await ends.other.list_waiting() == []

    run(open_ends, work)


def test_several_wait_side_by_side(open_ends: OpenEnds) -> None:
    async def work(ends: Ends) -> None:
        asked = [make_question() for _ in range(5)]
        async with AsyncExitStack() as stack:
            for each in asked:
                await stack.enter_async_context(ends.asker.keep_question(each))
            listed = [each.question for each in await ends.other.list_waiting()]
            assert listed == sorted(asked, key=lambda each: each.id)
            answers = asyncio.gather(*map(ends.asker.wait_for_answer, asked))
            for each in reversed(asked):
                await ends.other.give_answer(await ends.other.find_question(each.id), "once", each.id)
            assert [answer.by for answer in await answers] == [each.id for each in asked]
        assert await ends.asker.list_waiting() == []

    run(open_ends, work)


def test_nothing_waits_where_nothing_was_asked(open_ends: OpenEnds) -> None:
    async def work(ends: Ends) -> None:
        await ends.asker.remove_abandoned()
        assert await ends.asker.list_waiting() == await ends.other.list_waiting() == []

    run(open_ends, work)
