"""Questions in the database: machines that die, and strangers who write to its rows."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from tests.support.leases import end_lease, execute, hold_lease
from tests.support.listening import open_listener
from tests.support.postgres import Postgres

from paddock.cluster import questions
from paddock.cluster.database import Database
from paddock.cluster.listener import ANSWERS, Listener
from paddock.cluster.migrate import migrate
from paddock.cluster.node import ClusterNode
from paddock.cluster.questions import LOCAL, QuestionView, SharedQuestions
from paddock.cluster.seals import Seals
from paddock.gate.questions import ask_and_wait
from paddock.model.approval import Answer, Question, WaitingQuestion
from paddock.model.errors import ApprovalError, AskerEnded, StoreUnavailable
from paddock.model.ids import new_id

ACTOR = "token:ada"
KEYS = Seals([b"k" * 32])
SOME_ID = "01JD3W0ZV6N4YQ1R2X5T7B8C9D"


class Cluster(NamedTuple):
    """Two machines: one asks, the other answers."""

    url: str
    asker: SharedQuestions
    other: SharedQuestions
    """On the other machine."""

    @property
    def own(self) -> QuestionView:
        return self.asker.of_actor(ACTOR)

    @property
    def everybody(self) -> QuestionView:
        return self.other.of_everybody()


@asynccontextmanager
async def open_cluster(url: str, seals: Seals) -> AsyncGenerator[Cluster]:
    async with Database(url) as one, Database(url) as two, open_listener(url) as listener:
        await migrate(one)
        hold_lease(url, "a", "first")
        hold_lease(url, "b", "first")
        asker, other = (
            SharedQuestions(database, ClusterNode(name, "first"), seals, answers=listener.follow(ANSWERS))
            for database, name in ((one, "a"), (two, "b"))
        )
        yield Cluster(url, asker, other)


def run(url: str, work: Callable[[Cluster], Awaitable[None]], seals: Seals = KEYS) -> None:
    async def main() -> None:
        async with open_cluster(url, seals) as cluster:
            await work(cluster)

    asyncio.run(main())


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


async def begin(cluster: Cluster, question: Question) -> asyncio.Task[Answer]:
    """Ask a question, and return when it waits."""
    task = asyncio.create_task(ask_and_wait(cluster.own, question))
    while question.id not in await list_ids(cluster.everybody):
        assert not task.done(), task
        await asyncio.sleep(0)
    return task


async def list_ids(view: QuestionView) -> list[str]:
    return [each.question.id for each in await view.list_waiting()]


def test_each_sees_what_it_may_answer(url: str) -> None:
    async def work(cluster: Cluster) -> None:
        mine, local = make_question(), make_question(actor="claude")
        async with (
            cluster.own.keep_question(mine),
            cluster.other.of_actor(LOCAL).keep_question(local),
        ):
            seen = {
                "everybody": {*await list_ids(cluster.everybody)},  # both may be of one millisecond
                "ada": await list_ids(cluster.other.of_actor(ACTOR)),
                "others than ada": await list_ids(cluster.other.of_others(ACTOR)),
                "others than bob": await list_ids(cluster.other.of_others("token:bob")),
            }
            assert seen == {
                "everybody": {mine.id, local.id},
                "ada": [mine.id],
                "others than ada": [],
                "others than bob": [mine.id],
            }
            waiting = await cluster.other.of_everybody().find_question(mine.id)
            with pytest.raises(ApprovalError, match="does not wait"):
                await cluster.other.of_others(ACTOR).give_answer(waiting, "once", "token:bob")

    run(url, work)


@pytest.mark.parametrize(
    "death",
    [
        lambda url: end_lease(url, "a"),
        lambda url: execute(url, "update node set state = 'ended' where id = 'a'"),
        lambda url: hold_lease(url, "a", "second"),
        lambda url: execute(url, "delete from node where id = 'a'"),
    ],
    ids=["lease over", "ended", "started anew", "forgotten"],
)
def test_the_question_of_a_machine_that_died_is_gone(url: str, death: Callable[[str], object]) -> None:
    async def work(cluster: Cluster) -> None:
        question = make_question()
        task = await begin(cluster, question)
        waiting = await cluster.everybody.find_question(question.id)
        death(url)
        assert await cluster.everybody.list_waiting() == []
        for late in (
            cluster.everybody.find_question(question.id),
            cluster.everybody.give_answer(waiting, "once", "grace"),
        ):
            with pytest.raises(ApprovalError) as refused:
                await late
            assert type(refused.value) is AskerEnded
            assert str(refused.value) == f"{question.id} waits no longer: the replica that asked has ended"
        await cluster.other.remove_abandoned()
        with pytest.raises(ApprovalError) as gone:  # the process itself may live, behind a broken network
            await task
        assert str(gone.value) == (
            f"{question.id} no longer waits: the lease of this node ended, or its row was removed"
        )
        assert execute(url, "select count(*) from question") == [(0,)]

    run(url, work)


async def give_late(cluster: Cluster, question: Question) -> asyncio.Task[None]:
    """Answer a question that its asker does not look at, and return when the answer is stored."""
    waiting = await cluster.everybody.find_question(question.id)
    giving = asyncio.create_task(cluster.everybody.give_answer(waiting, "once", "grace"))
    while execute(cluster.url, "select verdict from question") != [("once",)]:  # noqa: ASYNC110
        await asyncio.sleep(0)
    return giving


def test_whoever_answers_a_machine_that_dies_is_told(url: str) -> None:
    """The answer is withdrawn: a machine that was only cut off cannot take it afterwards."""

    async def work(cluster: Cluster) -> None:
        question = make_question()
        async with cluster.own.keep_question(question):
            giving = await give_late(cluster, question)
            end_lease(url, "a")
            with pytest.raises(AskerEnded) as told:
                await giving
            assert str(told.value) == (
                f"{question.id} waits no longer: the replica that asked has ended; the answer was withdrawn, and nothing "
                "was allowed"
            )
            assert execute(url, "select count(*) from question") == [(0,)]

    run(url, work)


def test_whether_a_machine_that_died_took_an_answer_is_not_known(url: str) -> None:
    async def work(cluster: Cluster) -> None:
        question = make_question()
        async with cluster.own.keep_question(question):
            giving = await give_late(cluster, question)
            execute(
                url,
                "with gone as (delete from question) update node set seen = now() - interval '1 minute' where id = 'a'",
            )
            with pytest.raises(AskerEnded) as told:
                await giving
            assert str(told.value) == (
                f"{question.id} waits no longer: the replica that asked has ended; whether it took the answer is not "
                "known"
            )

    run(url, work)


def test_an_answer_that_nobody_reads_is_not_taken(url: str) -> None:
    """The wait ended in the moment of the answer: its row stays until the lease is over."""

    async def work(cluster: Cluster) -> None:
        question = make_question()
        async with cluster.own.keep_question(question):
            giving = await give_late(cluster, question)
        assert execute(url, "select count(*) from question") == [(1,)]
        end_lease(url, "a")
        with pytest.raises(AskerEnded):
            await giving

    run(url, work)


def test_an_answer_that_is_not_taken_in_time_is_said_to_be_stored(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "TAKEN_S", 0.1)

    async def work(cluster: Cluster) -> None:
        question = make_question()
        async with cluster.own.keep_question(question):
            giving = await give_late(cluster, question)
            with pytest.raises(ApprovalError) as told:
                await giving
        assert str(told.value) == (
            f"the answer to {question.id} is stored, and the replica that asked has not taken it yet"
        )

    run(url, work)


def test_others_keep_theirs_when_what_is_abandoned_is_removed(url: str) -> None:
    async def work(cluster: Cluster) -> None:
        async with (
            cluster.other.of_actor("token:bob").keep_question(make_question(actor="token:bob")),
            cluster.own.keep_question(make_question()),
        ):
            end_lease(url, "a")
            await cluster.other.remove_abandoned()
            assert execute(url, "select node from question") == [("b",)]

    run(url, work)


def test_an_answer_arrives_without_notifications(url: str) -> None:
    """As behind a pooler that shares connections: the polls find it."""

    async def work(cluster: Cluster) -> None:
        question = make_question()
        task = await begin(cluster, question)
        seal = KEYS.seal("answer", question.id, hash_of(url, question.id), "once", "grace")
        execute(url, "update question set verdict = 'once', by = 'grace', seal = %s", seal)
        assert await task == Answer(verdict="once", by="grace")

    run(url, work)


def test_an_answer_arrives_without_polls(url: str) -> None:
    """The notification finds it, also for a question that was asked while another one waited."""

    async def ask(cluster: Cluster, listener: Listener) -> None:
        node, answers = ClusterNode("a", "first"), listener.follow(ANSWERS)
        shared = SharedQuestions(cluster.asker.database, node, KEYS, answers=answers, poll_s=3600)
        asker = shared.of_actor(ACTOR)
        asked = [make_question() for _ in range(4)]
        tasks = [asyncio.create_task(ask_and_wait(asker, each)) for each in asked]
        for each in asked:
            while each.id not in await list_ids(cluster.everybody):
                assert not any(task.done() for task in tasks)
        for each in asked:
            waiting = await cluster.everybody.find_question(each.id)
            await cluster.everybody.give_answer(waiting, "once", each.id)
        assert [answer.by for answer in await asyncio.gather(*tasks)] == [each.id for each in asked]

    async def work(cluster: Cluster) -> None:
        async with open_listener(url) as listener:
            await ask(cluster, listener)

    run(url, work)


def test_an_answer_arrives_after_the_database_was_away() -> None:
    """Its own database, because that of the other tests takes long to recover."""

    async def work(cluster: Cluster) -> None:
        question = make_question()
        task = await begin(cluster, question)
        server.kill()
        with pytest.raises(StoreUnavailable):
            await cluster.everybody.list_waiting()
        assert not task.done()
        server.start()
        while (waiting := await find_again(cluster, question.id)) is None:
            pass
        await cluster.everybody.give_answer(waiting, "once", "grace")
        assert await task == Answer(verdict="once", by="grace")

    with Postgres() as server:
        run(server.url, work)


async def find_again(cluster: Cluster, id_: str) -> WaitingQuestion | None:
    """Return a question as soon as the database can be used again."""
    try:
        return await cluster.everybody.find_question(id_)
    except StoreUnavailable:
        return None


def hash_of(url: str, id_: str) -> str:
    [(value,)] = execute(url, "select encode(sha256, 'hex') from question where id = %s", id_)
    return str(value)


DENIED = "does not belong to|does not contain an answer|cannot answer its own questions|no longer waits"


@pytest.mark.parametrize(
    "forgery",
    [
        "update question set verdict = 'once', by = 'grace'",
        "update question set verdict = 'once', by = 'grace', seal = decode(repeat('00', 32), 'hex')",
        "update question set verdict = 'once', by = 'grace', seal = ''",
        "update question set verdict = 'once', by = 'grace', seal = decode(repeat('00', 5000000), 'hex')",
        "update question set verdict = repeat('once', 1000000), by = repeat('x', 1000000)",
        "update question set verdict = 'once'",
        "update question set id = '01JD3W0ZV6N4YQ1R2X5T7B8C9D', verdict = 'once', by = 'grace'",
        "delete from question",
    ],
)
def test_whoever_can_write_rows_but_has_no_key_answers_nothing(url: str, forgery: str) -> None:
    async def work(cluster: Cluster) -> None:
        task = await begin(cluster, make_question())
        execute(url, forgery)
        with pytest.raises(ApprovalError, match=DENIED):
            await task

    run(url, work)


@pytest.mark.parametrize(
    "forgery",
    [
        "verdict = 'yes', by = 'grace'",
        "verdict = 'expired', by = 'grace'",
        "verdict = 'unasked', by = 'grace'",
        "verdict = '', by = 'grace'",
        "verdict = 'once'",
        "verdict = 'once', by = ''",
        "verdict = 'once', by = repeat('x', 201)",
        "verdict = 'once', by = 'token:ada'",
        "verdict = 'once', by = 'grace', sha256 = ''",
        "verdict = 'once', by = 'grace', sha256 = decode(repeat('00', 32), 'hex')",
    ],
)
def test_without_a_key_a_row_must_still_be_an_answer_to_what_was_asked(url: str, forgery: str) -> None:
    async def work(cluster: Cluster) -> None:
        task = await begin(cluster, make_question())
        execute(url, f"update question set {forgery}")
        with pytest.raises(ApprovalError, match=DENIED):
            await task

    run(url, work, Seals())


def test_a_seal_holds_for_one_answer_to_one_question(url: str) -> None:
    async def work(cluster: Cluster) -> None:
        one, two = make_question(), make_question()
        first = await begin(cluster, one)
        await cluster.everybody.give_answer(await cluster.everybody.find_question(one.id), "run", "grace")
        kept = execute(url, "select verdict, by, seal from question where id = %s", one.id)
        assert (await first).verdict == "run"
        second = await begin(cluster, two)
        # The row may be gone before it was read here: then a seal of the same key for the first question.
        verdict, by, seal = (
            kept[0] if kept else ("run", "grace", KEYS.seal("answer", one.id, "", "run", "grace"))
        )
        execute(url, "update question set verdict = %s, by = %s, seal = %s", verdict, by, seal)
        with pytest.raises(ApprovalError, match="does not belong to"):
            await second

    run(url, work)


def test_a_question_that_was_changed_after_it_was_asked_is_not_shown(url: str) -> None:
    async def work(cluster: Cluster) -> None:
        question = make_question(details='{"path": "/"}')
        task = await begin(cluster, question)
        execute(url, "update question set body = jsonb_set(body, '{details}', %s::jsonb)", '"{}"')
        assert await cluster.everybody.list_waiting() == []
        with pytest.raises(ApprovalError, match="does not wait"):
            await cluster.everybody.find_question(question.id)
        task.cancel()
        await asyncio.wait({task})

    run(url, work)


def test_an_answer_to_a_changed_question_is_none(url: str) -> None:
    """The stranger changes text and hash alike, so that a person sees something harmless and says yes."""

    async def work(cluster: Cluster) -> None:
        question = make_question(what="call github/delete_repository")
        harmless = question.model_copy(update={"what": "call time/now"})
        task = await begin(cluster, question)
        put_row(url, question.id, harmless.model_dump_json())
        waiting = await cluster.everybody.find_question(question.id)
        assert waiting.question.what == "call time/now"
        await cluster.everybody.give_answer(waiting, "once", "grace")
        with pytest.raises(ApprovalError, match=f"^the answer does not belong to {question.id}$"):
            await task

    run(url, work)


def test_an_answer_to_a_question_that_is_changed_back_is_none(url: str) -> None:
    async def work(cluster: Cluster) -> None:
        question = make_question(what="call github/delete_repository")
        task = await begin(cluster, question)
        before = execute(url, "select body::text, sha256 from question")[0]
        put_row(url, question.id, question.model_copy(update={"what": "call time/now"}).model_dump_json())
        waiting = await cluster.everybody.find_question(question.id)
        execute(url, "update question set body = %s::jsonb, sha256 = %s", *before)
        with pytest.raises(ApprovalError, match="does not wait"):
            await cluster.everybody.give_answer(waiting, "once", "grace")
        task.cancel()
        await asyncio.wait({task})

    run(url, work)


def put_row(url: str, id_: str, body: str) -> None:
    """Write a body with its hash, as one who knows how they are made."""
    execute(
        url,
        "update question set body = %s::jsonb, sha256 = sha256(convert_to(%s, 'UTF8')) where id = %s",
        *(body, body, id_),
    )


def test_a_question_does_not_become_that_of_somebody_else(url: str) -> None:
    """Ada may answer questions of others, and writes into the row of her own that it is Bob's."""

    async def work(cluster: Cluster) -> None:
        question = make_question()
        task = await begin(cluster, question)
        others = cluster.other.of_others(ACTOR)
        execute(url, "update question set tenant = 'token:bob'")
        assert await others.list_waiting() == []
        put_row(url, question.id, question.model_copy(update={"actor": "token:bob"}).model_dump_json())
        waiting = await others.find_question(question.id)
        await others.give_answer(waiting, "once", ACTOR)
        with pytest.raises(ApprovalError, match="does not belong to"):
            await task

    run(url, work)


