"""Serve the pages: alone for the owner of a state directory, or beside the API."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from paddock.gate.open_paddock import open_paddock
from paddock.surfaces.http_server.idle_connections import IdleConnections
from paddock.surfaces.http_server.serving import serve_application
from paddock.surfaces.tenants.refusals import Refusals
from paddock.surfaces.web.app import build_pages, is_page
from paddock.surfaces.web.entry import LOGIN_PATH, WebEntry
from paddock.surfaces.web.login import Logins
from paddock.surfaces.web.viewer import SURFACE, LocalViewers, Viewer, Viewers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.gate.questions import AnswerableQuestions
    from paddock.policy.settings.schema import Settings
    from paddock.surfaces.http_server.asgi import App, Receive, Scope, Send
    from paddock.surfaces.http_server.endpoint import Endpoint

MAX_CONNECTIONS = 256


def make_link(logins: Logins, url: str) -> str:
    """Return a link that logs the owner in at a server, once and for a minute. Raises ConfigurationError."""
    code = logins.at_port(urlsplit(url).port).make_code()
    return f"{url.rstrip('/')}{LOGIN_PATH}?code={quote(code)}"


def write_link_command(endpoint: "Endpoint") -> str:
    """Return the command that prints another link to a server, on its machine."""
    own: tuple[str, int] = endpoint.listener.getsockname()[:2]
    host, port = own
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - it connects there
    return f"paddock ui --link --http {f'[{host}]' if ':' in host else host}:{port}"


def make_entry(
    endpoint: "Endpoint", logins: Logins, viewers: Viewers, refusals: Refusals, *, behind_proxy: bool = False
) -> WebEntry:
    """Return the application of the pages at an endpoint. A proxy in front of it speaks TLS."""
    port = urlsplit(endpoint.url).port
    secure = endpoint.tls is not None or behind_proxy
    # Only a server over TLS can set a cookie with this prefix, and no other host of its domain (RFC 6265bis, 4.1.3.2).
    name = f"__Host-paddock_{port}" if secure else f"paddock_{port}"
    command = write_link_command(endpoint)
    return WebEntry(
        build_pages(command, takes_tokens=viewers.takes_tokens),
        endpoint.names,
        logins.at_port(port),
        viewers,
        refusals,
        cookie_name=name,
        is_secure=secure,
        link_command=command,
    )


def put_before(pages: WebEntry, api: "App") -> "App":
    """Return an application that answers with pages at their paths, and else with the API."""

    async def choose(scope: "Scope", receive: "Receive", send: "Send") -> None:
        app = pages if scope["type"] == "http" and is_page(scope["path"]) else api
        await app(scope, receive, send)

    return choose


async def serve_pages(
    settings: "Settings",
    workspace: Path,
    endpoint: "Endpoint",
    stop: asyncio.Event,
    *,
    questions: "AnswerableQuestions",
    owner: str,
    sources: "Mapping[str, str]",
) -> None:
    """Serve the pages of a state directory to its owner until `stop` is set. Raises LedgerError.

    `sources` are those of the settings, as in `Merged`.
    """
    async with open_paddock(settings, workspace) as opened:
        viewers = LocalViewers(Viewer(owner, "", settings, workspace, opened, questions, sources=sources))
        refusals = Refusals(opened.gate.audit, None, SURFACE)
        entry = make_entry(endpoint, Logins(settings.ui.directory), viewers, refusals)
        try:
            async with serve_application(entry, endpoint, IdleConnections(), MAX_CONNECTIONS) as serving:
                stopping = asyncio.create_task(stop.wait())
                await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
                stopping.cancel()
            serving.result()
        finally:
            refusals.close()
