"""MCP over streamable HTTP: for those who hold the token, under the names that the server was given.

Every request is judged before its body is read: first the bearer token, then `Host` and `Origin`, so that no web page
that a browser shows can reach a server on loopback (DNS rebinding).
"""

import asyncio
import hmac
import ipaddress
import os
import secrets
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from paddock.model.errors import ConfigurationError
from paddock.surfaces.mcp.stdio import LINE_LIMIT

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

PATH = "/mcp"
SESSIONS = 64
CONNECTIONS = 256
_SHORTEST_TOKEN = 16

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_App = Callable[[_Scope, _Receive, _Send], Awaitable[None]]


@dataclass(frozen=True)
class Door:
    """Where a server is reached and by whom."""

    listener: socket.socket
    token: str
    names: tuple[str, ...] = ()
    """Host names under which the server may be asked for, besides those of its address."""


class TokenRequired:
    """An ASGI application that only requests with the token reach."""

    def __init__(self, app: _App, token: str) -> None:
        self._app = app
        self._expected = token.encode()

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Pass a request on, or answer 401."""
        if scope["type"] == "lifespan" or self._has_token(scope):
            await self._app(scope, receive, send)
            return
        text = b"This server wants its token: send the header `Authorization: Bearer TOKEN`.\n"
        headers = [
            (b"www-authenticate", b"Bearer"),
            (b"content-type", b"text/plain"),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": text})

    def _has_token(self, scope: _Scope) -> bool:
        given = [value for name, value in scope.get("headers", ()) if name == b"authorization"]
        kind, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        return kind.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._expected)


def listen(address: str) -> socket.socket:
    """Return a socket that listens on `HOST:PORT`, `[HOST]:PORT` or `PORT` of loopback; port 0 is any free one.

    Raises ConfigurationError.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not (port.isascii() and port.isdigit()):
        raise ConfigurationError(f"--http {address}: this is not HOST:PORT; for instance 127.0.0.1:8700")
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen()
    except (OSError, OverflowError) as problem:
        raise ConfigurationError(f"--http {address}: cannot listen there: {problem}") from None
    return listener


def read_token(file: Path) -> str:
    """Return the token in a file that nobody else can read; one that does not exist is written.

    Raises ConfigurationError.
    """
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:  # noqa: PTH123 - a descriptor
            new.write(secrets.token_urlsafe(32) + "\n")
    except FileExistsError:
        pass
    except OSError as problem:
        raise ConfigurationError(f"{file}: cannot write this token file: {problem.strerror}") from None
    try:
        if file.stat().st_mode & 0o077:
            raise ConfigurationError(f"{file}: others can read this token; run: chmod 600 {file}")
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigurationError(f"{file}: cannot read this token file: {problem}") from None
    return checked_token(token, str(file))


def checked_token(token: str, where: str) -> str:
    """Return a token that is worth the name. Raises ConfigurationError."""
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError(
            f"{where}: a token is at least {_SHORTEST_TOKEN} ASCII characters without spaces; "
            'make one with: python3 -c "import secrets; print(secrets.token_urlsafe(32))"'
        )
    return token


@asynccontextmanager
async def http_service(server: "Server[Any]", door: Door) -> AsyncGenerator[asyncio.Task[None]]:
    """Serve through a door; gives the task that serves. Leaving the context ends all work in order."""
    port = door.listener.getsockname()[1]
    hosts = [f"{host}:{port}" for host in (*_own_names(door.listener), *door.names)]
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=LINE_LIMIT,
        max_sessions=SESSIONS,
        transport_security=TransportSecuritySettings(
            allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
        ),
    )
    config = uvicorn.Config(
        TokenRequired(app, door.token),  # pyright: ignore[reportArgumentType] - the same protocol under other names
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=0,
    )
    http = _Http(config)
    task = asyncio.create_task(http.serve(sockets=[door.listener]))
    try:
        yield task
    finally:
        http.should_exit = True
        await asyncio.wait({task})


class _Http(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to the command."""
        yield


def _own_names(listener: socket.socket) -> list[str]:
    address = listener.getsockname()[0]
    names = [f"[{address}]" if ":" in address else address]
    return [*names, "localhost"] if ipaddress.ip_address(address).is_loopback else names
