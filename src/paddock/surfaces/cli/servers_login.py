"""`paddock servers login|logout`: logins at upstream servers."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.policy.settings.loader import load
from paddock.surfaces.cli import options, vault
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.folding import print_note
from paddock.surfaces.cli.help import render_examples
from paddock.surfaces.cli.opening import open_for_command
from paddock.surfaces.cli.signals import run_until_signal
from paddock.surfaces.cli.table import print_json, warn

if TYPE_CHECKING:
    from paddock.engines.servers.auth.code_flow import AuthorizationPrompt
    from paddock.engines.servers.auth.tokens import Login
    from paddock.engines.servers.config import HttpServer
    from paddock.gate.servers import ServerService
    from paddock.model.base import Json


@click.command(
    "login",
    epilog=render_examples(
        "paddock servers login github",
        'paddock servers login github --scope "repo:write"',
        "paddock servers login github --no-browser --wait-ms 600000",
        "pass show reports | paddock servers login reports --json",
    ),
)
@click.argument("server")
@click.option(
    "--scope",
    default="",
    help="Request these scopes too. The error of a call names the scopes that it lacks.",
)
@click.option(
    "--browser/--no-browser", default=True, help="Open the address in a browser. Only at a terminal."
)
@click.option(
    "--wait-ms", type=click.IntRange(1000, 3_600_000), default=300_000, show_default=True, metavar="N"
)
@options.workspace
@options.settings
@options.as_json
def login(
    server: str,
    *,
    scope: str,
    browser: bool,
    wait_ms: int,
    workspace: Path,
    flags: dict[str, str],
    as_json: bool,
) -> None:
    """Log in to a server: show an address to open, wait for the answer, and store the tokens.

    Paddock stores the tokens in a part of the vault that no script can read, only for this server in this servers
    file, and renews them. With `grant` = `client_credentials` no address is opened; the command asks for the secret.
    """
    settings = load(workspace, flags=flags).settings
    from paddock.engines.servers.auth.client_config import MACHINE_GRANT, is_scope
    from paddock.engines.servers.auth.code_flow import (
        log_in,
        log_in_machine,
        save_login,
    )  # importing it takes most of a second

    if scope and not is_scope(scope):
        raise click.BadParameter("must be names separated by single spaces", param_hint="--scope")

    async def run() -> "Login":
        async with open_for_command(settings, workspace) as opened:
            entry = _find_http_server(opened.servers, server)
            keeper = opened.servers.logins.find_keeper(entry)
            if entry.oauth.grant != MACHINE_GRANT:
                visit = _AddressPrinter(browser=browser).visit
                return await log_in(entry, keeper, visit, scope=scope, wait_ms=wait_ms)
            if entry.oauth.client_secret or entry.oauth.private_key:
                return await log_in_machine(entry, entry.oauth.client_secret)
            secret = vault.ask_secret(f"Secret of the client {entry.oauth.client_id}")
            made = await log_in_machine(entry, secret)
            await save_login(keeper, made)
            return made

    made = run_until_signal(run())
    issuer = str(made.metadata.get("issuer", ""))
    if as_json:
        facts: dict[str, Json] = {"server": server, "issuer": issuer, "scope": made.scope}
        print_json({**facts, "renewable": bool(made.refresh_token)})
    else:
        click.echo(f"logged in to {server} at {issuer}")


@click.command(
    "logout", epilog=render_examples("paddock servers logout github", "paddock servers logout github --json")
)
@click.argument("server")
@options.workspace
@options.settings
@options.as_json
def logout(server: str, *, workspace: Path, flags: dict[str, str], as_json: bool) -> None:
    """Remove the login at a server, here and at its authorization server. Exit code: 1 if there was none."""
    settings = load(workspace, flags=flags).settings

    async def run() -> bool:
        async with open_for_command(settings, workspace) as opened:
            keeper = opened.servers.logins.find_keeper(_find_http_server(opened.servers, server))
            made = keeper.read_login()
            async with keeper.hold_lock():
                deleted = keeper.delete_login()
            if made is not None:
                from paddock.engines.servers.auth.code_flow import (
                    log_out,
                )  # importing it takes most of a second
                from paddock.engines.servers.auth.tokens import LoginFailed

                try:
                    await log_out(made)
                except LoginFailed as error:
                    warn(
                        "the login is removed here, but may still be valid at its authorization server: "
                        f"{error}"
                    )
            return deleted

    deleted = run_until_signal(run())
    if as_json:
        print_json({"server": server, "deleted": deleted})
    if not deleted:
        raise CommandFailure(f"there is no login at {server}; paddock servers list shows where there is one")


def _find_http_server(servers: "ServerService", name: str) -> "HttpServer":
    from paddock.engines.servers.config import HttpServer

    for text in servers.config.warnings:
        warn(text)
    server = servers.config.servers.get(name)
    if server is None:
        raise CommandFailure(f"there is no server {name}; paddock servers list shows the servers")
    if not isinstance(server, HttpServer):
        raise CommandFailure(
            f"{name} is a process of this machine; it takes its credentials from `env` of its entry"
        )
    if server.has_credentials:
        raise CommandFailure(
            f"{name} has its credentials in its entry; remove `Authorization` from `headers`, or the name from `url`, "
            "to log in"
        )
    return server


class _AddressPrinter:
    """Shows a person where to log in."""

    def __init__(self, *, browser: bool) -> None:
        self._browser = browser

    async def visit(self, visit: "AuthorizationPrompt") -> None:
        """Print the address; at a terminal, also open it."""
        if visit.before:
            warn(
                f"the server now names the authorization server {visit.issuer}; at the last login it was "
                f"{visit.before}; log in only if you know why"
            )
        text = f"Log in at {visit.issuer} by opening this address:\n\n  {visit.url}\n"
        print_note(text)
        if self._browser and sys.stderr.isatty() and sys.stdin.isatty():
            import webbrowser

            await asyncio.to_thread(webbrowser.open, visit.url)
