"""A client that does not read its answer is cut off after a time, however small the rest of it is."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import pytest

from paddock.surfaces.http_server import idle_connections
from paddock.surfaces.http_server.endpoint import open_endpoint
from paddock.surfaces.http_server.idle_connections import IdleConnections
from paddock.surfaces.http_server.serving import serve_application


class Answering:
    """An application that answers with many bytes, and knows how that ended."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
            return
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(200):
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
        await receive()  # returns when the client is gone
        self.ended.set()


@contextlib.asynccontextmanager
async def serving(app: Answering, idle: IdleConnections) -> AsyncIterator[int]:
    endpoint = open_endpoint("127.0.0.1:0", "", ())
    async with serve_application(app, endpoint, idle, None):
        yield endpoint.listener.getsockname()[1]


def test_a_client_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_connections, "SEND_TIMEOUT_S", 0.05)

    async def main() -> None:
        app = Answering()
        async with serving(app, IdleConnections()) as port:
            with socket.socket() as slow:
                slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                slow.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(slow, ("127.0.0.1", port))
                await loop.sock_sendall(slow, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                await asyncio.wait_for(app.ended.wait(), 300)

    asyncio.run(main())


def test_requests_of_many_clients_that_connect_at_once_are_read() -> None:
    async def main() -> list[bytes]:
        async with serving(Answering(), IdleConnections(2, 75, counts_reused=True, spared_s=300)) as port:
            clients = [
                socket.create_connection(("127.0.0.1", port)) for _ in range(20)
            ]  # the kernel accepts them
            for each in clients:
                each.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                each.setblocking(False)
            loop = asyncio.get_running_loop()
            begun = [await asyncio.wait_for(loop.sock_recv(each, 15), 300) for each in clients]
            for each in clients:
                each.close()
            return begun

    assert asyncio.run(main()) == [b"HTTP/1.1 200 OK"] * 20


def test_the_oldest_idle_connection_is_closed_for_a_new_one_once_it_is_not_spared() -> None:
    async def main() -> bytes:
        idle = IdleConnections(2, 75, counts_reused=True, spared_s=0.05)
        async with serving(Answering(), idle) as port:
            opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            closed = await asyncio.wait_for(opened[0][0].read(), 300)
            for _, writer in opened:
                writer.close()
            return closed

    assert asyncio.run(main()) == b""


def test_the_oldest_idle_connection_is_closed_for_a_new_one() -> None:
    async def main() -> bytes:
        async with serving(Answering(), IdleConnections(2, 75, counts_reused=True)) as port:
            opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            closed = await asyncio.wait_for(opened[0][0].read(), 300)
            for _, writer in opened:
                writer.close()
            return closed

    assert asyncio.run(main()) == b""
