"""Rows for people and for programs: a table on a terminal, tab-separated lines in a pipe, or JSON."""

import json
import sys
from collections.abc import Sequence

import click

from paddock.model.base import Json
from paddock.surfaces.cli.failure import PRINTED
from paddock.surfaces.render import encodable, for_terminal


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows; a pipe gets no heading, and no line ends or tabs within a cell.

    It may end at a terminal after all, so what would move the cursor is spelled out there too.
    """
    if sys.stdout.isatty():
        _print_rich(columns, rows)
        return
    for row in rows:
        click.echo(encodable("\t".join(for_terminal(" ".join(cell.split())) for cell in row)))


def print_json(value: Json) -> None:
    """Print a value as JSON, indented on a terminal."""
    click.get_current_context().meta[PRINTED] = True
    click.echo(json.dumps(value, indent=2 if sys.stdout.isatty() else None))


def print_text(text: str) -> None:
    """Print a text of a stranger, without what would move the cursor."""
    click.echo(encodable(for_terminal(text)))


def warn(text: str) -> None:
    """Print a warning to standard error."""
    click.echo(f"warning: {encodable(for_terminal(text))}", err=True)


def _print_rich(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - rich takes longer to load than most commands to run
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(*columns, box=SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(Text.from_ansi(encodable(for_terminal(cell))) for cell in row))
    Console().print(table)
