"""MCP over streamable HTTP: for those who hold the token, under the names that the server was given.

Every request is judged before its body is read: first the bearer token, then `Host` and `Origin`, so that no web page
that a browser shows can reach a server on loopback (DNS rebinding).
"""

import asyncio
import hmac
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from paddock.surfaces.mcp.abandoned import AbandonedSessions, App, Receive, Scope, Send
from paddock.surfaces.mcp.bodies import CountedBodies
from paddock.surfaces.mcp.digits import AllDigits
from paddock.surfaces.mcp.door import PATH, Door
from paddock.surfaces.mcp.patience import PatientConnection, Strangers
from paddock.surfaces.mcp.places import SessionPlaces
from paddock.surfaces.mcp.stdio import LINE_LIMIT

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

METRICS = "/metrics"
SESSIONS = 64
"""Sessions of 2025-11-25. For a further one the one that is idle for longest is ended; none may be, then it is 503."""
CONNECTIONS = 256
_UNTOLD = {
    "uvicorn.error": ("Cancel ", "Invalid HTTP request", "Unsupported upgrade", "No supported WebSocket"),
    "mcp.shared.jsonrpc_dispatcher": ("shutdown error response ",),
    "mcp.server.streamable_http": (),
}
"""What is said by whom, and left out of the log; with it goes that a request was cancelled, or its client gone."""

_GONE = "ClientDisconnect"
"""What is raised in the library under that of the protocol, which we do not import, when a client is gone."""

Metrics = Callable[[], Awaitable[bytes]]


class TokenRequired:
    """An ASGI application that only requests with the token reach."""

    def __init__(self, app: App, token: str) -> None:
        self._app = app
        self._expected = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 401."""
        if scope["type"] == "lifespan" or self._has_token(scope):
            await _with_client(self._app, scope, receive, send)
            return
        text = b"This server wants its token: send the header `Authorization: Bearer TOKEN`.\n"
        await _answer(send, 401, text, (b"www-authenticate", b"Bearer"))

    def _has_token(self, scope: Scope) -> bool:
        given = _values(scope, b"authorization")
        kind, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        return kind.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._expected)


async def _with_client(app: App, scope: Scope, receive: Receive, send: Send) -> None:
    """Have a request answered, when the server ends too.

    That a client goes in the midst of it is no fault of ours, and not in the log.
    """
    gone = begun = False

    async def heard() -> MutableMapping[str, Any]:
        nonlocal gone
        message = await receive()
        gone = gone or message["type"] == "http.disconnect"
        return message

    async def noting(message: MutableMapping[str, Any]) -> None:
        nonlocal begun
        begun = True
        await send(message)

    try:
        await app(scope, heard, noting)
    except asyncio.CancelledError:
        if begun:
            raise
        await _answer(send, 503, b"This server is ending.\n")
    except Exception:
        if not gone:
            raise


async def _answer(send: Send, status: int, text: bytes, *headers: tuple[bytes, bytes]) -> None:
    """Answer with a text, and end the connection."""
    told = [*headers, (b"content-type", b"text/plain"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": text})


class Measured:
    """An ASGI application that answers `/metrics` itself, where it is asked for by one of `hosts` (`NAME:PORT`)."""

    def __init__(self, app: App, page: Metrics, hosts: list[str]) -> None:
        self._app = app
        self._page = page
        self._hosts = [[host.encode()] for host in hosts]
        self._origins = [[], *([f"http://{host}".encode()] for host in hosts)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        if scope["type"] != "http" or scope["path"] != METRICS:
            await self._app(scope, receive, send)
            return
        status, text = self._refusal(scope) or (200, await self._page())
        headers = [
            (b"content-type", b"text/plain; version=0.0.4; charset=utf-8"),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": text})

    def _refusal(self, scope: Scope) -> tuple[int, bytes] | None:
        """Return status and text of a refusal; None for a request that may be answered."""
        if _values(scope, b"host") not in self._hosts:
            return 421, b"This server is not reached under this name (Host); see `--allowed-host`.\n"
        if _values(scope, b"origin") not in self._origins:
            return 403, b"Metrics are not for the web pages of others (Origin).\n"
        return None if scope["method"] == "GET" else (405, b"Metrics are read with GET.\n")


def _values(scope: Scope, name: bytes) -> list[bytes]:
    """Return every value of a header."""
    return [value for each, value in scope.get("headers", ()) if each == name]


def application(server: "Server[Any]", hosts: list[str]) -> App:
    """Return what answers requests for these hosts (`NAME:PORT`), whoever asks."""
    return server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=LINE_LIMIT,
        max_sessions=SESSIONS,
        transport_security=TransportSecuritySettings(
            allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
        ),
    )


@asynccontextmanager
async def http_service(
    server: "Server[Any]", door: Door, metrics: Metrics | None = None
) -> AsyncGenerator[asyncio.Task[None]]:
    """Serve through a door, `metrics` too where they are given; gives the task that serves.

    Leaving the context ends all work in order.
    """
    port = door.listener.getsockname()[1]
    hosts = [f"{host}:{port}" for host in door.names]
    app: App = CountedBodies(SessionPlaces(AllDigits(application(server, hosts), LINE_LIMIT), SESSIONS))
    app = AbandonedSessions(app)
    if metrics is not None:
        app = Measured(app, metrics, hosts)
    config = uvicorn.Config(
        TokenRequired(app, door.token),  # pyright: ignore[reportArgumentType] - the same protocol under other names
        http=partial(PatientConnection, Strangers()),  # pyright: ignore[reportArgumentType] - it is called, no more
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=0,
    )
    # That what still runs is cancelled is how every service ends here, and no error; and nobody without the token may
    # fill the log.
    for name, texts in _UNTOLD.items():
        logging.getLogger(name).addFilter(partial(_is_told, texts))
    http = _Http(config)
    task = asyncio.create_task(http.serve(sockets=[door.listener]))
    try:
        yield task
    finally:
        http.should_exit = True
        await asyncio.wait({task})


def _is_told(untold: tuple[str, ...], record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info is not None else None
    ended = isinstance(error, asyncio.CancelledError) or type(error).__name__ == _GONE
    return not ended and not record.getMessage().startswith(untold)


class _Http(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to the command."""
        yield
