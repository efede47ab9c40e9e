"""Rows for people and for programs: a table on a terminal, tab-separated lines in a pipe, or JSON."""

import json
import sys
from collections.abc import Sequence

import click

from paddock.model.base import Json
from paddock.surfaces.cli.failure import PRINTED
from paddock.surfaces.render import encodable, for_terminal

_SENTENCE = 30
"""Columns of a terminal that a cell of several words gets at least."""
_WIDEST = 100_000
"""Columns that no table needs."""


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows; a pipe gets no heading, and no line ends or tabs within a cell.

    It may end at a terminal after all, so what would move the cursor is spelled out there too.
    """
    if sys.stdout.isatty():
        _print_rich(columns, rows)
        return
    for row in rows:
        print_row(row)


def print_row(row: Sequence[str]) -> None:
    """Print one row as a pipe gets it."""
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
    """Print a table that cuts no word, such as a handle: a terminal too narrow for it breaks the lines instead."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - rich takes longer to load than most commands to run
    from rich.cells import cell_len  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    cells = [[Text.from_ansi(encodable(for_terminal(cell))) for cell in row] for row in rows]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, title in enumerate(columns):
        texts = [Text(title), *(row[number] for row in cells)]
        longest = max(cell_len(word) for text in texts for word in (*text.plain.split(), ""))
        widest = max(text.cell_len for text in texts)
        least = max(longest, min(widest, _SENTENCE))
        table.add_column(title, min_width=least, no_wrap=least == widest)
    for row in cells:
        table.add_row(*row)
    console = Console()
    least = table.__rich_measure__(console, console.options.update(max_width=_WIDEST)).minimum
    if least > console.width:
        console = Console(width=least)
    console.print(table, crop=False)
