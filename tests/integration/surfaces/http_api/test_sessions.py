"""`/v1/sessions`: variables and files that stay from one execution to the next."""

from collections.abc import Iterator

import pytest
from tests.support.http_api import ApiClient, ApiPlace, Background

UNKNOWN = "s_" + 32 * "0"


@pytest.fixture
def session(api: ApiClient) -> Iterator[str]:
    """An open Python session."""
    opened = api.post("/v1/sessions", json={"language": "python"})
    assert opened.status_code == 201, opened.text
    id_ = opened.json()["id"]
    assert opened.headers["location"] == f"/v1/sessions/{id_}"
    yield id_
    api.delete(f"/v1/sessions/{id_}")


def test_variables_stay(api: ApiClient, session: str) -> None:
    path = f"/v1/sessions/{session}/executions"
    assert api.run(path, code="x = 20")["session"]["state"] == "kept"
    outcome = api.run(path, code="x + 22")
    assert outcome["results"][0]["data"]["text/plain"] == "42"
    assert api.run(session=session, language="python", code="x")["results"][0]["data"]["text/plain"] == "20"


def test_a_session_describes_itself(api: ApiClient, session: str) -> None:
    api.run(f"/v1/sessions/{session}/executions", code="1")
    shown = api.get(f"/v1/sessions/{session}").json()
    assert (shown["id"], shown["language"], shown["executions"], shown["running"]) == (
        session,
        "python",
        1,
        False,
    )
    assert session in [each["id"] for each in api.get("/v1/sessions").json()["sessions"]]


def test_a_session_opens_with_files_and_variables(api: ApiClient) -> None:
    files = [{"path": "data/a.txt", "text": "seven"}]
    opened = api.post(
        "/v1/sessions", json={"language": "python", "files": files, "memory_bytes": 500_000_000}
    )
    path = f"/v1/sessions/{opened.json()['id']}"
    assert api.run(f"{path}/executions", code="open('data/a.txt').read()")["results"][0]["data"] == {
        "text/plain": "'seven'"
    }
    assert api.delete(path).status_code == 204


def test_a_guest_has_sessions(api: ApiClient) -> None:
    opened = api.post("/v1/sessions", json={"language": "javascript"})
    path = f"/v1/sessions/{opened.json()['id']}"
    assert opened.json()["language"] == "javascript"
    api.run(f"{path}/executions", code="const n = 6")
    assert api.run(f"{path}/executions", code="return n * 7")["value"] == 42
    assert api.problem("GET", f"{path}/files") == (
        422,
        "invalid-request",
        "A session of the V8 guest (javascript) has no files.",
    )
    assert api.delete(path).status_code == 204


def test_a_closed_session_is_gone(api: ApiClient, session: str) -> None:
    path = f"/v1/sessions/{session}"
    assert api.delete(path).status_code == 204
    gone = (
        410,
        "session-lost",
        "The session is lost: it was closed. Open another one with POST /v1/sessions.",
    )
    assert api.problem("GET", path) == gone
    assert api.problem("DELETE", path) == gone
    assert api.problem("POST", f"{path}/interrupt") == gone
    assert api.problem("GET", f"{path}/files") == gone
    outcome = api.run(f"{path}/executions", code="1")
    assert (outcome["status"], outcome["session"]["reason"]) == ("lost", "it was closed")


def test_an_unknown_session_is_not_found(api: ApiClient) -> None:
    path = f"/v1/sessions/{UNKNOWN}"
    missing = (
        404,
        "not-found",
        "There is no such session, or it belongs to another caller. Open another one with POST /v1/sessions.",
    )
    assert api.problem("GET", path) == missing
    assert api.problem("GET", f"{path}/files/a.txt") == missing
    assert api.run(f"{path}/executions", code="1")["status"] == "invalid"


def test_an_interrupt_ends_the_program_and_keeps_the_session(api: ApiClient, session: str) -> None:
    path = f"/v1/sessions/{session}"
    with api.events(
        f"{path}/executions", code="x = 1\nprint('begun', flush=True)\nwhile True: pass"
    ) as events:
        assert [next(events)[0], next(events)] == [
            "started",
            ("output", {"stream": "stdout", "text": "begun\n"}),
        ]
        assert api.post(f"{path}/interrupt").status_code == 204
        *_, (last, outcome) = events
    assert (last, outcome["status"], outcome["session"]["state"]) == ("outcome", "cancelled", "kept")
    assert api.run(f"{path}/executions", code="x")["status"] == "ok"


