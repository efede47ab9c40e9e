"""A server is not trusted: whatever it answers, the library raises an error that says what is wrong."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from tests.support.scripted_server import (
    EVENTS,
    STARTED,
    Answer,
    Request,
    answer_events,
    answer_plain,
    answer_problem,
    serve_script,
)

from paddock import BlockingPaddock, ConfigurationError, Outcome, Paddock, PaddockError, RequestError, Status

TOKEN = "correct-horse-battery-staple"
OK = Outcome(id="01TESTEXECUTION", status=Status.OK, value=1, has_value=True)
OK_JSON = OK.model_dump_json().encode()
GOOD = answer_events(("outcome", OK_JSON))
DIGITS = "0.1000000000000000055511151231257827021181583404541015625"


def connect(url: str) -> BlockingPaddock:
    return BlockingPaddock.connect(url, token=TOKEN)


def explain(
    answer: Answer | Callable[[Request], Answer], use: Callable[[BlockingPaddock], Any] | None = None
) -> str:
    """Return the error for an answer, without the address of the server."""
    script = answer if callable(answer) else [answer]
    with serve_script(script) as server, connect(server.url) as p:
        with pytest.raises(PaddockError) as raised:
            (use or (lambda p: p.execute("return 1")))(p)
        return str(raised.value).replace(server.url, "SERVER")


def pour(head: bytes, piece: bytes) -> Iterator[bytes]:
    yield head
    while True:
        yield piece


PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (answer_events(("outcome", b"{")), "The server's answer is not JSON."),
        (answer_events(("outcome", b"\xff")), "The server's answer is not JSON."),
        (answer_events(("outcome", b"NaN")), "The server's answer is not JSON."),
        (answer_events(("outcome", b"[" * 5000)), "The server's JSON is nested more than 208 levels deep."),
        (answer_events(("outcome", b"[" + b"0," * 1_300_000 + b"0]")), "The server's JSON has more than 1250000 values."),
        (
            answer_events(("outcome", b"[]")),
            "The server's answer is not a valid Outcome: Input should be a valid dictionary or instance of Outcome.",
        ),
        (
            answer_events(("outcome", b'{"id":1,"status":"ok","usage":[]}')),
                "The server's answer is not a valid Outcome: usage: Input should be a valid dictionary or instance of "
                "Usage; id: Input should be a valid string.",
        ),
        (EVENTS + b'event: started\ndata: {"id":"../../x"}\n\n', "The server's event `started` has no valid id."),
        (EVENTS + b"event: started\ndata: []\n\n", "The server's event `started` has no valid id."),
        (
            answer_plain(200, b"<html>", media_type="text/html"),
            "SERVER did not answer with events. Is this the address of `paddock serve http`?",
        ),
        (
            answer_plain(200, b"x", "Content-Encoding: gzip", media_type="text/event-stream"),
            "SERVER sent a compressed answer, which was not asked for.",
        ),
        (answer_plain(418, b"<html>"), "SERVER: it answered with the status 418 and no explanation."),
        (answer_plain(422, b"{}"), "SERVER: it answered with the status 422 and no explanation."),
        (answer_plain(500, b"[" * 100_000), "SERVER: it answered with the status 500 and no explanation."),
        (
            answer_problem(500, "internal-error", f"a \x1b[31m{TOKEN}\u202e b"),
            "SERVER: a \\u001b[31m[REDACTED:token]\\u202e b",
        ),
        (
            answer_events(("problem", b'{"type":"urn:paddock:problem:record-failed","status":500,"detail":"no disk"}')),
            "SERVER: no disk",
        ),
        (answer_events(("problem", b'{"status":"x"}')), "SERVER: it answered with the status 500 and no explanation."),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else "answer",
)  # fmt: skip
def test_an_answer_that_is_not_an_outcome_is_an_error(answer: bytes, text: str) -> None:
    assert explain(answer) == text


def test_an_endless_event_ends() -> None:
    endless = explain(lambda _: pour(EVENTS + STARTED + b"event: outcome\ndata: ", b"x" * 65536))
    assert endless == "SERVER sent an event of more than 64 MiB."


def test_an_endless_answer_ends() -> None:
    endless = explain(lambda _: pour(PLAIN, b" " * 65536), lambda p: p.sessions())
    assert endless == "SERVER sent an answer of more than 65536 KiB."


def test_an_endless_problem_is_reported_by_its_status() -> None:
    head = b"HTTP/1.1 500 No\r\nContent-Type: application/problem+json\r\nConnection: close\r\n\r\n"
    assert explain(lambda _: pour(head, b"x" * 65536)) == (
        "SERVER: it answered with the status 500 and no explanation."
    )


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{}", "The server's answer has no list `sessions`."),
        (b"3", "The server's answer has no list `sessions`."),
        (
            b'{"sessions":[3]}',
            "The server's answer is not a valid SessionInfo: "
            "Input should be a valid dictionary or instance of SessionInfo.",
        ),
        (b'{"sessions":[],"partial":"r1"}', "The server's answer has no list `partial`."),
    ],
)
def test_a_list_of_something_else_is_an_error(body: bytes, text: str) -> None:
    assert explain(answer_plain(200, body), lambda p: p.sessions()) == text


@pytest.mark.parametrize(
    ("body", "partial"),
    [(b'{"sessions":[]}', ()), (b'{"sessions":[],"partial":["r1","r\\u001b[2J"]}', ("r1", "r\\u001b[2J"))],
)
def test_a_list_says_which_replicas_did_not_answer(body: bytes, partial: tuple[str, ...]) -> None:
    """A server of an earlier version does not say it."""
    with serve_script([answer_plain(200, body)]) as server, connect(server.url) as p:
        found = p.sessions()
    assert (found, found.partial) == ((), partial)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with serve_script([GOOD]) as elsewhere:
        text = explain(answer_plain(status, b"", f"Location: {elsewhere.url}/v1/executions"))
        assert elsewhere.requests == []
    assert text == (
        "SERVER redirects to another address, to which the token is not sent. Connect to the final address."
    )


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        (answer_problem(400, "malformed-body", "why"), RequestError),
        (answer_problem(401, "unauthorized", "why"), ConfigurationError),
        (answer_problem(403, "denied", "why"), PaddockError),
        (answer_problem(404, "not-found", "why"), PaddockError),
        (answer_problem(409, "outcome-lost", "why"), PaddockError),
        (answer_problem(413, "body-too-large", "why"), RequestError),
        (answer_problem(422, "invalid-request", "why"), RequestError),
        (answer_problem(422, "not-carried-out", "why"), PaddockError),
        (answer_problem(500, "internal-error", "why"), PaddockError),
    ],
)
def test_problems_are_the_exceptions_of_the_library(problem: bytes, kind: type[Exception]) -> None:
    with serve_script([problem]) as server, connect(server.url) as p:
        with pytest.raises(PaddockError, match="why") as raised:
            p.execute("return 1")
        assert (type(raised.value), len(server.requests)) == (kind, 1)


@pytest.mark.parametrize(
    "first",
    [
        answer_problem(503, "server-busy", "later", "Retry-After: 0"),
        answer_problem(429, "too-many-requests", "later", "Retry-After: 0"),
        answer_problem(504, "outcome-unknown", "nobody knows", "Retry-After: 0"),
        answer_plain(502, b"bad gateway", "Retry-After: 0"),
        EVENTS + STARTED + b'event: console\ndata: {"level"',
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n" + STARTED,
        answer_events(("problem", b'{"type":"urn:paddock:problem:unavailable","status":503,"detail":"no slot"}')),
        b"",
    ],
    ids=["busy", "rate", "unknown", "gateway", "cut event", "cut body", "problem event", "no answer"],
)  # fmt: skip
def test_an_execution_is_sent_again_with_the_same_key(first: bytes) -> None:
    with serve_script([first, GOOD]) as server, connect(server.url) as p:
        assert p.execute("return 1") == OK
        assert p.execute("return 1") == OK
    one, again, other = server.requests
    assert (
        one.headers["idempotency-key"] == again.headers["idempotency-key"] != other.headers["idempotency-key"]
    )
    assert (
        one.body == again.body == other.body == b'{"kind":"run","code":"return 1","mode":"run","jit":false}'
    )
    assert {each.headers["authorization"] for each in server.requests} == {f"Bearer {TOKEN}"}


def test_a_server_that_stays_busy_is_asked_six_times() -> None:
    with serve_script([answer_problem(503, "server-busy", "later", "Retry-After: 0")]) as server:
        with connect(server.url) as p, pytest.raises(PaddockError, match="later"):
            p.execute("return 1")
        assert len(server.requests) == 6


def test_a_request_that_may_have_started_is_not_called_unstarted_later() -> None:
    """What a later attempt says is about that attempt."""
    unknown = answer_problem(504, "outcome-unknown", "nobody knows", "Retry-After: 0")
    absent = answer_problem(503, "unavailable", "Nothing was started.", "Retry-After: 0")
    with serve_script([absent, unknown, absent]) as server:
        with connect(server.url) as p, pytest.raises(PaddockError, match="nobody knows"):
            p.execute("return 1")
        assert len(server.requests) == 6


def test_a_long_wait_is_left_to_the_caller() -> None:
    with serve_script(
        [answer_problem(429, "too-many-requests", "Try again in 31 s.", "Retry-After: 31")]
    ) as server:
        with connect(server.url) as p, pytest.raises(PaddockError, match=r"Try again in 31 s\."):
            p.execute("return 1")
        assert len(server.requests) == 1


def test_a_request_that_changes_something_is_sent_once_without_a_key() -> None:
    with serve_script([answer_problem(503, "server-busy", "later", "Retry-After: 0")]) as server:
        with connect(server.url) as p, pytest.raises(PaddockError, match="later"):
            p.session(id="s_" + "0" * 32).close()
        assert [request.line for request in server.requests] == [f"DELETE /v1/sessions/s_{'0' * 32} HTTP/1.1"]


def test_a_server_that_is_not_there_is_reported_at_once() -> None:
    with serve_script([GOOD]) as server:
        url = server.url
    with connect(url) as p, pytest.raises(PaddockError) as raised:
        p.execute("return 1")
    why = "connection refused. Is `paddock serve http` running there?"
    assert str(raised.value) == f"cannot connect to {url}: {why}"


@pytest.mark.parametrize(
    ("bypass", "why"),
    [
        (
            "10.0.0.0/8",
            "the proxy http://127.0.0.1:9 that HTTPS_PROXY names: connection refused. Correct HTTPS_PROXY, unset it, or "
            "name the host in NO_PROXY.",
        ),
        ("127.0.0.0/8", "connection refused. Is `paddock serve http` running there?"),
    ],
)
def test_the_proxy_of_the_environment_is_that_of_servers(
    monkeypatch: pytest.MonkeyPatch, bypass: str, why: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:password@127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", bypass)
    with connect("https://127.0.0.1:1") as p, pytest.raises(PaddockError) as raised:
        p.execute("return 1")
    assert str(raised.value) == f"cannot connect to https://127.0.0.1:1: {why}"


def test_a_proxy_that_is_no_address_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:password@127.0.0.1:99999")
    with pytest.raises(ConfigurationError) as raised, connect("https://127.0.0.1:1") as p:
        p.execute("return 1")
    why = "HTTPS_PROXY names port 99999, but a port is 1 to 65535; correct it, or unset it"
    assert str(raised.value) == why


def test_fields_of_a_later_version_are_left_out() -> None:
    later = {**json.loads(OK_JSON), "mood": "good", "usage": {**OK.usage.model_dump(), "joules": 3}}
    answer = answer_events(("news", b"{}"), ("outcome", json.dumps(later).encode()))
    with serve_script([answer]) as server, connect(server.url) as p:
        assert p.execute("return 1") == OK


def test_numbers_keep_their_digits() -> None:
    answer = OK_JSON.replace(b'"value":1', b'"value":%s' % DIGITS.encode())
    with serve_script([answer_events(("outcome", answer))]) as server, connect(server.url) as p:
        assert repr(p.execute("return 1", input=Decimal(DIGITS)).value) == DIGITS
    assert f'"input":{DIGITS}' in server.requests[0].body.decode()


def test_paths_of_files_and_handles_stay_within_their_path() -> None:
    program = {
        "runtime": "python",
        "files": [
            {
                "path": "a",
                "size": 1,
                "media_type": "text/plain",
                "sha256": "",
                "handle": "../../v1/sessions?x#y",
            }
        ],
    }
    outcome = json.dumps({**json.loads(OK_JSON), "program": program}).encode()

    def answer(request: Request) -> bytes:
        return answer_events(("outcome", outcome)) if request.method == "POST" else answer_plain(200, b"data")

    with serve_script(answer) as server, connect(server.url) as p:
        [file] = p.exec("python", "1").files
        assert file.read() == b"data"
    assert server.requests[-1].path == "/v1/artifacts/..%2F..%2Fv1%2Fsessions%3Fx%23y"


def run_until_cancelled(
    end: Callable[[Paddock, "asyncio.Task[Outcome]"], None], **listeners: Any
) -> list[str]:
    """Run a program that the server does not end, let `end` end it, and return what the server was asked."""
    running, deleted = threading.Event(), threading.Event()

    def answer(request: Request) -> Iterator[bytes]:
        if request.method == "DELETE":
            deleted.set()
            yield answer_plain(200, b"{}")
            return
        yield EVENTS + STARTED + b'event: console\ndata: {"level":"log","text":"x"}\n\n'
        running.set()
        deleted.wait()

    async def main(url: str) -> None:
        async with Paddock.connect(url, token=TOKEN) as p:
            task = asyncio.create_task(p.execute("while (true) {}", **listeners))
            await asyncio.to_thread(running.wait)
            end(p, task)
            await task

    with serve_script(answer) as server:
        with pytest.raises((asyncio.CancelledError, ZeroDivisionError, PaddockError)):
            asyncio.run(main(server.url))
        return [f"{request.method} {request.path}" for request in server.requests]


ENDED = ["POST /v1/executions", "DELETE /v1/executions/01TESTEXECUTION"]


def test_cancelling_the_caller_cancels_the_execution() -> None:
    assert run_until_cancelled(lambda _, task: task.cancel()) == ENDED


def test_an_error_of_a_listener_cancels_the_execution() -> None:
    assert run_until_cancelled(lambda *_: None, on_console=lambda _: 1 / 0) == ENDED


def test_leaving_the_block_cancels_what_runs() -> None:
    deleted = threading.Event()
    cancelled = OK.replace(status=Status.CANCELLED).model_dump_json().encode()

    def answer(request: Request) -> Iterator[bytes]:
        if request.method == "DELETE":
            deleted.set()
            yield answer_plain(200, b"{}")
            return
        yield EVENTS + STARTED + b'event: console\ndata: {"level":"log","text":"x"}\n\n'
        deleted.wait()
        yield b"event: outcome\ndata: " + cancelled + b"\n\n"

    async def main(url: str) -> None:
        begun = asyncio.Event()
        async with Paddock.connect(url, token=TOKEN) as p:
            task = asyncio.create_task(p.execute("while (true) {}", on_console=lambda _: begun.set()))
            await begun.wait()
        [ended] = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(ended, Outcome | PaddockError)

    with serve_script(answer) as server:
        asyncio.run(main(server.url))
    assert [f"{request.method} {request.path}" for request in server.requests] == ENDED
