"""MCP over streamable HTTP, for clients that have the token and use one of the server's names.

`http_server` checks both before a body is read. Therefore a web page in a browser cannot reach a server on loopback
(DNS rebinding).
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.transport_security import RequestBodyLimitMiddleware, TransportSecuritySettings

from paddock.surfaces.http_server.asgi import CLOSE_HEADER, App, Receive, Scope, Send, send_text
from paddock.surfaces.http_server.endpoint import MCP_PATH, Endpoint
from paddock.surfaces.http_server.entry import HttpEntry, OneToken, refuse
from paddock.surfaces.http_server.idle_connections import IdleConnections
from paddock.surfaces.http_server.problems import MEDIA_TYPE, UNAVAILABLE, Problem
from paddock.surfaces.http_server.readiness import Readiness
from paddock.surfaces.http_server.serving import serve_application
from paddock.surfaces.mcp_server.http.inbound import AllDigits, Inbound
from paddock.surfaces.mcp_server.http.resumption import RETRY_MS, CurrentSessionStore, ResumableSessions
from paddock.surfaces.mcp_server.http.sessions import AbandonedSessions, SessionLimit
from paddock.surfaces.mcp_server.requests import InFlightRequests
from paddock.surfaces.mcp_server.stdio import MAX_LINE_BYTES
from paddock.surfaces.tenants.refusals import Refusals

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

METRICS_PATH = "/metrics"
_LIVENESS_PATH = "/livez"
PROBE_PATHS = frozenset({_LIVENESS_PATH, "/readyz", "/health"})
MAX_SESSIONS = 64
"""Maximum number of sessions of 2025-11-25. Beyond it, the longest idle session is ended; without an idle one the
answer is 503.
"""
MAX_CONNECTIONS = 256

Metrics = Callable[[], Awaitable[bytes]]


class Probes:
    """An ASGI application that answers health checks for load balancers and kubelets, and passes everything else on.

        /livez            200 as long as the server answers
        /readyz, /health  what `Readiness` describes: 200, or a problem with 503

    They need no token. `Host` is not checked here, because a kubelet uses the
    address of its pod. By DNS rebinding a web page could learn only that a server listens, which the error for any
    other path reveals, too.
    """

    def __init__(self, app: App, describe: Callable[[], str]) -> None:
        """`describe` returns the text of `/readyz`, or raises Problem."""
        self._app = app
        self._describe = describe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        path = scope["path"] if scope["type"] == "http" else None
        if path not in PROBE_PATHS:
            await self._app(scope, receive, send)
        elif scope["method"] not in ("GET", "HEAD"):
            await send_text(send, 405, b"Probes are read with GET.\n", (b"allow", b"GET, HEAD"), CLOSE_HEADER)
        else:
            headers = (b"cache-control", b"no-store"), CLOSE_HEADER
            try:
                text = "ok\n" if path == _LIVENESS_PATH else self._describe()
            except Problem as problem:
                kind, document = MEDIA_TYPE.encode(), problem.render()
                await send_text(send, problem.kind.status, document, *headers, kind=kind)
            else:
                await send_text(send, 200, text.encode(), *headers)


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
        event_store=CurrentSessionStore(),
        retry_interval=RETRY_MS,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=False
        ),  # HttpEntry protects
    )
    places = SessionLimit(ResumableSessions(AllDigits(library)), MAX_SESSIONS)
    inbound = Inbound(AbandonedSessions(places), requests, retry_s)
    return RequestBodyLimitMiddleware(inbound, MAX_LINE_BYTES)


@asynccontextmanager
async def http_service(
    app: App,
    endpoint: Endpoint,
    readiness: Readiness,
    refusals: Refusals,
    metrics: Metrics | None = None,
) -> AsyncGenerator[asyncio.Task[None]]:
    """Serve an application at an endpoint, and `metrics` if given; yields the serving task. Notes `refusals`.

    No request is answered while the clock is wrong. Leaving the context ends all work in order.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if text := readiness.explain_wrong_clock():
            raise refuse(refusals, UNAVAILABLE, text)
        await given(scope, receive, send)

    given, app = app, answer
    if metrics is not None:
        app = MetricsEndpoint(app, metrics)
    entry = HttpEntry(
        app,
        OneToken(endpoint.token, refusals),
        endpoint.names,
        public=Probes(app, readiness.describe),
        public_paths=PROBE_PATHS,
    )
    async with serve_application(entry, endpoint, IdleConnections(), MAX_CONNECTIONS) as serving:
        yield serving
