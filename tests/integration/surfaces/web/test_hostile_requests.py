"""Hostile clients of real servers of the page: malformed requests, slow ones, other users, stolen files, proxies."""

import os
import re
import socket
from contextlib import ExitStack
from http.cookiejar import Cookie
from pathlib import Path

import httpx2
import pytest
from tests.support.command import run_paddock
from tests.support.http_api import TOKEN
from tests.support.processes import PATIENCE_S, has_ended
from tests.support.web import PAGES, WebPlace, WebServer

from paddock.surfaces.web.entry import MAX_REQUESTS

FRAME_HEADERS = {
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
}
STATIC = (
    "/static/page.css",
    "/static/page.js",
    "/static/icon.svg",
    "/static/vendor/htmx.js",
    "/static/nothing",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return WebPlace(tmp_path_factory.mktemp("web"))


@pytest.fixture(scope="module", params=["alone", "beside the API"])
def server(request, tmp_path_factory):
    place = WebPlace(tmp_path_factory.mktemp("web"))
    with place.serve_page() if request.param == "alone" else place.serve_api_with_page() as server:
        yield server


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A server of the API with the page, for tests that make no difference to each other."""
    with WebPlace(tmp_path_factory.mktemp("shared")).serve_api_with_page() as server:
        yield server


def connect(server: WebServer) -> socket.socket:
    host, _, port = server.host.rpartition(":")
    plain = socket.create_connection((host, int(port)))
    plain.settimeout(PATIENCE_S)
    return plain


def send(server: WebServer, request: str | bytes) -> tuple[int, dict[str, str], bytes]:
    """Send bytes on a connection, and return status, headers and body of the first answer once it is closed."""
    with connect(server) as plain:
        plain.sendall(request.encode("latin-1") if isinstance(request, str) else request)
        plain.shutdown(socket.SHUT_WR)
        data = b""
        while piece := plain.recv(65536):
            data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = [line.split(": ", 1) for line in lines]
    headers = {name.lower(): value for name, value in fields}
    return int(first.split()[1]), headers, body


def log_in_with_token(server: WebServer, token: str) -> Cookie:
    with server.client() as client:
        answer = client.post("/login", data={"token": token})
        assert answer.status_code == 303, answer.text
        [cookie] = client.cookies.jar
        return cookie


def find_csrf_token(client: httpx2.Client) -> str:
    found = re.search(r'name="csrf" value="(\w{64})"', client.get("/").text)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    "request_",
    [
        "GET /login HTTP/1.1\r\n\r\n",
        "GET /login HTTP/1.1\r\nHost: {host}\r\nHost: {host}\r\n\r\n",
        "GET /login HTTP/1.1\r\nHost: {host}\r\nHost: evil.test\r\n\r\n",
        "GET /login HTTP/1.1\r\nHost : {host}\r\n\r\n",
        "GET /login HTTP/1.1\r\nHost: {host}\r\nX: \0\r\n\r\n",
        "GET /lo\0gin HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "GET /lo gin HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "GET\r\n\r\n",
        "POST /login HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /login HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "POST /login HTTP/1.1\r\nHost: {host}\r\nContent-Length: +3\r\n\r\nabc",
        "POST /login HTTP/1.1\r\nHost: {host}\r\nContent-Length: -1\r\n\r\n",
        "POST /login HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "POST /login HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "POST /login HTTP/1.0\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_malformed_and_ambiguous_requests_are_refused(server, request_):
    smuggled = f"GET /static/page.css HTTP/1.1\r\nHost: {server.host}\r\n\r\n"
    status, _, body = send(server, request_.format(host=server.host) + smuggled)
    assert status in {400, 501}
    assert body.count(b"HTTP/1.") == 0  # what follows is not read as another request


@pytest.mark.parametrize(
    "host", ["evil.test", "evil.test:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.test:{port}"]
)
@pytest.mark.parametrize("path", ["/", "/login", "/static/page.css", "/runs"])
def test_other_hosts_see_nothing(server, host, path):
    host = host.format(port=server.host.rpartition(":")[2])
    status, headers, body = send(server, f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
    assert (status, FRAME_HEADERS.items() <= headers.items()) == (421, True)
    assert b"The header `Host` names another server." in body.replace(b"&#39;", b"'")


@pytest.mark.parametrize(
    "target", ["http://evil.test/", "http://{host}/runs", "//evil.test/%2e%2e", "*", "/\\evil.test"]
)
def test_odd_targets_lead_nowhere(server, target):
    line = f"GET {target.format(host=server.host)} HTTP/1.1"
    status, headers, _ = send(server, f"{line}\r\nHost: {server.host}\r\nConnection: close\r\n\r\n")
    assert (status, headers.get("location")) in {(303, "/login"), (401, None), (404, None)}


def test_every_answer_forbids_frames(server):
    with server.client(server.log_in()) as client:
        answers = [
            *(client.get(path) for path in (*PAGES, *STATIC, "/login", "/login?code=x", "/runs/nothing")),
            *(client.request(method, "/runs") for method in ("HEAD", "PUT", "OPTIONS", "POST", "TRACE")),
            client.get("/", headers={"Origin": "http://evil.test"}),
            client.get("/", headers={"Sec-Fetch-Site": "cross-site"}),
            client.post("/login", data={"code": "wrong"}),
        ]
    with server.client() as nobody:
        answers += [nobody.get("/"), nobody.get("/runs"), nobody.post("/logout")]
    assert {each.status_code for each in answers} >= {200, 303, 403, 404, 405, 415}
    for answer in answers:
        assert FRAME_HEADERS.items() <= answer.headers.items(), (answer.request.url, answer.headers)
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "access-control-allow-origin" not in answer.headers


def test_a_slow_form_does_not_hold_a_connection(server):
    head = (
        f"POST /runs HTTP/1.1\r\nHost: {server.host}\r\nOrigin: {server.url}\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100000\r\n\r\na"
    )
    with connect(server) as slow:
        slow.sendall(head.encode())
        answer = slow.recv(65536)
        assert answer.startswith(b"HTTP/1.1 303 ")
        assert b"\r\nconnection: close\r\n" in answer.lower()
        assert has_ended(slow)


def test_many_connections_do_not_shut_others_out(server):
    with ExitStack() as stack:
        for _ in range(200):
            plain = stack.enter_context(connect(server))
            plain.sendall(b"GET / HTTP/1.1\r\nHost: ")
        with server.client() as client:
            assert client.get("/login").status_code == 200


def test_live_pages_that_nobody_reads_do_not_hold_the_server(server):
    """They are as many as one person may have; other people are answered, and so is the page of the same person."""
    cookie = server.log_in()
    head = (
        f"GET /now/events HTTP/1.1\r\nHost: {server.host}\r\nCookie: {cookie.name}={cookie.value}\r\n"
        "Accept: text/event-stream\r\n\r\n"
    )
    with ExitStack() as stack:
        answers = []
        for _ in range(MAX_REQUESTS + 2):
            plain = stack.enter_context(connect(server))
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            plain.sendall(head.encode())
            answers.append(plain.recv(12))
        assert answers == [b"HTTP/1.1 200"] * MAX_REQUESTS + [b"HTTP/1.1 503"] * 2
        with server.client() as client:
            assert client.get("/login").status_code == 200
    with server.client(cookie) as client:
        while (answer := client.get("/")).status_code == 503:
            pass
        assert answer.status_code == 200


def test_revoking_all_logins_ends_live_pages(place):
    with (
        place.serve_page() as server,
        server.client(server.log_in()) as client,
        client.stream("GET", "/now/events") as answer,
    ):
        pieces = answer.iter_text()
        assert next(pieces).startswith("retry: ")
        done = run_paddock(place.workspace, "ui", "--revoke", environment=place.environment)
        assert done.stdout.startswith("ended ")
        with pytest.raises(httpx2.RemoteProtocolError, match="incomplete chunked read"):
            for _ in pieces:
                pass


def test_a_stolen_directory_logs_nobody_in(place):
    with place.serve_page() as server:
        server.make_link()
        server.log_in()
        files = [*(place.home / ".local/state/paddock/ui").iterdir()]
        assert sorted({each.suffix for each in files}) == [".code", ".login"]
        stolen = [text for each in files for text in (each.name, each.stem, each.read_text())]
        for text in stolen:
            with server.client() as client:
                assert client.post("/login", data={"code": text}).status_code == 403
                name = f"paddock_{server.host.rpartition(':')[2]}"
                assert client.get("/", headers={"Cookie": f"{name}={text}"}).status_code == 303


def test_links_and_cookies_of_one_server_are_not_for_another_port(place):
    with place.serve_page() as one, place.serve_page() as two:
        cookie = one.log_in()
        renamed = f"paddock_{two.host.rpartition(':')[2]}={cookie.value}"
        with two.client(cookie) as client:
            assert client.get("/").headers["location"] == "/login"
        with two.client() as client:
            assert client.get("/", headers={"Cookie": renamed}).headers["location"] == "/login"
            code = one.make_link().partition("code=")[2]
            assert client.post("/login", data={"code": code}).status_code == 403
            assert (
                client.post("/login", data={"code": two.make_link().partition("code=")[2]}).status_code == 303
            )


def test_a_page_is_no_way_around_the_rate_of_a_token(place):
    token = place.make_token("quick", "--rate", "3/min")
    with place.serve_api_with_page() as server, server.client(log_in_with_token(server, token)) as client:
        assert [client.get("/").status_code for _ in range(3)] == [200, 200, 429]
        assert client.get("/static/page.css").status_code == 200
        again = client.post("/login", data={"token": token})
        assert (again.status_code, "set-cookie" in again.headers) == (429, False)
        authorized = {"Authorization": f"Bearer {token}"}
        assert client.get("/v1/executions", headers=authorized).status_code == 429


def test_a_token_for_metrics_sees_no_page(place):
    token = place.make_token("meter", "--metrics-only")
    with place.serve_api_with_page() as server, server.client() as client:
        answer = client.post("/login", data={"token": token})
        assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
        assert "this token is not valid" in answer.text


def test_a_revoked_token_ends_its_login(place):
    token = place.make_token("gone")
    with place.serve_api_with_page() as server, server.client(log_in_with_token(server, token)) as client:
        assert client.get("/").status_code == 200
        csrf = find_csrf_token(client)
        run_paddock(place.workspace, "serve", "token", "revoke", "gone", environment=place.environment)
        while (answer := client.get("/")).status_code == 200:
            pass
        assert answer.status_code in {303, 403}
        assert client.post("/logout", data={"csrf": csrf}).headers["location"] == "/login"


def test_the_token_of_the_server_is_not_the_owner_of_the_page(shared):
    with shared.client(log_in_with_token(shared, TOKEN)) as client:
        assert "you see your own runs" in client.get("/").text


def test_a_token_in_a_header_or_an_address_logs_nobody_in(shared):
    with shared.client() as client:
        for options in (
            {"headers": {"Authorization": f"Bearer {TOKEN}"}},
            {"params": {"token": TOKEN}},
            {"params": {"code": TOKEN}},
        ):
            assert client.get("/", **options).headers["location"] == "/login"


def test_the_page_of_a_user_and_that_of_the_owner_do_not_answer_alone_for_tokens(place):
    with place.serve_page() as server, server.client() as client:
        answer = client.post("/login", data={"token": TOKEN})
        assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


def test_behind_a_proxy_the_cookie_needs_tls_and_its_own_host(place):
    flags = ("--behind-proxy", "--allowed-host", "ui.example.com")
    with place.serve_api_with_page(*flags) as server, server.client() as client:
        [code] = re.findall(r"code=(.+)", server.link)
        own = {"Host": "ui.example.com", "Origin": "https://ui.example.com"}
        answer = client.post("/login", data={"code": code}, headers=own)
        name, _, rest = answer.headers["set-cookie"].partition("=")
        port = server.host.rpartition(":")[2]
        assert (answer.status_code, name) == (303, f"__Host-paddock_{port}")
        assert rest.partition("; ")[2] == "HttpOnly; Max-Age=43200; Path=/; SameSite=strict; Secure"


API_REQUESTS = (
    ("GET", "/livez"),
    ("GET", "/readyz"),
    ("GET", "/health"),
    ("GET", "/v1/ping"),
    ("GET", "/openapi.json"),
    ("GET", "/metrics"),
    ("GET", "/v1/server"),
    ("GET", "/v1/sessions"),
    ("GET", "/v1/approvals"),
    ("GET", "/v1/changes"),
    ("GET", "/nothing"),
    ("GET", "/v1/nothing"),
    ("DELETE", "/v1/executions"),
    ("OPTIONS", "/v1/executions"),
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("POST", "/run_code"),
    ("GET", "/LOGIN"),
    ("GET", "/runsx"),
)


def test_the_api_answers_as_without_the_page(place):
    def ask(url: str, token: str | None) -> list[tuple[int, str, str]]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=url, headers=headers, timeout=PATIENCE_S, trust_env=False) as client:
            answers = [client.request(method, path) for method, path in API_REQUESTS]
        kept = ("content-type", "x-frame-options", "set-cookie", "location", "www-authenticate", "allow")
        return [
            (
                each.status_code,
                str([(name, each.headers.get(name)) for name in kept]),
                re.sub(r"[\d.]+", "0", each.text),
            )
            for each in answers
        ]

    with place.serve() as plain, place.serve_api_with_page() as server:
        for token in (None, "wrong", TOKEN):
            for path, one, two in zip(
                API_REQUESTS, ask(plain.url, token), ask(server.url, token), strict=True
            ):
                assert one == two, (path, token)


@pytest.mark.parametrize("kind", ["link", "pipe", "writable"])
def test_a_changed_directory_of_logins_logs_nobody_in(tmp_path: Path, kind: str):
    place = WebPlace(tmp_path)
    with place.serve_page() as server, server.client(server.log_in()) as client:
        directory = place.home / ".local/state/paddock/ui"
        assert client.get("/").status_code == 200
        match kind:
            case "link":
                directory.rename(tmp_path / "elsewhere")
                directory.symlink_to(tmp_path / "elsewhere")
            case "pipe":
                for file in directory.glob("*.login"):
                    file.unlink()
                    os.mkfifo(file)
            case _:
                directory.chmod(0o777)
        assert client.get("/").headers["location"] == "/login"
        assert client.get("/login").status_code == 200
