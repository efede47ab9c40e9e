"""`paddock record`: recordings of scripts."""

from datetime import datetime
from pathlib import Path

import click

from paddock.gate.replay.recordings import open_store
from paddock.model.base import count
from paddock.policy.settings.loader import load
from paddock.surfaces.cli import options
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.table import print_json


@click.group(
    "record",
    cls=CommandGroup,
    epilog=render_examples("paddock record purge", "paddock record purge --dry-run"),
)
def command() -> None:
    """Delete recordings of scripts."""


@command.command(
    "purge",
    epilog=render_examples(
        "paddock record purge",
        "paddock record purge --before 2d --dry-run",
        "paddock record purge --before 0s --json",
    ),
)
@options.add_moment_option(
    "--before",
    help="Recordings of runs before this time: an age such as 2d, or a date. Default: the expired ones.",
)
@click.option("--dry-run", is_flag=True, help="Show the recordings, and delete nothing.")
@options.workspace
@options.settings
@options.as_json
def purge(
    before: datetime | None, workspace: Path, flags: dict[str, str], *, dry_run: bool, as_json: bool
) -> None:
    """Delete recordings, of every workspace: those older than record.payload_days, or than --before."""
    store = open_store(load(workspace, flags=flags).settings)
    old = store.purge(before, dry_run=dry_run)
    size = sum(each.size for each in old)
    if as_json:
        print_json({"dry_run": dry_run, "runs": [each.run for each in old], "bytes": size})
        return
    verb = "would delete" if dry_run else "deleted"
    for each in old:
        click.echo(f"{verb}: {each.run}, {each.size} bytes")
    click.echo(f"{verb}: {count(len(old), 'recording')}, {size} bytes")
