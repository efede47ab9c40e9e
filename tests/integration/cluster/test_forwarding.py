"""Three replicas behind a balancer are one server: what one has in memory is reached through the others."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult
from tests.support.http_api import TOKEN, ApiClient, read_events, read_problem
from tests.support.mcp_server import ERAS, MODERN
from tests.support.postgres import Postgres
from tests.support.processes import PATIENCE_S
from tests.support.replicas import ReplicaSet, make_token_settings

ASK = '[[policy.rule]]\neffect = "ask"\ntool = "odd/echo"\nreason = "echoes carry far"\n'
MCP_HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
UNTIL_GO = "import os\nprint('begun', flush=True)\nwhile not os.path.exists('go'): pass\nprint('done')"
TOKEN_SETTINGS, TOKENS = make_token_settings("alice", "bob", "boss", approve="boss")


@pytest.fixture(scope="module")
def replicas(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicaSet]:
    """Three replicas for all tests of this file, which end none of them."""
    database = postgres.make_database("forwarding")
    made = ReplicaSet(tmp_path_factory.mktemp("replicas"), database, ASK + TOKEN_SETTINGS)
    for place in made.places:
        scripts = place.workspace / ".paddock" / "scripts"
        scripts.mkdir(parents=True)
        (scripts / "hello.ts").write_text("return 'hello'\n")
    with made.run() as running:
        yield running


@pytest.fixture
def apis(replicas: ReplicaSet) -> Iterator[list[ApiClient]]:
    """The owner of the server, at each replica."""
    with ExitStack() as stack:
        yield [stack.enter_context(server.client()) for server in replicas.servers]


@pytest.fixture
def front(replicas: ReplicaSet) -> Iterator[ApiClient]:
    """The owner of the server, at the balancer."""
    with replicas.front.client() as client:
        yield client


async def converse(url: str, mode: str) -> list[Any]:
    """Return the values of programs that one client runs over MCP."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        assert {tool.name for tool in (await client.list_tools()).tools} >= {"execute_code", "run_program"}
        results = [
            await client.call_tool("execute_code", {"code": f"return {number} * 2"}) for number in range(6)
        ]
        return [(each.structured_content or {})["value"] for each in results]


@pytest.mark.parametrize("mode", ERAS)
def test_clients_of_both_eras_need_no_sticky_balancer(replicas: ReplicaSet, mode: str) -> None:
    assert asyncio.run(converse(f"{replicas.balancer.url}/mcp", mode)) == [0, 2, 4, 6, 8, 10]


