"""Errors are problem documents, whatever is sent; none of them is a fault of the server."""

import json
import re
import socket
from typing import Any

import pytest
from tests.support.http_api import JSON, OWNER, TOKEN, ApiClient, ApiPlace, ApiServer, make_head, read_problem

from paddock.surfaces.http_server.problems import TYPES

EXECUTIONS = "/v1/executions"


def send(api: ApiClient, body: bytes, **headers: str) -> tuple[int, str, str]:
    """Return the problem of a body."""
    return api.problem("POST", EXECUTIONS, content=body, headers={**JSON, **headers})


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (
            b"{",
            "The body is not JSON: Expecting property name enclosed in double quotes at line 1, column 2.",
        ),
        (b"[]", "The body must be a JSON object, such as {}."),
        (b'"a"', "The body must be a JSON object, such as {}."),
        (b'{"code": "\xff"}', "The body is not UTF-8 (RFC 8259, section 8.1)."),
        (b'{"input": NaN}', "The body is not JSON: NaN is not a JSON number."),
        (b'{"input": 1e999}', "The body is not JSON: 1e999 is larger than 1.8e308."),
        (
            b'{"input": ' + b"9" * 5000 + b"}",
            "In the body, a number has 5000 characters; at most 4000 are allowed.",
        ),
        (
            b'{"input": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            "The body is nested more than 200 levels deep.",
        ),
        (
            b'{"code": "\\ud800"}',
            "A string of the body has half of a surrogate pair, which is not Unicode. Replace it by U+FFFD.",
        ),
        (
            b'{"input": {"\\udfff": 1}}',
            "A string of the body has half of a surrogate pair, which is not Unicode. Replace it by U+FFFD.",
        ),
    ],
)
def test_malformed_bodies(api: ApiClient, body: bytes, detail: str) -> None:
    assert send(api, body) == (400, "malformed-body", detail)


def test_too_many_values_are_refused_before_they_are_decoded(api: ApiClient) -> None:
    body = b'{"input": [' + b"1," * 1_300_000 + b"1]}"
    assert send(api, body) == (413, "body-too-large", "The body has more than 1250000 JSON values.")


def test_a_body_that_is_too_large(api: ApiClient) -> None:
    body = b'{"input": "' + b"a" * (120 * 1024 * 1024) + b'"}'  # the client sends all of it before it reads
    detail = "The body has more than 100663296 bytes, the maximum here. Send less."
    assert send(api, body) == (413, "body-too-large", detail)


def test_a_large_body_is_decoded(api: ApiClient) -> None:
    numbers = list(range(100_000))
    assert api.run(language="javascript", code="return input.length", input=numbers)["value"] == 100_000


def test_a_body_of_another_media_type(api: ApiClient) -> None:
    assert send(api, b"a=1", **{"Content-Type": "application/x-www-form-urlencoded"}) == (
        415,
        "unsupported-media-type",
        "The body must be JSON. Send the header `Content-Type: application/json`.",
    )


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"kind": "exec"}, 'language: give `language`, for example "python"'),
        ({}, 'language: give `language`, for example "python"; or `kind`, `server` and `tool`, or `tool`'),
        ({"language": "javascript"}, "code: this field is required"),
        ({"kind": "compute"}, "code: this field is required"),
        ({"server": "odd"}, "tool: this field is required"),
        (
            {"language": "javascript", "code": "1", "cod": 1},
            "cod: there is no such field; did you mean `code`?",
        ),
        (
            {"language": "javascript", "code": "1", "timout_ms": 1},
            "timout_ms: there is no such field; did you mean `timeout_ms`?",
        ),
        (
            {"language": "python", "code": "1", "files": [{"path": "a", "workspce": "a"}]},
            "files.0.workspce: there is no such field; did you mean `workspace`?",
        ),
        ({"language": 5, "code": "1"}, "language: Input should be a valid string"),
        (
            {"language": "python", "code": "1", "timeout_ms": "5"},
            "timeout_ms: Input should be a valid integer",
        ),
        (
            {"language": "python", "code": "1", "timeout_ms": True},
            "timeout_ms: Input should be a valid integer",
        ),
        ({"language": "python", "code": "1", "timeout_ms": -1}, "timeout_ms: Input should be greater than 0"),
        (
            {"language": "python", "code": "1", "timeout_ms": 1},
            "a program's timeout is 100 to 600000 ms, not 1",
        ),
        ({"language": "rusty", "code": "1"}, "there is no runtime rusty; did you mean rust?"),
        ({"language": "python"}, "there is nothing to run: give `code`, or `args` for the executable itself"),
        (
            {"language": "python", "code": "1", "stdin": "a", "stdin_base64": "YQ=="},
            "give either `stdin` or `stdin_base64`",
        ),
        (
            {"language": "python", "code": "1", "stdin_base64": "%"},
            "stdin_base64: it is not base64 (RFC 4648, section 4)",
        ),
        (
            {"language": "python", "code": "1", "files": [{"path": "a"}]},
            "files.0: 'a' needs one of `text`, `base64`, `workspace` (a path) and `artifact` (a handle)",
        ),
        (
            {"language": "python", "code": "1", "files": [{"path": "../a", "text": ""}]},
            "path: '../a' leads out of the working directory",
        ),
        (
            {
                "language": "python",
                "code": "1",
                "files": [{"path": "a", "text": ""}, {"path": "A", "text": ""}],
            },
            "'a' and 'A' differ in case alone; rename one",
        ),
        (
            {"language": "python", "code": "1", "env": {"A=B": "1"}},
            "'A=B' is not the name of an environment variable with a value",
        ),
        (
            {"language": "python", "code": "1", "session": "s_1"},
            'session: it is not the handle of a session; give "new", or a handle from an answer ("s_...")',
        ),
        ({"tool": "none_such"}, None),
    ],
)
def test_invalid_fields(api: ApiClient, body: dict[str, Any], detail: str | None) -> None:
    status, kind, found = api.problem("POST", EXECUTIONS, json=body)
    assert (status, kind) == (422, "invalid-request")
    assert detail is None or found == detail


