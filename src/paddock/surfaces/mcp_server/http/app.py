"""MCP over streamable HTTP, for clients that have the token and use one of the server's names.

Each request is checked before its body is read: first the bearer token, then `Host` and `Origin`. Therefore a web page
in a browser cannot reach a server on loopback (DNS rebinding).
"""

import asyncio
import hmac
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.transport_security import RequestBodyLimitMiddleware, TransportSecuritySettings

from paddock.surfaces.mcp_server.exact_numbers import AllDigits
from paddock.surfaces.mcp_server.http.abandoned import AbandonedSessions, App, Receive, Scope, Send
from paddock.surfaces.mcp_server.http.answers import CLOSE_HEADER, header_values, send_text
from paddock.surfaces.mcp_server.http.endpoint import MCP_PATH, Endpoint
from paddock.surfaces.mcp_server.http.hosts import HostNames
from paddock.surfaces.mcp_server.http.idle_connections import IdleConnections, TimedConnection
from paddock.surfaces.mcp_server.http.inbound import Inbound
from paddock.surfaces.mcp_server.http.probes import Probes
from paddock.surfaces.mcp_server.http.session_limits import SessionLimit
from paddock.surfaces.mcp_server.requests import SERVER_ENDING, InFlightRequests
from paddock.surfaces.mcp_server.stdio import MAX_LINE_BYTES
from paddock.surfaces.tenants.refusals import Refusals

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

METRICS_PATH = "/metrics"
MAX_SESSIONS = 64
"""Maximum number of sessions of 2025-11-25. Beyond it, the longest idle session is ended; without an idle one the
answer is 503.
"""
MAX_CONNECTIONS = 256
_MUTED_LOG_LINES = {
    "uvicorn.error": ("Cancel ", "Invalid HTTP request", "Unsupported upgrade", "No supported WebSocket"),
    "mcp.shared.jsonrpc_dispatcher": ("shutdown error response ",),
    "mcp.server.streamable_http": (),
}
"""By logger: the beginnings of lines that are not logged. They report cancelled requests and disconnected clients."""

_CLIENT_DISCONNECT = "ClientDisconnect"
"""The exception of a library below the protocol's, which is not imported here, for a disconnected client."""

Metrics = Callable[[], Awaitable[bytes]]


class TokenRequired:
    """An ASGI application that passes on only requests with the token."""

    def __init__(self, app: App, token: str, refusals: Refusals) -> None:
        self._app = app
        self._refusals = refusals
        self._expected = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 401."""
        if scope["type"] == "lifespan" or self._has_token(scope):
            await _answer_client(self._app, scope, receive, send)
            return
        self._refusals.note("unauthorized")
        text = b"This server requires its token: send the header `Authorization: Bearer TOKEN`.\n"
        await send_text(send, 401, text, (b"www-authenticate", b"Bearer"), CLOSE_HEADER)

    def _has_token(self, scope: Scope) -> bool:
        given = header_values(scope, b"authorization")
        kind, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        return kind.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._expected)


async def _answer_client(app: App, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request, also while the server is ending.

    A client that disconnects during the answer is no error and is not logged.
    """
    ended = begun = False

    async def receive_and_note_disconnect() -> MutableMapping[str, Any]:
        nonlocal ended
        message = await receive()
        ended = ended or message["type"] == "http.disconnect"
        return message

    async def send_and_note_start(message: MutableMapping[str, Any]) -> None:
        nonlocal begun
        begun = True
        await send(message)

    try:
        await app(scope, receive_and_note_disconnect, send_and_note_start)
    except asyncio.CancelledError:
        if begun:
            raise
        await send_text(send, 503, f"{SERVER_ENDING}\n".encode(), (b"retry-after", b"1"), CLOSE_HEADER)
    except Exception:
        if not ended:
            raise


