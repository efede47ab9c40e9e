"""`paddock serve`: Paddock for other programs."""

import asyncio
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.model.errors import EngineError
from paddock.policy.settings.loader import TOKEN_VARIABLE, load
from paddock.surfaces.cli import options, restore_garbage_collection, tokens
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.signals import cancel_on_signals
from paddock.surfaces.cli.table import warn

if TYPE_CHECKING:
    from paddock.policy.settings.schema import Settings
    from paddock.surfaces.http_server.endpoint import Endpoint
    from paddock.surfaces.mcp_server.service import ToolNames

LEVELS = ("error", "warning", "info", "debug")
_OLD_TOOL_NAMES = {"native": "default", "seed": "compat"}

_add_allowed_hosts = click.option(
    "--allowed-host",
    "hosts",
    metavar="NAME[:PORT]",
    multiple=True,
    help="Further host name that HTTP requests may use, such as that of a proxy.",
)
_add_log_level = click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    help="Minimum level of log lines. Default: the setting log.level.",
)


class _ToolNames(click.Choice[str]):
    """Accepts deprecated spellings of its choices, too."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(_OLD_TOOL_NAMES.get(value, value), param, ctx)


@click.group(
    "serve",
    cls=CommandGroup,
    epilog=render_examples(
        "paddock serve mcp",
        "paddock serve mcp --http 127.0.0.1:8700",
        "paddock serve http --http 127.0.0.1:8700",
        "paddock serve token new alice",
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
@_add_allowed_hosts
@click.option(
    "--tool-names",
    type=_ToolNames(["default", "compat"]),
    help="Names that are listed: Paddock's own, or mcp_execute and its siblings. Both are understood.",
)
@click.option("--names", "old_tool_names", type=_ToolNames(["default", "compat"]), hidden=True)
@_add_log_level
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
    from paddock.record.telemetry import logs

    def settings_of(place: Path) -> "Settings":
        return load(place, flags=flags).settings

    settings = settings_of(workspace)
    logs.start_logging(settings.log, log_level or settings.log.level)
    if address is None and (token_file or hosts):
        raise click.UsageError("--token-file and --allowed-host require --http.")
    endpoint: Endpoint | None = None
    if address is not None:
        from paddock.surfaces.http_server.endpoint import open_endpoint

        token, made_up = _read_token(token_file)
        endpoint = open_endpoint(address, token, hosts)
        _announce(endpoint, token if made_up else None)
    from paddock.engines.javascript.launch import Launcher

    launcher = Launcher()
    names = tool_names or old_tool_names or "default"

    async def serve() -> None:
        from paddock.gate.cluster import open_cluster
        from paddock.gate.open_paddock import open_paddock
        from paddock.gate.questions import open_local_questions
        from paddock.surfaces.mcp_server import service  # importing the protocol's library takes 0.8 s

        stop, compatible = asyncio.Event(), names == "compat"
        with cancel_on_signals(stop):
            async with (
                open_cluster(settings, has_namesakes=endpoint is None, is_peer=False) as cluster,
                open_paddock(
                    settings, workspace, launcher=launcher, compatible=compatible, cluster=cluster
                ) as session,
            ):
                if cluster is not None and session.metrics is not None:
                    session.metrics.watch(cluster.read_metrics)
                questions = open_local_questions(settings, cluster)
                served = service.Service(
                    session, settings, workspace, names, settings_of, questions=questions
                )
                restore_garbage_collection()
                await (
                    served.serve_stdio(stop)
                    if endpoint is None
                    else served.serve_http(endpoint, stop, cluster)
                )
                for text in session.warnings:
                    warn(text)

    try:
        with suppress(EngineError):  # the first program will try again and report the error
            launcher.prestart_fork_server("guest")
            launcher.prestart_parse_worker()  # they start while the protocol's library is imported
        asyncio.run(serve())
    finally:
        launcher.close()


def _announce(endpoint: "Endpoint", made_up_token: str | None) -> None:
    """Print the address, and the token if it was made now, to standard error."""
    if made_up_token is not None:
        click.echo(f"token: {made_up_token}", err=True)
    click.echo(f"listening on {endpoint.url}", err=True)


def _read_token(token_file: Path | None) -> tuple[str, bool]:
    """Return the token of a server, and whether it was made now."""
    from paddock.surfaces.http_server.endpoint import check_token, read_token

    if token_file is not None:
        return read_token(token_file), False
    made_up = TOKEN_VARIABLE not in os.environ
    return check_token(os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(32), TOKEN_VARIABLE), made_up


@command.command(
    "http",
    epilog=render_examples(
        "paddock serve http",
        "paddock serve http --http 127.0.0.1:8700 --token-file ~/.config/paddock/token",
        "paddock serve http --http 0.0.0.0:8700 --behind-proxy --allowed-host paddock.example.com",
    ),
)
@click.option(
    "--http",
    "address",
    metavar="HOST:PORT",
    default="127.0.0.1:8700",
    show_default=True,
    help="Address to serve at. A port alone means loopback.",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"File of the owner's token, created if missing. Default: {TOKEN_VARIABLE}, or a random one, printed.",
)
@_add_allowed_hosts
@click.option(
    "--behind-proxy",
    is_flag=True,
    help="Allow an address outside of loopback without TLS: a proxy in front of it encrypts.",
)
@click.option(
    "--tls-cert",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of the certificate and its chain, in PEM.",
)
@click.option(
    "--tls-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of the key of the certificate, in PEM.",
)
@click.option("--ui", is_flag=True, help="Serve the pages of `paddock ui` beside the API.")
@_add_log_level
@options.workspace
@options.settings
def http(
    address: str,
    token_file: Path | None,
    hosts: tuple[str, ...],
    workspace: Path,
    flags: dict[str, str],
    *,
    behind_proxy: bool,
    tls_cert: Path | None,
    tls_key: Path | None,
    ui: bool,
    log_level: str | None,
) -> None:
    """Serve the HTTP API, and MCP at /mcp, until stopped. Needs the extra `http`.

    `paddock serve token new` makes tokens for other users, each with their own session. Executions that run when it
    is stopped may end within mcp.shutdown_grace_ms.
    """
    from paddock.record.telemetry import logs
    from paddock.surfaces.http_server.endpoint import TlsFiles, open_endpoint

    if (tls_cert is None) is not (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key are given together.")

    def settings_of(place: Path) -> "Settings":
        return load(place, flags=flags).settings

    merged = load(workspace, flags=flags)
    settings = merged.settings
    logs.start_logging(settings.log, log_level or settings.log.level)
    tls = TlsFiles(tls_cert, tls_key) if tls_cert and tls_key else None
    token, made_up = _read_token(token_file)
    endpoint = open_endpoint(address, "", hosts, path="", tls=tls)
    if not (endpoint.is_local or tls or behind_proxy):
        endpoint.listener.close()
        raise click.UsageError(
            f"--http {address}: other machines can reach this address, and tokens would cross the network unencrypted. "
            "Give --tls-cert and --tls-key; or --behind-proxy, if a proxy in front of it encrypts."
        )
    _announce(endpoint, token if made_up else None)
    from paddock.engines.javascript.launch import Launcher

    launcher = Launcher()

    async def serve() -> None:
        from paddock.gate.cluster import open_cluster
        from paddock.record.telemetry.instrument import open_metrics
        from paddock.surfaces.http_api.service import HttpService
        from paddock.surfaces.tenants import Tenants

        stop, metrics = asyncio.Event(), open_metrics(settings.telemetry)
        with cancel_on_signals(stop):
            async with (
                open_cluster(settings) as cluster,
                Tenants(
                    settings, workspace, launcher, token=token, metrics=metrics, cluster=cluster
                ) as tenants,
            ):
                served = HttpService(settings, workspace, tenants, settings_of, metrics, cluster=cluster)
                restore_garbage_collection()
                if not ui:
                    await served.serve(endpoint, stop)
                    return
                from paddock.surfaces.cli.ui import make_server_pages

                async with make_server_pages(
                    endpoint, tenants, merged, workspace, token, behind_proxy=behind_proxy
                ) as wrap:
                    await served.serve(endpoint, stop, wrap)

    try:
        with suppress(EngineError):  # as above
            launcher.prestart_fork_server("guest")
            launcher.prestart_parse_worker()
        asyncio.run(serve())
    finally:
        launcher.close()
