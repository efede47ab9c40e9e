"""`paddock install`: add Paddock to an MCP client's configuration, or remove it."""

import json
import os
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import click

from paddock.model.errors import ConfigurationError
from paddock.model.limits import OWN_SERVERS_FILE, SHARED_SERVERS_FILE
from paddock.model.texts import find_nearest
from paddock.surfaces.cli import options
from paddock.surfaces.cli.clients.entry import (
    ServerCommand,
    build_docker_command,
    build_entry,
    build_native_command,
    find_kept,
    find_switch,
    find_workspace,
    is_absolute_elsewhere,
    keep_options,
    read_command,
    update_command,
)
from paddock.surfaces.cli.clients.files import (
    FileDraft,
    check_drafts,
    draft_move,
    list_shared,
    read_draft,
    write_drafts,
)
from paddock.surfaces.cli.clients.table import CLIENTS, McpClient, Scope
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.folding import print_note
from paddock.surfaces.cli.help import render_examples
from paddock.surfaces.cli.table import print_json, print_table, warn

ENTRY_NAME = "paddock"
ANY_CLIENT = "mcp-json"
"""Stands for every client that is not in the table."""
_HELP_COLUMNS = 70
"""Width of the list of clients on the help page, in columns."""
_BACKUP = re.compile(r"\.backup(?:\.[0-9]+)?\Z")


class _InstallRequest(NamedTuple):
    """The request of a command line."""

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
    def about(self) -> McpClient:
        return CLIENTS[self.client]

    @property
    def path(self) -> tuple[str, ...]:
        return (*self.about.key, self.name)

    def build_command(self) -> ServerCommand:
        """Return the command that the entry starts."""
        if self.docker:
            return build_docker_command(self.docker, self.served)
        return build_native_command(self.workspace)

    def write_command(self, *options: str) -> str:
        """Return a command line for the same client and workspace."""
        elsewhere = [] if self.workspace == Path.cwd() else ["--workspace", self.served]
        return shlex.join(["paddock", "install", self.client, *elsewhere, *options])


def _check_name(_context: click.Context, parameter: click.Parameter, name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise click.BadParameter("use letters, digits, `_` and `-`", param=parameter)
    return name


def _check_image(_context: click.Context, parameter: click.Parameter, image: str | None) -> str:
    """Return the name of an image; empty for none. It must not look like an option of Docker."""
    if image is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,511}", image):
        raise click.BadParameter(f"{image!r} is not the name of an image, such as paddock:1", param=parameter)
    return image or ""


