"""`/v1/executions`: every kind of work, its outcome, its events, and what becomes of it."""

import base64
import json
import socket
from typing import Any

import pytest
from tests.support.command import run_paddock
from tests.support.http_api import JSON, ApiClient, ApiPlace, ApiServer, make_head
from tests.support.servers import make_entry, write_servers

from paddock import Outcome

SPIN = "console.log('begun'); while (true) {}"
SLEEP = "import time; print('begun', flush=True); time.sleep(3600)"


def test_a_javascript_program_is_a_guest(api: ApiClient) -> None:
    code = "console.log('hi'); return input.a + 1"
    outcome = api.run(language="javascript", code=code, input={"a": 41})
    assert (outcome["status"], outcome["value"], outcome["program"]) == ("ok", 42, None)
    assert outcome["console"] == [{"level": "log", "text": "hi"}]


def test_a_typescript_program_is_a_guest(api: ApiClient) -> None:
    outcome = api.run(language="typescript", code="const n: number = 6; return n * 7")
    assert (outcome["status"], outcome["value"]) == ("ok", 42)


def test_the_answer_is_the_outcome_that_the_command_prints_as_json(
    api: ApiClient, shared_place: ApiPlace
) -> None:
    (shared_place.workspace / "one.js").write_text("return 1")
    printed = shared_place.paddock("run", "./one.js", "--json")
    answered = api.run(language="javascript", code="return 1")
    absent = {
        "recording",
        "directory_changes",
        "changes",
        "labels",
    }  # left out where there is nothing to tell
    assert printed.keys() == answered.keys() == Outcome.model_fields.keys() - absent
    assert Outcome.model_validate(answered).value == printed["value"] == 1


def test_numbers_keep_their_digits(place: ApiPlace) -> None:
    write_servers(place.workspace, {"digits": make_entry("digits")})
    digits = "12345678901234567890.123456789"
    body = f'{{"server": "digits", "tool": "data", "arguments": {{"number": {digits}}}}}'
    with place.serve() as server, server.client() as api:
        answer = api.post("/v1/executions", content=body, headers=JSON)
    assert answer.json()["status"] == "ok"
    assert f'"value":{{"number":{digits}}}' in answer.text


def test_other_languages_are_programs(api: ApiClient) -> None:
    code = "import sys; print(sys.stdin.read(), sys.argv[1:])"
    outcome = api.run(language="python", code=code, stdin="in", args=["a", "b"])
    program = outcome["program"]
    assert (outcome["status"], program["exit_code"]) == ("ok", 0)
    assert program["stdout"]["head"] == "in ['a', 'b']\n"


def test_standard_input_may_be_bytes(api: ApiClient) -> None:
    code = "import sys; print(list(sys.stdin.buffer.read()))"
    data = base64.b64encode(b"\x00\xff").decode()
    outcome = api.run(language="python", code=code, stdin_base64=data)
    assert outcome["program"]["stdout"]["head"] == "[0, 255]\n"


def test_files_are_texts_by_path_too(api: ApiClient) -> None:
    outcome = api.run(language="shell", code="cat a.csv", files={"a.csv": "x"})
    assert outcome["program"]["stdout"]["head"] == "x"


def test_files_go_in_and_come_out(api: ApiClient) -> None:
    files = [
        {"path": "a.txt", "text": "text"},
        {"path": "b/c.bin", "base64": base64.b64encode(b"\x00\x01").decode()},
    ]
    code = "print(open('a.txt').read(), list(open('b/c.bin', 'rb').read())); open('out.csv', 'w').write('1,2\\n')"
    outcome = api.run(language="python", code=code, files=files, outputs=["*.csv"])
    assert outcome["program"]["stdout"]["head"] == "text [0, 1]\n"
    [file] = outcome["program"]["files"]
    assert (file["path"], file["size"]) == ("out.csv", 4)
    assert api.get(f"/v1/artifacts/{file['handle']}").content == b"1,2\n"


def test_a_computation(api: ApiClient) -> None:
    outcome = api.run(kind="compute", code="emit(read_input().toUpperCase())", input="abc", timeout_ms=60_000)
    assert (outcome["status"], outcome["value"]) == ("ok", "ABC")


def test_a_call_of_a_server(api: ApiClient) -> None:
    outcome = api.run(server="odd", tool="echo", arguments={"text": "hello"})
    assert (outcome["status"], outcome["value"]) == ("ok", "hello")


def test_a_script_tool(api: ApiClient, shared_place: ApiPlace) -> None:
    assert (
        run_paddock(
            shared_place.workspace, "tool", "new", "word_count", environment=shared_place.environment
        ).returncode
        == 0
    )
    outcome = api.run(tool="word_count", inputs={"text": "a few more words"})
    assert (outcome["status"], outcome["tool"]["output"]) == ("ok", {"words": 4})


def test_an_error_names_no_path_of_the_server(api: ApiClient, shared_place: ApiPlace) -> None:
    folder = shared_place.workspace / ".paddock/tools/broken"
    folder.mkdir(parents=True)
    (folder / "tool.yaml").write_text("id: broken\n")
    assert api.problem("POST", "/v1/executions", json={"tool": "broken"}) == (
        422,
        "invalid-request",
        ".paddock/tools/broken: tool.yaml: name: is missing; script: is missing",
    )


