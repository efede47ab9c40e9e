"""`paddock servers enable|disable|refresh`: choose the servers that are used."""

import asyncio
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from paddock.model.base import count
from paddock.policy.settings.loader import load
from paddock.surfaces.cli import options
from paddock.surfaces.cli.help import render_examples
from paddock.surfaces.cli.opening import open_for_command
from paddock.surfaces.cli.signals import run_until_signal
from paddock.surfaces.cli.table import print_json, warn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.engines.servers.catalog.provisioning.service import ProvisionChange
    from paddock.model.base import Json
    from paddock.policy.settings.schema import Settings


@click.command(
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
    change = run_until_signal(_enable_server(settings, workspace, name, own_name, ask=ask))
    _print_change(change, "enabled", as_json=as_json)


@click.command(
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
    change = run_until_signal(_disable_server(settings, workspace, name))
    _print_change(change, "disabled", as_json=as_json)


@click.command("refresh", epilog=render_examples("paddock servers refresh", "paddock servers refresh --json"))
@options.workspace
@options.settings
@options.as_json
def refresh(workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Fetch the registry's list from `servers.registry_source`. No other command fetches it."""
    offered = run_until_signal(_refresh_list(load(workspace, flags=flags).settings, workspace))
    if as_json:
        print_json({"offers": offered})
    else:
        click.echo(f"{count(offered, 'server')} can be enabled")


async def _enable_server(
    settings: "Settings", workspace: Path, name: str, own_name: str, *, ask: bool
) -> "ProvisionChange":
    async with open_for_command(settings, workspace) as opened:
        provisioning = opened.servers.provisioning
        for text in provisioning.trust_problems():
            warn(text)
        click.echo(_describe_entry(name, provisioning.find_entry(name)), err=True)
        approved = not ask or await asyncio.to_thread(click.confirm, "Enable it?", err=True)
        return provisioning.enable_server(name, own_name=own_name, approved=approved)


def _describe_entry(name: str, entry: "Mapping[str, Json]") -> str:
    """Return the command or address of a servers-file entry, and the names of its variables."""
    words, variables = entry.get("args"), entry.get("env")
    arguments = cast("list[Json]", words) if isinstance(words, list) else []
    names = ", ".join(sorted(cast("dict[str, Json]", variables))) if isinstance(variables, dict) else ""
    command = shlex.join(str(word) for word in (entry.get("command"), *arguments) if word is not None)
    reaches = f"command: {command}" if command else f"address: {entry.get('url')}"
    return f"{name}\n  {reaches}\n  variables: {names or 'none'}"


async def _disable_server(settings: "Settings", workspace: Path, name: str) -> "ProvisionChange":
    async with open_for_command(settings, workspace) as opened:
        return opened.servers.provisioning.disable_server(name, approved=True)


async def _refresh_list(settings: "Settings", workspace: Path) -> int:
    async with open_for_command(settings, workspace) as opened:
        return await opened.servers.refresh_registry()


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