def test_a_field_of_another_kind_of_work(api: ApiClient) -> None:
    answer = api.post(EXECUTIONS, json={"language": "javascript", "code": "1", "stdin": "a", "args": []})
    text = (
        "work of the kind `run` does not have this field; it has check, code, input, jit, mode, record, session, "
        "timeout_ms"
    )
    assert answer.json() == {
        "type": "urn:paddock:problem:invalid-request",
        "title": "The request is not valid; nothing ran",
        "status": 422,
        "detail": f"stdin: {text}; args: {text}",
        "errors": [{"field": "stdin", "message": text}, {"field": "args", "message": text}],
    }


@pytest.mark.parametrize(
    ("method", "path", "detail"),
    [
        ("POST", "/v1/executions?strem=1", "query.strem: there is no such parameter; did you mean `stream`?"),
        (
            "GET",
            "/v1/artifacts/x?steam=stderr&a",
            "query.steam: there is no such parameter; did you mean `stream`?; query.a: there is no such parameter",
        ),
        ("GET", "/v1/executions?stream=1", "query.stream: there is no such parameter"),
        ("DELETE", "/v1/sessions/x?a=b&a=c", "query.a: there is no such parameter"),
        ("GET", "/v1/server?token=secret", "query.token: there is no such parameter"),
        ("GET", "/metrics?name[]=x", "query.name[]: there is no such parameter"),
    ],
)
def test_an_unknown_parameter_of_the_query(api: ApiClient, method: str, path: str, detail: str) -> None:
    assert api.problem(method, path) == (422, "invalid-request", detail)


def test_health_checks_and_sandboxfusion_ignore_parameters(api: ApiClient) -> None:
    assert [api.get(f"{path}?at=1").status_code for path in ("/livez", "/readyz", "/v1/ping")] == [200] * 3
    body = {"code": "print(1)", "language": "python"}
    assert api.post("/run_code?at=1", json=body).json()["status"] == "Success"


def test_values_are_not_repeated(api: ApiClient) -> None:
    answer = api.post(EXECUTIONS, json={"language": "python", "code": "1", "keep": "hunter2"})
    assert (answer.status_code, "hunter2" in answer.text) == (422, False)


def test_missing_things(api: ApiClient) -> None:
    assert api.problem("GET", "/v2") == (
        404,
        "not-found",
        "There is nothing at '/v2'. /openapi.json lists all paths.",
    )
    assert api.problem("GET", "/v1/executions/") == (
        404,
        "not-found",
        "There is nothing at '/v1/executions/'. /openapi.json lists all paths.",
    )
    assert api.problem("GET", "/v1/executions/01J") == (
        404,
        "not-found",
        "There is no execution '01J' of this caller, or it ended more than 900 s ago. "
        "The audit record knows it longer.",
    )
    assert api.problem("GET", "/v1/artifacts/none")[:2] == (404, "not-found")
    assert api.problem("GET", "/metrics") == (
        404,
        "not-found",
        "Metrics are off. Set `metrics = true` under [telemetry].",
    )


def test_a_method_that_there_is_not(api: ApiClient) -> None:
    answer = api.http.request("PATCH", EXECUTIONS)
    assert read_problem(answer) == (
        405,
        "method-not-allowed",
        "'/v1/executions' does not have the method PATCH. /openapi.json lists all of them.",
    )
    assert answer.headers["allow"] == "GET, POST"


