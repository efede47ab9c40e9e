"""Serve an application over HTTP with uvicorn, without its log lines about clients."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from math import ceil

import uvicorn
from starlette.requests import ClientDisconnect

from paddock.surfaces.http_server.asgi import App
from paddock.surfaces.http_server.endpoint import Endpoint
from paddock.surfaces.http_server.idle_connections import IdleConnections, TimedConnection

_MUTED_LOG_LINES = {
    "uvicorn.error": ("Cancel ", "Invalid HTTP request", "Unsupported upgrade", "No supported WebSocket"),
    "mcp.shared.jsonrpc_dispatcher": ("shutdown error response ",),
    "mcp.server.streamable_http": (),
}
"""By logger: the beginnings of lines that are not logged. They report cancelled requests and disconnected clients.

The libraries give their lines neither a code nor a type that would tell them apart.
"""


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
    ended = isinstance(error, asyncio.CancelledError | ClientDisconnect)
    return not ended and not record.getMessage().startswith(muted)


class _Http(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to the command."""
        yield