def initialize(api: ApiClient) -> dict[str, str]:
    """Open a session of 2025-11-25, and return the headers of its further requests."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    answer = api.post("/mcp", json=message("initialize", hello), headers=MCP_HEADERS)
    assert answer.status_code == 200, answer.text
    session = {**MCP_HEADERS, "Mcp-Session-Id": answer.headers["mcp-session-id"]}
    session["Mcp-Protocol-Version"] = "2025-11-25"
    done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert api.post("/mcp", json=done, headers=session).status_code == 202
    return session


def message(method: str, params: dict[str, Any], number: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def read_result(answer: httpx2.Response) -> Any:
    """Return the result in an answer, which may be a stream of events."""
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        found = [data for name, data in read_events(iter(answer.text.splitlines())) if "id" in data]
        return found[-1].get("result", found[-1])
    document = answer.json()
    return document.get("result", document)


def call_tool(api: ApiClient, tool: str, headers: dict[str, str], **arguments: Any) -> Any:
    params = {"name": tool, "arguments": arguments}
    return read_result(api.post("/mcp", json=message("tools/call", params), headers=headers))


def call_stateless(api: ApiClient, method: str, name: str, *, elicits: bool = False, **params: Any) -> Any:
    """Return the result of a request of 2026-07-28."""
    meta = dict(MODERN)
    if elicits:
        meta["io.modelcontextprotocol/clientCapabilities"] = {"elicitation": {"form": {}}}
    headers = {**MCP_HEADERS, "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name}
    sent = message(method, {"name": name, **params, "_meta": meta})
    return read_result(api.post("/mcp", json=sent, headers=headers))


def test_a_session_of_mcp_is_reached_through_every_replica(apis: list[ApiClient]) -> None:
    first, *others = apis
    session = initialize(first)
    for api in (*others, first):
        found = call_tool(api, "execute_code", session, code="return 6 * 7")
        assert found["structuredContent"]["value"] == 42
    assert others[0].http.request("DELETE", "/mcp", headers=session).status_code == 200
    for api in apis:
        ended = api.post("/mcp", json=message("tools/list", {}), headers=session)
        assert (ended.status_code, ended.json()["error"]["message"]) == (404, "Session not found")


def test_a_session_of_mcp_belongs_to_its_token(replicas: ReplicaSet, apis: list[ApiClient]) -> None:
    session = initialize(apis[0])
    with replicas.servers[1].client(TOKENS["bob"]) as bob:
        refused = bob.post("/mcp", json=message("tools/list", {}), headers=session)
    assert (refused.status_code, refused.json()["error"]["message"]) == (404, "Session not found")


def test_events_pass_before_the_answer_is_there(replicas: ReplicaSet, apis: list[ApiClient]) -> None:
    opened = apis[0].post("/v1/sessions", json={"language": "python"}).json()["id"]
    with apis[1].events(f"/v1/sessions/{opened}/executions", code=UNTIL_GO) as events:
        assert [next(events)[0], next(events)] == [
            "started",
            ("output", {"stream": "stdout", "text": "begun\n"}),
        ]
        files = f"/v1/sessions/{opened}/files"
        assert apis[2].get(f"/v1/sessions/{opened}").json()["running"]
        assert apis[2].post(f"/v1/sessions/{opened}/interrupt").status_code == 204
        *_, (last, outcome) = events
    assert (last, outcome["status"]) == ("outcome", "cancelled")
    assert apis[2].http.put(f"{files}/a%20b/c.txt", content=b"x" * 100_000).status_code == 204
    assert apis[1].get(f"{files}/a%20b/c.txt").content == b"x" * 100_000


def test_an_interpreter_is_reached_through_every_replica(apis: list[ApiClient], front: ApiClient) -> None:
    first, second, third = apis
    opened = first.post("/v1/sessions", json={"language": "python"}).json()["id"]
    path = f"/v1/sessions/{opened}"
    assert first.run(f"{path}/executions", code="x = 1")["session"]["state"] == "kept"
    assert second.run(f"{path}/executions", code="x += 1")["session"]["number"] == 2
    assert third.run(session=opened, code="x += 1")["session"]["number"] == 3
    for api in apis:
        result = call_stateless(
            api, "tools/call", "run_program", arguments={"session": opened, "code": "x += 1"}
        )
        assert result["structuredContent"]["session"]["state"] == "kept"
    values = [front.run(session=opened, code="x")["results"][0]["data"]["text/plain"] for _ in range(4)]
    assert values == ["6"] * 4
    assert opened in [each["id"] for each in second.get("/v1/sessions").json()["sessions"]]
    assert third.delete(path).status_code == 204
    for api in apis:
        assert api.problem("GET", path) == (
            410,
            "session-lost",
            "The session is lost: it was closed. Open another one with POST /v1/sessions.",
        )


def test_an_interpreter_belongs_to_its_token(replicas: ReplicaSet, apis: list[ApiClient]) -> None:
    opened = apis[0].post("/v1/sessions", json={"language": "python"}).json()["id"]
    with replicas.servers[1].client(TOKENS["bob"]) as bob:
        status, kind, text = bob.problem("GET", f"/v1/sessions/{opened}")
    assert (status, kind) == (404, "not-found")
    assert text.startswith("There is no such session, or it belongs to somebody else.")


def test_an_execution_is_found_and_cancelled_through_another_replica(apis: list[ApiClient]) -> None:
    first, second, third = apis
    id_ = first.begin(language="javascript", code="while (true) {}")
    assert second.look_up(id_)["state"] == "running"
    assert id_ in [each["id"] for each in third.get("/v1/executions").json()["executions"]]
    assert third.delete(f"/v1/executions/{id_}").json()["outcome"]["status"] == "cancelled"
    for api in apis:
        assert api.look_up(id_)["outcome"]["status"] == "cancelled"
        assert api.problem("GET", f"/v1/executions/{id_[:-4]}0000")[:2] == (404, "not-found")


def test_an_execution_belongs_to_its_token(replicas: ReplicaSet, apis: list[ApiClient]) -> None:
    id_ = apis[0].run(language="javascript", code="return 1")["id"]
    with replicas.servers[1].client(TOKENS["bob"]) as bob:
        assert bob.problem("GET", f"/v1/executions/{id_}")[:2] == (404, "not-found")
        assert bob.problem("DELETE", f"/v1/executions/{id_}")[:2] == (404, "not-found")
        assert bob.get("/v1/executions").json() == {"executions": []}


def test_a_client_that_leaves_cancels_what_another_replica_runs(apis: list[ApiClient]) -> None:
    opened = apis[0].post("/v1/sessions", json={"language": "python"}).json()["id"]
    with apis[1].events(f"/v1/sessions/{opened}/executions", code=UNTIL_GO) as events:
        (_, started), (name, _) = next(events), next(events)
        assert name == "output"
        assert apis[0].look_up(started["id"])["state"] == "running"
    assert apis[0].wait_for_end(started["id"])["outcome"]["status"] == "cancelled"


def test_a_paused_call_goes_on_through_another_replica(apis: list[ApiClient]) -> None:
    first, second, third = apis
    asked = call_stateless(first, "prompts/get", "run-script", elicits=True, arguments={})
    assert asked["resultType"] == "input_required"
    state = asked["requestState"]
    answer = ElicitResult(action="accept", content={"script": "hello"})
    answers = {"script": answer.model_dump(by_alias=True, exclude_none=True)}
    again = {"inputResponses": answers, "requestState": state, "arguments": {}}
    found = call_stateless(second, "prompts/get", "run-script", elicits=True, **again)
    assert "return 'hello'" in json.dumps(found["messages"])
    for api in (first, third):
        used = call_stateless(api, "prompts/get", "run-script", elicits=True, **again)
        assert used["error"]["message"] == "Invalid or expired requestState"


def test_a_waiting_call_is_answered_and_fetched_elsewhere(replicas: ReplicaSet) -> None:
    with ExitStack() as stack:
        alice = [stack.enter_context(server.client(TOKENS["alice"])) for server in replicas.servers]
        boss = stack.enter_context(replicas.servers[0].client(TOKENS["boss"]))
        code = "return await servers.odd.echo({text: 'hi'})"
        waiting = call_stateless(alice[0], "tools/call", "execute_code", arguments={"code": code})
        run = waiting["structuredContent"]["run"]
        [question] = boss.get("/v1/approvals").json()["approvals"]
        given = boss.post(f"/v1/approvals/{question['question']['id']}", json={"verdict": "once"})
        assert given.status_code == 200
        fetch = {"arguments": {"artifact_handle": run}}
        with replicas.servers[1].client(TOKENS["bob"]) as bob:
            refused = call_stateless(bob, "tools/call", "query_output", **fetch)
            assert refused["structuredContent"]["error"]["name"] == "UnknownRun"
        fetched = call_stateless(alice[2], "tools/call", "query_output", **fetch)
        assert fetched["structuredContent"]["result"]["value"] == "hi"
        again = call_stateless(alice[1], "tools/call", "query_output", **fetch)
        assert again["structuredContent"]["error"]["name"] == "UnknownRun"


def test_names_of_the_balancer_are_known(replicas: ReplicaSet, apis: list[ApiClient]) -> None:
    wrong = apis[0].get("/v1/ping", headers={"Host": "evil.test"})
    assert read_problem(wrong)[:2] == (421, "wrong-host")
    page = apis[0].get("/v1/ping", headers={"Host": f"127.0.0.1:{replicas.balancer.port}"})
    assert page.status_code == 200
