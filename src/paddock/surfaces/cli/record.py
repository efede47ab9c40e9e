"""`paddock record`: recordings of scripts."""

from datetime import datetime
from pathlib import Path

import click

from paddock.gate.replay.recordings import open_store
from paddock.model.base import count
from paddock.policy.settings.loader import load
from paddock.surfaces.cli import options
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.table import print_json, print_table


@click.group(
    "record",
    cls=CommandGroup,
    epilog=render_examples("paddock record list", "paddock record purge --dry-run"),
)
def command() -> None:
    """List and delete recordings of scripts."""


@command.command("list", epilog=render_examples("paddock record list", "paddock record list --json"))
@options.workspace
@options.settings
@options.as_json
def list_recordings(workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """List the recordings of every workspace, the newest first, with the ids of their runs."""
    found = open_store(load(workspace, flags=flags).settings).list_runs()[::-1]
    if as_json:
        print_json(
            [{"run": each.run, "recorded": each.recorded.isoformat(), "bytes": each.size} for each in found]
        )
        return
    rows = [(each.run, each.recorded.isoformat(timespec="seconds"), f"{each.size} bytes") for each in found]
    print_table(
        ("run", "recorded", "size"), rows, empty="no run was recorded; record one: paddock run NAME --record"
    )


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
