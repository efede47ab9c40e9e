"""A job, or a host that it reaches, uses up time, memory, descriptors or traffic. Each is bounded; others go on."""

import asyncio
import os
import resource
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.support.network import (
    OK,
    Server,
    allow,
    answering,
    collect,
    echo,
    receive_all,
    receive_exactly,
    receive_head,
    run_proxy,
)
from tests.support.processes import PATIENCE_S, open_files

from paddock.confinement.network.connector import MAX_QUESTIONS

HOST = "granted.example"
SOON = {"idle_timeout_ms": 100}
SOON_AFTER_REQUEST = {"idle_timeout_ms": 2_000}
"""Time for a client that sends a request first, however busy the machine is."""
SOON_WITHOUT_ANSWER = {"connect_timeout_ms": 100}


def get(port: int) -> bytes:
    return f"GET http://{HOST}:{port}/ HTTP/1.1\r\nHost: {HOST}:{port}\r\n\r\n".encode()


def reset(client: socket.socket) -> None:
    """Close a connection with a reset."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def assert_serves(proxy, port: int) -> None:
    with proxy.connect() as client:
        client.sendall(get(port))
        assert receive_exactly(client, len(OK)) == OK


def test_a_client_that_sends_nothing():
    with run_proxy(allow(HOST), limits=SOON) as proxy, proxy.connect() as client:
        assert receive_all(client) == b""


def test_a_head_that_never_ends():
    """Bytes that come slowly do not extend the time for a head."""
    with run_proxy(allow(HOST), limits=SOON) as proxy, proxy.connect() as client:
        client.settimeout(0.01)
        client.sendall(b"GET / HTTP/1.1\r\n")
        ended = False
        while not ended:
            try:
                client.sendall(b"X")
                ended = client.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                ended = True


def test_a_tunnel_in_which_nothing_passes():
    with Server(collect) as server, run_proxy(allow(HOST, server.port), limits=SOON_AFTER_REQUEST) as proxy:
        with proxy.open_tunnel(f"{HOST}:{server.port}") as client:
            assert receive_all(client) == b""
        proxy.wait_for()


def test_a_host_that_never_answers():
    with Server(collect) as server, run_proxy(allow(HOST, server.port), limits=SOON_AFTER_REQUEST) as proxy:
        assert proxy.exchange(get(server.port)) == b""
        proxy.wait_for()


def test_a_host_that_does_not_accept():
    """A listening socket whose queue is full answers nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(3)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        with run_proxy(allow(HOST, port), limits=SOON_WITHOUT_ANSWER) as proxy:
            answer = proxy.exchange(get(port))
            assert answer.startswith(b"HTTP/1.1 504 Paddock: ")
            assert answer.endswith(f"\r\n\r\nPaddock: {HOST}:{port} did not answer within 0.1 s\n".encode())
        for each in waiting:
            each.close()


def test_a_resolver_that_never_answers():
    async def resolve(host, port):
        await asyncio.Event().wait()

    with run_proxy(allow(HOST), limits=SOON_WITHOUT_ANSWER, resolve=resolve) as proxy:
        data = f"CONNECT {HOST}:443 HTTP/1.1\r\n\r\n".encode()
        assert proxy.exchange(data).endswith(f"Paddock: {HOST}:443 did not answer within 0.1 s\n".encode())


def test_a_client_that_does_not_read():
    """What a host sends waits in bounded buffers, until the time is over."""

    def flood(server, client):
        sent = 0
        try:
            while True:
                sent += client.send(bytes(65536))
        except OSError:
            server.received.append(b"%d" % sent)

    with Server(flood) as server, run_proxy(allow(HOST, server.port), limits=SOON_AFTER_REQUEST) as proxy:
        with proxy.open_tunnel(f"{HOST}:{server.port}"):
            (connection,) = proxy.wait_for()
        assert connection.received_bytes < 64 * 1024 * 1024


def test_an_endless_response_ends_at_the_limit_of_traffic():
    def flood(server, client):
        receive_head(client)
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            client.sendall(bytes(65536))

    limits = {"max_bytes": 10_000_000}
    with Server(flood) as server, run_proxy(allow(HOST, server.port), limits=limits) as proxy:
        assert len(proxy.exchange(get(server.port))) < 11_000_000
        (connection,) = proxy.wait_for()
        reason = (
            "the program has used its 10000000 bytes of network traffic; raise `max_bytes` under [network]"
        )
        assert (connection.verdict, connection.reason) == ("refused", reason)
        assert proxy.exchange(get(server.port)).endswith(f"Paddock: {reason}\n".encode())


def test_an_endless_download_in_a_tunnel_ends_at_the_limit_of_traffic():
    def flood(server, client):
        while True:
            client.sendall(bytes(65536))

    with (
        Server(flood) as server,
        run_proxy(allow(HOST, server.port), limits={"max_bytes": 10_000_000}) as proxy,
    ):
        with proxy.open_tunnel(f"{HOST}:{server.port}") as client:
            assert len(receive_all(client)) < 11_000_000
        (connection,) = proxy.wait_for()
        assert connection.verdict == "refused"
        assert 10_000_000 <= connection.received_bytes < 12_000_000


