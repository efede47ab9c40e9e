"""Long bodies of plain HTTP pass the parsers by: what arrives, what is kept, and what is reported stay the same."""

import os
import socket
import struct

import pytest
from tests.support.network import OK, Server, allow, receive_exactly, receive_head, run_proxy

HOST = "granted.example"
BODY = os.urandom(1024 * 1024) * 3


@pytest.fixture(autouse=True)
def copies(monkeypatch) -> list[int]:
    """Return the lengths of what was copied past the parsers."""
    from paddock.confinement.network.streams import ByteStream

    lengths: list[int] = []
    copy = ByteStream.copy_exactly

    async def note(self, target, number, *, splices=False):
        lengths.append(number)
        await copy(self, target, number, splices=splices)

    monkeypatch.setattr(ByteStream, "copy_exactly", note)
    return lengths


def make_head(length: int = len(BODY), more: str = "") -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{more}\r\n".encode()


def get(port: int, method: str = "GET", version: str = "1.1") -> bytes:
    return f"{method} http://{HOST}:{port}/ HTTP/{version}\r\nHost: {HOST}:{port}\r\n\r\n".encode()


def answer_once(answer: bytes, *, reset: bool = False):
    """Return a handler that answers one request and closes its connection, or resets it."""

    def handle(server: Server, client: socket.socket) -> None:
        receive_head(client)
        client.sendall(answer)
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return handle


def test_a_long_body_arrives_and_both_connections_are_kept(copies):
    def handle(server: Server, client: socket.socket) -> None:
        server.received.append(b"connection")
        receive_head(client)
        client.sendall(make_head())
        for start in range(0, len(BODY), 500_000):
            client.sendall(BODY[start : start + 500_000])
        receive_head(client)
        client.sendall(OK)

    with Server(handle) as server, run_proxy(allow(HOST, server.port)) as proxy:
        with proxy.connect() as client:
            client.sendall(get(server.port))
            assert receive_head(client) == make_head()
            assert receive_exactly(client, len(BODY)) == BODY
            client.sendall(get(server.port))
            assert receive_exactly(client, len(OK)).startswith(b"HTTP/1.1 200 ")
        assert server.received == [b"connection"]
        (connection,) = proxy.wait_for()
    assert connection.received_bytes == len(make_head()) + len(BODY) + len(OK)
    assert connection.reason == ""
    assert len(copies) == 1


@pytest.mark.parametrize(("version", "more"), [("1.0", ""), ("1.1", "Connection: close\r\n")])
def test_a_connection_that_is_not_kept_ends_after_a_long_body(copies, version, more):
    with (
        Server(answer_once(make_head(more=more) + BODY)) as server,
        run_proxy(allow(HOST, server.port)) as proxy,
    ):
        answer = proxy.exchange(get(server.port, version=version))
    assert answer.partition(b"\r\n\r\n")[2] == BODY
    assert copies


@pytest.mark.parametrize(("reset", "what"), [(False, "ended"), (True, "reset")])
def test_a_host_that_goes_in_a_long_body_is_reported(copies, reset, what):
    """The program must not take what has arrived for a whole body: its connection ends."""
    with (
        Server(answer_once(make_head(2 * len(BODY)) + BODY, reset=reset)) as server,
        run_proxy(allow(HOST, server.port)) as proxy,
    ):
        answer = proxy.exchange(get(server.port))
        (connection,) = proxy.wait_for()
    assert BODY.startswith(answer.partition(b"\r\n\r\n")[2])
    assert connection.reason == f"{HOST}:{server.port} {what} the connection before the end of its answer"
    assert copies


def test_what_follows_a_long_body_does_not_become_an_answer(copies):
    with (
        Server(answer_once(make_head() + BODY + OK)) as server,
        run_proxy(allow(HOST, server.port)) as proxy,
        proxy.connect() as client,
    ):
        client.sendall(get(server.port))
        receive_head(client)
        assert receive_exactly(client, len(BODY)) == BODY
        client.sendall(get(server.port))
        assert receive_head(client) == make_head()  # from another connection
    assert copies


@pytest.mark.parametrize("status", ["200 OK", "304 Not Modified"])
def test_a_length_without_a_body_is_not_waited_for(copies, status):
    """An answer to HEAD, and 304, have the length that the body would have (RFC 9110, 8.6)."""
    head = make_head().replace(b"200 OK", status.encode())
    method = "HEAD" if status == "200 OK" else "GET"
    with Server(answer_once(head)) as server, run_proxy(allow(HOST, server.port)) as proxy:
        assert proxy.exchange(get(server.port, method, "1.0")).endswith(b"\r\n\r\n")
    assert not copies


def test_chunks_and_short_bodies_pass_the_parsers(copies):
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"%x\r\n%b\r\n0\r\n\r\n" % (
        len(BODY),
        BODY,
    )
    for answer in (chunks, OK):
        with Server(answer_once(answer)) as server, run_proxy(allow(HOST, server.port)) as proxy:
            proxy.exchange(get(server.port, version="1.0"))
    assert not copies
