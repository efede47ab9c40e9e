"""`paddock servers`: the upstream MCP servers of a workspace: list, call, confine, enable and disable them.

`servers_tools` has the commands that find tools and review their changes, `servers_resources` those that read
resources and prompts, `servers_login` those that log in.
"""

import asyncio
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from paddock.engines.servers.config import ServersConfig, StdioServer
from paddock.engines.servers.confinement import Confinement
from paddock.engines.servers.result import ToolInfo, has_hidden
from paddock.gate.server_facts import list_servers
from paddock.model.base import Json, count
from paddock.model.errors import ServerError, UnknownServer
from paddock.model.invisible import spell_invisible, spell_invisible_in_json
from paddock.model.numbers import dumps
from paddock.model.request import ExecutionRequest, ServerCall
from paddock.policy.settings.loader import load
from paddock.surfaces.cli import completions, options, servers_login, servers_resources, servers_tools
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.folding import print_note
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.opening import find_actor, open_for_command
from paddock.surfaces.cli.run_request import execute_and_exit
from paddock.surfaces.cli.signals import run_until_signal
from paddock.surfaces.cli.table import print_json, print_table, print_text, warn
from paddock.surfaces.cli.variables import read_input

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.engines.servers.catalog.provisioning.service import ProvisionChange
    from paddock.gate.confinement_proposal import Observation

_EXPLANATION = (
    "A server runs as you, unless its entry confines it. A member like this confines it to what it names. With "
    "--suggest, Paddock starts the server once and proposes the member."
)
_EXAMPLE = Confinement(read=(".",))
_NOT_OBSERVED = (
    "only the start of the server and the listing of its tools were observed: a call may connect to further hosts",
    "refused files are not observed; if a tool reports one, add its path to `read` or its directory to `write`",
)


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
    *(servers_tools.search, servers_tools.describe, servers_tools.diff, servers_tools.approve),
    *(servers_resources.resources, servers_resources.prompts),
    *(servers_login.login, servers_login.logout),
):
    command.add_command(_command)


