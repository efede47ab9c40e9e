"""Requests that are sent on to another replica, against servers that answer as they like."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from paddock.surfaces.http_api import relay
from paddock.surfaces.http_api.relay import (
    BrokenOffError,
    Handles,
    NotReachedError,
    OffsetError,
    StreamRelay,
)

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\nDate: now\r\nX-Own: 1\r\n\r\nok"
LENGTH = b"content-length", b"3"
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Keeps the requests that it gets."""

    def __init__(self, answer: bytes | Answer) -> None:
        self.requests: list[bytes] = []
        self.url = ""
        self._answer = answer

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            if isinstance(self._answer, bytes):
                writer.write(self._answer)
                await writer.drain()
            else:
                await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serve(answer: bytes | Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(answer)
    listening = await asyncio.start_server(server, "127.0.0.1", 0, ssl=tls)
    async with listening:
        scheme = "http" if tls is None else "https"
        server.url = f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield server


class Client:
    """The client of a request; it sends its body, and disconnects when it is told."""

    def __init__(self, *body: bytes) -> None:
        self.unsent = [*body]
        self.left = asyncio.Event()
        self.taken = asyncio.Event()
        self.taken.set()
        self.sent: list[MutableMapping[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        if self.unsent:
            piece = self.unsent.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(self.unsent)}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)
        await self.taken.wait()

    @property
    def body(self) -> bytes:
        return b"".join(each.get("body", b"") for each in self.sent)


def make_scope(method: str = "GET", target: bytes = b"/x", *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    path, _, query = target.partition(b"?")
    return {
        "method": method,
        "path": path.decode("latin-1"),
        "raw_path": path,
        "query_string": query,
        "headers": [*headers],
    }


async def never() -> None:
    await asyncio.Event().wait()


async def yes() -> bool | None:
    return True


async def pass_on(
    url: str,
    client: Client,
    scope: dict[str, Any] | None = None,
    *,
    body: bytes | None = None,
    ended: Callable[[], Awaitable[None]] = never,
    handles: Handles = yes,
) -> None:
    relay = StreamRelay()
    exchange = scope or make_scope(), [], client.receive, client.send
    try:
        await relay.pass_on(url, *exchange, body=body, ended=ended, handles=handles)
    finally:
        await relay.close()


def test_a_request_and_its_answer_arrive_without_headers_of_their_connections() -> None:
    async def main() -> None:
        client = Client()
        headers = (b"host", b"paddock.test"), (b"connection", b"close"), (b"te", b"trailers"), (b"x-a", b"1")
        async with serve(OK) as server:
            await pass_on(server.url, client, make_scope("GET", b"//evil.test/%2e%2e?u=http://a/", *headers))
        assert server.requests == [
            b"GET //evil.test/%2e%2e?u=http://a/ HTTP/1.1\r\nhost: paddock.test\r\nx-a: 1\r\n\r\n"
        ]
        start, *_ = client.sent
        assert (start["status"], start["headers"]) == (200, [(b"content-length", b"2"), (b"x-own", b"1")])
        assert client.body == b"ok"

    asyncio.run(main())


@pytest.mark.parametrize("header", [(b"content-length", b"6"), (b"transfer-encoding", b"chunked")])
def test_a_body_is_sent_while_it_arrives(header: tuple[bytes, bytes]) -> None:
    async def main() -> None:
        got: list[bytes] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            read = b""
            while not read.replace(b"\r\n", b"").endswith((b"def", b"def0")):
                read += await reader.read(100)
            got.append(read)
            writer.write(OK)

        client = Client(b"abc", b"def")
        async with serve(answer) as server:
            await pass_on(server.url, client, make_scope("PUT", b"/x", header))
        assert client.body == b"ok"
        assert got[0].replace(b"\r\n", b"") in {b"abcdef", b"3abc3def", b"3abc3def0"}

    asyncio.run(main())


def test_a_body_that_was_read_is_sent_with_its_own_length() -> None:
    async def main() -> None:
        client = Client()
        async with serve(OK) as server:
            await pass_on(
                server.url, client, make_scope("POST", b"/x", (b"content-length", b"99")), body=b"abc"
            )
        assert b"content-length: 3\r\n" in server.requests[0].lower()
        assert b": 99\r\n" not in server.requests[0]

    asyncio.run(main())


def test_a_server_that_is_not_there_is_not_reached() -> None:
    async def main() -> None:
        async with serve(OK) as server:
            pass
        with pytest.raises(NotReachedError):
            await pass_on(server.url, Client())
        with pytest.raises(NotReachedError):
            await StreamRelay().fetch(server.url, b"/x", [], 5.0, 100)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "begun", "between_events"),
    [
        (b"", False, False),
        (b"HTTP/1.1 200 OK\r\nContent-", False, False),
        (b"nonsense\r\n\r\n", False, False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", True, False),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"9\r\ndata: 1\n\n\r\n",
            True,
            True,
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"8\r\ndata: 1\n\r\n",
            True,
            False,
        ),
    ],
)
def test_an_answer_that_breaks_off(answer: bytes, begun: bool, between_events: bool) -> None:
    async def main() -> None:
        client = Client()
        async with serve(answer) as server:
            with pytest.raises(BrokenOffError) as broken:
                await pass_on(server.url, client)
        assert (broken.value.begun, broken.value.between_events) == (begun, between_events)
        assert bool(client.sent) is begun
        assert not any(each.get("more_body") is False for each in client.sent)

    asyncio.run(main())