class _ClientName(click.Choice[str]):
    """The name of a client; the error for an unknown one names the nearest."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in self.choices:
            return value
        # Names like `value`, as a whole or by one of their words, those with the same beginning first.
        typed = value.lower()
        words = {word for name in self.choices for word in (name, *name.split("-"))}
        similar = find_nearest(typed, words, limit=3)
        nearest = max(similar, key=lambda word: word[:2] == typed[:2], default="")
        near = [name for name in self.choices if nearest in (name, *name.split("-"))]
        hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        raise click.UsageError(
            f"{value[:100]!r} is not a client that Paddock knows; {hint}`paddock install --list` lists them, and "
            f"`paddock install {ANY_CLIENT}` prints the entry for any other.",
            ctx,
        )


@click.command(
    "install",
    epilog=render_examples(
        "paddock install claude-code",
        "paddock install cursor --dry-run",
        "paddock install codex --scope user --workspace ~/project",
        "paddock install vscode --remove",
        "paddock install --list",
        "paddock install mcp-json --docker paddock --workspace /home/ada/project",
    ),
)
@click.argument("client", type=_ClientName([*CLIENTS, ANY_CLIENT]), required=False, metavar="CLIENT")
@click.option(
    "--scope",
    type=click.Choice(["project", "user"]),
    help="Which file of the client to write: that of the project (default, if the client has one) or that of the user.",
)
@click.option(
    "--workspace",
    "-w",
    "workspace",
    default=".",
    metavar="DIRECTORY",
    help="Directory to serve; the current one by default.",
)
@click.option("--name", default=ENTRY_NAME, callback=_check_name, help="Name of the entry.")
@click.option(
    "--docker",
    metavar="IMAGE",
    callback=_check_image,
    help="Start Paddock in a container of this image. Needed on macOS and Windows.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Also change or remove an entry that serves another workspace or belongs to another server.",
)
@click.option("--remove", is_flag=True, help="Remove Paddock from the configuration.")
@click.option(
    "--move-servers",
    is_flag=True,
    help=f"Move the servers of {SHARED_SERVERS_FILE} to {OWN_SERVERS_FILE}, so that only programs reach them.",
)
@click.option("--dry-run", "--print", "dry_run", is_flag=True, help="Show the diff and change nothing.")
@click.option(
    "--list",
    "show_list",
    is_flag=True,
    help="List the clients, whether each is installed, and whether it has Paddock.",
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
    """Add Paddock to an MCP client's configuration, as a server for one workspace.

    Shows the diff and keeps the previous file as FILE.backup (later ones as FILE.backup.2 and so on). Comments and
    formatting stay. An existing entry keeps `env`, its other keys, and further options of `serve mcp`. Entries of
    other servers stay unchanged. `mcp-json` prints the configuration for any other client.

    {clients}
    """
    folder = _find_folder(workspace, docker)
    if show_list:
        _print_clients(folder, name, as_json=as_json)
        return
    if client is None:
        raise click.UsageError("Missing argument 'CLIENT'. `paddock install --list` lists them.")
    given = {"--remove": remove, "--replace": replace, "--scope": scope, "--move-servers": move_servers}
    surplus = next((option for option, value in given.items() if value), "")
    if client == ANY_CLIENT and surplus:
        raise click.UsageError(f"{ANY_CLIENT} prints an entry and changes no file; leave {surplus} out.")
    if remove and move_servers:
        raise click.UsageError(
            "--move-servers is only possible when Paddock is added; leave --remove or --move-servers out."
        )
    served = workspace if docker and is_absolute_elsewhere(workspace) else str(folder)
    if client == ANY_CLIENT:
        built = build_docker_command(docker, served) if docker else build_native_command(folder)
        document = {"mcpServers": {name: build_entry("plain", built)}}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    scopes = CLIENTS[client].scopes
    if scope is not None and scope not in scopes:
        raise click.UsageError(f"{CLIENTS[client].title} has no file for a project; leave --scope out.")
    wish = _InstallRequest(client, scope or scopes[0], folder, served, name, docker, replace)
    main = _draft_change(wish, remove=remove)
    move = _ServersMove() if remove else _offer_move(wish, main, asked=move_servers, dry_run=dry_run)
    _write_drafts(wish, main, move, dry_run=dry_run, as_json=as_json)


assert command.help is not None
# click would break the names at their hyphens.
_names = textwrap.wrap(", ".join((*CLIENTS, ANY_CLIENT)), _HELP_COLUMNS, break_on_hyphens=False)
command.help = command.help.replace(
    "{clients}", "\n    ".join(["\b", "CLIENT is one of:", *(f"  {line}" for line in _names)])
)


def _find_folder(workspace: str, docker: str) -> Path:
    """Return the workspace on this machine. For a container, it has the name that the client's machine uses."""
    if docker and is_absolute_elsewhere(workspace) and not Path(workspace).is_dir():
        return Path().absolute()
    context = click.get_current_context()
    parameter = next(each for each in context.command.params if each.name == "workspace")
    return options.directory.convert(workspace, parameter, context)


def _draft_change(wish: _InstallRequest, *, remove: bool) -> FileDraft:
    """Return the change of the client's file. Raises ConfigurationError, and Failure for a protected entry."""
    inside = wish.workspace if wish.scope == "project" else None
    draft = read_draft(wish.about.locate(wish.scope, wish.workspace), inside)
    there: object = draft.read_entries(wish.about.key).get(wish.name)
    command = read_command(there)
    wanted = wish.build_command()
    updated = wanted if command is None else update_command(command, wanted)
    if not wish.replace and (conflict := _find_conflict(wish, there, updated, remove=remove)):
        raise CommandFailure(f"{draft.file}: {conflict}")
    if remove or (there is not None and command is None):  # nothing of another server's entry is kept
        draft.edit(wish.path, None)
    if not remove:
        if updated is None and command is not None:
            updated = keep_options(command, wanted)
        draft.edit(wish.path, build_entry(wish.about.shape, updated or wanted))
        if updated is not None and (kept := find_kept(updated, wanted)):
            warn(f"{draft.file}: `{wish.name}` keeps what was added to its command: {shlex.join(kept)}")
        if switch := find_switch(draft.read_entries(wish.about.key)[wish.name]):
            warn(f"{draft.file}: `{wish.name}` is disabled by `{switch}`; to use it, enable it")
    return draft


