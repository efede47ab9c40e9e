"""Lines that are too wide for a terminal, broken between words. A pipe gets them as they are."""

import os
import sys
import textwrap
from typing import IO, Any

import click

from paddock.rendering.terminal import escape_text, make_encodable

INDENT = 2
_QUOTE_INDENT = " " * 2 * INDENT
_MAX_COLUMNS = 80


def print_note(text: str) -> None:
    """Print what a person is to know beside the answer to standard error; texts of strangers may stand in it."""
    click.echo(fold_text(make_encodable(escape_text(text)), sys.stderr), err=True)


def fold_text(text: str, stream: IO[Any]) -> str:
    """Return a text for `stream`: where that is a terminal, with its lines broken between words.

    What follows a break is indented. Lines that are indented by four are quoted source, and stay whole.
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
    """Return how wide a terminal is; `COLUMNS` says otherwise where it is set, as everywhere."""
    if (given := os.environ.get("COLUMNS", "")).isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _MAX_COLUMNS
    except OSError:
        return _MAX_COLUMNS
