"""Three replicas behind a balancer are one server: what one has in memory is reached through the others."""

import asyncio
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult
from tests.support.command import PADDOCK
from tests.support.http_api import TOKEN, ApiClient, read_events, read_problem
from tests.support.mcp_server import ERAS, MODERN
from tests.support.postgres import Postgres
from tests.support.processes import PATIENCE_S
from tests.support.replicas import KEY, ReplicaSet, make_token_settings

from paddock.cluster.hops import HEADER, MAX_AGE_S, HopRequest, Hops
from paddock.cluster.node import PURPOSE, compute_mark
from paddock.cluster.seals import Seals
from paddock.model.ids import new_id
from paddock.model.limits import MIB
from paddock.model.work_files import INPUT_BYTES
from paddock.surfaces.mcp_server.tasks import EXTENSION, TASK_METHODS

ASK = '[[policy.rule]]\neffect = "ask"\ntool = "odd/echo"\nreason = "echoes carry far"\n'
TASKS = "[mcp]\ntask_after_ms = 0\n"
MCP_HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
UNTIL_GO = "import os\nprint('begun', flush=True)\nwhile not os.path.exists('go'): pass\nprint('done')"
TOKEN_SETTINGS, TOKENS = make_token_settings("alice", "bob", "boss", approve="boss")


@pytest.fixture(scope="module")
def replicas(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicaSet]:
    """Three replicas for all tests of this file, which end none of them."""
    database = postgres.make_database("forwarding")
    made = ReplicaSet(tmp_path_factory.mktemp("replicas"), database, ASK + TASKS + TOKEN_SETTINGS)
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
    """Return the result in an answer, which may be a stream of events; an error as a whole message."""
    assert answer.headers["content-type"].startswith(("text/event-stream", "application/json")), answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        found = [data for name, data in read_events(iter(answer.text.splitlines())) if "id" in data]
        return found[-1].get("result", found[-1])
    document = answer.json()
    return document.get("result", document)


def call_tool(api: ApiClient, tool: str, headers: dict[str, str], **arguments: Any) -> Any:
    params = {"name": tool, "arguments": arguments}
    return read_result(api.post("/mcp", json=message("tools/call", params), headers=headers))


def call_stateless(
    api: ApiClient, method: str, name: str, *, elicits: bool = False, tasks: bool = False, **params: Any
) -> Any:
    """Return the result of a request of 2026-07-28."""
    meta = dict(MODERN)
    if elicits:
        meta["io.modelcontextprotocol/clientCapabilities"] = {"elicitation": {"form": {}}}
    if tasks:
        meta["io.modelcontextprotocol/clientCapabilities"] = {"extensions": {EXTENSION: {}}}
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


def test_a_length_beside_a_transfer_encoding_counts_for_nothing(
    replicas: ReplicaSet, interpreter: str
) -> None:
    """Neither more nor less than the whole body reaches the other replica, and no second request."""
    path = f"{interpreter}/files/x.txt"
    for length in (0, 3, 5, 500):
        head = (
            f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1:{replicas.ports[1]}\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Content-Length: {length}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        )
        text = f"hello{length}GET /v1/ping HTTP/1.1"
        with socket.create_connection(("127.0.0.1", replicas.ports[1]), PATIENCE_S) as client:
            client.sendall(f"{head}{len(text):x}\r\n{text}\r\n0\r\n\r\n".encode())
            answer = b"".join(iter(lambda: client.recv(65536), b""))
        assert answer.startswith((b"HTTP/1.1 204", b"HTTP/1.1 400")), answer
        assert answer.count(b"HTTP/1.1 ") == 1
        if answer.startswith(b"HTTP/1.1 204"):
            with replicas.servers[2].client() as api:
                assert api.get(path).text == text


