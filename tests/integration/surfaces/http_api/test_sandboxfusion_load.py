"""Graders under load: requests wait, their programs' time does not run meanwhile, and a refusal is 504."""

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.command import make_environment, run_paddock
from tests.support.grading import BASIC, Grader, open_grader
from tests.support.processes import PATIENCE_S

ONE = """
[serve]
max_jobs = 1
[runtimes]
max_jobs = 1
timeout_ms = 600_000
"""
LOOP = "while True: pass"


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grader]:
    """A server with one slot, whose queue is over quickly."""
    settings = f"{ONE}max_wait_ms = 500\n"
    with open_grader(tmp_path_factory.mktemp("busy"), settings) as grader:
        yield grader


def make_body(code: str, seconds: float) -> dict[str, object]:
    return {"code": code, "language": "python", "run_timeout": seconds}


def list_started(grader: Grader) -> list[dict[str, object]]:
    """Return the records of programs that have started."""
    ledger = grader.workspace.parent / "home/.local/state/paddock/audit"
    lines = [line for file in ledger.glob("*.ndjson") for line in file.read_text().splitlines(keepends=True)]
    records = [json.loads(line) for line in lines if line.endswith("\n")]
    return [each for each in records if each.get("event") == "started"]


def test_time_in_the_queue_is_no_time_of_the_program(tmp_path: Path) -> None:
    with open_grader(tmp_path, ONE) as grader, ThreadPoolExecutor(2) as clients:
        first = clients.submit(grader.post, "/run_code", make_body(LOOP, 5))
        second = clients.submit(grader.post, "/run_code", make_body(LOOP, 4))
        ends = [each.result()[1]["run_result"] for each in (first, second)]
    assert [end["status"] for end in ends] == ["TimeLimitExceeded"] * 2
    assert all(limit <= end["execution_time"] for end, limit in zip(ends, (5, 4), strict=True))


def test_what_gets_no_slot_in_time_is_504_and_did_not_start(busy: Grader) -> None:
    """The refused ones would write to the record if they had started."""
    with ThreadPoolExecutor(4) as clients:
        posts = [clients.submit(busy.post, "/run_code", make_body(LOOP, 8)) for _ in range(4)]
        answers = [post.result() for post in posts]
    refused = [answer for status, answer in answers if status == 504]
    assert len(refused) >= 1
    assert {status for status, _ in answers} <= {200, 504}
    assert all("Nothing started; it is safe to retry." in answer["detail"] for answer in refused)
    assert len(list_started(busy)) == len([status for status, _ in answers if status == 200])


def test_a_revoked_token_ends_its_program(tmp_path: Path) -> None:
    with open_grader(tmp_path, ONE) as grader, ThreadPoolExecutor(1) as clients:
        environment = make_environment(tmp_path / "home")
        made = run_paddock(grader.workspace, "serve", "token", "new", "student", environment=environment)
        token = made.stdout.split()[-1]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        body = json.dumps(make_body(LOOP, 600)).encode()
        posted = clients.submit(grader.request, "POST", "/run_code", body, headers)
        while not list_started(grader):  # each look is a request
            assert grader.request("GET", "/v1/ping") == (200, "pong")
        run_paddock(grader.workspace, "serve", "token", "revoke", "student", environment=environment)
        assert posted.result() == (401, {"detail": "The token was revoked while the program ran."})


def test_a_client_that_disconnects_ends_its_program(tmp_path: Path) -> None:
    """Otherwise the program would hold the only slot for ten minutes."""
    with open_grader(tmp_path, ONE) as grader:
        body = json.dumps(make_body(LOOP, 600)).encode()
        head = (
            f"POST /run_code HTTP/1.1\r\nHost: 127.0.0.1:{grader.port}\r\nAuthorization: {BASIC}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", grader.port), PATIENCE_S) as connection:
            connection.sendall(head.encode() + body)
            while not list_started(grader):  # each look is a request
                assert grader.request("GET", "/v1/ping") == (200, "pong")
        while (found := grader.post("/run_code", make_body("print(1)", 60)))[0] == 504:
            pass
        status, answer = found
        assert (status, answer["status"]) == (200, "Success")
