"""Connections that ask for nothing, or not to the end, take no place from others; real sockets, an application of one line."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import uvicorn

from paddock.surfaces.http_server import idle_connections

HEAD = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n"
Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


async def application(_scope: Any, receive: Any, send: Any) -> None:
    """Answer once the body is there."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def serving() -> AsyncIterator[Connect]:
    """Serve; gives what connects."""
    http: Any = partial(idle_connections.TimedConnection, idle_connections.IdleConnections())
    config = uvicorn.Config(
        application, port=0, http=http, lifespan="off", log_config=None, timeout_keep_alive=60
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield partial(asyncio.open_connection, "127.0.0.1", port)
    finally:
        server.force_exit = True
        await server.shutdown()


@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\ntransfer-encoding: Chunked\r\nCONTENT-LENGTH: 0\r\n\r\n",
        b"POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_a_body_with_an_ambiguous_length_is_refused_and_the_connection_ends(head: bytes) -> None:
    async def main() -> None:
        async with serving() as connect:
            reader, writer = await connect()
            writer.write(head + b"0\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n")
            answer = await reader.read()
            writer.close()
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert answer.count(b"HTTP/1.1 ") == 1

    asyncio.run(main())


async def is_served(connect: Connect) -> bool:
    """Tell whether a whole request is answered."""
    reader, writer = await connect()
    writer.write(HEAD + b"body")
    head = await reader.readuntil(b"ok")
    writer.close()
    return head.startswith(b"HTTP/1.1 200 OK\r\n")


async def ends(reader: asyncio.StreamReader) -> bool:
    """Wait until the server ends a connection."""
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("begun", [b"", b"POST / HT", HEAD, HEAD + b"bo", HEAD + b"bodyPOST /"])
def test_what_is_not_sent_to_its_end_ends(monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    monkeypatch.setattr(idle_connections, "RECEIVE_TIMEOUT_S", 1.0)

    async def main() -> None:
        async with serving() as connect:
            reader, writer = await connect()
            writer.write(begun)
            if b"body" in begun:
                await reader.readuntil(b"ok")
            assert await ends(reader)
            writer.close()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_single_bytes_of_a_head_give_no_further_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_connections, "RECEIVE_TIMEOUT_S", 0.2)

    async def drip(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"X-A: b\r\n")
            await asyncio.sleep(0.02)

    async def main() -> None:
        async with serving() as connect:
            reader, writer = await connect()
            writer.write(b"POST / HTTP/1.1\r\n")
            dripping = asyncio.create_task(drip(writer))
            assert await ends(reader)
            dripping.cancel()
            writer.close()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_those_who_ask_are_served_beside_any_number_that_do_not() -> None:
    async def main() -> None:
        async with serving() as connect:
            idle = [await connect() for _ in range(idle_connections.MAX_IDLE_CONNECTIONS)]
            slow_reader, slow = await connect()
            slow.write(HEAD)
            assert await is_served(connect)  # by then the head was read
            more = [await connect() for _ in range(idle_connections.MAX_IDLE_CONNECTIONS)]
            assert await is_served(connect)
            assert all([await ends(reader) for reader, _ in idle])
            slow.write(b"body")  # it has said what it wants, and keeps its place
            assert (await slow_reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 OK\r\n")
            for _, writer in [*idle, *more, (slow_reader, slow)]:
                writer.close()

    asyncio.run(asyncio.wait_for(main(), 60))
