"""`paddock ui`: a page in the browser that shows what runs, what waits for a person, and what happened."""

import asyncio
import errno
import socket
import webbrowser
from contextlib import asynccontextmanager
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.foundation.files import replace_file
from paddock.model.base import count
from paddock.model.errors import ConfigurationError
from paddock.policy.settings.loader import load
from paddock.surfaces.cli import options, restore_garbage_collection
from paddock.surfaces.cli.folding import print_note
from paddock.surfaces.cli.help import render_examples
from paddock.surfaces.cli.opening import find_actor
from paddock.surfaces.cli.signals import cancel_on_signals
from paddock.surfaces.cli.table import print_json

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from paddock.policy.settings.merge import Merged
    from paddock.policy.settings.schema import Settings
    from paddock.surfaces.http_server.asgi import App
    from paddock.surfaces.http_server.endpoint import Endpoint
    from paddock.surfaces.tenants import Tenants

ADDRESS = "127.0.0.1:8710"
_CONNECT_S = 5.0


@click.command(
    "ui",
    epilog=render_examples(
        "paddock ui",
        "paddock ui --open",
        "paddock ui --http 127.0.0.1:9000",
        "paddock ui --link",
        "paddock ui --revoke",
    ),
)
@click.option(
    "--http",
    "address",
    metavar="HOST:PORT",
    default=ADDRESS,
    show_default=True,
    help="Address to serve at. A port alone means loopback.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in your browser.")
@click.option("--link", "links", is_flag=True, help="Print a link to a page that is served already, and end.")
@click.option("--revoke", is_flag=True, help="End all logins to pages of this user, and end.")
@options.workspace
@options.settings
@options.as_json
def command(
    address: str,
    *,
    opens: bool,
    links: bool,
    revoke: bool,
    workspace: Path,
    flags: dict[str, str],
    as_json: bool,
) -> None:
    """Serve a page for your browser until stopped: runs, approvals, sessions, changes, servers, policy, record.

    The printed link logs you in. It can be used once, within a minute; `paddock ui --link` prints another one. A login
    holds for 12 hours. Only this machine can reach the page: `paddock serve http --ui` serves it to others.
    """
    from paddock.surfaces.web.login import Logins

    if revoke and (links or opens):
        raise click.UsageError("--revoke ends logins; leave --link and --open out.")
    merged = load(workspace, flags=flags)
    settings = merged.settings
    logins = Logins(settings.ui.directory)
    if revoke:
        ended = logins.revoke_all()
        if as_json:
            print_json({"ended": ended})
        else:
            click.echo(f"ended {count(ended, 'login')}")
        return
    from paddock.record.telemetry import logs
    from paddock.surfaces.http_server.endpoint import open_endpoint
    from paddock.surfaces.web.service import make_link, serve_pages

    if links:
        link = make_link(logins, _find_running(address))
        _print_link(link, settings, opens=opens, as_json=as_json)
        return
    logs.start_logging(settings.log, settings.log.level)
    try:
        endpoint = open_endpoint(address, "", (), path="")
    except ConfigurationError as problem:
        cause = problem.__cause__
        if not (isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE):
            raise
        raise ConfigurationError(
            f"{problem}. If the page is served there already, `paddock ui --link` prints a link to it."
        ) from None
    if not endpoint.is_local:
        endpoint.listener.close()
        raise click.UsageError(
            f"--http {address}: other machines can reach this address. Serve the page to them with "
            "`paddock serve http --ui`, which has tokens and TLS."
        )
    _print_link(make_link(logins, endpoint.url), settings, opens=opens, as_json=as_json)
    if not as_json:
        print_note("The link logs you in once, within a minute. Ctrl-C ends the page.")

    async def serve() -> None:
        from paddock.surfaces.cli.approve import open_questions

        stop = asyncio.Event()
        with cancel_on_signals(stop):
            async with open_questions(settings) as questions:
                restore_garbage_collection()
                await serve_pages(
                    settings,
                    workspace,
                    endpoint,
                    stop,
                    questions=questions,
                    owner=find_actor(),
                    sources=merged.sources,
                )

    asyncio.run(serve())


def _find_running(address: str) -> str:
    """Return the URL of the server at an address. Raises ConfigurationError if nothing listens there."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]") or "127.0.0.1", int(port)), timeout=_CONNECT_S).close()
    except (OSError, ValueError, OverflowError):
        raise ConfigurationError(
            f"--http {address}: nothing listens there. Start the page with `paddock ui`, or give the address of "
            "the server."
        ) from None
    return f"http://{host or '127.0.0.1'}:{port}"


def _print_link(link: str, settings: "Settings", *, opens: bool, as_json: bool) -> None:
    """Print a link to standard output, before the server runs: programs read it there."""
    if as_json:
        print_json({"url": link})
    else:
        click.echo(link)
    if opens:
        # Every user of this machine can read the command line of a browser, so it names a file that leads to the link.
        file = settings.ui.directory / "open.html"
        replace_file(
            file, f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(link)}">'.encode()
        )
        webbrowser.open(file.as_uri())


@asynccontextmanager
async def make_server_pages(
    endpoint: "Endpoint",
    tenants: "Tenants",
    merged: "Merged",
    workspace: Path,
    token: str,
    *,
    behind_proxy: bool,
) -> "AsyncGenerator[Callable[[App], App]]":
    """Print a link to the pages of a server; yield what puts them before its API."""
    from paddock.surfaces.cli.approve import open_questions
    from paddock.surfaces.web.login import Logins
    from paddock.surfaces.web.service import make_entry, make_link, put_before
    from paddock.surfaces.web.viewer import TenantViewers

    settings = merged.settings
    logins = Logins(settings.ui.directory)
    click.echo(make_link(logins, endpoint.url))
    async with open_questions(settings) as questions:
        viewers = TenantViewers(
            tenants,
            settings,
            workspace,
            owner_token=token,
            all_questions=questions,
            owner=find_actor(),
            sources=merged.sources,
        )
        pages = make_entry(endpoint, logins, viewers, tenants.refusals, behind_proxy=behind_proxy)
        yield partial(put_before, pages)
