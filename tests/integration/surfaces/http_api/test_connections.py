"""Slow, idle and too many clients: they are bounded, and others are served meanwhile."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx2
import pytest
from tests.support.http_api import ApiClient, ApiPlace, ApiServer, make_head, read_pong, read_problem
from tests.support.processes import PATIENCE_S, has_ended

from paddock.surfaces.http_api.entry import MAX_REQUESTS

MANY = 256


def connect(server: ApiServer) -> socket.socket:
    plain = socket.create_connection(("127.0.0.1", server.port))
    plain.settimeout(PATIENCE_S)
    return plain


def test_256_idle_connections_do_not_disturb(api: ApiClient, server: ApiServer) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(connect(server)) for _ in range(MANY)]
        for each in idle:
            each.sendall(make_head(server, line="GET /v1/ping"))
        assert all(map(read_pong, idle))
        assert api.run(language="javascript", code="return 1")["value"] == 1
        for each in idle:  # all of them are still open
            each.sendall(make_head(server, line="GET /v1/ping"))
        assert all(map(read_pong, idle))


@contextmanager
def occupy(server: ApiServer, api: ApiClient) -> Iterator[httpx2.Response]:
    """Send as many requests as the server answers at a time, without their ends; yield its refusal of one more."""
    with ExitStack() as stack:
        slow = [stack.enter_context(connect(server)) for _ in range(MAX_REQUESTS)]
        for each in slow:
            each.sendall(make_head(server, "Content-Length: 1000000"))
        while (answer := api.get("/v1/server")).status_code == 200:
            for each in slow:  # a body that pauses for 10 seconds is cut off
                each.sendall(b" ")
        yield answer


def test_too_many_requests_are_refused_with_a_time_to_retry(api: ApiClient, server: ApiServer) -> None:
    with occupy(server, api) as answer:
        assert read_problem(answer) == (
            503,
            "server-busy",
            "256 requests are being answered, which is the limit. Try again later.",
        )
        assert answer.headers["retry-after"] == "1"
        assert api.get("/livez").status_code == 200
    while api.get("/v1/server").status_code != 200:
        pass


def test_a_user_with_too_many_requests_does_not_shut_out_others(place: ApiPlace) -> None:
    token = place.make_token("bob")
    with place.serve() as server, server.client() as api, server.client(token) as bob, occupy(server, api):
        assert bob.run(language="javascript", code="return 1")["value"] == 1


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"POST /v1/executions HTTP/1.1\r\nHost: ", id="head"),
        pytest.param(None, id="body"),
    ],
)
def test_a_client_that_does_not_send_is_cut_off(server: ApiServer, sent: bytes | None) -> None:
    with connect(server) as slow:
        slow.sendall(sent or make_head(server, "Content-Length: 100") + b"{")
        assert has_ended(slow)


def test_a_client_that_reads_slowly_gets_everything(server: ApiServer) -> None:
    body = b'{"language": "javascript", "code": "return \'x\'.repeat(3000000)"}'
    with connect(server) as slow:
        slow.sendall(make_head(server, f"Content-Length: {len(body)}", "Connection: close") + body)
        size = 0
        while piece := slow.recv(4096):
            size += len(piece)
    assert size > 3_000_000


def test_garbage_is_no_request(server: ApiServer, api: ApiClient) -> None:
    with connect(server) as plain:
        plain.sendall(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")
        assert plain.recv(65536).startswith(b"HTTP/1.1 400 ")
    assert api.get("/v1/ping").json() == "pong"
