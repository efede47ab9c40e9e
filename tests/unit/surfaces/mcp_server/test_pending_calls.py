"""Calls that wait for a person elsewhere: what who comes back is told, and how long an answer is kept."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, cast

import pytest

from paddock.gate.question_directory import QuestionDirectory
from paddock.gate.questions import FileQuestions
from paddock.model.approval import Answer, Question
from paddock.model.ids import new_id
from paddock.surfaces.mcp_server.pending_calls import (
    FETCH_TOOLS,
    CallWork,
    PendingCalls,
    find_run_to_fetch,
    run_alone,
)
from paddock.surfaces.mcp_server.toolbox import McpCaller, ToolAnswer, text_block


def question(run: str) -> Question:
    given = {"id": new_id(), "request": run, "run": run, "what": "call a/b", "details": "{}"}
    return Question(**given, reasons=("why",), sha256="a" * 64, wait_ms=60_000)


def asking(run: str) -> CallWork:
    async def work(caller: McpCaller) -> ToolAnswer:
        assert caller.asker is not None
        assert not caller.present
        answer = await caller.asker(question(run))
        return ToolAnswer([text_block(answer.verdict)], {"by": answer.by})

    return work


def status(answer: ToolAnswer) -> Any:
    return answer.structured["status"]


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_who_comes_back_before_the_answer_is_told_that_it_waits(tmp_path: Path) -> None:
    inbox, name = QuestionDirectory(tmp_path / "approvals"), new_id()

    async def main() -> None:
        held = PendingCalls(FileQuestions(inbox), FETCH_TOOLS["default"], patience_s=0)
        first = await held.run_call("me", "client", asking(name), None)
        assert await held.fetch_result(name, "me") == first
        assert status(first) == "waiting"
        assert status(await held.fetch_result(name, "somebody")) == "invalid"
        assert status(await held.fetch_result(new_id(), "me")) == "invalid"
        [waiting] = inbox.list_waiting()
        inbox.give_answer(waiting, "once", "ada")
        while status(answer := await held.fetch_result(name, "me")) == "waiting":
            pass
        result = {"status": "ok", "result": {"by": "ada"}}
        assert answer == ToolAnswer([text_block("once")], result)
        assert status(await held.fetch_result(name, "me")) == "invalid"

    run(main())


@pytest.mark.parametrize(
    ("has_users", "remedy"),
    [
        (False, "Ask them to run in a terminal of this machine: paddock approve ID\n"),
        (
            True,
            "You cannot answer it yourself. Ask another user whose token has `approve` to send POST /v1/approvals/ID, "
            "or a person at a terminal of the server to run: paddock approve ID\n",
        ),
    ],
)
def test_the_message_names_who_can_answer(tmp_path: Path, *, has_users: bool, remedy: str) -> None:
    inbox, name = QuestionDirectory(tmp_path / "approvals"), new_id()

    async def main() -> None:
        held = PendingCalls(FileQuestions(inbox), FETCH_TOOLS["default"], has_users=has_users)
        answer = await held.run_call("me", "client", asking(name), None)
        [waiting] = inbox.list_waiting()
        told = answer.structured["message"].replace(waiting.question.id, "ID")
        assert told.startswith(
            f"A person must allow this: call a/b (why). {remedy}Then fetch the answer, once: "
        )
        assert answer.structured["command"] == f"paddock approve {waiting.question.id}"
        await held.close()

    run(main())


def test_of_two_who_come_back_at_once_one_gets_the_answer(tmp_path: Path) -> None:
    inbox, name = QuestionDirectory(tmp_path / "approvals"), new_id()

    async def main() -> None:
        held = PendingCalls(FileQuestions(inbox), FETCH_TOOLS["default"])
        await held.run_call("me", "client", asking(name), None)
        both = [asyncio.create_task(held.fetch_result(name, "me")) for _ in range(2)]
        given_up = asyncio.create_task(held.fetch_result(name, "me"))
        await asyncio.sleep(0)
        given_up.cancel()
        inbox.give_answer(inbox.list_waiting()[0], "denied", "ada")
        assert sorted(map(status, await asyncio.gather(*both))) == ["invalid", "ok"]

    run(main())


@pytest.mark.slow
def test_answers_that_nobody_fetches_are_not_kept_for_ever(tmp_path: Path) -> None:
    inbox = QuestionDirectory(tmp_path / "approvals")

    async def main() -> None:
        held = PendingCalls(FileQuestions(inbox), FETCH_TOOLS["default"])
        names = [new_id() for _ in range(20)]
        for name in names:
            await held.run_call("me", "client", asking(name), None)
            inbox.give_answer(inbox.list_waiting()[0], "once", "ada")
            await asyncio.gather(*(call.task for call in held.running))
        answers = [status(await held.fetch_result(name, "me")) for name in names]
        assert answers == ["invalid"] * 3 + ["ok"] * 17

    run(main())


def test_closing_ends_what_waits(tmp_path: Path) -> None:
    inbox = QuestionDirectory(tmp_path / "approvals")

    async def main() -> None:
        held = PendingCalls(FileQuestions(inbox), FETCH_TOOLS["default"])
        await held.run_call("me", "client", asking(new_id()), None)
        assert len(inbox.list_waiting()) == 1
        await held.close()
        assert inbox.list_waiting() == []

    run(main())


def test_what_fetches() -> None:
    name = new_id()
    assert find_run_to_fetch("query_output", {"artifact_handle": name}) == name
    assert find_run_to_fetch("query_output", {"artifactHandle": name}) == name
    assert find_run_to_fetch("sdl.runtime.queryOutput", {"artifactHandle": name}) == name
    for tool, arguments in (
        ("execute_code", {"artifactHandle": name}),
        ("query_output", {"artifactHandle": "ws-1-abc"}),
        ("query_output", {"artifactHandle": 1}),
        ("query_output", {}),
        ("query_output", None),
    ):
        assert find_run_to_fetch(tool, arguments) is None


def test_calls_end_with_the_client_that_left_them_behind(tmp_path: Path) -> None:
    inbox, mine, other = QuestionDirectory(tmp_path / "approvals"), new_id(), new_id()

    async def main() -> None:
        held = PendingCalls(FileQuestions(inbox), FETCH_TOOLS["default"], patience_s=0)
        assert [held.add_client(client) for client in ("a", "b", "a")] == [True, True, False]
        await held.run_call("me", "a", asking(mine), None)
        await held.run_call("me", "b", asking(other), None)
        fetching = asyncio.create_task(held.fetch_result(mine, "me"))
        await asyncio.sleep(0)
        held.end_calls_of_client("a")
        await asyncio.wait({call.task for call in held.running}, return_when=asyncio.FIRST_COMPLETED)
        assert [waiting.question.run for waiting in inbox.list_waiting()] == [other]
        assert status(await fetching) in ("waiting", "invalid")
        assert status(await held.fetch_result(mine, "me")) == "invalid"
        assert status(await held.fetch_result(other, "me")) == "waiting"
        assert held.add_client("a")
        await held.close()

    run(main())


@pytest.mark.parametrize("in_gate", [True, False])
def test_a_cancelled_call_ends_in_order_and_is_waited_for(*, in_gate: bool) -> None:
    ended: list[str] = []

    async def work(caller: McpCaller) -> None:
        try:
            with caller.ending.stops_gate() if in_gate else nullcontext():
                await caller.ending.stop.wait()
            ended.append("stopped")
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            ended.append("cancelled")
            raise

    async def main() -> bool:
        task = asyncio.create_task(run_alone(work, McpCaller("me")))
        for _ in range(3):
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert (asyncio.run(main()), ended) == (True, ["stopped" if in_gate else "cancelled"])


def test_a_call_that_nobody_ends_returns_or_raises() -> None:
    async def work(caller: McpCaller) -> int:
        assert not caller.ending.stop.is_set()
        return 7

    async def fail(_caller: McpCaller) -> None:
        raise LookupError("gone")

    assert asyncio.run(run_alone(work, McpCaller("me"))) == 7
    with pytest.raises(LookupError, match=r"^gone$"):
        asyncio.run(run_alone(fail, McpCaller("me")))


class AnsweredAtOnce:
    @asynccontextmanager
    async def keep_question(self, _question: Question) -> AsyncGenerator[None]:
        yield

    async def wait_for_answer(self, _question: Question) -> Answer:
        return Answer(verdict="once", by="ada", told="")


def test_a_call_whose_question_is_over_at_once_is_still_ended_in_order() -> None:
    ended: list[str] = []
    in_gate = asyncio.Event()

    async def work(caller: McpCaller) -> ToolAnswer:
        assert caller.asker is not None
        answer = await caller.asker(question(new_id()))
        with caller.ending.stops_gate():
            in_gate.set()
            await caller.ending.stop.wait()
        ended.append(answer.verdict)
        return ToolAnswer([])

    async def main() -> bool:
        held = PendingCalls(cast("Any", AnsweredAtOnce()), FETCH_TOOLS["default"])
        task = asyncio.create_task(held.run_call("me", "client", work, None))
        await in_gate.wait()
        for _ in range(3):
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert (asyncio.run(main()), ended) == (True, ["once"])