class KnownHosts:
    """An ASGI application that passes on only requests for one of this server's names, and from no foreign web page."""

    def __init__(self, app: App, names: HostNames, refusals: Refusals | None = None) -> None:
        self._app = app
        self._refusals = refusals
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 421 or 403."""
        hosts, origins = header_values(scope, b"host"), header_values(scope, b"origin")
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif len(hosts) != 1 or not self._names.allows_host(hosts[0].decode("latin-1")):
            self._note("wrong-host")
            text = b"This server does not answer to this name (Host); see `--allowed-host`.\n"
            await send_text(send, 421, text)
        elif origins and not (len(origins) == 1 and self._names.allows_origin(origins[0].decode("latin-1"))):
            self._note("foreign-origin")
            text = b"This server does not answer web pages of other servers (Origin); see `--allowed-host`.\n"
            await send_text(send, 403, text)
        else:
            await self._app(scope, receive, send)

    def _note(self, reason: str) -> None:
        if self._refusals is not None:
            self._refusals.note(reason)


class MetricsEndpoint:
    """An ASGI application that answers `/metrics` itself."""

    def __init__(self, app: App, page: Metrics) -> None:
        self._app = app
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        if scope["type"] != "http" or scope["path"] != METRICS_PATH:
            await self._app(scope, receive, send)
            return
        found = scope["method"] == "GET"
        status, text = (200, await self._page()) if found else (405, b"Metrics are read with GET.\n")
        headers = [
            (b"content-type", b"text/plain; version=0.0.4; charset=utf-8"),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": text})


def build_application(server: "Server[Any]", requests: InFlightRequests, retry_s: float = 1) -> App:
    """Return the application that answers MCP requests, without checks of token and names.

    While the server is ending, clients are asked to retry after `retry_s` seconds.
    """
    library = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        max_request_body_size=MAX_LINE_BYTES,
        max_sessions=MAX_SESSIONS,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=False
        ),  # KnownHosts protects
    )
    places = SessionLimit(AllDigits(library), MAX_SESSIONS)
    inbound = Inbound(AbandonedSessions(places), requests, retry_s)
    return RequestBodyLimitMiddleware(inbound, MAX_LINE_BYTES)


@asynccontextmanager
async def http_service(
    app: App,
    endpoint: Endpoint,
    requests: InFlightRequests,
    refusals: Refusals,
    metrics: Metrics | None = None,
) -> AsyncGenerator[asyncio.Task[None]]:
    """Serve an application at an endpoint, and `metrics` if given; yields the serving task. Notes `refusals`.

    Leaving the context ends all work in order.
    """
    if metrics is not None:
        app = MetricsEndpoint(app, metrics)
    app = TokenRequired(KnownHosts(app, endpoint.names, refusals), endpoint.token, refusals)
    probed = Probes(app, lambda: not requests.ending)
    async with serve_application(probed, endpoint, IdleConnections(), MAX_CONNECTIONS) as serving:
        yield serving


@asynccontextmanager
async def serve_application(
    app: App, endpoint: Endpoint, idle: IdleConnections, max_connections: int | None
) -> AsyncGenerator[asyncio.Task[None]]:
    """Serve an application, with no other checks than those of connections; yields the serving task.

    Beyond `max_connections`, answers are 503; None for an application that limits them itself.
    """
    config = uvicorn.Config(
        app,  # pyright: ignore[reportArgumentType] - the same protocol, other names
        http=partial(TimedConnection, idle),  # pyright: ignore[reportArgumentType] - it is called, no more
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        limit_concurrency=max_connections,
        timeout_graceful_shutdown=0,
        timeout_keep_alive=ceil(idle.keep_alive_s),
        ssl_certfile=None if endpoint.tls is None else endpoint.tls.certificate,
        ssl_keyfile=None if endpoint.tls is None else endpoint.tls.key,
    )
    # Cancelling the remaining requests is the normal end here, not an error. Clients without the token must not be able
    # to fill the log.
    for name, texts in _MUTED_LOG_LINES.items():
        logging.getLogger(name).addFilter(partial(_should_log, texts))
    http = _Http(config)
    task = asyncio.create_task(http.serve(sockets=[endpoint.listener]))
    try:
        yield task
    finally:
        http.should_exit = True
        await asyncio.wait({task})


def _should_log(muted: tuple[str, ...], record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info is not None else None
    ended = isinstance(error, asyncio.CancelledError) or type(error).__name__ == _CLIENT_DISCONNECT
    return not ended and not record.getMessage().startswith(muted)


class _Http(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to the command."""
        yield