def test_the_kind_overrides_the_language(api: ApiClient) -> None:
    status, kind, detail = api.problem(
        "POST", "/v1/executions", json={"kind": "exec", "language": "javascrip", "code": "1"}
    )
    assert (status, kind) == (422, "invalid-request")
    assert detail == "there is no runtime javascrip; did you mean node?"
    body = {"kind": "exec", "language": "javascript", "code": "console.log(typeof require)"}
    assert api.run(**body)["program"]["stdout"]["head"] == "function\n"


def test_a_failing_program_is_an_outcome(api: ApiClient) -> None:
    outcome = api.run(language="javascript", code="throw new TypeError('no')")
    assert (outcome["status"], outcome["error"]["name"]) == ("failed", "TypeError")


def test_a_refused_program_is_an_outcome(api: ApiClient) -> None:
    outcome = api.run(language="python", code="1", network="full")
    assert (outcome["status"], outcome["audit"] != "") == ("denied", True)


def test_console_lines_are_events(api: ApiClient) -> None:
    code = "console.log('one'); console.warn('two'); return 3"
    with api.events(language="javascript", code=code) as events:
        (first, started), *lines, (last, outcome) = events
    assert (first, last, started["id"]) == ("started", "outcome", outcome["id"])
    assert lines == [
        ("console", {"level": "log", "text": "one"}),
        ("console", {"level": "warn", "text": "two"}),
    ]
    assert outcome["value"] == 3


def test_output_is_an_event_while_the_program_runs(api: ApiClient) -> None:
    with api.events(language="python", code=SLEEP) as events:
        (_, started), (name, output) = next(events), next(events)
        assert (name, output) == ("output", {"stream": "stdout", "text": "begun\n"})
        cancelled = api.delete(f"/v1/executions/{started['id']}").json()
        [(last, outcome)] = events
    assert (last, outcome["status"]) == ("outcome", "cancelled")
    assert cancelled["outcome"] == outcome


def test_calls_are_events(api: ApiClient) -> None:
    code = "return await servers.odd.echo({text: 'x'})"
    with api.events(language="javascript", code=code) as events:
        names = [(name, data.get("tool")) for name, data in events]
    assert names == [("started", None), ("call", "echo"), ("outcome", None)]


def test_a_query_parameter_asks_for_events_as_well(api: ApiClient) -> None:
    answer = api.post("/v1/executions?stream=1", json={"language": "javascript", "code": "return 1"})
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.text.startswith("event: started\n")


def test_a_problem_is_the_last_event(api: ApiClient) -> None:
    with api.events(language="python", code="1", timeout_ms=1) as events:
        [_, (name, problem)] = events
    assert (name, problem["status"]) == ("problem", 422)
    assert problem["detail"] == "a program's timeout is 100 to 600000 ms, not 1"


def test_an_execution_is_looked_up_while_it_runs_and_after_its_end(api: ApiClient) -> None:
    id_ = api.begin(language="javascript", code=SPIN)
    running = api.look_up(id_)
    assert {**running, "created_at": ""} == {
        "id": id_,
        "state": "running",
        "created_at": "",
        "question": None,
        "outcome": None,
        "problem": None,
    }
    ended = api.delete(f"/v1/executions/{id_}").json()
    assert (ended["state"], ended["outcome"]["status"]) == ("finished", "cancelled")
    assert api.look_up(id_) == ended
    assert api.delete(f"/v1/executions/{id_}").json() == ended


def test_a_client_that_disconnects_cancels_its_execution(api: ApiClient) -> None:
    with api.events(language="python", code=SLEEP) as events:
        (_, started), _ = next(events), next(events)
    ended = api.wait_for_end(started["id"])
    assert ended["outcome"]["status"] == "cancelled"


def test_a_client_that_disconnects_without_events_cancels_as_well(api: ApiClient, server: ApiServer) -> None:
    known = {each["id"] for each in list_own(api)}
    body = json.dumps({"language": "python", "code": SLEEP}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        plain.sendall(make_head(server, f"Content-Length: {len(body)}") + body)
        while not (new := [each["id"] for each in list_own(api) if each["id"] not in known]):
            pass
    assert [api.wait_for_end(id_)["outcome"]["status"] for id_ in new] == ["cancelled"]


def test_an_execution_that_waits_for_a_slot_is_cancelled_at_once(place: ApiPlace) -> None:
    place.settings("[serve]\nmax_jobs = 1\n")
    with place.serve() as server, server.client() as api:
        with api.events(language="javascript", code=f"console.log(1); {SPIN}") as events:
            assert [next(events)[0], next(events)[0]] == ["started", "console"]
            id_ = api.begin(language="javascript", code="return 1")
            problem = api.delete(f"/v1/executions/{id_}").json()["problem"]
            assert (problem["type"], problem["status"], problem["detail"]) == (
                "urn:paddock:problem:cancelled",
                409,
                f"The execution {id_} was cancelled while it waited for a slot. Nothing started.",
            )
        assert api.run(language="javascript", code="return 2")["value"] == 2


def list_own(api: ApiClient) -> list[dict[str, Any]]:
    return api.get("/v1/executions").json()["executions"]


@pytest.mark.parametrize("language", ["python", "javascript"])
def test_secrets_are_removed_from_events_and_outcomes(api: ApiClient, language: str) -> None:
    secret = "ghp_" + "a1B2" * 9
    code = f"print('{secret}')" if language == "python" else f"console.log('{secret}'); return '{secret}'"
    with api.events(language=language, code=code) as events:
        found = [*events]
    assert secret not in json.dumps(found)
    assert found[-1][1]["redactions"] > 0
