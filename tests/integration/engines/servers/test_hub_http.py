import asyncio
import json
import logging
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.support.processes import PATIENCE_S

from paddock.engines.servers.calls import connection, http
from paddock.engines.servers.calls.lifecycle import Breaker
from paddock.engines.servers.config import HttpServer
from paddock.model.errors import InvalidArguments, ServerRejected, ServerUnauthorized, ServerUnavailable
from paddock.policy.redaction.known import ServerSecrets

from .conftest import failure, text

FORGOTTEN = {
    "forget_404": (404, None),
    "forget_404_in_words": (404, {"code": -32001, "message": "Session not found"}),
    "forget_400": (400, {"code": -32000, "message": "Bad Request: No valid session ID provided"}),
}
"""What a server answers that does not know a session any more."""


class Upstream(ThreadingHTTPServer):
    """A 2025-11-25 server over loopback HTTP. `script` maps a tool to the HTTP status of its answer."""

    daemon_threads = False

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.sessions = 0
        self.deleted = []
        self.seen = []
        self.status = {}
        self.body = {}

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/mcp"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, document=None, **headers):
        body = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if body:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply(405)

    def do_DELETE(self):
        self.server.deleted.append(self.headers["Mcp-Session-Id"])
        self.reply(200)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((message["method"], self.headers["Authorization"]))
        tool = message.get("params", {}).get("name", message["method"])
        if tool in self.server.status:
            self.reply(self.server.status[tool])
        elif message["method"] == "initialize":
            self.server.sessions += 1
            facts = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s"}}
            document = {"jsonrpc": "2.0", "id": message["id"], "result": facts}
            self.reply(200, document, Mcp_Session_Id=f"session-{self.server.sessions}")
        elif "id" not in message:
            self.reply(202)
        elif message["method"] == "tools/call":
            if self.headers["Mcp-Session-Id"] == "session-1" and tool in FORGOTTEN:
                status, error = FORGOTTEN[tool]
                document = {"jsonrpc": "2.0", "id": message["id"], "error": error}
                self.reply(*((status, document) if error else (status,)))
                return
            result = {"content": [{"type": "text", "text": self.headers["Mcp-Session-Id"]}]}
            body = self.server.body.get(tool, {"result": result})
            self.reply(200, {"jsonrpc": "2.0", "id": message["id"], **body})
        else:
            error = {"code": -32601, "message": "no such method"}
            self.reply(200, {"jsonrpc": "2.0", "id": message["id"], "error": error})


@pytest.fixture
def upstream():
    with running() as server:
        yield server


@contextmanager
def running():
    with Upstream() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_calls_share_one_session_that_is_ended_politely(hub, upstream, monkeypatch):
    monkeypatch.setattr(http, "_FAREWELL_S", PATIENCE_S)  # a busy machine takes the farewell late

    async def main():
        server = HttpServer("web", upstream.url, {"Authorization": "Bearer tok"})
        async with hub(server) as h:
            results = await asyncio.gather(*(h.call_tool("web", "t", {}) for _ in range(5)))
            assert [text(r) for r in results] == ["session-1"] * 5
        assert upstream.deleted == ["session-1"]
        assert {authorization for _, authorization in upstream.seen} == {"Bearer tok"}

    asyncio.run(main())


def test_whom_to_trust_is_read_while_others_go_on(hub, upstream, monkeypatch):
    """A hundred certificates and more take longer to read than many a call."""
    threads = []
    make = connection.http_client

    def noting(*given):
        threads.append(threading.current_thread() is threading.main_thread())
        return make(*given)

    async def main():
        async with hub(HttpServer("web", upstream.url)) as h:
            assert text(await h.call_tool("web", "t", {})) == "session-1"

    monkeypatch.setattr(connection, "http_client", noting)
    asyncio.run(main())
    assert threads == [False]


@pytest.mark.parametrize(
    ("tool", "arguments"), [("t", {"deep": [{"text": "half \ud83d"}]}), ("\udc00", {}), ("t", {"\ud800": 1})]
)
def test_half_of_a_character_is_refused_before_anything_is_sent(hub, upstream, tool, arguments):
    async def main():
        async with hub(HttpServer("web", upstream.url)) as h:
            assert text(await h.call_tool("web", "t", {"text": "whole \U0001f600"})) == "session-1"
            sent = len(upstream.seen)
            error = await failure(h.call_tool("web", tool, arguments), InvalidArguments)
            assert str(error) == (
                f"Tool {tool!r} of server web was not called: its name or an argument holds half of a character "
                "(a lone surrogate), which HTTP cannot carry; repair it with `text.toWellFormed()`."
            )
            assert (error.retryable, error.sent, len(upstream.seen)) == (False, False, sent)
            assert text(await h.call_tool("web", "t", {})) == "session-1"

    asyncio.run(main())


def test_x30_ten_times_401_does_not_open_the_breaker(hub, upstream):
    upstream.status = {"locked": 401}

    async def main():
        async with hub(HttpServer("web", upstream.url)) as h:
            for _ in range(10):
                error = await failure(h.call_tool("web", "locked", {}), ServerUnauthorized)
                assert str(error) == ("Server web refuses our credentials (HTTP 401); correct its `headers`.")
                assert (error.retryable, error.sent) == (False, False)
            assert text(await h.call_tool("web", "open", {})) == "session-1"

    asyncio.run(main())


