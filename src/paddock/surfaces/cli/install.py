"""`paddock install`: enters Paddock into the configuration of an MCP client, or takes it out."""

import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from paddock.model.errors import ConfigurationError
from paddock.model.limits import OWN_SERVERS_FILE, SHARED_SERVERS_FILE
from paddock.surfaces.cli import options
from paddock.surfaces.cli.failure import Failure
from paddock.surfaces.cli.folding import print_note
from paddock.surfaces.cli.help import examples
from paddock.surfaces.cli.table import print_json, print_table, warn
from paddock.surfaces.clients.entry import (
    Command,
    build_docker_command,
    build_entry,
    build_native_command,
    find_workspace,
    is_absolute_elsewhere,
)
from paddock.surfaces.clients.files import Draft, read_draft
from paddock.surfaces.clients.servers import draft_move, list_shared
from paddock.surfaces.clients.table import CLIENTS, Client, Scope

NAME = "paddock"
ANY = "mcp-json"
"""Stands for every client that the table does not have."""
_HELP_COLUMNS = 70
"""Width of the list of clients on the help page."""


class _Wish(NamedTuple):
    """What a command line asks for."""

    client: str
    scope: Scope
    workspace: Path
    """The workspace on this machine; for a container, the current directory."""
    served: str
    """The workspace that the entry names."""
    name: str
    docker: str
    replace: bool

    @property
    def about(self) -> Client:
        return CLIENTS[self.client]

    @property
    def path(self) -> tuple[str, ...]:
        return (*self.about.key, self.name)

    def entry(self) -> dict[str, Any]:
        """Return the entry to be set."""
        return build_entry(self.about.shape, self.command())

    def command(self) -> Command:
        """Return the command that the entry starts."""
        if self.docker:
            return build_docker_command(self.docker, self.served)
        return build_native_command(self.workspace)


