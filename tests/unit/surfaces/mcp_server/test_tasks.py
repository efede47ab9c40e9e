"""Calls as tasks: whose they are, how they end, what is kept of them, and who cannot have them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.mcp_application import ACCEPT, JSON_TYPE, META, VERSION, Reply, Server
from tests.support.processes import PATIENCE_S

from paddock.surfaces.mcp_server import tasks
from paddock.surfaces.mcp_server.tasks import EXTENSION, RETENTION_S, TASK_METHODS

CAPABILITIES = {"elicitation": {}, "extensions": {EXTENSION: {}}}
UNKNOWN = {
    "code": -32602,
    "message": "Unknown task. A task is known to the caller that made it, until 10 minutes after its end, and is lost "
    "when the server ends. If the call must not run twice, send it again with the same `paddock/key`.",
}


async def send(
    server: Server,
    method: str,
    *,
    header: str = "",
    capabilities: Any = CAPABILITIES,
    actor: str = "me",
    stays: bool = True,
    **params: Any,
) -> Reply:
    """Send one request of 2026-07-28."""
    meta = {**META, "io.modelcontextprotocol/clientCapabilities": capabilities}
    named = header or params.get("taskId") or params.get("name") or "-"
    headers = [JSON_TYPE, ACCEPT, (VERSION, b"2026-07-28")]
    headers += [(b"mcp-method", method.encode()), (b"mcp-name", named.encode())]
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return await server.ask("POST", headers, json.dumps(body).encode(), stays=stays, actor=actor)


async def ask(server: Server, method: str, **params: Any) -> Any:
    """Return a result."""
    reply = await send(server, method, **params)
    assert reply.status == 200, reply.body
    return json.loads(reply.body)["result"]


async def begin(server: Server, tool: str = "wait", **params: Any) -> str:
    """Call a tool, and return the id of its task."""
    made = await ask(server, "tools/call", name=tool, arguments={}, **params)
    assert (made["resultType"], made["status"]) == ("task", "working")
    return made["taskId"]


async def poll(server: Server, task: str, **until: Any) -> Any:
    """Return a task once it has a status."""
    while (found := await ask(server, "tasks/get", taskId=task))["status"] != until["status"]:
        pass
    return found


def run(work: Any) -> None:
    asyncio.run(work())


def test_a_call_goes_on_as_a_task(tmp_path: Path) -> None:
    async def main() -> None:
        async with Server(tmp_path).running() as server:
            made = await ask(server, "tools/call", name="wait", arguments={}, task={"ttl": 10**12})
            assert (made["resultType"], made["status"], made["pollIntervalMs"]) == ("task", "working", 1000)
            assert RETENTION_S * 1000 <= made["ttlMs"] < 10**8  # a client cannot choose it
            assert "result" not in made
            working = await ask(server, "tasks/get", taskId=made["taskId"])
            assert (working["resultType"], working["createdAt"]) == ("complete", made["createdAt"])
            server.go.set()
            done = await poll(server, made["taskId"], status="completed")
            content = [{"type": "text", "text": "went on"}]
            assert done["result"] == {"content": content, "isError": False, "resultType": "complete"}
            assert await ask(server, "tasks/get", taskId=made["taskId"]) == done  # also its ttlMs
            again = await ask(server, "tasks/cancel", taskId=made["taskId"])
            assert again["resultType"] == "complete"
            assert await ask(server, "tasks/get", taskId=made["taskId"]) == done

    run(main)


@pytest.mark.parametrize("method", TASK_METHODS)
def test_another_caller_knows_no_such_task(tmp_path: Path, method: str) -> None:
    async def main() -> None:
        async with Server(tmp_path).running() as server:
            task = await begin(server)
            for guess in (task, task[:-1], "a" * 32, "\ud800", ""):
                spell = {"header": "=?base64?7aCA?="} if guess == "\ud800" else {}
                found = await send(server, method, taskId=guess, actor="mallory", inputResponses={}, **spell)
                known = guess.isascii() and guess
                expected = (400, UNKNOWN["code"] if known else -32020)
                assert (found.status, found.error["code"]) == expected
                if known:
                    assert found.error == UNKNOWN
            for removed in ("tasks/list", "tasks/result"):
                found = await send(server, removed, taskId=task)
                assert (found.status, found.error["code"]) == (404, -32601)
            assert (await ask(server, "tasks/get", taskId=task))["status"] == "working"

    run(main)


def test_clients_without_the_extension_cannot_listen_for_tasks(tmp_path: Path) -> None:
    async def main() -> None:
        async with Server(tmp_path).running() as server:
            wanted = {"taskIds": ["a"], "toolsListChanged": True}
            found = await send(server, "subscriptions/listen", notifications=wanted, capabilities={})
            needed = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            message = f"This needs a client that declares the extension {EXTENSION}."
            assert (found.status, found.error) == (400, {"code": -32021, "message": message, "data": needed})
            for notifications, capabilities in (({"toolsListChanged": True}, {}), (wanted, CAPABILITIES)):
                reply = await send(
                    server,
                    "subscriptions/listen",
                    notifications=notifications,
                    capabilities=capabilities,
                    stays=False,
                )
                [line] = [each for each in reply.body.splitlines() if each.startswith(b"data:")]
                accepted = json.loads(line[5:])["params"]["notifications"]
                assert (reply.status, accepted) == (200, {"toolsListChanged": True})

    run(main)


@pytest.mark.parametrize("method", TASK_METHODS)
def test_clients_without_the_extension_have_no_tasks(tmp_path: Path, method: str) -> None:
    async def main() -> None:
        async with Server(tmp_path).running() as server:
            task = await begin(server)
            found = await send(server, method, taskId=task, capabilities={}, inputResponses={})
            needed = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            assert (found.status, found.error["code"], found.error["data"]) == (400, -32021, needed)
            wrong = await send(server, method, taskId=task, header="other", inputResponses={})
            message = "The header mcp-name must have the value of params.taskId."
            assert (wrong.status, wrong.error) == (400, {"code": -32020, "message": message})
            plain = asyncio.create_task(ask(server, "tools/call", name="wait", arguments={}, capabilities={}))
            server.go.set()
            assert (await plain)["resultType"] == "complete"
            session = await server.session()
            body = json.dumps(
                {
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": method,
                    "params": {"taskId": task, "inputResponses": {}},
                }
            )
            old = await server.ask("POST", session, body.encode(), stays=True)
            assert b'"code":-32601' in old.body

    run(main)


def test_only_2026_07_28_is_offered_the_extension(tmp_path: Path) -> None:
    async def main() -> None:
        async with Server(tmp_path).running() as server:
            found = await ask(server, "server/discover")
            assert found["capabilities"]["extensions"] == {EXTENSION: {}}
            hello = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "w", "version": "1"},
            }
            body = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}).encode()
            begun = await server.ask("POST", [JSON_TYPE, ACCEPT], body, stays=True)
            assert b'"capabilities":' in begun.body
            assert b"extensions" not in begun.body

    run(main)


@pytest.mark.parametrize("limit", ["MAX_TASKS", "MAX_RESULT_BYTES"])
def test_a_flood_of_calls_is_answered_without_further_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    async def main() -> None:
        async with Server(tmp_path).running() as server:
            first = [await begin(server) for _ in range(3)]
            if limit == "MAX_RESULT_BYTES":
                server.go.set()
                for task in first:
                    await poll(server, task, status="completed")
                server.go.clear()
            monkeypatch.setattr(tasks, limit, 3)
            flood = [
                asyncio.create_task(ask(server, "tools/call", name="wait", arguments={})) for _ in range(20)
            ]
            await asyncio.wait(flood, timeout=0)
            server.go.set()
            assert {each["resultType"] for each in await asyncio.gather(*flood)} == {"complete"}
            for task in first:
                assert (await poll(server, task, status="completed"))["resultType"] == "complete"

    run(main)


def test_results_of_tasks_that_ran_together_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The protocol forbids to drop a result that was kept. One that is not kept says so."""
    monkeypatch.setattr(tasks, "MAX_RESULT_BYTES", 1000)
    monkeypatch.setattr(tasks, "SMALL_RESULT_BYTES", 200)

    async def main() -> list[Any]:
        async with Server(tmp_path).running() as server:
            made = [await begin(server, "long") for _ in range(3)]
            server.go.set()
            ended = [await poll(server, each, status="completed") for each in made]
            return sorted((each["result"] for each in ended), key=lambda each: each["isError"])

    *kept, refused = asyncio.run(main())
    assert [each["content"][0]["text"] for each in kept] == ["x" * 350] * 2
    data = refused["structuredContent"]
    assert (refused["isError"], data["status"], data["error"]["name"]) == (
        True,
        "output_limit",
        "ResultNotKept",
    )
    assert data["error"]["message"].startswith(
        "the call has ended and may have had effects, but its result is not kept: it has "
    )