def test_x30_401_at_the_handshake_does_not_open_the_breaker(hub, upstream):
    upstream.status = {"server/discover": 401, "initialize": 401}

    async def main():
        async with hub(HttpServer("web", upstream.url)) as h:
            for _ in range(10):
                error = await failure(h.call_tool("web", "t", {}), ServerUnauthorized)
                assert str(error) == (
                    "Failed to connect to server web: Server web refuses our credentials (HTTP 401);"
                    " correct its `headers`."
                )

    asyncio.run(main())


def test_x30_words_of_refusal_are_an_authorization_error(hub, upstream):
    upstream.body = {"t": {"error": {"code": -32000, "message": "Unauthorized: invalid_token tok-1234"}}}

    async def main():
        server = HttpServer("web", upstream.url, secrets=ServerSecrets(["tok-1234"]))
        async with hub(server, breaker=Breaker(threshold=1)) as h:
            for _ in range(2):
                error = await failure(h.call_tool("web", "t", {}), ServerUnauthorized)
                assert str(error) == (
                    "Server web refuses our credentials (Unauthorized: invalid_token [REDACTED:server]);"
                    " correct its `headers`."
                )

    asyncio.run(main())


def test_x29_http_errors_open_the_breaker(hub, upstream):
    upstream.status = {"broken": 503}

    async def main():
        async with hub(HttpServer("web", upstream.url)) as h:
            for _ in range(5):
                error = await failure(h.call_tool("web", "broken", {}), ServerUnavailable)
                assert str(error) == "Server web answers HTTP 503: it cannot answer now; try again later."
                assert (error.retryable, error.sent) == (True, True)
            error = await failure(h.call_tool("web", "t", {}), ServerUnavailable)
            assert str(error) == "Circuit breaker open for web — cooldown 30000ms"

    asyncio.run(main())


def test_answer_beyond_the_limit_fails_its_call(hub, upstream, monkeypatch):
    async def main():
        async with hub(HttpServer("web", upstream.url)) as h:
            await h.call_tool("web", "t", {})
            monkeypatch.setattr("paddock.engines.servers.calls.http.MAX_LINE_BYTES", 1000)
            upstream.body = {"t": {"result": {"content": ["x" * 1000]}}}
            error = await failure(h.call_tool("web", "t", {}), ServerUnavailable)
            assert str(error) == (
                "Server web sent no complete answer: it is larger than 1000 bytes; ask for less at once."
            )
            assert error.sent

    asyncio.run(main())


def test_secrets_reach_no_log(hub, odd, upstream, caplog):
    caplog.set_level(logging.DEBUG)
    upstream.body = {"t": {"error": {"code": 5, "message": "bad tok-1234"}}}

    async def main():
        secrets = ServerSecrets(["tok-1234"])
        web = HttpServer(
            "web", f"{upstream.url}?key=tok-1234", {"Authorization": "tok-1234"}, secrets=secrets
        )
        child = odd("child", env={"SECRET": "tok-1234"}, secrets=secrets)
        async with hub(web, child) as h:
            assert str(await failure(h.call_tool("web", "t", {}), ServerRejected)) == "bad [REDACTED:server]"
            await h.call_tool("child", "echo", {"text": "x"})
            await failure(h.call_tool("child", "crash", {}), ServerUnavailable)
            assert "tok-1234" not in repr(h.list_status())

    asyncio.run(main(), debug=True)
    assert "tok-1234" not in caplog.text


@pytest.mark.parametrize("tool", FORGOTTEN)
def test_forgotten_session_is_opened_anew_and_the_call_repeated(hub, upstream, tool):
    async def main():
        async with hub(HttpServer("web", upstream.url)) as h:
            assert text(await h.call_tool("web", tool, {})) == "session-2"
            assert h.list_status()["web"].starts == 2

    asyncio.run(main())


def test_error_answers_and_faulty_results_over_http(hub, upstream):
    upstream.body = {
        "wrong": {"error": {"code": -32602, "message": "no such tool"}},
        "faulty": {"result": {"content": 5}},
    }

    async def main():
        async with hub(HttpServer("web", upstream.url)) as h:
            error = await failure(h.call_tool("web", "wrong", {}), ServerRejected)
            assert (str(error), error.code) == ("no such tool", -32602)
            result = await h.call_tool("web", "faulty", {})
            assert (result.raw, result.warnings) == (
                {"content": [{"type": "text", "text": "5"}]},
                ("`content` is not an array",),
            )

    asyncio.run(main())


def test_server_that_is_not_there_fails_its_own_calls_only(hub):
    with running() as gone:
        url = gone.url

    async def main():
        async with hub(HttpServer("web", f"{url}?key=tok-1234", secrets=ServerSecrets(["tok-1234"]))) as h:
            error = await failure(h.call_tool("web", "t", {}), ServerUnavailable)
            assert str(error) == (
                f"Failed to connect to server web: no connection to server web at {url.removesuffix('/mcp')}: "
                "connection refused. Start it, or correct its `url`."
            )
            assert (error.retryable, error.sent) == (True, False)

    asyncio.run(main())