def test_files_are_written_listed_read_and_removed(api: ApiClient, session: str) -> None:
    files = f"/v1/sessions/{session}/files"
    assert api.put(f"{files}/sub/d%C3%A4ta.bin", content=b"\x00\xff").status_code == 204
    assert api.put(f"{files}/sub/d%C3%A4ta.bin", content=b"\x00\xfe").status_code == 204
    [listed] = api.get(files).json()["files"]
    assert (listed["path"], listed["size"]) == ("sub/däta.bin", 2)
    read = api.get(f"{files}/sub/d%C3%A4ta.bin")
    assert (read.content, read.headers["content-type"]) == (b"\x00\xfe", "application/octet-stream")
    assert read.headers["x-content-type-options"] == "nosniff"
    code = "list(open('sub/däta.bin', 'rb').read())"
    shown = api.run(f"/v1/sessions/{session}/executions", code=code)
    assert shown["results"][0]["data"]["text/plain"] == "[0, 254]"
    assert api.delete(f"{files}/sub/d%C3%A4ta.bin").status_code == 204
    missing = (
        404,
        "not-found",
        "The session has no file 'sub/däta.bin'. GET /v1/sessions/ID/files lists them.",
    )
    assert api.problem("GET", f"{files}/sub/d%C3%A4ta.bin") == missing
    assert api.problem("DELETE", f"{files}/sub/d%C3%A4ta.bin") == missing


@pytest.mark.parametrize(
    "path", ["%2e%2e/%2e%2e/etc/passwd", "%2Fetc%2Fpasswd", "a/%2e%2e/%2e%2e/b", "a%00b"]
)
def test_paths_that_lead_out_are_refused(api: ApiClient, session: str, path: str) -> None:
    for method in ("GET", "PUT", "DELETE"):
        status, kind, _ = api.problem(method, f"/v1/sessions/{session}/files/{path}")
        assert (status, kind) == (422, "invalid-request")


def test_links_of_programs_are_not_followed(api: ApiClient, session: str) -> None:
    code = "import os; os.symlink('/etc/passwd', 'link'); os.symlink('/', 'root')"
    api.run(f"/v1/sessions/{session}/executions", code=code)
    files = f"/v1/sessions/{session}/files"
    for path in ("link", "root/etc/passwd"):
        status, kind, told = api.problem("GET", f"{files}/{path}")
        assert (status, kind) == (422, "invalid-request")
        assert f"{path} is a link, or leads through one; links are not followed" in told
    assert api.get(files).json() == {"files": []}


def test_a_session_that_policy_refuses_is_a_problem_with_the_outcome(api: ApiClient) -> None:
    answer = api.post("/v1/sessions", json={"language": "python", "network": "full"})
    document = answer.json()
    assert (answer.status_code, document["type"]) == (403, "urn:paddock:problem:denied")
    assert document["outcome"]["status"] == "denied"


def test_another_caller_has_no_such_session(place: ApiPlace) -> None:
    token = place.make_token("alice")
    with place.serve() as server, server.client() as owner, server.client(token) as alice:
        id_ = owner.post("/v1/sessions", json={"language": "python"}).json()["id"]
        assert alice.problem("GET", f"/v1/sessions/{id_}")[:2] == (404, "not-found")
        assert alice.get("/v1/sessions").json() == {"sessions": [], "partial": []}
        assert alice.run(f"/v1/sessions/{id_}/executions", code="1")["status"] == "invalid"
        execution = owner.begin(language="javascript", code="return 1")
        assert alice.problem("GET", f"/v1/executions/{execution}")[:2] == (404, "not-found")
        handle = owner.run(language="python", code="print(1)")["program"]["artifact"]
        assert owner.get(f"/v1/artifacts/{handle}").text == "1\n"
        assert alice.problem("GET", f"/v1/artifacts/{handle}")[:2] == (404, "not-found")


def test_executions_of_a_session_run_one_after_the_other(api: ApiClient, session: str) -> None:
    path = f"/v1/sessions/{session}/executions"
    api.run(path, code="seen = []")
    both = [Background(lambda n=n: api.run(path, code=f"seen.append({n}); len(seen)")) for n in (1, 2)]
    assert sorted(each.result()["results"][0]["data"]["text/plain"] for each in both) == ["1", "2"]