def test_a_server_that_ends_waits_for_running_tasks(tmp_path: Path) -> None:
    """A task that asks its client is not waited for: the client cannot answer any more."""

    async def main() -> None:
        async with Server(tmp_path).running() as server:
            task = await begin(server)
            assert not await server.requests.wait_until_drained(0)
            server.requests.ending = server.requests.leaving = False
            server.go.set()
            await poll(server, task, status="completed")
            server.go.clear()
            asking = await begin(server, "ask")
            server.go.set()
            await poll(server, asking, status="input_required")
            assert await server.requests.wait_until_drained(PATIENCE_S)

    run(main)


def test_a_cancelled_task_ends_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with Server(tmp_path).running() as server:
            task = await begin(server)
            await server.entered.wait()
            acks = [ask(server, "tasks/cancel", taskId=task) for _ in range(10)]
            for ack in await asyncio.gather(*acks):
                assert set(ack) <= {"resultType", "_meta"}
            ended = await poll(server, task, status="cancelled")
            assert "result" not in ended
            server.go.set()
            assert await ask(server, "tasks/get", taskId=task) == ended

    run(main)


def test_the_end_and_a_cancellation_at_once_leave_one_status(tmp_path: Path) -> None:
    async def main() -> None:
        async with Server(tmp_path).running() as server:
            for _ in range(20):
                server.go.clear()
                task = await begin(server)
                server.go.set()
                await ask(server, "tasks/cancel", taskId=task)
                while (found := await ask(server, "tasks/get", taskId=task))["status"] == "working":
                    pass
                assert ("result" in found) == (found["status"] == "completed")
                assert await ask(server, "tasks/get", taskId=task) == found

    run(main)