def test_a_request_that_is_not_taken_as_a_whole_is_not_lost(apis: list[ApiClient], interpreter: str) -> None:
    """The other replica refuses a body that is too large, and does not read the rest of it."""

    def write_pieces() -> Iterator[bytes]:
        for _ in range(INPUT_BYTES // MIB + 16):
            yield bytes(MIB)

    answer = apis[1].http.put(f"{interpreter}/files/large", content=write_pieces())
    told = "ended the connection before it had the whole request. Nothing was started. "
    assert answer.status_code == 413 or (answer.status_code == 503 and told in read_problem(answer)[2])


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


def test_an_interpreter_that_is_opened_again_with_its_key_is_the_same(apis: list[ApiClient]) -> None:
    body, key = {"language": "python"}, {"Idempotency-Key": "one-interpreter"}
    opened = [apis[number].post("/v1/sessions", json=body, headers=key) for number in (0, 1, 2, 0)]
    assert [each.status_code for each in opened] == [201] * 4
    assert len({each.json()["id"] for each in opened}) == 1
    assert len({each.headers["location"] for each in opened}) == 1
    assert apis[1].delete(opened[0].headers["location"]).status_code == 204
    again = [api.post("/v1/sessions", json=body, headers=key) for api in apis]
    assert [read_problem(each)[:2] for each in again] == [(410, "session-lost")] * 3


def test_a_session_of_mcp_has_the_interpreters_of_its_replica(apis: list[ApiClient]) -> None:
    opened = apis[0].post("/v1/sessions", json={"language": "python"}).json()["id"]
    here, elsewhere = initialize(apis[0]), initialize(apis[1])
    used = call_tool(apis[2], "run_program", here, session=opened, code="1 + 1")
    assert used["structuredContent"]["session"]["state"] == "kept"
    params = {"name": "run_program", "arguments": {"session": opened, "code": "1 + 1"}}
    for api in apis:
        refused = api.post("/mcp", json=message("tools/call", params), headers=elsewhere)
        assert refused.status_code == 400
        text = refused.json()["error"]["message"]
        assert text.startswith(f"{opened} is on another replica of the server than this MCP session; ")


def test_an_interpreter_belongs_to_its_token(replicas: ReplicaSet, apis: list[ApiClient]) -> None:
    opened = apis[0].post("/v1/sessions", json={"language": "python"}).json()["id"]
    with replicas.servers[1].client(TOKENS["bob"]) as bob:
        status, kind, text = bob.problem("GET", f"/v1/sessions/{opened}")
    assert (status, kind) == (404, "not-found")
    assert text.startswith("There is no such session, or it belongs to another caller.")


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
        assert bob.get("/v1/executions").json() == {"executions": [], "partial": []}


def test_a_client_that_leaves_cancels_what_another_replica_runs(apis: list[ApiClient]) -> None:
    opened = apis[0].post("/v1/sessions", json={"language": "python"}).json()["id"]
    with apis[1].events(f"/v1/sessions/{opened}/executions", code=UNTIL_GO) as events:
        (_, started), (name, _) = next(events), next(events)
        assert name == "output"
        assert apis[0].look_up(started["id"])["state"] == "running"
    assert apis[0].wait_for_end(started["id"])["outcome"]["status"] == "cancelled"


def test_a_server_of_another_kind_with_the_same_settings_is_not_asked(
    replicas: ReplicaSet, postgres: Postgres, apis: list[ApiClient]
) -> None:
    """It answers nothing that is passed on: what no replica has would be unavailable for ever."""
    place = replicas.places[1]
    process = subprocess.Popen(
        [PADDOCK, "serve", "mcp"],
        cwd=place.workspace,
        env=place.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        query = "select coalesce(url, 'none') from node where id like 'r1-%'"
        while not (urls := postgres.query(query, "forwarding")):
            assert process.poll() is None
        assert urls == ["none"]
        for api in apis:
            assert api.problem("GET", f"/v1/executions/{new_id()}")[:2] == (404, "not-found")
    finally:
        process.communicate()


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


def test_a_task_is_polled_and_cancelled_through_another_replica(replicas: ReplicaSet) -> None:
    with ExitStack() as stack:
        alice = [stack.enter_context(server.client(TOKENS["alice"])) for server in replicas.servers]
        bob = stack.enter_context(replicas.servers[1].client(TOKENS["bob"]))
        given = {"arguments": {"code": "while (true) await null", "timeout_ms": 60_000}, "tasks": True}
        task = call_stateless(alice[0], "tools/call", "execute_code", **given)["taskId"]
        asked = {"taskId": task, "tasks": True}
        for api in alice:
            assert call_stateless(api, "tasks/get", task, **asked)["status"] == "working"
        for method in TASK_METHODS:
            refused = call_stateless(bob, method, task, inputResponses={}, **asked)
            assert refused["error"]["message"].startswith("Unknown task. ")
        assert call_stateless(alice[1], "tasks/cancel", task, **asked)["resultType"] == "complete"
        while (found := call_stateless(alice[2], "tasks/get", task, **asked))["status"] == "working":
            pass
        assert found["status"] == "cancelled"


def test_names_of_the_balancer_are_known(replicas: ReplicaSet, apis: list[ApiClient]) -> None:
    wrong = apis[0].get("/v1/server", headers={"Host": "evil.test"})
    assert read_problem(wrong)[:2] == (421, "wrong-host")
    page = apis[0].get("/v1/server", headers={"Host": f"127.0.0.1:{replicas.balancer.port}"})
    assert page.status_code == 200


def wait_until_forgotten(apis: list[ApiClient]) -> None:
    """Wait until no replica asks a replica that is not there: the others are read about once a second."""
    for api in apis:
        while api.get(f"/v1/executions/{new_id()}").status_code != 404:
            pass


def read_marks(postgres: Postgres) -> list[str]:
    """Return the marks of the replicas."""
    boots = postgres.query("select boot from node where id like 'r_' order by id", "forwarding")
    return [compute_mark(boot) for boot in boots]


@pytest.fixture
def interpreter(apis: list[ApiClient]) -> Iterator[str]:
    """The path of an interpreter on the first replica."""
    path = f"/v1/sessions/{apis[0].post('/v1/sessions', json={'language': 'python'}).json()['id']}"
    yield path
    apis[0].delete(path)


def sign(mark: str, path: str, *, key: str = KEY, sender: float = 0.0, token: str = TOKEN) -> dict[str, str]:
    """Return the header of a request that claims to come from another replica, `sender` seconds ago."""
    hops = Hops("0" * 16, Seals([key.encode()]), lambda: time.time() - sender)
    request = HopRequest("GET", path, f"Bearer {token}".encode())
    return {HEADER.decode(): hops.sign(mark, request).decode()}


def test_a_proof_holds_for_one_hop_of_one_request(
    postgres: Postgres, apis: list[ApiClient], interpreter: str
) -> None:
    marks = read_marks(postgres)
    proof = sign(marks[1], interpreter)
    lost = (
        410,
        "session-lost",
        "The session is lost: the replica of the server that had it has ended. "
        "Open another one with POST /v1/sessions.",
    )
    assert apis[1].problem("GET", interpreter, headers=proof) == lost  # it is not passed on once more
    ordinary = {
        "replayed": proof,
        "of another key": sign(marks[1], interpreter, key="x" * 32),
        "for another replica": sign(marks[2], interpreter),
        "for another path": sign(marks[1], "/v1/sessions"),
        "for another token": sign(marks[1], interpreter, token="x" * 32),
        "garbage": {HEADER.decode(): "1 2 3"},
    }
    found = {
        what: apis[1].get(interpreter, headers=headers).status_code for what, headers in ordinary.items()
    }
    assert found == dict.fromkeys(ordinary, 200)


@pytest.mark.parametrize(("sender", "side"), [(MAX_AGE_S + 60, "behind"), (-MAX_AGE_S - 60, "ahead of")])
def test_a_proof_of_another_time_is_refused_and_says_so(
    postgres: Postgres, apis: list[ApiClient], interpreter: str, sender: float, side: str
) -> None:
    """Not taken for an ordinary request: the replica that passed it on learns why."""
    proof = sign(read_marks(postgres)[1], interpreter, sender=sender)
    refused = apis[1].get(interpreter, headers=proof)
    offset = int(refused.headers["paddock-hop-offset"])
    assert (abs(offset) >= MAX_AGE_S, offset < 0) == (True, sender > 0)
    assert read_problem(refused) == (
        503,
        "unavailable",
        f"A request of another replica is refused: its clock is {abs(offset)} s {side} that of this one.",
    )


def test_a_proof_grants_nothing(
    replicas: ReplicaSet, postgres: Postgres, apis: list[ApiClient], interpreter: str
) -> None:
    marks = read_marks(postgres)
    with replicas.servers[0].client("x" * 32) as stranger:
        headers = sign(marks[0], interpreter, token="x" * 32)
        assert stranger.problem("GET", interpreter, headers=headers)[:2] == (401, "unauthorized")
    with replicas.servers[0].client(TOKENS["bob"]) as bob:
        headers = sign(marks[0], interpreter, token=TOKENS["bob"])
        assert bob.problem("GET", interpreter, headers=headers)[:2] == (404, "not-found")
    id_ = apis[0].run(language="javascript", code="return 1")["id"]
    assert apis[0].problem("GET", f"/internal/holds/{id_}")[:2] == (404, "not-found")


class Trap:
    """A server that answers every request with a redirect to itself, and keeps what it gets."""

    def __init__(self) -> None:
        trap = self
        self.requests: list[tuple[str, dict[str, str]]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                trap.requests.append(
                    (self.path, {name.lower(): value for name, value in self.headers.items()})
                )
                self.send_response(307)
                self.send_header("Location", f"{trap.url}/stolen")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_request(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def trap() -> Iterator[Trap]:
    trap = Trap()
    yield trap
    trap.close()


def insert_replica(postgres: Postgres, name: str, url: str, *, key: str | None = KEY) -> None:
    """Insert the row of a replica that lives for an hour; with a key, as a replica does."""
    seal = None if key is None else Seals([key.encode()]).seal(PURPOSE, name, name, url)
    sealed = "null" if seal is None else f"'\\x{seal.hex()}'"
    statement = (
        "insert into node (id, boot, url, seal, seen) "
        f"values ('{name}', '{name}', '{url}', {sealed}, now() + interval '1 h')"
    )
    postgres.query(statement, "forwarding")


@pytest.mark.parametrize("key", [None, "x" * 32])
def test_who_can_only_write_to_the_database_gets_no_token(
    postgres: Postgres, apis: list[ApiClient], trap: Trap, key: str | None
) -> None:
    insert_replica(postgres, "stranger", trap.url, key=key)
    try:
        mark = compute_mark("stranger")
        for api in apis:
            assert api.get(f"/v1/sessions/s_{mark}{'0' * 32}").status_code == 410
            assert api.get(f"/v1/executions/{new_id()}").status_code == 404
            for path in ("/v1/sessions", "/v1/executions"):
                assert api.get(path).status_code == 200
            headers = {**MCP_HEADERS, "Mcp-Session-Id": f"{mark}x"}
            assert api.post("/mcp", json=message("tools/list", {}), headers=headers).status_code == 404
        assert trap.requests == []
    finally:
        postgres.query("delete from node where id = 'stranger'", "forwarding")


def test_only_rows_of_the_database_name_addresses(
    postgres: Postgres, apis: list[ApiClient], trap: Trap
) -> None:
    rows = {
        "userinfo": trap.url.replace("://", "://user:secret@"),
        "path": f"{trap.url}/latest/meta-data",
        "fragment": f"{trap.url}#",
        "other scheme": trap.url.replace("http", "ftp"),
        "no scheme": trap.url.removeprefix("http:"),
    }
    for name, url in rows.items():
        insert_replica(postgres, name, url)
    try:
        handles = [
            *(f"s_{compute_mark(name)}{'0' * 32}" for name in rows),
            f"s_{'0' * 48}",
            "s_" + trap.url.removeprefix("http://"),
            trap.url,
            quote(trap.url, safe=""),
            "..%2f..%2f",
        ]
        found = [apis[1].get(f"/v1/sessions/{handle}").status_code for handle in handles]
        assert set(found) <= {404, 410}
        for handle in handles:
            headers = {**MCP_HEADERS, "Mcp-Session-Id": handle, "Host": trap.url.removeprefix("http://")}
            answer = apis[1].post("/mcp", json=message("tools/list", {}), headers=headers)
            assert answer.status_code == 421
            del headers["Host"]
            answer = apis[1].post("/mcp", json=message("tools/list", {}), headers=headers)
            assert answer.status_code == 404
        assert trap.requests == []
    finally:
        postgres.query("delete from node where id not like 'r_'", "forwarding")


def test_a_redirect_of_a_replica_is_not_followed(
    postgres: Postgres, apis: list[ApiClient], trap: Trap
) -> None:
    insert_replica(postgres, "odd", trap.url)
    try:
        path = f"/v1/sessions/s_{compute_mark('odd')}{'0' * 32}?x=%2F"
        answer = apis[1].get(path, headers={"Connection": "keep-alive", HEADER.decode(): "1 2 3"})
        assert answer.status_code == 307
        [(asked, headers)] = trap.requests
        assert asked == path
        assert headers["authorization"] == f"Bearer {TOKEN}"
        assert "1 2 3" not in headers.values()
    finally:
        postgres.query("delete from node where id = 'odd'", "forwarding")
        wait_until_forgotten(apis)
