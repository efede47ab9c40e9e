"""The same over HTTP: no user of a server sees, changes or stops what is another's."""

import base64
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import httpx2
import pytest
from tests.support.http_api import ApiClient, ApiPlace, ApiServer

SETTINGS = """
[runtimes]
access = "workspace-write"
timeout_ms = 600_000

[serve]
max_jobs = 4

[[policy.rule]]
effect = "ask"
runtime = "*"
access = "workspace-write"
"""
KEY = {"Idempotency-Key": "a-key-that-both-chose"}
MCP_HEADERS = {"Accept": "application/json, text/event-stream"}


class Belongings(NamedTuple):
    """What alice has on the server."""

    client: ApiClient
    token: str
    mark: str
    """A text that is in everything below, and that no other user may see."""
    session: str
    artifact: str
    running: str
    asking: str
    ended: str
    question: str
    keyed: Mapping[str, Any]
    """The body of a request that was sent with KEY."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> ApiPlace:
    made = ApiPlace(tmp_path_factory.mktemp("http"))
    made.settings(SETTINGS)
    return made


@pytest.fixture(scope="module")
def server(place: ApiPlace) -> Iterator[ApiServer]:
    with place.serve() as opened:
        yield opened


@pytest.fixture(scope="module")
def own(place: ApiPlace, server: ApiServer) -> Iterator[Belongings]:
    token, mark = place.make_token("alice"), f"mark-{secrets.token_hex(8)}"
    with server.client(token) as client:
        session = client.post("/v1/sessions", json={"language": "python"}).json()["id"]
        code = f"secret = {mark!r}; open('secret.txt', 'w').write(secret)"
        assert client.run(f"/v1/sessions/{session}/executions", code=code)["status"] == "ok"
        printed = client.run(language="python", code=f"print({mark!r})")
        assert (
            client.run(language="javascript", code=f"return paddock.cir.capture({mark!r})")["status"] == "ok"
        )
        keyed = {"language": "python", "code": f"print({mark!r})"}
        assert client.post("/v1/executions", json=keyed, headers=KEY).status_code == 200
        sleep = f"print({mark!r}, flush=True)\nimport time\ntime.sleep(600)"
        running = client.begin(language="python", code=sleep)
        asking = client.begin(language="python", code=f"print({mark!r})", access="workspace-write")
        question = client.wait_for(asking, lambda state: state["question"])["question"]["id"]
        yield Belongings(
            client,
            token,
            mark,
            session,
            printed["program"]["artifact"],
            running,
            asking,
            printed["id"],
            question,
            keyed,
        )


@pytest.fixture(scope="module")
def mallory(place: ApiPlace, server: ApiServer) -> Iterator[ApiClient]:
    with server.client(place.make_token("mallory")) as client:
        yield client


def is_untouched(own: Belongings) -> bool:
    """Return whether alice still has everything as it was."""
    client = own.client
    states = [client.look_up(id_)["state"] for id_ in (own.running, own.asking)]
    waiting = [each["question"]["id"] for each in client.get("/v1/approvals").json()["approvals"]]
    sessions = [each["id"] for each in client.get("/v1/sessions").json()["sessions"]]
    assert (states, waiting, sessions) == (["running", "running"], [own.question], [own.session])
    file = client.get(f"/v1/sessions/{own.session}/files/secret.txt").text
    return (file, client.get(f"/v1/artifacts/{own.artifact}").text) == (own.mark, f"{own.mark}\n")


Attempt = Callable[[ApiClient, Belongings], httpx2.Response]


def send(method: str, path: str, **options: Any) -> Attempt:
    """Send a request in which names in braces stand for what alice has."""

    def attempt(client: ApiClient, own: Belongings) -> httpx2.Response:
        names = {
            name: getattr(own, name)
            for name in ("session", "artifact", "running", "asking", "ended", "question")
        }
        filled = json.loads(fill(json.dumps(options), names))
        return client.http.request(method, fill(path, names), **filled)

    return attempt


def fill(text: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        text = text.replace("{" + name + "}", value)
    return text


def execute(**body: Any) -> Attempt:
    return send("POST", "/v1/executions", json={"language": "python", "code": "print(1)", **body})


def call_mcp(tool: str, **arguments: Any) -> Attempt:
    params = {"name": tool, "arguments": arguments}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "mallory", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**params, "_meta": meta}}
    headers = {
        **MCP_HEADERS,
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }
    return send("POST", "/mcp", json=body, headers=headers)


def repeat_key(client: ApiClient, own: Belongings) -> httpx2.Response:
    """Send the body that alice sent with a key, with the mark in it replaced."""
    body = {**own.keyed, "code": "print('mine')"}
    return client.post("/v1/executions", json=body, headers=KEY)


def with_authorization(make: Callable[[Belongings], str]) -> Attempt:
    def attempt(client: ApiClient, own: Belongings) -> httpx2.Response:
        return client.get(f"/v1/sessions/{own.session}", headers={"Authorization": make(own)})

    return attempt


def encode_basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


STEAL = "/v1/sessions/{session}"
ATTEMPTS: Mapping[str, tuple[Attempt, tuple[int, ...]]] = {
    "list sessions": (send("GET", "/v1/sessions"), (200,)),
    "show the session": (send("GET", STEAL), (404,)),
    "show the session in another case": (send("GET", "/v1/sessions/{session}".upper()), (404,)),
    "close the session": (send("DELETE", STEAL), (404,)),
    "interrupt the session": (send("POST", f"{STEAL}/interrupt"), (404,)),
    "execute in the session": (send("POST", f"{STEAL}/executions", json={"code": "print(secret)"}), (200,)),
    "execute with the session": (execute(session="{session}", code="print(secret)"), (200,)),
    "execute JavaScript with the session": (
        execute(session="{session}", language="javascript"),
        (200,),
    ),
    "list files of the session": (send("GET", f"{STEAL}/files"), (404,)),
    "read a file of the session": (send("GET", f"{STEAL}/files/secret.txt"), (404,)),
    "read a file above the session": (send("GET", f"{STEAL}/files/..%2f..%2fsecret.txt"), (404,)),
    "write a file of the session": (send("PUT", f"{STEAL}/files/secret.txt", content="mine"), (404,)),
    "remove a file of the session": (send("DELETE", f"{STEAL}/files/secret.txt"), (404,)),
    "list executions": (send("GET", "/v1/executions"), (200,)),
    "show the running execution": (send("GET", "/v1/executions/{running}"), (404,)),
    "show the execution that asks": (send("GET", "/v1/executions/{asking}"), (404,)),
    "show an execution that has ended": (send("GET", "/v1/executions/{ended}"), (404,)),
    "follow the running execution": (
        send("GET", "/v1/executions/{running}/events", headers={"Accept": "text/event-stream"}),
        (404,),
    ),
    "cancel the running execution": (send("DELETE", "/v1/executions/{running}"), (404,)),
    "cancel the execution that asks": (send("DELETE", "/v1/executions/{asking}"), (404,)),
    "choose the id of the running execution": (execute(id="{running}"), (422,)),
    "choose another actor": (execute(actor="token:alice"), (422,)),
    "choose another surface": (execute(surface="cli"), (422,)),
    "repeat an idempotency key": (repeat_key, (200,)),
    "read the artifact": (send("GET", "/v1/artifacts/{artifact}"), (404,)),
    "read its standard error": (send("GET", "/v1/artifacts/{artifact}?stream=stderr"), (404,)),
    "read the artifact by a path": (send("GET", "/v1/artifacts/..%2f{artifact}"), (404,)),
    "take the artifact as a file": (
        execute(files=[{"path": "taken", "artifact": "{artifact}"}], code="print(open('taken').read())"),
        (200,),
    ),
    "query the artifact from a program": (
        execute(language="javascript", code="return paddock.output.query('{artifact}', {lines: [1, 9]})"),
        (200,),
    ),
    "query signals": (execute(language="javascript", code="return paddock.cir.query({})"), (200,)),
    "verify the ledger": (execute(language="javascript", code="return paddock.ledger.verify()"), (200,)),
    "list questions": (send("GET", "/v1/approvals"), (200,)),
    "allow the question": (send("POST", "/v1/approvals/{question}", json={"verdict": "once"}), (403,)),
    "allow the whole run": (send("POST", "/v1/approvals/{question}", json={"verdict": "run"}), (403,)),
    "deny the question": (send("POST", "/v1/approvals/{question}", json={"verdict": "denied"}), (403,)),
    "read metrics": (send("GET", "/metrics"), (403,)),
    "name another actor in headers": (
        send("GET", STEAL, headers={"X-Actor": "token:alice", "X-Forwarded-User": "alice", "From": "alice"}),
        (404,),
    ),
    "name another actor in the query": (send("GET", f"{STEAL}?actor=token:alice&token=alice"), (422,)),
    "use the name as a token": (with_authorization(lambda _own: "Bearer alice"), (401,)),
    "use the actor as a token": (with_authorization(lambda _own: "Bearer token:alice"), (401,)),
    "use a part of the token": (with_authorization(lambda own: f"Bearer {own.token[:-1]}"), (401,)),
    "use the token as a user": (with_authorization(lambda own: encode_basic(own.token, "")), (401,)),
    "use two tokens": (with_authorization(lambda own: f"Bearer x, Bearer {own.token}"), (401,)),
    "run in the session over MCP": (
        call_mcp("run_program", language="python", code="print(secret)", session="{session}"),
        (200,),
    ),
    "read the artifact over MCP": (
        call_mcp(
            "query_output",
            artifact_handle="{artifact}",
            line_range={"stream": "stdout", "start_line": 1, "end_line": 9},
        ),
        (200,),
    ),
    "fetch the result of the execution that asks over MCP": (
        call_mcp("query_output", artifact_handle="{asking}"),
        (200,),
    ),
}


def test_there_are_more_than_forty_attempts() -> None:
    assert len(ATTEMPTS) >= 40


@pytest.mark.parametrize("name", ATTEMPTS)
def test_an_attempt_fails(own: Belongings, mallory: ApiClient, name: str) -> None:
    attempt, expected = ATTEMPTS[name]
    answer = attempt(mallory, own)
    assert answer.status_code in expected, answer.text
    assert own.mark not in answer.text
    assert own.token not in answer.text
    assert "token:alice" not in answer.text
    assert is_untouched(own)


def test_the_owner_sees_what_the_attempts_are_after(own: Belongings) -> None:
    """So the attempts are not vain by a mistake in them."""
    for name in (
        "execute in the session",
        "read a file of the session",
        "show the execution that asks",
        "show an execution that has ended",
        "read the artifact",
        "take the artifact as a file",
        "query the artifact from a program",
        "query signals",
        "list questions",
        "run in the session over MCP",
        "read the artifact over MCP",
    ):
        answer = ATTEMPTS[name][0](own.client, own)
        assert (name, own.mark in answer.text) == (name, True), answer.text
