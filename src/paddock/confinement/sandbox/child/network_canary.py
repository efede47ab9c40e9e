"""A program that tests the network of a job with the grant `hosts`: it attempts what its proxy must refuse.

It runs like `canary.py`, behind every layer and in the shim's own interpreter. Nothing outside is
reached even if an attempt succeeds: the hosts of its target are one server of Paddock's own on this machine.
"""

import json
import socket
from collections.abc import Callable

from paddock.confinement.sandbox.child.loopback import PROXY_ADDRESS

_UNROUTED = "192.0.2.1"
"""An address of documentation, RFC 5737."""
_WITHIN_S = 5.0
_ANSWER = b"HTTP/1.1 200"


def attempt_network(facts: dict[str, str | int]) -> bytes:
    """Return JSON: whether the granted host was reached, and for each attempt whether it was refused.

    `facts` has the granted `host`, one that is granted and leads to a local address (`rebinding`), one `other`, the
    `port` of all, and a `hello`: a TLS ClientHello (hex) with the name of the other host.
    """
    host, other, port = str(facts["host"]), str(facts["other"]), int(facts["port"])
    hello = bytes.fromhex(str(facts["hello"]))
    attempts: dict[str, Callable[[], bool]] = {
        "connect to another host": lambda: _tunnel(f"{other}:{port}"),
        "connect to an address": lambda: _tunnel(f"127.0.0.1:{port}"),
        "connect to an address in IPv6": lambda: _tunnel(f"[::ffff:127.0.0.1]:{port}"),
        "connect to an address as a number": lambda: _tunnel(f"2130706433:{port}"),
        "connect to another port": lambda: _tunnel(f"{host}:{port - 1}"),
        "connect to a name that leads to this machine": lambda: _tunnel(f"{facts['rebinding']}:{port}"),
        "name another host in TLS": lambda: _tunnel(f"{host}:{port}", hello),
        "name another host in a second header": lambda: _request(host, port, f"Host: {other}:{port}\r\n"),
        "connect without the proxy": lambda: _connect(socket.SOCK_STREAM),
        "ask a name server": lambda: _connect(socket.SOCK_DGRAM),
    }
    reached = _is_done(lambda: _tunnel(f"{host}:{port}", b"hello"))
    return json.dumps(
        {"reached": reached, "attempts": {name: not _is_done(attempt) for name, attempt in attempts.items()}}
    ).encode()


def _is_done(attempt: Callable[[], bool]) -> bool:
    try:
        return attempt()
    except OSError:
        return False


def _tunnel(authority: str, data: bytes = b"") -> bool:
    """Return whether a tunnel opens and, with `data`, the server answers to it."""
    with _call_proxy() as connection:
        connection.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        if not connection.recv(4096).startswith(_ANSWER):
            return False
        connection.sendall(data)
        return not data or connection.recv(1) == _ANSWER[:1]


def _request(host: str, port: int, header: str) -> bool:
    with _call_proxy() as connection:
        first = f"GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\n"
        connection.sendall(f"{first}{header}\r\n".encode())
        return connection.recv(4096).startswith(_ANSWER)


def _call_proxy() -> socket.socket:
    """Return a connection to the proxy; `socket.create_connection` would load a codec from a file."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    connection.settimeout(_WITHIN_S)
    try:
        connection.connect(PROXY_ADDRESS)
    except OSError:
        connection.close()
        raise
    return connection


def _connect(kind: int) -> bool:
    with socket.socket(socket.AF_INET, kind) as connection:
        connection.settimeout(_WITHIN_S)
        connection.connect((_UNROUTED, 53))
        return True
