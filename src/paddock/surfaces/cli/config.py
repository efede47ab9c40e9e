"""`paddock config`: the settings in force."""

import json
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import click

from paddock.model.texts import suggest
from paddock.policy.settings.keys import leaves
from paddock.policy.settings.loader import load
from paddock.surfaces.cli import options
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.table import print_json, print_table


@click.group(
    "config",
    cls=CommandGroup,
    epilog=render_examples("paddock config show", "paddock config show limits.script"),
)
def command() -> None:
    """Show the settings in force and their sources."""


@command.command(
    "show",
    epilog=render_examples(
        "paddock config show",
        "paddock config show limits.script --workspace ~/project",
        "PADDOCK_GRANTS_JIT=true paddock config show grants --json",
    ),
)
@click.argument("prefix", default="")
@options.workspace
@options.settings
@options.as_json
def show(prefix: str, workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Show every setting, or those below PREFIX, with value and source."""
    merged = load(workspace, flags=flags)
    dumped = merged.settings.model_dump(mode="json")
    known = leaves(merged.settings)
    keys = [key for key in known if not prefix or f"{key}.".startswith(f"{prefix}.")]
    if prefix and not keys:
        groups = {key.rpartition(".")[0] for key in known}
        nearest = suggest(prefix, [*known, *groups])
        raise click.BadParameter(f"there is no setting {prefix}{nearest}", param_hint="PREFIX")
    values: dict[str, Any] = {key: reduce(getitem, key.split("."), dumped) for key in keys}
    if as_json:
        print_json({key: {"value": values[key], "source": merged.sources[key]} for key in keys})
    else:
        print_table(
            ("setting", "value", "source"),
            [
                (key, "" if values[key] is None else json.dumps(values[key]), merged.sources[key])
                for key in keys
            ],
        )