def _find_conflict(
    wish: _InstallRequest, there: object, updated: ServerCommand | None, *, remove: bool
) -> str:
    """Return why an entry is changed or removed only with --replace, and the alternatives; empty if it is not."""
    if there is None:
        return ""
    command = read_command(there)
    if command is None:
        instead = "remove" if remove else "replace"
        return (
            f"`{wish.name}` does not start `paddock serve mcp`: it is another server. Nothing was changed.\n"
            f"If Paddock {'has' if remove else 'should have'} another name there, give it with --name; to {instead} "
            "this one, run the command again with --replace."
        )
    serves = find_workspace(there)
    if wish.scope == "user" and serves and not _is_same_place(serves, wish.served):
        if remove:
            return (
                f"`{wish.name}` serves {serves}. Nothing was changed.\n"
                "To remove it anyway, run the command again with --replace."
            )
        return (
            f"`{wish.name}` serves {serves}. Nothing was changed.\n"
            f"To serve {wish.served} instead, run the command again with --replace; to have both, give this one a "
            "name with --name."
        )
    if updated is None and not remove:
        return (
            f"`{wish.name}` starts Paddock in another way, by {command.launcher[0]}. Nothing was changed.\n"
            f"To start it by {wish.build_command().launcher[0]}, as a new entry does, "
            "run the command again with --replace; to have both, give this one a name with --name."
        )
    return ""


def _is_same_place(one: str, other: str) -> bool:
    try:
        return one == other or os.path.realpath(one) == os.path.realpath(other)
    except ValueError:  # the value in a file may be no path
        return False


class _ServersMove(NamedTuple):
    """Servers that move to the file that only Paddock reads."""

    names: Sequence[str] = ()
    to: FileDraft | None = None
    out_of: FileDraft | None = None


def _offer_move(wish: _InstallRequest, main: FileDraft, *, asked: bool, dry_run: bool) -> _ServersMove:
    """Return the move of servers out of a file that the client loads itself; asks a person at a terminal."""
    if not (asked or wish.about.loads_mcp_json):
        return _ServersMove()
    from paddock.policy.settings.loader import load

    elsewhere = load(wish.workspace).settings.servers.config
    if elsewhere is not None:
        if asked:
            raise CommandFailure(
                f"servers.config names {elsewhere}, so Paddock does not read {SHARED_SERVERS_FILE} here."
            )
        return _ServersMove()
    file = wish.workspace / SHARED_SERVERS_FILE
    shared = read_draft(file, wish.workspace).find_same_file(main)
    names = list_shared(shared)
    if not names:
        return _ServersMove()
    if not asked:
        warn(
            f"{wish.about.title} starts the servers of {file} itself, so its agent can call them without Paddock, "
            f"too: {', '.join(names)}. To move them to {OWN_SERVERS_FILE}: {wish.write_command('--move-servers')}"
        )
        can_ask = sys.stdin.isatty() and sys.stderr.isatty() and not dry_run
        if not (can_ask and click.confirm("Move them now?", err=True)):
            return _ServersMove()
    own = read_draft(wish.workspace / OWN_SERVERS_FILE, wish.workspace).find_same_file(main, shared)
    if own is shared:
        raise CommandFailure(
            f"{OWN_SERVERS_FILE} and {SHARED_SERVERS_FILE} are one file here, {own.file}, so its servers cannot move "
            "from one to the other. Nothing was changed; replace the link by a copy of the file first."
        )
    moved, kept = draft_move(names, shared, own)
    for name in kept:
        warn(f"{name} stays in {file}: {own.file} has another server of that name")
    return _ServersMove(moved, own, shared)


