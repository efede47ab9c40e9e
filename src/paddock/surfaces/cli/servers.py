"""`paddock servers`: the upstream MCP servers of a workspace and their tools."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from paddock.engines.servers.config import HttpServer, Server, ServersConfig, StdioServer
from paddock.engines.servers.result import ToolInfo, has_hidden
from paddock.model.base import Json
from paddock.model.errors import ServerError, UnknownServer
from paddock.model.invisible import spell_invisible, spell_invisible_in_json
from paddock.model.request import ExecutionRequest, ServerCall
from paddock.model.urls import strip_credentials
from paddock.policy.settings.loader import load
from paddock.policy.settings.schema import Settings
from paddock.surfaces.cli import completions, confine, login, options, provision
from paddock.surfaces.cli import tools as tools_of_all
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.opening import find_actor, open_for_command
from paddock.surfaces.cli.run_request import execute_and_exit
from paddock.surfaces.cli.signals import run_until_signal
from paddock.surfaces.cli.table import print_json, print_table, warn
from paddock.surfaces.cli.variables import read_input

if TYPE_CHECKING:
    from paddock.gate.servers import ServerService


@click.group(
    "servers",
    cls=CommandGroup,
    epilog=render_examples(
        "paddock servers list",
        "paddock servers tools git",
        'paddock servers call git git_log --args \'{"repo_path": "."}\'',
    ),
)
def command() -> None:
    """Manage upstream MCP servers: list, search and call their tools, review changes, confine and enable servers."""


for _command in (
    *(tools_of_all.search, tools_of_all.describe, tools_of_all.diff, tools_of_all.approve),
    *(confine.confine, login.login, login.logout, provision.enable, provision.disable, provision.refresh),
):
    command.add_command(_command)


@command.command("list", epilog=render_examples("paddock servers list", "paddock servers list --json"))
@options.workspace
@options.settings
@options.as_json
def list_(workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """List the configured servers and logins. Starts none of them."""
    columns = ("name", "transport", "address", "login")
    servers, config = run_until_signal(_list_servers(load(workspace, flags=flags).settings, workspace))
    if as_json:
        grants = {name: _describe_confinement(config.servers[name]) for name, *_ in servers}
        rows = [dict(zip(columns, row, strict=True)) for row in servers]
        print_json([{**row, "confine": grants[row["name"]]} for row in rows])
        return
    empty = tools_of_all.explain_no_servers(config)
    shown = [
        (name, _describe_transport(config.servers[name], transport), *rest)
        for name, transport, *rest in servers
    ]
    print_table(("server", "transport", "command or address", "login"), shown, empty=empty)
    for name in sorted(config.disabled) if servers else ():
        click.echo(config.absent[name], err=True)


@command.command("tools", epilog=render_examples("paddock servers tools", "paddock servers tools git --json"))
@click.argument("server", required=False, shell_complete=completions.servers)
@options.workspace
@options.settings
@options.as_json
def tools(server: str | None, workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """List the tools of one server, or of all servers. Starts them."""
    settings = load(workspace, flags=flags).settings
    found, failures, empty = run_until_signal(_list_tools(settings, workspace, server))
    if as_json:
        print_json(
            [
                {
                    "server": name,
                    "tool": tool.name,
                    "description": spell_invisible(tool.description),
                    "input_schema": json.loads(
                        spell_invisible_in_json(json.dumps(tool.input_schema, ensure_ascii=False))
                    ),
                    "notes": notes,
                }
                for name, tool, notes in found
            ]
        )
    else:
        print_table(
            ("server", "tool", "description"),
            [(name, tool.name, spell_invisible(_first_line(tool.description))) for name, tool, _ in found],
            empty="" if failures else empty,
        )
        for name, tool, notes in found:
            for note in notes:
                warn(f"{name}.{tool.name}: {note}")
    if failures:
        raise CommandFailure("\n".join(failures))


@command.command(
    "call",
    epilog=render_examples(
        'paddock servers call time get_current_time \'{"timezone": "UTC"}\'',
        "paddock servers call git git_status --args @arguments.json --json",
    ),
)
@click.argument("server", shell_complete=completions.servers)
@click.argument("tool", metavar="TOOL", required=False)
@click.argument("given", metavar="[JSON|@FILE|-]", required=False)
@click.option("--args", "arguments", metavar="JSON|@FILE|-", help="Arguments as a JSON object.")
@options.workspace
@options.settings
@options.as_json
def call(
    *,
    server: str,
    tool: str | None,
    given: str | None,
    arguments: str | None,
    workspace: Path,
    flags: dict[str, str],
    as_json: bool,
) -> None:
    """Call one tool with a JSON object. Policy and the ledger apply, as for calls of a script."""
    if tool is None or tool.startswith(("{", "@")):
        raise click.UsageError(f"Missing argument 'TOOL'.{_as_two_words(server)}")
    if given is not None and arguments is not None:
        raise click.UsageError("The arguments are given twice: as JSON and with --args.")
    name, text = ("JSON", given) if arguments is None else ("--args", arguments)
    settings = load(workspace, flags=flags).settings
    values: object = {} if text is None else read_input(text, settings.limits.execute, "execute", name)
    if not isinstance(values, dict):
        raise click.BadParameter("must be a JSON object", param_hint=name)
    request = ExecutionRequest(
        actor=find_actor(),
        surface="cli",
        workspace=workspace,
        work=ServerCall(server=server, tool=tool, arguments=cast("dict[str, Any]", values)),
    )
    execute_and_exit(request, settings, as_json=as_json)


def _as_two_words(name: str) -> str:
    """Return how to write a single name that contains server and tool, such as `time.now`, as two."""
    server, _, tool = name.partition("." if "." in name else "/")
    return f" Server and tool are two words: paddock servers call {server} {tool}" if server and tool else ""


async def _list_servers(
    settings: Settings, workspace: Path
) -> tuple[list[tuple[str, str, str, str]], ServersConfig]:
    """Return name, transport, address and login of every server, and what the servers files say."""
    async with open_for_command(settings, workspace) as opened:
        config, logins = opened.servers.config, opened.servers.logins
        _warn_about(config)
        rows = [
            (
                name,
                *_describe_address(server),
                logins.find_state(server) if isinstance(server, HttpServer) else "",
            )
            for name, server in config.servers.items()
        ]
        return rows, config


async def _list_tools(
    settings: Settings, workspace: Path, only: str | None
) -> tuple[Sequence[tuple[str, ToolInfo, list[str]]], Sequence[str], str]:
    """Return the tools by server with notes on each, why servers did not list theirs, and why there are none."""
    async with open_for_command(settings, workspace) as opened:
        servers = opened.servers
        _warn_about(servers.config)
        names = [only] if only is not None else list(servers.config.servers)
        answers = await asyncio.gather(*(servers.list_tools(name) for name in names), return_exceptions=True)
    found: list[tuple[str, ToolInfo, list[str]]] = []
    failures: list[str] = []
    for name, answer in zip(names, answers, strict=True):
        match answer:
            case UnknownServer():
                failures.append("\n  ".join(filter(None, (str(answer), answer.hint))))
            case ServerError():
                failures.append(f"{name}: {answer}")
            case BaseException():
                raise answer
            case _:
                found += [(name, tool, _list_notes(servers, name, tool)) for tool in answer]
    without = f"no tools are listed by {', '.join(names)}"
    return found, failures, without if names else tools_of_all.explain_no_servers(servers.config)


def _list_notes(servers: "ServerService", server: str, tool: ToolInfo) -> list[str]:
    """Return notes on a tool for a person who will call it."""
    hidden = ["invisible characters in its definition are spelled out"] if has_hidden(tool) else []
    unchecked = servers.explain_unchecked(server, tool.name)
    return hidden + ([unchecked] if unchecked else [])


def _warn_about(config: ServersConfig) -> None:
    for text in config.warnings:
        warn(text)


def _describe_address(server: Server) -> tuple[str, str]:
    """Return transport and address of a server, without parts that may be secret: arguments, user, query."""
    match server:
        case StdioServer():
            return "stdio", server.secrets.hide(server.command)
        case HttpServer():
            return "http", server.secrets.hide(strip_credentials(server.url))


def _describe_transport(server: Server, transport: str) -> str:
    return transport if _describe_confinement(server) is None else f"{transport}, confined"


def _describe_confinement(server: Server) -> dict[str, Json] | None:
    """Return the grants of a confined server; None for one that is not confined."""
    confined = server.confine if isinstance(server, StdioServer) else None
    return None if confined is None else confined.as_json()


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