def test_what_a_program_sends_in_bulk_is_copied(monkeypatch):
    """Its pages must not be held by a host that does not read."""

    def splice(*_arguments, **_flags):
        raise AssertionError("bytes of the program were spliced")

    monkeypatch.setattr(os, "splice", splice)
    data = bytes(4 * 1024 * 1024)
    with Server(collect) as server, run_proxy(allow(HOST, server.port)) as proxy:
        with proxy.open_tunnel(f"{HOST}:{server.port}") as client:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            assert receive_all(client) == b""
        assert b"".join(server.received) == data
        assert proxy.wait_for()[0].sent_bytes == len(data)


def test_the_limit_of_traffic_is_for_all_connections_together():
    limits = {"max_bytes": 1000}
    with (
        Server(echo) as server,
        run_proxy(allow(HOST, server.port), limits=limits) as proxy,
        proxy.open_tunnel(f"{HOST}:{server.port}") as first,
        proxy.open_tunnel(f"{HOST}:{server.port}") as second,
    ):
        first.sendall(b"a" * 300)
        assert len(receive_exactly(first, 300)) == 300
        second.sendall(b"b" * 500)
        assert receive_all(second) == b""
        first.sendall(b"a")
        assert receive_all(first) == b""


def test_headers_of_a_response_that_never_end():
    def flood(server, client):
        receive_head(client)
        client.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            client.sendall(b"X: " + b"a" * 60_000 + b"\r\n")

    with Server(flood) as server, run_proxy(allow(HOST, server.port)) as proxy:
        assert proxy.exchange(get(server.port)).startswith(b"HTTP/1.1 502 Paddock: ")


def test_interim_responses_that_never_end():
    def flood(server, client):
        receive_head(client)
        while True:
            client.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")

    with (
        Server(flood) as server,
        run_proxy(allow(HOST, server.port), limits={"max_bytes": 1_000_000}) as proxy,
    ):
        assert proxy.exchange(get(server.port)) == b""
        assert proxy.wait_for()[0].verdict == "refused"


def test_a_client_that_resets():
    with Server(answering(OK)) as server, run_proxy(allow(HOST, server.port)) as proxy:
        for data in (b"", b"G", b"\5", b"\5\1\0\5\1", get(server.port), b"CONNECT "):
            client = proxy.connect()
            client.sendall(data)
            reset(client)
        tunnel = proxy.open_tunnel(f"{HOST}:{server.port}")
        tunnel.sendall(b"data")
        reset(tunnel)
        assert_serves(proxy, server.port)


def test_a_host_that_resets():
    def drop(server, client):
        client.recv(1)
        reset(client.dup())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with Server(drop) as server, run_proxy(allow(HOST, server.port)) as proxy:
        assert proxy.exchange(get(server.port)).startswith(b"HTTP/1.1 502 Paddock: ")
        with proxy.open_tunnel(f"{HOST}:{server.port}") as client:
            client.sendall(b"data")
            assert receive_all(client) == b""


def test_a_half_closed_client_still_gets_its_answer():
    def answer_at_the_end(server, client):
        collect(server, client)
        client.sendall(b"the answer")

    with (
        Server(answer_at_the_end) as server,
        run_proxy(allow(HOST, server.port)) as proxy,
        proxy.open_tunnel(f"{HOST}:{server.port}") as client,
    ):
        client.sendall(b"question")
        client.shutdown(socket.SHUT_WR)
        assert receive_all(client) == b"the answer"


def test_a_half_closed_host_still_gets_the_rest():
    def close_first(server, client):
        client.sendall(b"bye")
        client.shutdown(socket.SHUT_WR)
        collect(server, client)

    with Server(close_first) as server, run_proxy(allow(HOST, server.port)) as proxy:
        with proxy.open_tunnel(f"{HOST}:{server.port}") as client:
            assert receive_all(client) == b"bye"
            client.sendall(b"the rest")
        assert server.ended.acquire(timeout=PATIENCE_S)
        assert b"".join(server.received) == b"the rest"


def test_further_connections_wait():
    """The third connection is served when one of two has ended."""
    with (
        Server(answering(OK)) as server,
        run_proxy(allow(HOST, server.port), limits={"max_connections": 2}) as proxy,
    ):
        first, second, third = (proxy.connect() for _ in range(3))
        for each in (first, second):
            each.sendall(get(server.port))
            assert receive_exactly(each, len(OK)) == OK
        third.sendall(get(server.port))
        third.settimeout(0.2)
        with pytest.raises(TimeoutError):
            third.recv(1)
        first.close()
        third.settimeout(PATIENCE_S)
        assert receive_exactly(third, len(OK)) == OK
        second.close()
        third.close()


FLOOD = """
import resource, socket, sys
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
opened = []
for _ in range(int(sys.argv[2])):
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex(("127.0.0.1", int(sys.argv[1])))
    opened.append(client)
print(len(opened), flush=True)
sys.stdin.read()
"""


