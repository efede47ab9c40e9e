"""The transport HTTP+SSE of before 2025-03-26: a real server of it, the fallback to it, and hostile servers."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue

import pytest
from mcp.server.mcpserver import Context, MCPServer
from starlette.types import Message, Receive, Scope, Send

from paddock.engines.servers.config import HttpServer
from paddock.model.errors import ServerUnavailable
from paddock.model.outcome import CallProgress
from paddock.policy.redaction.known import ServerSecrets

from .authority import listening
from .conftest import failure, text

TOKEN = "Bearer tok-0123456789abcdef"


class Recorded:
    """A real server of the library, and the method, path and credentials of each request to it."""

    def __init__(self) -> None:
        self.seen = list[tuple[str, str, str]]()
        server = MCPServer("older")

        @server.tool()
        async def add(a: int, b: int, context: Context) -> int:  # pyright: ignore[reportUnusedFunction]
            await context.report_progress(1, 2, "adding")
            return a + b

        @server.resource("notes://1")
        def note() -> str:  # pyright: ignore[reportUnusedFunction]
            return "a note"

        self.app = server.sse_app()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.seen.append((scope["method"], scope["path"], headers.get("authorization", "")))
        await self.app(scope, receive, send)


@pytest.mark.parametrize("transport", ["sse", "auto"])
def test_a_server_of_the_older_transport_is_called(hub, transport):
    recorded = Recorded()

    async def main():
        async with listening(recorded) as url:
            server = HttpServer("old", f"{url}/sse", headers={"Authorization": TOKEN}, transport=transport)
            reports = list[CallProgress]()
            async with hub(server) as h:
                names = [tool.name for tool in await h.list_tools("old")]
                sums = await asyncio.gather(
                    *(h.call_tool("old", "add", {"a": n, "b": 2**60}) for n in range(3)),
                    h.call_tool("old", "add", {"a": 3, "b": 0}, on_progress=reports.append),
                )
                read = await h.request("old", "resources/read", {"uri": "notes://1"})
                status = h.list_status()["old"]
            return names, [text(each) for each in sums], reports, read, (status.protocol, status.state)

    names, sums, reports, read, status = asyncio.run(main())
    assert (names, sums) == (["add"], [str(2**60), str(2**60 + 1), str(2**60 + 2), "3"])
    assert reports == [CallProgress("old", "add", 1, 2, "adding")]
    assert read.value == [{"uri": "notes://1", "mimeType": "text/plain", "text": "a note"}]
    assert status == ("2025-11-25", "idle")
    refused = [("POST", "/sse", TOKEN)] * (2 if transport == "auto" else 0)
    assert recorded.seen[: len(refused) + 1] == [*refused, ("GET", "/sse", TOKEN)]
    assert set(recorded.seen[len(refused) + 1 :]) == {("POST", "/messages/", TOKEN)}


def test_a_server_that_is_declared_as_streamable_is_asked_nothing_else(hub):
    recorded = Recorded()

    async def main():
        async with listening(recorded) as url, hub(HttpServer("old", f"{url}/sse", transport="http")) as h:
            return await failure(h.list_tools("old"), ServerUnavailable)

    error = asyncio.run(main())
    assert str(error) == "Failed to connect to server old: Server old answers HTTP 405; correct its `url`."
    assert {method for method, _, _ in recorded.seen} == {"POST"}


def test_a_call_goes_on_after_a_message_was_refused(hub):
    """The library's own client sends nothing any more after that."""
    recorded, refusing = Recorded(), [False]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST" and refusing[0]:
            refusing[0] = False
            start: Message = {"type": "http.response.start", "status": 500, "headers": []}
            await send(start)
            await send({"type": "http.response.body", "body": b""})
        else:
            await recorded(scope, receive, send)

    async def main():
        async with listening(app) as url, hub(HttpServer("old", f"{url}/sse", transport="sse")) as h:
            await h.list_tools("old")
            refusing[0] = True
            error = await failure(h.call_tool("old", "add", {"a": 1, "b": 1}), ServerUnavailable)
            result = await h.call_tool("old", "add", {"a": 1, "b": 1})
            return str(error), text(result), h.list_status()["old"].starts

    assert asyncio.run(main()) == ("Server old answers HTTP 500; see its own log.", "2", 1)