def _check_name(_context: click.Context, parameter: click.Parameter, name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise click.BadParameter("use letters, digits, `_` and `-`", param=parameter)
    return name


@click.command(
    "install",
    epilog=examples(
        "paddock install claude-code",
        "paddock install cursor --dry-run",
        "paddock install codex --scope user --workspace ~/project",
        "paddock install vscode --remove",
        "paddock install --list",
        "paddock install mcp-json --docker paddock --workspace /home/ada/project",
    ),
)
@click.argument("client", type=click.Choice([*CLIENTS, ANY]), required=False, metavar="CLIENT")
@click.option(
    "--scope",
    type=click.Choice(["project", "user"]),
    help="Write the client's file for the project, the default where it has one, or the user's file.",
)
@click.option(
    "--workspace",
    "-w",
    "workspace",
    default=".",
    metavar="DIRECTORY",
    help="Directory to serve; the current one by default.",
)
@click.option("--name", default=NAME, callback=_check_name, help="Name of the entry.")
@click.option(
    "--docker",
    metavar="IMAGE",
    default="",
    help="Start Paddock in a container of this image, as on macOS and Windows.",
)
@click.option("--replace", is_flag=True, help="Change an entry that serves another workspace.")
@click.option("--remove", is_flag=True, help="Take Paddock out again.")
@click.option(
    "--move-servers",
    is_flag=True,
    help=f"Move the servers of {SHARED_SERVERS_FILE} to {OWN_SERVERS_FILE}, so that programs alone reach them.",
)
@click.option(
    "--dry-run", "--print", "dry_run", is_flag=True, help="Show what would change, and change nothing."
)
@click.option(
    "--list", "show_list", is_flag=True, help="List the clients, which are installed and which have Paddock."
)
@options.as_json
def command(
    client: str | None,
    scope: Scope | None,
    workspace: str,
    name: str,
    docker: str,
    *,
    replace: bool,
    remove: bool,
    move_servers: bool,
    dry_run: bool,
    show_list: bool,
    as_json: bool,
) -> None:
    """Enter Paddock into the configuration of an MCP client, as a server for one workspace.

    Shows the difference, keeps the file that was there as FILE.backup, and changes nothing when nothing is to be
    changed. Comments and formatting of the file stay, and so do `env` and other keys of an entry that is there.
    `mcp-json` prints the configuration for any other client.

    {clients}
    """
    folder = _find_folder(workspace, docker)
    if show_list:
        _print_clients(folder, name, as_json=as_json)
        return
    if client is None:
        raise click.UsageError("Missing argument 'CLIENT'. `paddock install --list` lists them.")
    served = workspace if docker and is_absolute_elsewhere(workspace) else str(folder)
    if client == ANY:
        built = build_docker_command(docker, served) if docker else build_native_command(folder)
        _print_entry({name: build_entry("plain", built)})
        return
    scopes = CLIENTS[client].scopes
    if scope is not None and scope not in scopes:
        raise click.UsageError(f"{CLIENTS[client].title} has no file for a project; leave --scope out.")
    wish = _Wish(client, scope or scopes[0], folder, served, name, docker, replace)
    main = _draft(wish, remove=remove)
    move = _Move() if remove else _offer_move(wish, main, asked=move_servers, dry_run=dry_run)
    _finish(wish, main, move, dry_run=dry_run, as_json=as_json)


def _list_clients() -> str:
    """Return the names of the clients for the help page, which would break them at their hyphens."""
    names = ", ".join((*CLIENTS, ANY))
    lines = textwrap.wrap(names, _HELP_COLUMNS, break_on_hyphens=False)
    return "\n    ".join(["\b", "CLIENT is one of:", *(f"  {line}" for line in lines)])


assert command.help is not None
command.help = command.help.replace("{clients}", _list_clients())


def _find_folder(workspace: str, docker: str) -> Path:
    """Return the workspace on this machine. A container's is named as the machine of its client names it."""
    if docker and is_absolute_elsewhere(workspace) and not Path(workspace).is_dir():
        return Path().absolute()
    context = click.get_current_context()
    parameter = next(each for each in context.command.params if each.name == "workspace")
    return options.directory.convert(workspace, parameter, context)


def _draft(wish: _Wish, *, remove: bool) -> Draft:
    """Return the change of the client's file. Raises ConfigurationError, and Failure for one of another workspace."""
    inside = wish.workspace if wish.scope == "project" else None
    draft = read_draft(wish.about.locate(wish.scope, wish.workspace), inside)
    serves = find_workspace(draft.entries(wish.about.key).get(wish.name))
    if wish.scope == "user" and serves not in ("", wish.served) and not (remove or wish.replace):
        raise Failure(
            f"{draft.file}: `{wish.name}` serves {serves}. Nothing was changed.\n"
            f"To serve {wish.served} instead, run the command again with --replace; to have both, give this one a "
            "name with --name."
        )
    draft.edit(wish.path, None if remove else wish.entry())
    return draft


class _Move(NamedTuple):
    """Servers that move to the file that Paddock alone reads."""

    names: Sequence[str] = ()
    to: Draft | None = None
    out_of: Draft | None = None


def _offer_move(wish: _Wish, main: Draft, *, asked: bool, dry_run: bool) -> _Move:
    """Return what moves servers out of a file that the client loads itself; ask a person at a terminal."""
    if not (asked or wish.about.loads_mcp_json):
        return _Move()
    from paddock.configuration import load  # noqa: PLC0415 - only this asks for settings

    elsewhere = load(wish.workspace).settings.servers.config
    if elsewhere is not None:
        if asked:
            raise Failure(
                f"servers.config names {elsewhere}, so Paddock does not read {SHARED_SERVERS_FILE} here."
            )
        return _Move()
    file = wish.workspace / SHARED_SERVERS_FILE
    shared = main if main.file == file else read_draft(file, wish.workspace)
    names = list_shared(shared)
    if not names or not (asked or _confirm_move(wish, file, names, dry_run=dry_run)):
        return _Move()
    own = read_draft(wish.workspace / OWN_SERVERS_FILE, wish.workspace)
    moved, kept = draft_move(names, shared, own)
    for name in kept:
        warn(f"{name} stays in {file}: {own.file} has another server of that name")
    return _Move(moved, own, shared)


def _confirm_move(wish: _Wish, file: Path, names: Sequence[str], *, dry_run: bool) -> bool:
    warn(
        f"{wish.about.title} starts the servers of {file} itself, so its agent calls them past Paddock as well: "
        f"{', '.join(names)}. To move them to {OWN_SERVERS_FILE}: paddock install {wish.client} --move-servers"
    )
    at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    return at_terminal and not dry_run and click.confirm("Move them now?", err=True)


def _finish(wish: _Wish, main: Draft, move: _Move, *, dry_run: bool, as_json: bool) -> None:
    """Write the drafts, unless it is a rehearsal, and print what became of them."""
    # The new file of the servers first: an interruption leaves them in both, and in none never.
    drafts = [each for each in dict.fromkeys((move.to, main, move.out_of)) if each is not None]
    backups = [] if dry_run else [backup for draft in drafts if (backup := draft.write())]
    difference = "\n".join(text for draft in drafts if (text := draft.difference()))
    if as_json:
        facts = {"file": str(main.file), "scope": wish.scope, "changed": bool(difference) and not dry_run}
        backup = None if main.backup is None else str(main.backup)
        print_json({**facts, "difference": difference, "backup": backup, "moved": list(move.names)})
        return
    click.echo(difference or f"{main.file}: nothing to change")
    for backup in backups:
        click.echo(f"what was there before: {backup}", err=True)
    added = (line for line in difference.splitlines() if line.startswith("+") and wish.served in line)
    if wish.scope == "project" and not dry_run and [*added]:
        print_note(
            f"{main.file} names paths of this machine: whoever works on the project elsewhere runs "
            f"`paddock install {wish.client}` there"
        )
    _point_to_other_scope(wish)


def _point_to_other_scope(wish: _Wish) -> None:
    """Say where else the client has an entry of that name: it decides which of the two counts."""
    for scope in wish.about.scopes:
        if scope == wish.scope:
            continue
        try:
            draft = read_draft(wish.about.locate(scope, wish.workspace), None)
            there = draft.entries(wish.about.key).get(wish.name)
        except ConfigurationError:
            return
        if there is not None and draft.file.exists():
            serves = find_workspace(there)
            print_note(
                f"{draft.file} has `{wish.name}`, too{f', serving {serves}' if serves else ''}; "
                f"to take it out: paddock install {wish.client} --scope {scope} --remove",
            )


def _print_entry(entries: Mapping[str, Any]) -> None:
    import json  # noqa: PLC0415 - only this prints a whole file

    click.echo(json.dumps({"mcpServers": entries}, indent=2, ensure_ascii=False))


def _print_clients(workspace: Path, name: str, *, as_json: bool) -> None:
    """Print every client: whether it is there, its files, and which workspace Paddock serves it."""
    rows: list[dict[str, Any]] = []
    for client, about in CLIENTS.items():
        files = {scope: about.locate(scope, workspace) for scope in about.scopes}
        served = {scope: _find_served(about, file, name) for scope, file in files.items()}
        rows.append(
            {
                "client": client,
                "title": about.title,
                "installed": about.is_installed(),
                "files": {scope: str(file) for scope, file in files.items()},
                "serves": {scope: where for scope, where in served.items() if where is not None},
            }
        )
    if as_json:
        print_json(rows)
        return
    print_table(
        ("client", "installed", "default file", "Paddock"),
        [
            (
                row["client"],
                "yes" if row["installed"] else "",
                next(iter(row["files"].values())),
                ", ".join(f"{scope}: {where or 'yes'}" for scope, where in row["serves"].items()),
            )
            for row in rows
        ],
    )


def _find_served(about: Client, file: Path, name: str) -> str | None:
    """Return the workspace that an entry serves; None where there is no entry, or no file that can be read."""
    try:
        there = read_draft(file, None).entries(about.key).get(name)
    except ConfigurationError:
        return None
    return None if there is None else find_workspace(there)
