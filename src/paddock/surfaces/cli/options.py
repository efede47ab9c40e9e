"""Options that several commands share, each defined once."""

import math
import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from paddock.model.moment import parse_moment

NEWEST = 50
"""How many entries a list shows that grows with use."""


class _Directory(click.Path):
    """A directory that is there, by its real name."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:  # noqa: ANN401 - click's signature
        try:
            return super().convert(value, param, ctx)
        except FileNotFoundError:  # of the current directory, which relative names begin at
            self.fail("the current directory was removed; go to another one", param, ctx)


directory = _Directory(exists=True, file_okay=False, resolve_path=True, path_type=Path)

workspace = click.option(
    "--workspace",
    "-w",
    type=directory,
    default=Path(),
    help="Directory the request belongs to; the current one by default.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def _pairs(_context: click.Context, parameter: click.Parameter, texts: Sequence[str]) -> dict[str, str]:
    """Return KEY=VALUE texts as a mapping: split at the first `=` (M7), the last one wins (M8)."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param=parameter)
        pairs[key] = value
    return pairs


def pairs(*names: str, help: str) -> Callable[[Any], Any]:  # noqa: A002 - the name that click gives it
    """Return a repeatable option whose values are KEY=VALUE."""
    return click.option(*names, multiple=True, metavar="KEY=VALUE", callback=_pairs, help=help)


def seconds(_context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Return a time that is above 0 and, as milliseconds too, a finite number; the callback of a float."""
    if value is not None and not 0 < value * 1000 < math.inf:
        raise click.BadParameter("must be a number of seconds above 0", param=parameter)
    return value


def _moment(_context: click.Context, parameter: click.Parameter, text: str | None) -> datetime | None:
    try:
        return None if text is None else parse_moment(text)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param=parameter) from None


since = click.option(
    "--since", metavar="AGE|DATE", callback=_moment, help="Earliest moment: an age such as 24h, or a date."
)


limit = click.option(
    "-n", "--limit", type=click.IntRange(1), help=f"How many, the newest; {NEWEST} without --all."
)


def count(limit: int | None, *, everything: bool) -> int | None:
    """Return how many entries a list shows, None for all: what `--limit` says, or else `--all`."""
    return limit or (None if everything else NEWEST)


def report_hidden(shown: int, hidden: int) -> None:
    """Print to standard error how many older entries a list does not show."""
    if hidden:
        click.echo(f"{hidden} older not shown; --limit {shown + hidden} shows them", err=True)


settings = pairs("--set", "flags", help="Set a setting for this command, e.g. limits.script.sleep_ms=50.")