@command.command("list", epilog=render_examples("paddock servers list", "paddock servers list --json"))
@options.workspace
@options.settings
@options.as_json
def list_(workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """List the configured servers and logins. Starts none of them."""
    settings = load(workspace, flags=flags).settings
    facts: list[dict[str, Json]] = []

    async def collect() -> ServersConfig:
        async with open_for_command(settings, workspace) as opened:
            config = opened.servers.config
            _warn_about(config)
            for each in list_servers(opened.servers):
                shown = {"name": each.name, "transport": each.transport, "address": each.address}
                confined = None if each.confine is None else each.confine.as_json()
                facts.append({**shown, "login": each.login, "confine": confined})
        return config

    config = run_until_signal(collect())
    if as_json:
        print_json(facts)
        return
    rows = [
        (
            each["name"],
            each["transport"] if each["confine"] is None else f"{each['transport']}, confined",
            each["address"],
            each["login"],
        )
        for each in facts
    ]
    print_table(
        ("server", "transport", "command or address", "login"),
        rows,
        empty=servers_tools.explain_no_servers(config),
    )
    for name in sorted(config.disabled) if facts else ():
        click.echo(config.absent[name], err=True)


@command.command("tools", epilog=render_examples("paddock servers tools", "paddock servers tools git --json"))
@click.argument("server", required=False, shell_complete=completions.servers)
@options.workspace
@options.settings
@options.as_json
def tools(server: str | None, workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """List the tools of one server, or of all servers. Starts them."""
    settings = load(workspace, flags=flags).settings
    found: list[tuple[str, ToolInfo, list[str]]] = []  # server, tool, and notes for a person who will call it
    failures: list[str] = []

    async def collect() -> str:
        """Collect the tools, and why servers did not list theirs; return why there may be none."""
        async with open_for_command(settings, workspace) as opened:
            servers = opened.servers
            _warn_about(servers.config)
            names = [server] if server is not None else list(servers.config.servers)
            answers = await asyncio.gather(
                *(servers.list_tools(name) for name in names), return_exceptions=True
            )
        for name, answer in zip(names, answers, strict=True):
            match answer:
                case UnknownServer():
                    failures.append("\n  ".join(filter(None, (str(answer), answer.hint))))
                case ServerError():
                    failures.append(f"{name}: {answer}")
                case BaseException():
                    raise answer
                case _:
                    for tool in answer:
                        hidden = "invisible characters in its definition are spelled out"
                        unchecked = servers.explain_unchecked(name, tool.name)
                        notes = [hidden] if has_hidden(tool) else []
                        found.append((name, tool, notes + ([unchecked] if unchecked else [])))
        without = f"no tools are listed by {', '.join(names)}"
        return without if names else servers_tools.explain_no_servers(servers.config)

    empty = run_until_signal(collect())
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
            [
                (name, tool.name, spell_invisible(tool.description.strip().partition("\n")[0]))
                for name, tool, _ in found
            ],
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
        owner, _, name = server.partition("." if "." in server else "/")
        two_words = f" Server and tool are two words: paddock servers call {owner} {name}"
        raise click.UsageError(f"Missing argument 'TOOL'.{two_words if owner and name else ''}")
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


@command.command(
    "confine",
    epilog=render_examples(
        "paddock servers confine git",
        "paddock servers confine git --suggest",
        "paddock servers confine git --suggest --json",
    ),
)
@click.argument("server", shell_complete=completions.servers)
@click.option("--suggest", is_flag=True, help="Start the server confined, and propose its grants.")
@options.workspace
@options.settings
@options.as_json
def confine(server: str, workspace: Path, flags: dict[str, str], *, suggest: bool, as_json: bool) -> None:
    """Show how a server is confined, or propose it. Changes nothing."""
    settings = load(workspace, flags=flags).settings
    if suggest:
        from paddock.gate.confinement_proposal import observe_server

        async def observe() -> "Observation":
            async with open_for_command(settings, workspace) as opened:
                found = _take_stdio(server, opened.servers.config)
                tier = await opened.processes.prove_tier()
                return await observe_server(opened.servers, found, workspace, tier)

        _print_suggestion(server, run_until_signal(observe()), as_json=as_json)
        return

    async def find() -> StdioServer:
        async with open_for_command(settings, workspace) as opened:
            return _take_stdio(server, opened.servers.config)

    confined = run_until_signal(find()).confine
    if as_json:
        print_json({"server": server, "confine": None if confined is None else confined.as_json()})
    elif confined is not None:
        print_text(f"{server} is confined: {confined.describe()}")
    else:
        print_text(f"{server} is not confined")
        print_note(f"{_EXPLANATION}\n{dumps(_make_member(_EXAMPLE))}")


@command.command(
    "enable",
    epilog=render_examples(
        "paddock servers enable @modelcontextprotocol/server-memory",
        "paddock servers enable @modelcontextprotocol/server-memory --as memory",
        "paddock servers enable memory",
    ),
)
@click.argument("name")
@click.option("--as", "own_name", default="", help="Name of the server. Default: the last part of NAME.")
@click.option("--yes", is_flag=True, help="Change the servers file without asking.")
@options.workspace
@options.settings
@options.as_json
def enable(
    name: str, own_name: str, workspace: Path, flags: dict[str, str], *, yes: bool, as_json: bool
) -> None:
    """Add a trusted server of the registry to the servers file, or enable a disabled one.

    Prints the command and the variables of the server and, at a terminal, asks before it changes the file. NAME may
    name the source: npm:NAME, pypi:NAME or remote:NAME. The server is installed and started at its first call. The
    previous file is kept as a backup.
    """
    settings = load(workspace, flags=flags).settings
    ask = not yes and sys.stdin.isatty() and sys.stderr.isatty()

    async def run() -> "ProvisionChange":
        async with open_for_command(settings, workspace) as opened:
            provisioning = opened.servers.provisioning
            for text in provisioning.trust_problems():
                warn(text)
            click.echo(_describe_entry(name, provisioning.find_entry(name)), err=True)
            approved = not ask or await asyncio.to_thread(click.confirm, "Enable it?", err=True)
            return provisioning.enable_server(name, own_name=own_name, approved=approved)

    _print_change(run_until_signal(run()), "enabled", as_json=as_json)


@command.command(
    "disable",
    epilog=render_examples("paddock servers disable memory", "paddock servers disable memory --json"),
)
@click.argument("name")
@options.workspace
@options.settings
@options.as_json
def disable(name: str, workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Disable a server of the servers file. `enable` enables it again."""
    settings = load(workspace, flags=flags).settings

    async def run() -> "ProvisionChange":
        async with open_for_command(settings, workspace) as opened:
            return opened.servers.provisioning.disable_server(name, approved=True)

    _print_change(run_until_signal(run()), "disabled", as_json=as_json)


@command.command(
    "refresh", epilog=render_examples("paddock servers refresh", "paddock servers refresh --json")
)
@options.workspace
@options.settings
@options.as_json
def refresh(workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Fetch the registry's list from `servers.registry_source`. No other command fetches it."""
    settings = load(workspace, flags=flags).settings

    async def run() -> int:
        async with open_for_command(settings, workspace) as opened:
            return await opened.servers.refresh_registry()

    offered = run_until_signal(run())
    if as_json:
        print_json({"offers": offered})
    else:
        click.echo(f"{count(offered, 'server')} can be enabled")


def _warn_about(config: ServersConfig) -> None:
    for text in config.warnings:
        warn(text)


def _make_member(confined: Confinement) -> dict[str, Json]:
    return {"paddock": {"confine": confined.as_json()}}


def _print_suggestion(server: str, observed: "Observation", *, as_json: bool) -> None:
    notes = [*observed.notes, *_NOT_OBSERVED]
    if as_json:
        print_json(
            {
                "server": server,
                "error": observed.error or None,
                "tools": list(observed.tools),
                "refused": [
                    {"host": each.host, "port": each.port, "reason": each.reason} for each in observed.refused
                ],
                "notes": list(notes),
                "entry": _make_member(observed.proposal),
            }
        )
    else:
        print_text(dumps(_make_member(observed.proposal), indent=2))
        for each in observed.refused:
            print_note(f"refused: {each.host}:{each.port}")
        if not observed.error:
            print_note(f"{server} listed {len(observed.tools)} tools")
        for note in notes:
            print_note(f"note: {note}")
    if observed.error:
        raise CommandFailure(f"{server} does not work with this member yet: {observed.error}")


def _take_stdio(name: str, config: ServersConfig) -> StdioServer:
    _warn_about(config)
    found = config.servers.get(name)
    if found is None:
        unknown = UnknownServer(name, config.servers, config.absent)
        raise CommandFailure("\n  ".join(filter(None, (str(unknown), unknown.hint))))
    if not isinstance(found, StdioServer):
        raise CommandFailure(
            f"{name} is reached by its address; only a server with a `command` can be confined"
        )
    return found


def _describe_entry(name: str, entry: "Mapping[str, Json]") -> str:
    """Return the command or address of a servers-file entry, and the names of its variables."""
    words, variables = entry.get("args"), entry.get("env")
    arguments = cast("list[Json]", words) if isinstance(words, list) else []
    names = ", ".join(sorted(cast("dict[str, Json]", variables))) if isinstance(variables, dict) else ""
    command = shlex.join(str(word) for word in (entry.get("command"), *arguments) if word is not None)
    reaches = f"command: {command}" if command else f"address: {entry.get('url')}"
    return f"{name}\n  {reaches}\n  variables: {names or 'none'}"


def _print_change(change: "ProvisionChange", done: str, *, as_json: bool) -> None:
    backup = None if change.backup is None else str(change.backup)
    if as_json:
        print_json(
            {"name": change.name, "file": str(change.file), "entry": dict(change.entry), "backup": backup}
        )
        return
    click.echo(f"{change.name} is {done} in {change.file}")
    if backup is not None:
        click.echo(f"backup: {backup}", err=True)