@pytest.mark.parametrize(
    "path", ["/v1/executions", "/v1/sessions", "/v1/server", "/metrics", "/mcp", "/", "/v2"]
)
def test_nothing_is_answered_without_a_token(server: ApiServer, path: str) -> None:
    with server.client(None) as nobody, server.client("wrong-horse-battery-staple") as stranger:
        answer = nobody.get(path)
        detail = "The request has no token. Send the header `Authorization: Bearer TOKEN`."
        assert read_problem(answer) == (401, "unauthorized", detail)
        assert answer.headers["www-authenticate"] == "Bearer"
        status, kind, text = stranger.problem("GET", path)
        assert (status, kind) == (401, "unauthorized")
        assert text.startswith("this token is not valid: ")


@pytest.mark.parametrize("value", ["", "Bearer", "Basic %", "Basic " + "A" * 9, "Digest a", TOKEN])
def test_broken_credentials_are_no_token(server: ApiServer, value: str) -> None:
    with server.client(None) as nobody:
        assert nobody.problem("GET", "/v1/server", headers={"Authorization": value})[:2] == (
            401,
            "unauthorized",
        )


def test_a_password_is_a_token(server: ApiServer) -> None:
    with server.client(None, auth=("anybody", TOKEN)) as client:
        assert client.get("/v1/server").json()["actor"] == OWNER


def test_no_web_page_gets_in_by_another_name(api: ApiClient, server: ApiServer) -> None:
    assert api.problem("GET", "/v1/server", headers={"Host": f"evil.test:{server.port}"}) == (
        421,
        "wrong-host",
        "The header `Host` names another server. Start this one with `--allowed-host NAME` to allow it.",
    )
    assert api.problem("GET", "/v1/server", headers={"Origin": "https://evil.test"}) == (
        403,
        "foreign-origin",
        "The header `Origin` names another server; see `--allowed-host`.",
    )


def test_probes_and_the_document_need_neither_token_nor_name(server: ApiServer) -> None:
    with server.client(None) as nobody:
        for path in ("/livez", "/readyz", "/health"):
            answer = nobody.get(path, headers={"Host": "10.0.0.1"})
            assert (answer.status_code, answer.text) == (200, "ok\n")
            assert nobody.http.head(path).status_code == 200
        assert nobody.get("/v1/ping", headers={"Host": "10.0.0.1"}).json() == "pong"
        assert nobody.get("/openapi.json").json()["openapi"].startswith("3.1")


def test_the_rate_of_a_token(place: ApiPlace) -> None:
    token = place.make_token("alice", "--rate", "2/min")
    with place.serve() as server, server.client(token) as alice:
        assert [alice.get("/v1/server").status_code for _ in range(2)] == [200, 200]
        answer = alice.get("/v1/server")
        status, kind, detail = read_problem(answer)
    assert (status, kind) == (429, "too-many-requests")
    assert detail.startswith("this token may make 2 requests in 60 seconds; retry in ")
    assert re.fullmatch("[1-5]?[0-9]|60", answer.headers["retry-after"])


def test_a_revoked_token_ends_what_runs(place: ApiPlace) -> None:
    token = place.make_token("alice")
    with place.serve() as server, server.client(token) as alice:
        with alice.events(language="javascript", code="console.log(1); while (true) {}") as events:
            assert [next(events)[0], next(events)[0]] == ["started", "console"]
            place.paddock("serve", "token", "revoke", "alice", "--json")
            *_, (name, problem) = events
        assert (name, problem["status"]) == ("problem", 401)
        assert alice.problem("GET", "/v1/server")[:2] == (401, "unauthorized")


def test_a_token_that_is_revoked_while_a_body_arrives(place: ApiPlace) -> None:
    token = place.make_token("alice")
    body = b'{"session": "s_%s", "code": ""}' % (b"0" * 32)
    with (
        place.serve() as server,
        server.client(token) as alice,
        socket.create_connection(("127.0.0.1", server.port)) as plain,
    ):
        with alice.events(language="javascript", code="console.log(1); while (true) {}") as events:
            assert [next(events)[0], next(events)[0]] == ["started", "console"]
            head = make_head(server, f"Content-Length: {len(body)}")
            plain.sendall(head.replace(TOKEN.encode(), token.encode()) + body[:1])
            place.paddock("serve", "token", "revoke", "alice", "--json")
            assert [name for name, _ in events] == ["problem"]
        plain.sendall(body[1:])
        assert plain.recv(65536).startswith(b"HTTP/1.1 401 ")


def test_every_type_is_in_the_document(server: ApiServer) -> None:
    with server.client(None) as nobody:
        text = json.dumps(nobody.get("/openapi.json").json())
    unlisted = [each.name for each in TYPES if f"`{each.name}`" not in text]
    assert unlisted == ["method-not-allowed"]  # it is no answer of an operation that there is
    assert len({each.name for each in TYPES}) == len(TYPES)
