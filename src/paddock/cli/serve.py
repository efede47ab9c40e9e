"""`paddock serve`: Paddock for other programs."""

import asyncio
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.cli import options, restore_garbage_collection, tokens
from paddock.cli.help import Group, render_examples
from paddock.cli.signals import cancel_on_signals
from paddock.cli.table import warn
from paddock.model.errors import EngineError
from paddock.settings.loader import TOKEN_VARIABLE, load

if TYPE_CHECKING:
    from paddock.javascript.launch import Launcher
    from paddock.mcp_server.http.endpoint import Endpoint
    from paddock.mcp_server.service import SettingsOf, ToolNames
    from paddock.settings.schema import Settings

LEVELS = ("error", "warning", "info", "debug")
_OLD_TOOL_NAMES = {"native": "default", "seed": "compat"}


class _ToolNames(click.Choice[str]):
    """Accepts deprecated spellings of its choices, too."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(_OLD_TOOL_NAMES.get(value, value), param, ctx)


@click.group(
    "serve",
    cls=Group,
    epilog=render_examples(
        "paddock serve mcp", "paddock serve mcp --http 127.0.0.1:8700", "paddock serve token new alice"
    ),
)
def command() -> None:
    """Serve agents and other programs."""


command.add_command(tokens.command)


@command.command(
    "mcp",
    epilog=render_examples(
        "paddock serve mcp",
        "paddock serve mcp --workspace ~/project",
        "paddock serve mcp --http 127.0.0.1:8700 --token-file ~/.config/paddock/token",
    ),
)
@click.option(
    "--http",
    "address",
    metavar="HOST:PORT",
    help="Serve streamable HTTP at this address instead. A port alone means loopback.",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"File of the bearer token for HTTP, created if missing. Default: {TOKEN_VARIABLE}, or a random one, printed.",
)
@click.option(
    "--allowed-host",
    "hosts",
    metavar="NAME[:PORT]",
    multiple=True,
    help="Further host name that HTTP requests may use, such as that of a proxy.",
)
@click.option(
    "--tool-names",
    type=_ToolNames(["default", "compat"]),
    help="Names that are listed: Paddock's own, or mcp_execute and its siblings. Both are understood.",
)
@click.option("--names", "old_tool_names", type=_ToolNames(["default", "compat"]), hidden=True)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    help="Minimum level of log lines. Default: the setting log.level.",
)
@options.workspace
@options.settings
def mcp(
    address: str | None,
    token_file: Path | None,
    hosts: tuple[str, ...],
    workspace: Path,
    flags: dict[str, str],
    *,
    tool_names: "ToolNames | None",
    old_tool_names: "ToolNames | None",
    log_level: str | None,
) -> None:
    """Serve MCP over standard input and output until the client closes its end, or over HTTP until stopped."""
    from paddock.telemetry import logs

    def settings_of(place: Path) -> "Settings":
        return load(place, flags=flags).settings

    settings = settings_of(workspace)
    logs.start_logging(settings.log, log_level or settings.log.level)
    if address is None and (token_file or hosts):
        raise click.UsageError("--token-file and --allowed-host require --http.")
    endpoint = None if address is None else _open_endpoint(address, token_file, hosts)
    from paddock.javascript.launch import Launcher

    launcher = Launcher()
    names = tool_names or old_tool_names or "default"
    try:
        with suppress(EngineError):  # the first program will try again and report the error
            launcher.prestart_fork_server("guest")
            launcher.prestart_parse_worker()  # they start while the protocol's library is imported
        asyncio.run(_serve_mcp(settings, settings_of, workspace, names, launcher=launcher, endpoint=endpoint))
    finally:
        launcher.close()


def _open_endpoint(address: str, token_file: Path | None, hosts: tuple[str, ...]) -> "Endpoint":
    from paddock.mcp_server.http.endpoint import check_token, open_endpoint, read_token

    made_up = token_file is None and TOKEN_VARIABLE not in os.environ
    if token_file is not None:
        token = read_token(token_file)
    else:
        token = check_token(os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(32), TOKEN_VARIABLE)
    endpoint = open_endpoint(address, token, hosts)
    if made_up:
        click.echo(f"token: {token}", err=True)
    click.echo(f"listening on {endpoint.url}", err=True)
    return endpoint


async def _serve_mcp(
    settings: "Settings",
    settings_of: "SettingsOf",
    workspace: Path,
    tool_names: "ToolNames",
    *,
    launcher: "Launcher",
    endpoint: "Endpoint | None",
) -> None:
    from paddock.app.session import open_session
    from paddock.mcp_server import service  # importing the protocol's library takes 0.8 s

    stop = asyncio.Event()
    with cancel_on_signals(stop):
        compatible = tool_names == "compat"
        async with open_session(settings, workspace, launcher=launcher, compatible=compatible) as session:
            served = service.Service(session, settings, workspace, tool_names, settings_of)
            restore_garbage_collection()
            await (served.serve_stdio(stop) if endpoint is None else served.serve_http(endpoint, stop))
            for text in session.warnings:
                warn(text)
