"""What servers over HTTP get wrong, on purpose or not: each is told by what it is, ends its own call, and holds nothing."""

import asyncio
import json
import re
import zlib
from contextlib import asynccontextmanager

import pytest
from tests.support.processes import PATIENCE_S

from paddock.engines.servers.calls import connection, http
from paddock.engines.servers.calls.lifecycle import ServerState
from paddock.engines.servers.config import HttpServer
from paddock.model.errors import ServerRejected, ServerTimeout, ServerUnavailable

from .conftest import failure, text

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b"10000\r\n" + b"x" * 65536 + b"\r\n"


def answer(body=b"", head="200 OK", *lines):
    """Return an answer with its body; a document is written as JSON."""
    if not isinstance(body, bytes):
        body, lines = json.dumps(body).encode(), ("Content-Type: application/json", *lines)
    return "\r\n".join([f"HTTP/1.1 {head}", *lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def result(number, words="fine"):
    return {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": words}]}}


class Rude:
    """A 2025-11-25 server whose answers are bytes that a test gives, by tool, method or HTTP verb."""

    def __init__(self):
        self.says = {}
        self.asked = []
        self.url = ""
        self.tasks = set()

    async def serve(self, reader, writer):
        self.tasks.add(asyncio.current_task())
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                verb = head.split()[0].decode()
                fields = dict(line.split(": ", 1) for line in head.decode().lower().split("\r\n")[1:-2])
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                self.asked.append((verb, asyncio.get_running_loop().time()))
                await self.reply(verb, json.loads(body or "{}"), writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def reply(self, verb, message, writer):
        name = message.get("params", {}).get("name", message.get("method", verb))
        number = message.get("id")
        said = self.says.get(name)
        if callable(said):
            await said(writer, number)
        elif said is not None:
            writer.write(said)
        elif verb == "GET":
            writer.write(answer(b"", "405 No"))
        elif name == "initialize":
            writer.write(
                answer({"jsonrpc": "2.0", "id": number, "result": HELLO}, "200 OK", "Mcp-Session-Id: s1")
            )
        elif name == "server/discover":
            error = {"code": -32601, "message": "no such method"}
            writer.write(answer({"jsonrpc": "2.0", "id": number, "error": error}))
        else:
            writer.write(answer(result(number)) if number is not None else answer(b"", "202 Accepted"))


@asynccontextmanager
async def rude(**says):
    server = Rude()
    server.says = says
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listener:
        server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
        try:
            yield server
        finally:  # from Python 3.12 on the listener waits for them, also for one that never answers
            for task in server.tasks:
                task.cancel()


async def endless(writer, head):
    """Write without end, until nobody reads."""
    writer.write(head)
    while True:
        writer.write(CHUNK)
        await writer.drain()
        await asyncio.sleep(0)


def refusal(head):
    return answer(b"<html>", head, "Content-Type: text/html")


STATUSES = {
    "404 X": "Server web answers HTTP 404; correct its `url`.",
    "405 X": "Server web answers HTTP 405; correct its `url`.",
    "418 X": "Server web answers HTTP 418; see its own log.",
    "429 X": "Server web answers HTTP 429: too many requests; wait before the next call.",
    "500 X": "Server web answers HTTP 500; see its own log.",
    "503 X": "Server web answers HTTP 503: it cannot answer now; try again later.",
}


@pytest.mark.parametrize(("head", "told"), STATUSES.items())
def test_a_status_says_what_to_do(hub, head, told):
    async def main():
        says = {"server/discover": refusal(head), "initialize": refusal(head)}
        async with rude(**says) as server, hub(HttpServer("web", server.url)) as h:
            error = await failure(h.call_tool("web", "t", {}), ServerUnavailable)
            assert str(error) == f"Failed to connect to server web: {told}"
            assert error.retryable == (head[:3] in ("429", "503"))

    asyncio.run(main())


ODD = {
    answer(b"<html>", "200 OK", "Content-Type: text/html; charset=utf-8"): (
        "Server web answers with text/html, which is not MCP; correct its `url`."
    ),
    answer(b"?", "200 OK", "Content-Type: " + "y" * 300): (
        "Server web answers with something else, which is not MCP; correct its `url`."
    ),
    answer(b"", "202 Accepted"): "Server web accepts the request, but sends no answer (HTTP 202).",
    answer(b"{no", "200 OK", "Content-Type: application/json"): (
        "Server web answers with something other than a message of the protocol."
    ),
    answer([1]): "Server web answers with something other than a message of the protocol.",
    answer(
        result(999)
    ): "Server web sent no complete answer: it answers another request, '999' instead of NUMBER.",
    answer(b"", "302 Found", "Location: http://u:p@elsewhere.test/mcp?key=tok-1234"): (
        "Server web answers HTTP 302 and leads to http://elsewhere.test/mcp; correct its `url`."
    ),
    answer(b"", "304 Not Modified"): "Server web answers HTTP 304; correct its `url`.",
}


@pytest.mark.parametrize(("said", "told"), ODD.items())
def test_what_is_no_answer_of_the_protocol(hub, said, told):
    async def main():
        async with rude(t=said) as server, hub(HttpServer("web", server.url)) as h:
            error = await failure(h.call_tool("web", "t", {}), ServerUnavailable)
            assert re.sub(r"instead of \d+", "instead of NUMBER", str(error)) == told
            assert text(await h.call_tool("web", "other", {})) == "fine"

    asyncio.run(main())


def test_an_error_without_a_number_is_the_answer_of_the_request_it_comes_for(hub):
    """JSON-RPC 2.0, section 5: whoever could not read the number of a request answers with null."""
    said = answer({"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "no luck"}})

    async def main():
        async with rude(t=said) as server, hub(HttpServer("web", server.url)) as h:
            assert str(await failure(h.call_tool("web", "t", {}), ServerRejected)) == "no luck"

    asyncio.run(main())


def test_an_answer_that_breaks_off_leaves_other_calls_alone(hub):
    cut = asyncio.Event()

    async def broken(writer, _number):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{")
        await writer.drain()
        writer.close()
        cut.set()

    async def patient(writer, number):
        await cut.wait()
        writer.write(answer(result(number)))

    async def main():
        async with rude(cut=broken, slow=patient) as server, hub(HttpServer("web", server.url)) as h:
            slow = asyncio.create_task(h.call_tool("web", "slow", {}))
            error = await failure(h.call_tool("web", "cut", {}), ServerUnavailable)
            assert str(error) == "Server web sent no complete answer: it closed the connection."
            assert (error.sent, text(await slow), h.list_status()["web"].starts) == (True, "fine", 1)

    asyncio.run(main())


def test_a_stream_that_breaks_off_leaves_other_calls_alone(hub):
    arrived, cut = asyncio.Event(), asyncio.Event()

    async def patient(writer, number):
        arrived.set()
        await cut.wait()
        writer.write(answer(result(number)))

    async def main():
        ending = SSE + b"0\r\n\r\n"
        async with rude(cut=ending, slow=patient) as server, hub(HttpServer("web", server.url)) as h:
            slow = asyncio.create_task(h.call_tool("web", "slow", {}))
            await arrived.wait()
            error = await failure(h.call_tool("web", "cut", {}), ServerUnavailable)
            assert str(error) == "Server web broke off its answer (SSE stream ended without a response)."
            cut.set()
            assert (error.sent, text(await slow), h.list_status()["web"].starts) == (True, "fine", 1)

    asyncio.run(main())


def test_what_is_under_way_when_a_session_is_forgotten_is_answered_or_made_again(hub, monkeypatch):
    opened = 0
    arrived, lost, over = asyncio.Semaphore(0), asyncio.Event(), asyncio.Event()

    class Watched(connection.ServerConnection):
        async def wait_until_lost(self):
            await super().wait_until_lost()
            over.set()

    monkeypatch.setattr(connection, "ServerConnection", Watched)
    monkeypatch.setattr(connection, "_LAST_ANSWERS_S", 3600)

    async def opens(writer, number):
        nonlocal opened
        opened += 1
        hello = {"jsonrpc": "2.0", "id": number, "result": HELLO}
        writer.write(answer(hello, "200 OK", f"Mcp-Session-Id: s{opened}"))

    async def forgotten(writer, number):
        error = {"code": -32001, "message": "Session not found"}
        refused = answer({"jsonrpc": "2.0", "id": number, "error": error}, "404 Not Found")
        writer.write(refused if opened == 1 else answer(result(number, f"session {opened}")))

    async def late(writer, number):
        arrived.release()
        await lost.wait()
        await forgotten(writer, number)

    async def knows(writer, number):
        arrived.release()
        await lost.wait()
        writer.write(answer(result(number)))

    async def main():
        says = {"initialize": opens, "first": forgotten, "late": late, "knows": knows}
        async with rude(**says) as server, hub(HttpServer("web", server.url)) as h:
            others = [asyncio.create_task(h.call_tool("web", name, {})) for name in ("late", "knows")]
            for _ in others:
                await arrived.acquire()
            first = asyncio.create_task(h.call_tool("web", "first", {}))
            while h.list_status()["web"].state is not ServerState.FAILED:  # noqa: ASYNC110 - of which nothing tells
                await asyncio.sleep(0)
            lost.set()
            results = [text(each) for each in await asyncio.gather(first, *others)]
            assert results == ["session 2", "session 2", "fine"]
            assert (h.list_status()["web"].starts, h.list_status()["web"].failures) == (2, 0)
            await over.wait()  # nothing is waited for once the last of them is answered

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


def test_a_call_without_an_answer_may_have_been_made(hub):
    async def never(_writer, _number):
        await asyncio.Event().wait()

    async def main():
        async with rude(never=never) as server, hub(HttpServer("web", server.url)) as h:
            assert (await failure(h.call_tool("web", "never", {}, timeout_ms=200), ServerTimeout)).sent

    asyncio.run(main())


def test_a_few_compressed_bytes_do_not_fill_our_memory(hub):
    packed = zlib.compress(b"\0" * (1 << 24), 9)

    async def main():
        bomb = answer(packed, "200 OK", "Content-Type: application/json", "Content-Encoding: deflate")
        async with rude(bomb=bomb) as server, hub(HttpServer("web", server.url)) as h:
            error = await failure(h.call_tool("web", "bomb", {}), ServerUnavailable)
            assert str(error) == (
                f"Server web at {server.url.removesuffix('/mcp')} sent no answer: it compresses its answers, although "
                "it is asked not to."
            )
            assert text(await h.call_tool("web", "t", {})) == "fine"

    asyncio.run(main())


@pytest.mark.parametrize("head", ["307 X\r\nLocation: /other", "404 X", "500 X"])
def test_a_body_without_end_that_nobody_needs_is_not_read(hub, head):
    async def said(writer, _number):
        lines = f"HTTP/1.1 {head}\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
        await endless(writer, lines.encode())

    async def main():
        async with rude(t=said) as server, hub(HttpServer("web", server.url)) as h:
            await failure(h.call_tool("web", "t", {}), ServerUnavailable)

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


def test_the_end_of_a_session_waits_for_no_answer(hub):
    async def slowly(writer, _number):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    async def main():
        async with rude(DELETE=slowly) as server:
            async with hub(HttpServer("web", server.url)) as h:
                assert text(await h.call_tool("web", "t", {})) == "fine"
            assert [verb for verb, _ in server.asked][-1] == "DELETE"

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


def test_the_rest_of_a_stream_is_not_asked_for_without_a_pause(hub, monkeypatch):
    monkeypatch.setattr(http, "_APART_S", 0.05)
    event = b"id: 7\nretry: 0\ndata:\n\n"
    ending = SSE + f"{len(event):x}\r\n".encode() + event + b"\r\n0\r\n\r\n"

    async def main():
        async with rude(t=ending, GET=ending) as server:
            async with hub(HttpServer("web", server.url)) as h:
                error = await failure(h.call_tool("web", "t", {}, timeout_ms=600), ServerTimeout)
                assert error.sent
            times = [time for verb, time in server.asked if verb == "GET"]
            # One stream for the call, one for what the server says by itself.
            assert len(times) <= 2 * ((times[-1] - times[0]) / 0.05 + 2)

    asyncio.run(main())


def test_names_and_certificates_are_told(hub):
    async def main():
        unknown = HttpServer("web", "http://no-such-host.invalid/mcp?key=tok-1234")
        async with hub(unknown) as h:
            assert str(await failure(h.call_tool("web", "t", {}), ServerUnavailable)) == (
                "Failed to connect to server web: no connection to server web at http://no-such-host.invalid: its host "
                "name is unknown. Start it, or correct its `url`."
            )
        async with await asyncio.start_server(no_tls, "127.0.0.1", 0) as listener:
            url = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
            async with hub(HttpServer("web", url)) as h:
                assert "the server does not use TLS." in str(
                    await failure(h.call_tool("web", "t", {}), ServerUnavailable)
                )

    async def no_tls(_reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    asyncio.run(main())