HOSTILE_BODIES = {
    "no object": "1",
    "null": "null",
    "nested": "[" * 3000 + "]" * 3000,
    "long": json.dumps({"id": "x" * 3_000_000}),
    "another field": make_question().model_copy(update={"id": SOME_ID}).model_dump_json()[:-1]
    + ', "more": 1}',
    "numbers": json.dumps(dict.fromkeys(Question.model_fields, 1)),
    "another id": make_question().model_dump_json(),
}


@pytest.mark.parametrize("body", HOSTILE_BODIES.values(), ids=HOSTILE_BODIES)
def test_a_forged_row_is_not_shown_and_hides_no_other(url: str, body: str) -> None:
    async def work(cluster: Cluster) -> None:
        question = make_question()
        await begin(cluster, question)
        execute(
            url,
            "insert into question (id, tenant, run, sha256, node, boot, body, expires) values "
            "(%s, %s, 'r', sha256(convert_to(%s, 'UTF8')), 'a', 'first', %s::jsonb, 'infinity')",
            *(SOME_ID, ACTOR, body, body),
        )
        assert await list_ids(cluster.everybody) == [question.id]
        with pytest.raises(ApprovalError, match="does not wait"):
            await cluster.everybody.find_question(SOME_ID)

    run(url, work)


@pytest.mark.parametrize("id_", ["", "\x1b[2J", "x" * 10_000, "../x", "' or true --"])
def test_a_row_with_an_odd_id_is_not_shown(url: str, id_: str) -> None:
    async def work(cluster: Cluster) -> None:
        body = make_question().model_copy(update={"id": id_}).model_dump_json()
        execute(
            url,
            "insert into question (id, tenant, run, sha256, node, boot, body, expires) values "
            "(%s, %s, 'r', sha256(convert_to(%s, 'UTF8')), 'a', 'first', %s::jsonb, 'infinity')",
            *(id_, ACTOR, body, body),
        )
        assert await cluster.everybody.list_waiting() == []

    run(url, work)


def test_a_forged_question_waits_no_longer_than_it_says(url: str) -> None:
    async def work(cluster: Cluster) -> None:
        question = make_question(wait_ms=600_000)
        await begin(cluster, question)
        execute(url, "update question set expires = 'infinity'")
        [waiting] = await cluster.everybody.list_waiting()
        body = question.model_dump_json().replace("600000", "1" + "0" * 400)
        put_row(url, question.id, body)
        [long] = await cluster.everybody.list_waiting()
        assert long.expires < waiting.expires + 366 * 86_400
        execute(url, "update question set expires = '-infinity'")
        assert await cluster.everybody.list_waiting() == []
        assert waiting.expires < 4e9

    run(url, work)