def test_a_task_is_forgotten_some_time_after_its_end_and_with_its_server(tmp_path: Path) -> None:
    async def main() -> None:
        async with Server(tmp_path / "a", kept_s=0.0).running() as server:
            task = await begin(server)
            server.go.set()
            while (found := await send(server, "tasks/get", taskId=task)).status == 200:
                pass
            assert found.error == UNKNOWN
            server.go.clear()
            task = await begin(server)
        async with Server(tmp_path / "b").running() as server:
            assert (await send(server, "tasks/get", taskId=task)).error == UNKNOWN

    run(main)


def test_an_error_of_the_protocol_is_a_failure(tmp_path: Path) -> None:
    async def main() -> None:
        async with Server(tmp_path).running() as server:
            task = await begin(server, "fail")
            server.go.set()
            failed = await poll(server, task, status="failed")
            assert (failed["error"], failed["statusMessage"]) == (
                {"code": -32603, "message": "it broke"},
                "it broke",
            )
            assert "result" not in failed

    run(main)


def accept(name: Any) -> Any:
    return {"action": "accept", "content": {"name": name}}


def test_questions_of_a_task_are_answered_one_by_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with Server(tmp_path).running() as server:
            # the server asks the clients that it does not know by a token
            task = await begin(server, "ask")
            server.go.set()
            asked = await poll(server, task, status="input_required")
            assert [*asked["inputRequests"]] == ["first-1", "second-1"]
            assert asked["inputRequests"]["first-1"]["method"] == "elicitation/create"
            assert "requestState" not in asked
            wrong = await send(
                server, "tasks/update", taskId=task, inputResponses={"first-1": {"action": "maybe"}}
            )
            message = "The answer to first-1 is not a valid ElicitResult. Send tasks/update again."
            assert (wrong.status, wrong.error) == (400, {"code": -32602, "message": message})
            for given in (
                {},
                {"other": 7},
                {"first": accept("x")},
                {"second-1": accept("b"), "first-2": accept("x")},
            ):
                await ask(server, "tasks/update", taskId=task, inputResponses=given)
            left = await ask(server, "tasks/get", taskId=task)
            assert (left["status"], [*left["inputRequests"]]) == ("input_required", ["first-1"])
            await ask(server, "tasks/update", taskId=task, inputResponses={"second-1": accept("late")})
            await ask(server, "tasks/update", taskId=task, inputResponses={"first-1": accept("a")})
            while [*(found := await ask(server, "tasks/get", taskId=task)).get("inputRequests", ())] != [
                "first-2",
                "second-2",
            ]:
                assert found["status"] in {"working", "input_required"}
            answers = {"first-2": accept("c"), "second-2": accept("d")}
            await ask(server, "tasks/update", taskId=task, inputResponses=answers)
            done = await poll(server, task, status="completed")
            assert done["result"]["content"][0]["text"] == "a b c d"

    run(main)


def test_a_task_is_cancelled_while_it_asks(tmp_path: Path) -> None:
    async def main() -> None:
        async with Server(tmp_path).running() as server:
            task = await begin(server, "ask")
            server.go.set()
            await poll(server, task, status="input_required")
            await ask(server, "tasks/cancel", taskId=task)
            await poll(server, task, status="cancelled")
            assert server.rounds.waiting == {}

    run(main)