class Handler(BaseHTTPRequestHandler):
    """Answers GET with the events of `server.events` as they are put, and POST with `server.status`."""

    protocol_version = "HTTP/1.1"
    server: "Hostile"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.seen.append((self.command, self.headers["Authorization"]))
        self.send_response(200)
        self.send_header("Content-Type", self.server.kind)
        self.send_header("Connection", "close")
        self.end_headers()
        while (data := self.server.events.get()) is not None:
            try:
                self.wfile.write(data)
            except OSError:
                break
        self.close_connection = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.command, self.headers["Authorization"]))
        if self.server.status == 202:
            self.server.answer(json.loads(body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()


class Hostile(ThreadingHTTPServer):
    """A server of the older transport that sends what a test says, after an answer to the handshake."""

    def __init__(
        self, *events: bytes, status: int = 202, kind: str = "text/event-stream", after: bytes = b""
    ) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen, self.status, self.kind, self.after = [], status, kind, after
        self.events: Queue[bytes | None] = Queue()
        for event in events:
            self.events.put(event)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/sse"

    def answer(self, message):
        if message["method"] == "initialize":
            facts = {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "s"}}
            self.send({"id": message["id"], "result": facts})
        elif "id" in message:
            self.events.put(self.after)
            self.events.put(None)

    def send(self, message):
        self.events.put(b"data: " + json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n\n")


@contextmanager
def serving(server: Hostile) -> Iterator[Hostile]:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.events.put(None)
        server.shutdown()
        server.server_close()
        thread.join()


def connect(hub, hostile, transport="sse"):
    """Return the error of a call of a hostile server."""
    secrets = ServerSecrets({"tok-0123456789abcdef"})
    headers = {"Authorization": TOKEN}

    async def main():
        server = HttpServer("old", hostile.url, headers=headers, transport=transport, secrets=secrets)
        async with hub(server) as h:
            return await failure(h.list_tools("old"), ServerUnavailable)

    with serving(hostile):
        return str(asyncio.run(main())).removeprefix("Failed to connect to server old: ")


@pytest.mark.parametrize(
    "endpoint",
    ["http://127.0.0.2:{port}/m", "https://127.0.0.1:{port}/m", "//localhost:{port}/m", "http://[::1]/"],
)
def test_messages_and_credentials_go_to_no_other_origin(hub, endpoint):
    with serving(Hostile()) as other:
        address = endpoint.format(port=other.server_port)
        hostile = Hostile(b"event: endpoint\ndata: " + address.encode() + b"\n\n")
        error = connect(hub, hostile)
    origin = address.partition("/m")[0].removesuffix("/")
    origin = f"http:{origin}" if origin.startswith("//") else origin
    assert (
        error
        == f"Server old wants messages at another origin, {origin}, which gets none; correct the server."
    )
    assert (hostile.seen, other.seen) == ([("GET", TOKEN)], [])


@pytest.mark.parametrize(
    ("hostile", "why"),
    [
        (Hostile(None), "sends no stream of messages; correct its `url` or its `type`."),
        (Hostile(b"data: {}\n\n"), "sends no stream of messages; correct its `url` or its `type`."),
        (Hostile(b"<html>", kind="text/html"), "sends no stream of messages; correct its `url` or its `type`."),
        (Hostile(b"event: endpoint\ndata: http://127.0.0.1:x/\n\n"), "names no valid address for messages; correct the server."),
        (Hostile(b"event: endpoint\ndata: /m\n\n", status=500), "answers HTTP 500; see its own log."),
    ],
    ids=["an end", "no endpoint", "a page", "no address", "refused messages"],
)  # fmt: skip
def test_a_server_that_breaks_the_older_transport_is_reported(hub, hostile, why):
    assert connect(hub, hostile) == f"Server old {why}"


def test_a_server_with_neither_transport_is_reported_as_before(hub):
    hostile = Hostile(b"<html>", kind="text/html", status=404)
    assert connect(hub, hostile, "auto") == "Server old answers HTTP 404; correct its `url`."
    assert [method for method, _ in hostile.seen] == ["POST", "POST", "GET"]


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (b"data: [" + b"[" * 600 + b"\n\n", "was cut off: it is nested more than 500 deep."),
        (b"data: [" + b"1," * 1_300_000 + b"1]\n\n", "was cut off: it has more than 1250000 values; ask for less at once, or raise `servers.answer_values`."),
        (b"", "broke off its answer (Connection closed)."),
    ],
    ids=["too deep", "too many values", "an end"],
)  # fmt: skip
def test_a_hostile_stream_ends_the_call(hub, after, why):
    assert connect(hub, Hostile(b"event: endpoint\ndata: /m\n\n", after=after)) == f"Server old {why}"