def _write_drafts(
    wish: _InstallRequest, main: FileDraft, move: _ServersMove, *, dry_run: bool, as_json: bool
) -> None:
    """Write the drafts, unless it is a dry run, and print the result."""
    # The servers' new file is written first: after an interruption they are in both files, never in none.
    drafts = [each for each in dict.fromkeys((move.to, main, move.out_of)) if each is not None]
    backups: list[Path] = []
    if not dry_run:
        backups = write_drafts(drafts)
    else:
        try:
            check_drafts(drafts)
        except ConfigurationError as error:  # the same error would prevent writing them
            warn(str(error))
    difference = "\n".join(text for draft in drafts if (text := draft.render_diff()))
    if as_json:
        facts = {"file": str(main.file), "scope": wish.scope, "changed": bool(difference) and not dry_run}
        backup = None if main.backup is None else str(main.backup)
        print_json({**facts, "difference": difference, "backup": backup, "moved": list(move.names)})
        return
    click.echo(difference or f"{main.file}: nothing to change")
    for backup in backups:
        click.echo(f"backup: {backup}", err=True)
    added = [line for line in difference.splitlines() if line.startswith("+") and not line.startswith("+++ ")]
    if wish.scope == "project" and not dry_run and any(wish.served in line for line in added):
        print_note(
            f"{main.file} names paths of this machine. On another machine, run: paddock install {wish.client}"
        )
    _point_to_other_scope(wish, main)


def _point_to_other_scope(wish: _InstallRequest, main: FileDraft) -> None:
    """Print where else the client has an entry with this name: the client decides which of the two counts."""
    for scope in wish.about.scopes:
        if scope == wish.scope:
            continue
        try:
            draft = read_draft(wish.about.locate(scope, wish.workspace), None)
            there = draft.read_entries(wish.about.key).get(wish.name)
        except ConfigurationError:
            return
        if there is None or draft.file == main.file:
            continue
        if read_command(there) is None:
            about = f", which is another server; {wish.about.title} uses one of the two. To have both, use --name."
        else:
            serves = find_workspace(there)
            replace = ["--replace"] if serves and not _is_same_place(serves, wish.served) else []
            remove = wish.write_command("--scope", scope, "--remove", *replace)
            about = f"{f', serving {serves}' if serves else ''}; to remove it: {remove}"
        print_note(f"{draft.file} also has `{wish.name}`{about}")


def _print_clients(workspace: Path, name: str, *, as_json: bool) -> None:
    """Print every client: whether it is installed, its files, and the workspaces that Paddock serves it."""
    rows: list[dict[str, Any]] = []
    for client, about in CLIENTS.items():
        files = {scope: about.locate(scope, workspace) for scope in about.scopes}
        served: dict[str, str] = {}
        for scope, file in files.items():
            with suppress(ConfigurationError):  # a file that cannot be read counts as none
                there = read_draft(file, None).read_entries(about.key).get(name)
                if read_command(there) is not None:
                    served[scope] = find_workspace(there)
        rows.append(
            {
                "client": client,
                "title": about.title,
                "installed": _is_installed(about),
                "files": {scope: str(file) for scope, file in files.items()},
                "serves": served,
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


def _is_installed(client: McpClient) -> bool:
    """Return whether the client's command, or a file that the client has written, exists.

    `paddock install` may have created a client's directory itself. Therefore a configuration file with only Paddock in
    it, and the backups beside it, do not count.
    """
    if client.program and shutil.which(client.program) is not None:
        return True
    if not client.sign:
        return False
    configured = {
        Path.home() / name: about
        for about in CLIENTS.values()
        for names in about.user.values()
        for name in names
    }
    for folder, _, names in os.walk(Path.home() / client.sign):
        for name in names:
            about = configured.get(Path(folder, _BACKUP.sub("", name)))
            if about is None or not _holds_paddock_alone(Path(folder, name), about):
                return True
    return False


def _holds_paddock_alone(file: Path, client: McpClient) -> bool:
    """Return whether a configuration file has only entries of Paddock; a backup counts like its original."""
    if _BACKUP.search(file.name):
        return True
    try:
        draft = read_draft(file, None)
        entries = draft.read_entries(client.key)
    except ConfigurationError:
        return False
    return draft.holds_only(client.key) and all(read_command(entry) is not None for entry in entries.values())
