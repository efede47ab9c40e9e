"""The proxy of a job: a download through it, and requests on a kept connection, next to the bare loopback."""

import asyncio
import functools
import multiprocessing
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import IPv4Address
from statistics import median

from benchmarks.measure import Line, Scale, at_least, at_most, interleaved, milliseconds, ratio
from paddock.confinement.network.connector import ProxyTerms
from paddock.confinement.network.proxy import open_proxy
from paddock.model.network import NetworkLimits, NetworkRule
from paddock.policy.decisions.network import decide_host, narrow_hosts

TITLE = 'The proxy of a program with `network = "hosts"`, against the bare loopback'

_MEGABYTES = 200
_REQUESTS = 200
_HOST = "files.example"
_CHUNK = bytes(1024 * 1024)


def measure(scale: Scale) -> list[Line]:
    with ExitStack() as stack:
        server = stack.enter_context(_run(_serve_files))
        proxy = stack.enter_context(_run(functools.partial(_serve_proxy, server)))
        return [*_downloads(server, proxy, scale), *_requests(server, proxy, scale)]


def _downloads(server: int, proxy: int, scale: Scale) -> list[Line]:
    size = scale.of(_MEGABYTES, 4)
    contenders = {
        "bare": lambda: size / milliseconds(lambda: _download(server, size)),
        "tunnel": lambda: size / milliseconds(lambda: _download(proxy, size, tunnel_to=server)),
        "http": lambda: size / milliseconds(lambda: _download(proxy, size, request_to=server)),
    }
    figures = interleaved(contenders, scale.of(12, 2))
    rates = {name: median(values) * 1000 for name, values in figures.items()}
    return [
        Line(f"peer: bare download of {_MEGABYTES} MB", rates["bare"], "MB/s"),
        Line("through a tunnel (CONNECT)", rates["tunnel"], "MB/s"),
        Line("the same, to the peer", ratio(figures["tunnel"], figures["bare"]), "x", at_least(0.8)),
        Line("as a request of plain HTTP", rates["http"], "MB/s"),
        Line("the same, to the peer", ratio(figures["http"], figures["bare"]), "x", at_least(0.4)),
    ]


def _requests(server: int, proxy: int, scale: Scale) -> list[Line]:
    number = scale.of(_REQUESTS, 10)
    with ExitStack() as stack:
        bare = stack.enter_context(_connect(server))
        plain = stack.enter_context(_connect(proxy))
        tunnel = stack.enter_context(_connect(proxy))
        _open_tunnel(tunnel, server)
        contenders = {
            "bare": lambda: milliseconds(lambda: _request(bare, server, number)) / number,
            "tunnel": lambda: milliseconds(lambda: _request(tunnel, server, number)) / number,
            "http": lambda: milliseconds(lambda: _request(plain, server, number, absolute=True)) / number,
        }
        figures = interleaved(contenders, scale.of(20, 2))
    p50 = {name: median(values) for name, values in figures.items()}
    return [
        Line("peer: a bare request on a kept connection, p50", p50["bare"], "ms"),
        Line("a tunnel adds, p50", p50["tunnel"] - p50["bare"], "ms", at_most(1.5)),
        Line("plain HTTP adds, p50", p50["http"] - p50["bare"], "ms", at_most(1.5)),
    ]


def _connect(port: int) -> socket.socket:
    connected = socket.create_connection(("127.0.0.1", port))
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def _open_tunnel(client: socket.socket, port: int) -> None:
    client.sendall(f"CONNECT {_HOST}:{port} HTTP/1.1\r\n\r\n".encode())
    assert _receive_head(client).startswith(b"HTTP/1.1 200 ")


def _receive_head(client: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        received = client.recv(1)
        assert received, data
        data += received
    return data


def _download(port: int, megabytes: int, tunnel_to: int = 0, request_to: int = 0) -> None:
    with _connect(port) as client:
        if tunnel_to:
            _open_tunnel(client, tunnel_to)
        prefix = f"http://{_HOST}:{request_to}" if request_to else ""
        host = f"{_HOST}:{request_to}"
        client.sendall(f"GET {prefix}/{megabytes} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        _receive_head(client)
        buffer = bytearray(len(_CHUNK))
        left = megabytes * len(_CHUNK)
        while left:
            received = client.recv_into(buffer)
            assert received
            left -= received


def _request(client: socket.socket, port: int, number: int, *, absolute: bool = False) -> None:
    prefix = f"http://{_HOST}:{port}" if absolute else ""
    data = f"GET {prefix}/0 HTTP/1.1\r\nHost: {_HOST}:{port}\r\nAccept: */*\r\n\r\n".encode()
    for _ in range(number):
        client.sendall(data)
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += client.recv(4096)


def _serve_files(listener: socket.socket) -> None:
    while True:
        client, _ = listener.accept()
        threading.Thread(target=_serve_client, args=(client,), daemon=True).start()


def _serve_client(client: socket.socket) -> None:
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with client:
        data = b""
        while received := client.recv(4096):
            data += received
            if not data.endswith(b"\r\n\r\n"):
                continue
            megabytes = int(data.split(b" ", 2)[1].removeprefix(b"/"))
            data = b""
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {megabytes * len(_CHUNK)}\r\n\r\n"
            client.sendall(head.encode())
            for _ in range(megabytes):
                client.sendall(_CHUNK)


def _serve_proxy(port: int, listener: socket.socket) -> None:
    rule = NetworkRule(host=_HOST, effect="allow", ports=(port,), addresses=("127.0.0.0/8",), origin="user")

    async def resolve(_host: str, _port: int) -> list[IPv4Address]:
        return [IPv4Address("127.0.0.1")]

    async def serve() -> None:
        terms = ProxyTerms(
            decide=functools.partial(decide_host, narrow_hosts([rule], None)),
            on_connection=lambda _connection: None,
            limits=NetworkLimits(max_bytes=2**50),
            resolve=resolve,
        )
        async with open_proxy(listener, terms):
            await asyncio.Event().wait()

    asyncio.run(serve())


@contextmanager
def _run(serve: "functools.partial[None]") -> Iterator[int]:
    """Run a server in a separate process; yields its port."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        process = multiprocessing.get_context("fork").Process(target=serve, args=(listener,), daemon=True)
        process.start()
        try:
            yield listener.getsockname()[1]
        finally:
            process.kill()
            process.join()