class EndlessClient(Client):
    """Sends pieces of a body as long as they are taken."""

    async def receive(self) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"type": "http.request", "body": bytes(65536), "more_body": True}


@pytest.mark.parametrize(
    ("header", "whole"),
    [((b"transfer-encoding", b"chunked"), False), ((b"content-length", b"9" * 12), True)],
)
def test_only_the_end_of_a_chunked_body_tells_that_it_was_sent(
    header: tuple[bytes, bytes], whole: bool
) -> None:
    """With a length, the other server may have the last byte before this one knows that it was sent."""

    async def main() -> None:
        async def answer(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
            await reader.read(65536)

        async with serve(answer) as server:
            with pytest.raises(BrokenOffError) as broken:
                await pass_on(server.url, EndlessClient(), make_scope("POST", b"/x", header))
        assert broken.value.whole is whole

    asyncio.run(main())


def test_a_client_that_disconnects_ends_the_request() -> None:
    async def main() -> None:
        client, closed = Client(), asyncio.Event()

        async def answer(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
            client.left.set()
            assert await reader.read() == b""
            closed.set()

        async with serve(answer) as server:
            await pass_on(server.url, client)
            await closed.wait()
        assert client.sent == []

    asyncio.run(main())


def test_a_server_whose_lease_ends_is_not_waited_for() -> None:
    async def main() -> None:
        ended = asyncio.Event()

        async def answer(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
            ended.set()
            await reader.read()

        async def wait() -> None:
            await ended.wait()

        async with serve(answer) as server:
            with pytest.raises(BrokenOffError) as broken:
                await pass_on(server.url, Client(), ended=wait)
        assert (broken.value.ended, broken.value.begun) == (True, False)

    asyncio.run(main())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the times after which a link counts as hung."""
    for name in ("_FIRST_LOOK_S", "_LOOK_S", "MAX_SILENCE_S"):
        monkeypatch.setattr(relay, name, 0.05)


async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    assert await reader.read() == b""  # the request is given up


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "says", [[None] * 9, [True, True, None, None, None], [False] * 9, [False, True, False, False]]
)
def test_a_server_without_a_sign_of_life_is_given_up(says: list[bool | None]) -> None:
    async def main() -> None:
        left = [*says]

        async def handles() -> bool | None:
            return left.pop(0)

        async with serve(hang) as server:
            with pytest.raises(BrokenOffError) as broken:
                await pass_on(server.url, Client(b"abc"), make_scope("POST", b"/x", LENGTH), handles=handles)
        assert (broken.value.ended, broken.value.begun, broken.value.whole) == (False, False, True)

    asyncio.run(main())


@pytest.mark.usefixtures("quick")
def test_a_server_that_still_handles_a_request_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "MAX_SILENCE_S", 60.0)

    async def main() -> None:
        asked, enough = 0, asyncio.Event()

        async def handles() -> bool | None:
            nonlocal asked
            asked += 1
            if asked == 5:
                enough.set()
            return None if asked % 2 else True

        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await enough.wait()
            writer.write(OK)

        client = Client()
        async with serve(answer) as server:
            await pass_on(server.url, client, handles=handles)
        assert client.body == b"ok"

    asyncio.run(main())


def test_nobody_asks_about_a_request_that_was_not_sent_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "_FIRST_LOOK_S", 0.0)

    async def main() -> None:
        sent_before: list[bool] = []

        class SlowClient(Client):
            async def receive(self) -> dict[str, Any]:
                for _ in range(100):
                    await asyncio.sleep(0)
                return await super().receive()

        client = SlowClient(b"abc")

        async def handles() -> bool | None:
            sent_before.append(not client.unsent)
            return True

        async with serve(OK) as server:
            await pass_on(server.url, client, make_scope("POST", b"/x", LENGTH), handles=handles)
        assert client.body == b"ok"
        assert all(sent_before)

    asyncio.run(main())


@pytest.mark.parametrize(("piece", "between_events"), [(b"data: 1\n\n", True), (b"data: 1\n", False)])
def test_an_answer_that_stops_in_the_middle_is_given_up(
    piece: bytes, between_events: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 99\r\n\r\n" + piece
            )
            await hang(reader, writer)

        class ShortClient(Client):
            async def send(self, message: MutableMapping[str, Any]) -> None:
                await super().send(message)
                if self.body:  # from now on, nothing comes
                    monkeypatch.setattr(relay, "MAX_PAUSE_S", 0.05)

        client = ShortClient()
        async with serve(answer) as server:
            with pytest.raises(BrokenOffError) as broken:
                await pass_on(server.url, client)
        assert (broken.value.begun, broken.value.between_events) == (True, between_events)
        assert client.body == piece

    asyncio.run(main())


def test_a_client_that_reads_slowly_is_not_a_silent_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "MAX_PAUSE_S", 0.05)

    async def main() -> None:
        client = Client()
        client.taken.clear()
        async with serve(OK) as server:
            passing = asyncio.create_task(pass_on(server.url, client))
            while not client.sent:  # noqa: ASYNC110 - nobody announces it
                await asyncio.sleep(0)
            done, _ = await asyncio.wait({passing}, timeout=0.2)
            assert not done
            monkeypatch.setattr(relay, "MAX_PAUSE_S", 60.0)
            client.taken.set()
            await passing
        assert client.body == b"ok"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("value", "error"), [(b"-61", OffsetError), (b"9" * 13, None), (b"x", None), (b"", None)]
)
def test_an_answer_about_clocks_is_not_passed_back(value: bytes, error: type[OffsetError] | None) -> None:
    async def main() -> None:
        answer = b"HTTP/1.1 503 X\r\nContent-Length: 2\r\nPaddock-Hop-Offset: %s\r\n\r\nno" % value
        client, fetching = Client(), StreamRelay()
        async with serve(answer) as server:
            if error is None:
                await pass_on(server.url, client)
                assert (await fetching.fetch(server.url, b"/x", [], 60.0, 100)) == (503, b"no")
            else:
                for refused in (
                    pass_on(server.url, client),
                    fetching.fetch(server.url, b"/x", [], 60.0, 100),
                ):
                    with pytest.raises(error) as raised:
                        await refused
                    assert raised.value.offset_s == int(value)
        await fetching.close()
        assert bool(client.sent) is (error is None)

    asyncio.run(main())


def test_a_slow_client_slows_the_server_down() -> None:
    async def main() -> None:
        client, size, sent = Client(), 64 * 1024 * 1024, 0
        client.taken.clear()
        stuck = asyncio.Event()

        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            while sent < size:
                writer.write(bytes(64 * 1024))
                sent += 64 * 1024
                drain = asyncio.ensure_future(writer.drain())
                done, _ = await asyncio.wait({drain}, timeout=0.5)
                if not done:
                    stuck.set()
                await drain
            stuck.set()

        async with serve(answer) as server:
            passing = asyncio.create_task(pass_on(server.url, client))
            await stuck.wait()
            assert sent < size // 2
            client.taken.set()
            await passing
        assert len(client.body) == size

    asyncio.run(main())


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with serve(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nproxy") as proxy, serve(OK) as server:
            for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
                monkeypatch.setenv(name, proxy.url)
            client = Client()
            await pass_on(server.url, client)
            assert client.body == b"ok"
        assert proxy.requests == []

    asyncio.run(main())


def test_a_large_answer_to_a_question_is_not_read() -> None:
    async def main() -> None:
        async with serve(b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n" + bytes(101)) as server:
            with pytest.raises(NotReachedError):
                await StreamRelay().fetch(server.url, b"/x", [], 60.0, 100)

    asyncio.run(main())


def test_certificates_are_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=paddock",
            ),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)),
        ],
        capture_output=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)

    async def main() -> None:
        async with serve(OK, tls) as server:
            with pytest.raises(NotReachedError):
                await pass_on(server.url, Client())
            with pytest.raises(NotReachedError):
                await StreamRelay().fetch(server.url, b"/x", [], 60.0, 100)
            assert server.requests == []
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
            client = Client()
            await pass_on(server.url, client)
            assert client.body == b"ok"
            other = server.url.replace("127.0.0.1", "localhost")
            with pytest.raises(NotReachedError):
                await pass_on(other, Client())

    asyncio.run(main())
