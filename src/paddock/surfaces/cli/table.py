"""Rows for people and for programs: a table on a terminal, tab-separated lines in a pipe, or JSON."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

import click

from paddock.model.base import Json
from paddock.model.numbers import dumps
from paddock.surfaces.cli.failure import PRINTED_KEY
from paddock.surfaces.cli.folding import INDENT, fold_text, print_note, wrap_line
from paddock.surfaces.rendering.terminal import escape_except_colour, escape_text, make_encodable

if TYPE_CHECKING:
    from paddock.record.ledger.sink import AuditRecord

_MAX_COLUMNS = 100_000
"""Maximum width of a table, in columns."""
_MIN_CELL_COLUMNS = 24
"""Minimum width of a cell with several words, in columns; with less, rows are printed as cards."""


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str = "") -> None:
    """Print rows; a pipe gets no heading, and no line ends or tabs within a cell.

    A pipe may end at a terminal; therefore cells are escaped there, too. Without rows, `empty` is printed to standard
    error: the reason and what to do.
    """
    if not rows:
        if empty:
            print_note(empty)
    elif sys.stdout.isatty():
        _print_rich(columns, rows)
    else:
        for row in rows:
            print_row(row)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines; on a terminal they break between words, with an indented continuation."""
    for line in lines:
        click.echo(fold_text(make_encodable(escape_text(line)), sys.stdout))


def print_row(row: Sequence[str]) -> None:
    """Print one row in the form for a pipe."""
    click.echo(make_encodable("\t".join(escape_text(" ".join(cell.split())) for cell in row)))


def render_facts(record: "AuditRecord") -> str:
    """Return the facts of a record for people; hashes are for programs (`--json`)."""
    facts: dict[str, object] = {**({"parent": record.parent} if record.parent else {}), **record.fields}
    return " ".join(
        f"{name}={','.join(map(str, cast('tuple[object, ...]', value))) if isinstance(value, tuple) else value}"
        for name, value in facts.items()
        if value not in (None, "", ()) and not name.endswith(("_hash", "_sha256"))
    )


def print_json(value: Json) -> None:
    """Print a value as JSON, indented on a terminal."""
    click.get_current_context().meta[PRINTED_KEY] = True
    click.echo(dumps(value, indent=2 if sys.stdout.isatty() else None))


def print_text(text: str, *, err: bool = False) -> None:
    """Print an untrusted text, without control sequences that move the cursor."""
    click.echo(make_encodable(escape_text(text)), err=err)


def print_output(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print output of a program unchanged; for a terminal, control sequences except colours are escaped."""
    shown = escape_except_colour(text) if (sys.stderr if err else sys.stdout).isatty() else text
    # `color`: a pipe gets escape sequences unchanged.
    click.echo(make_encodable(shown), nl=nl, err=err, color=True)


def warn(text: str) -> None:
    """Print a warning to standard error."""
    print_note(f"warning: {text}")


def _print_rich(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, or cards if the terminal is too narrow. Words, such as handles, are never broken."""
    from rich.box import SIMPLE_HEAD  # importing rich takes longer than most commands run
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[make_encodable(escape_text(" ".join(cell.split()))) for cell in row] for row in rows]
    console = Console(highlight=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, title in enumerate(columns):
        texts = [title, *(row[number] for row in cells)]
        max_chars = max(cell_len(word) for text in texts for word in (*text.split(), ""))
        widest = max(map(cell_len, texts))
        min_width = max(max_chars, min(widest, _MIN_CELL_COLUMNS))
        table.add_column(title, min_width=min_width, no_wrap=min_width == widest)
    for row in cells:
        table.add_row(*map(Text, row))
    table_width = table.__rich_measure__(console, console.options.update(max_width=_MAX_COLUMNS)).minimum
    if table_width <= console.width:
        console.print(table)
    else:
        _print_cards(columns, cells, console.width)


def _print_cards(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> None:
    """Print rows one below the other: the first cell, then a line for each other cell that is not empty."""
    margin = max(map(len, columns[1:]), default=0) + 2 * INDENT
    for row in rows:
        click.echo(wrap_line(row[0], width, " " * INDENT))
        for title, cell in zip(columns[1:], row[1:], strict=True):
            if cell:
                label = f"{' ' * INDENT}{title}".ljust(margin)
                click.echo(wrap_line(f"{label}{cell}", width, " " * margin))
