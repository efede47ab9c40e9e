"""Break lines that are too wide for a terminal between words. A pipe gets them unchanged."""

import os
import sys
import textwrap
from typing import IO, Any

import click

from paddock.surfaces.rendering.terminal import escape_text, make_encodable

INDENT = 2
_QUOTE_INDENT = " " * 2 * INDENT
_MAX_COLUMNS = 80


def print_note(text: str) -> None:
    """Print a note for a person, beside the answer, to standard error; it may contain untrusted text."""
    click.echo(fold_text(make_encodable(escape_text(text)), sys.stderr), err=True)


def fold_text(text: str, stream: IO[Any]) -> str:
    """Return a text for `stream`: for a terminal, lines are broken between words.

    The continuation of a line is indented. Lines with an indentation of four are quoted source and stay whole.
    """
    if not stream.isatty():
        return text
    columns = _count_columns(stream)
    return "\n".join(
        line
        if len(line) <= columns or line.startswith(_QUOTE_INDENT)
        else wrap_line(line, columns, " " * (len(line) - len(line.lstrip(" ")) + INDENT))
        for line in text.split("\n")
    )


def wrap_line(line: str, width: int, margin: str) -> str:
    """Return a line broken between words; a word that is longer than a line stays whole."""
    return textwrap.fill(
        line,
        width,
        subsequent_indent=margin,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )


def _count_columns(stream: IO[Any]) -> int:
    """Return the width of a terminal; the variable `COLUMNS` takes precedence, as usual."""
    if (given := os.environ.get("COLUMNS", "")).isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _MAX_COLUMNS
    except OSError:
        return _MAX_COLUMNS
