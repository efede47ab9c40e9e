"""`paddock install`: enters Paddock into the configuration of an MCP client, or takes it out."""

import errno
import json
import shutil
import sys
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any, cast

import click

from paddock.files import LONGEST, read_bounded, replace_file
from paddock.surfaces.cli import options
from paddock.surfaces.cli.failure import Failure
from paddock.surfaces.cli.help import examples
from paddock.surfaces.cli.table import print_json

NAME = "paddock"


@dataclass(frozen=True)
class Client:
    """Where a client keeps its MCP servers."""

    file: str
    """Below the home directory; empty for none."""
    key: str = "mcpServers"
    kind: bool = False
    """Whether an entry says that it is `stdio`."""


CLIENTS = {
    "claude-code": Client(".claude.json", kind=True),
    "claude-desktop": Client(".config/Claude/claude_desktop_config.json"),
    "cursor": Client(".cursor/mcp.json"),
    "vscode": Client(".config/Code/User/mcp.json", key="servers", kind=True),
    "gemini-cli": Client(".gemini/settings.json"),
    "mcp-json": Client(""),
}


@click.command(
    "install",
    epilog=examples(
        "paddock install claude-code --workspace ~/project",
        "paddock install cursor --print",
        "paddock install vscode --remove",
        "paddock install mcp-json > mcp.json",
    ),
)
@click.argument("client", type=click.Choice(list(CLIENTS)))
@click.option("--print", "only_print", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--remove", is_flag=True, help="Take Paddock out again.")
@options.workspace
@options.as_json
def command(client: str, workspace: Path, *, only_print: bool, remove: bool, as_json: bool) -> None:
    """Enter Paddock into the configuration of an MCP client, as a server for one workspace.

    Shows the difference, keeps the file that was there as FILE.backup, and changes nothing when nothing is to be
    changed. `mcp-json` prints the configuration for any other client.
    """
    about = CLIENTS[client]
    entry: dict[str, Any] = {"type": "stdio"} if about.kind else {}
    entry |= {"command": _own_command(), "args": ["serve", "mcp", "--workspace", str(workspace.absolute())]}
    if not about.file:
        click.echo(_written({about.key: {NAME: entry}}), nl=False)
        return
    file = _followed(Path.home() / about.file)
    before, after = _changed(file, about.key, None if remove else entry)
    backup = None if before == after or only_print else _write(file, after)
    lines = unified_diff(before.splitlines(), after.splitlines(), str(file), str(file), lineterm="")
    difference = "\n".join(lines)
    if as_json:
        facts = {"file": str(file), "changed": before != after and not only_print, "difference": difference}
        print_json({**facts, "backup": None if backup is None else str(backup)})
    elif before == after:
        click.echo(f"{file}: nothing to change")
    else:
        click.echo(difference)
        if backup is not None:
            click.echo(f"what was there before: {backup}", err=True)


def _followed(file: Path) -> Path:
    """Return where a file is kept: who keeps it elsewhere, behind a link, goes on doing so."""
    if not file.is_symlink():
        return file
    try:
        file.stat()
    except OSError as problem:
        if problem.errno == errno.ELOOP:  # `resolve` says so up to Python 3.12
            raise Failure(f"{file}: is a link that leads back to itself; correct it first") from None
    return file.resolve()


def _own_command() -> str:
    beside = Path(sys.executable).with_name(NAME)
    return str(beside) if beside.exists() else shutil.which(NAME) or NAME


def _changed(file: Path, key: str, entry: dict[str, Any] | None) -> tuple[str, str]:
    """Return the text of a file as it is and as it shall be. Raises Failure for one that is not understood."""
    try:
        before = read_bounded(file, LONGEST).decode("utf-8-sig")
    except FileNotFoundError:
        before = ""
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8 text"
        raise Failure(f"{file}: cannot be read: {why}") from None
    try:
        document: object = json.loads(before, object_pairs_hook=_once) if before.strip() else {}
        _written(document)
    except (ValueError, RecursionError) as problem:
        told = f"{file}: is no plain JSON, and what is more would be lost: {problem}"
        raise Failure(f"{told}\n{_by_hand(key, entry)}") from None
    if not isinstance(document, dict):
        raise Failure(f"{file}: holds no JSON object; correct the file first")
    held = cast("dict[str, Any]", document)
    servers = held.get(key, {})
    if not isinstance(servers, dict):
        raise Failure(f"{file}: `{key}` is no object; correct the file first")
    changed = dict(cast("dict[str, Any]", servers))
    if changed.get(NAME) == entry:
        return before, before
    changed.pop(NAME, None)
    if entry is not None:
        changed[NAME] = entry
    return before, _written({**held, key: changed})


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    held = dict(members)
    if len(held) < len(members):
        names = [name for name, _ in members]
        raise ValueError(f"it has {next(name for name in held if names.count(name) > 1)!r} twice")
    return held


def _by_hand(key: str, entry: dict[str, Any] | None) -> str:
    if entry is None:
        return f"Take `{NAME}` out of `{key}` by hand."
    return f'Enter by hand, in `{key}`: "{NAME}": {json.dumps(entry)}'


def _write(file: Path, text: str) -> Path | None:
    """Write a file and return where the one before is kept."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
        backup = None
        if file.exists():
            backup = file.with_name(f"{file.name}.backup")
            replace_file(backup, read_bounded(file, LONGEST), mode=mode)
        replace_file(file, text.encode(), mode=mode)
    except OSError as problem:
        raise Failure(f"{file}: cannot be written: {problem.strerror}") from None
    return backup


def _written(document: object) -> str:
    """Return a document as text. Raises ValueError for numbers that JSON has no form for."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode("utf-8", "backslashreplace").decode()  # half of a character, as JSON escapes it