def test_10000_connections():
    """They take no more descriptors of Paddock than the limit. There are fewer where this user may not open as many."""
    number = min(10_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 2)
    with (
        Server(answering(OK)) as server,
        run_proxy(allow(HOST, server.port), limits={"max_connections": 10}) as proxy,
    ):
        before = open_files()
        command = [sys.executable, "-c", FLOOD, str(proxy.port), str(number)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as flood:
            assert flood.stdout.readline() == f"{number}\n"
            assert open_files() <= before + 10 + 10
            flood.communicate("")
        assert_serves(proxy, server.port)


EXHAUSTED = """
import resource, socket, sys, time
sys.path.insert(0, {root!r})
from tests.support.network import OK, Server, allow, answering, receive_exactly, run_proxy
HOST = "granted.example"
with Server(answering(OK)) as server, run_proxy(allow(HOST, server.port)) as proxy:
    waiting = [proxy.connect() for _ in range(3)]
    client = proxy.connect()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    last = max(each.fileno() for each in [*waiting, client])
    blocked = socket.socket()
    blocked.connect(("127.0.0.1", proxy.port))
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    used = time.process_time()
    time.sleep(1)
    print(time.process_time() - used < 0.5, flush=True)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    data = f"GET http://{{HOST}}:{{server.port}}/ HTTP/1.1\\r\\nHost: {{HOST}}:{{server.port}}\\r\\n\\r\\n".encode()
    blocked.sendall(data)
    print(receive_exactly(blocked, len(OK)) == OK, flush=True)
"""


def test_no_descriptor_is_left():
    """Accepting is tried again after a while, without using up the processor."""
    root = str(Path(__file__).resolve().parents[3])
    done = subprocess.run(
        [sys.executable, "-c", EXHAUSTED.format(root=root)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("True\nTrue\n", "")


def test_the_rate_of_connections_is_limited():
    """Two per second, after a second's worth at once: five take more than a second."""
    with (
        Server(answering(OK)) as server,
        run_proxy(allow(HOST, server.port), limits={"max_rate": 2}) as proxy,
    ):
        started = time.monotonic()
        for _ in range(5):
            assert_serves(proxy, server.port)
        assert time.monotonic() - started >= 1


def test_a_question_is_asked_once_for_connections_that_wait_together():
    asked = []
    answered = threading.Event()

    async def ask(authority, decision):
        asked.append((str(authority), decision.reason))
        await asyncio.to_thread(answered.wait)
        return True

    with Server(answering(OK)) as server, run_proxy(allow(HOST, server.port, effect="ask"), ask=ask) as proxy:
        clients = [proxy.connect() for _ in range(3)]
        for each in clients:
            each.sendall(get(server.port))
        answered.set()
        for each in clients:
            assert receive_exactly(each, len(OK)) == OK
            each.close()
        where = f"{HOST}:{server.port}"
        assert asked == [
            (where, f"connecting to {where} needs a person's approval, says user network rule 1")
        ]


def test_a_question_without_a_yes():
    async def ask(authority, decision):
        return False

    with run_proxy(allow(HOST, effect="ask"), ask=ask) as proxy:
        data = f"CONNECT {HOST}:443 HTTP/1.1\r\n\r\n".encode()
        reason = (
            f"connecting to {HOST}:443 needs a person's approval, says user network rule 1; "
            "the answer was no, or there was none"
        )
        assert proxy.exchange(data).endswith(f"Paddock: {reason}\n".encode())
        assert [each.reason for each in proxy.wait_for()] == [reason]


def test_a_question_where_no_person_can_be_asked():
    with run_proxy(allow(HOST, effect="ask")) as proxy:
        data = f"CONNECT {HOST}:443 HTTP/1.1\r\n\r\n".encode()
        assert proxy.exchange(data).endswith(b"says user network rule 1; no person can be asked here\n")


def test_a_flood_of_questions():
    """Names below a wildcard are without number; questions are not."""
    asked = []

    async def ask(authority, decision):
        asked.append(authority)
        return False

    with run_proxy(allow("*.example", effect="ask"), ask=ask) as proxy:
        for number in range(MAX_QUESTIONS + 5):
            answer = proxy.exchange(f"CONNECT h{number}.example:443 HTTP/1.1\r\n\r\n".encode())
        assert answer.endswith(b"; the program has already asked 100 questions\n")
        assert len(asked) == MAX_QUESTIONS


def test_the_end_of_the_proxy_closes_and_reports_everything():
    with Server(echo) as server:
        with run_proxy(allow(HOST, server.port)) as proxy:
            waiting = proxy.connect()
            tunnel = proxy.open_tunnel(f"{HOST}:{server.port}")
            tunnel.sendall(b"hello")
            assert receive_exactly(tunnel, 5) == b"hello"
        assert receive_all(tunnel) == b""
        assert receive_all(waiting) == b""
        assert [(each.sent_bytes, each.received_bytes) for each in proxy.connections] == [(5, 5)]
        with pytest.raises(ConnectionRefusedError):
            proxy.connect()
        tunnel.close()
        waiting.close()
