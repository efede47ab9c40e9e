"""Map positions in the running code back to the user's source.

The wrapped program keeps the user's lines. Three things change a column: the head of the wrapper on line 1, insertions
such as `return ` before the last expression, and compiled TypeScript (enum, namespace, parameter property), which has a
source map. `find_place` undoes them in that order.
"""

import unicodedata
from bisect import bisect_right
from typing import NamedTuple

from paddock.model.base import Value
from paddock.model.late_pattern import compile_late

EXCERPT_CHARS = 120
"""Maximum characters of a line that an excerpt shows around the column."""

NEWLINE_PATTERN = compile_late("\r\n|[\n\r\u2028\u2029]")
"""ECMA-262 LineTerminatorSequence: what V8 treats as the end of a line."""


class SourceMap(Value):
    """How to map a position in the running code back. Lines and columns count from 0, in UTF-16 units."""

    prefix: int
    """Length of the wrapper's head on line 0."""
    insertions: tuple[tuple[int, int, int], ...] = ()
    """(line, column, length) of text added to the program, in order; the column is that of the original text."""
    map: tuple[tuple[tuple[int, int, int], ...], ...] | None = None
    """For each line of compiled TypeScript, the (column, source line, source column) of each of its parts."""


class SourcePosition(NamedTuple):
    """A position in the user's source, with the line to show."""

    line: int
    """From 1."""
    column: int
    """From 1, in UTF-16 units."""
    excerpt: str
    """The source line with a caret under the column."""


def find_place(line: int, column: int, positions: SourceMap, source: str) -> SourcePosition:
    """Return the position in `source` for a 1-based line and UTF-16 column of the running code.

    A position outside of the program, in the wrapper, becomes the nearest one inside.
    """
    row, unit = line - 1, column - 1
    if row == 0:
        unit -= positions.prefix
    for at, start, length in positions.insertions:
        if at == row and unit > start:
            unit = max(start, unit - length)
    if (lines := positions.map) is not None:
        # The last mapped part that starts at or before the position in compiled code, or on a line above.
        row = min(row, len(lines) - 1)
        pieces = lines[row][: bisect_right(lines[row], unit, key=lambda piece: piece[0])]
        while not pieces and row > 0:
            row -= 1
            pieces = lines[row]
        row, unit = pieces[-1][1:] if pieces else (0, 0)
    return clamp_place(row + 1, unit + 1, source)


def clamp_place(line: int, column: int, source: str) -> SourcePosition:
    """Return the position of a 1-based line and UTF-16 column of `source`, clamped to the text."""
    lines = NEWLINE_PATTERN.split(source.removeprefix("\ufeff"))
    row = min(max(line - 1, 0), len(lines) - 1)
    text = lines[row]
    unit = _count_units(text) if line > len(lines) else min(max(column - 1, 0), _count_units(text))
    return SourcePosition(row + 1, unit + 1, _excerpt(text, unit))


def _count_units(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)


def _excerpt(text: str, unit: int) -> str:
    """Return the line and, below it, a caret under a UTF-16 unit (from 0)."""
    index = 0
    while unit > 0:
        unit -= 1 + (text[index] > "\uffff")
        index += 1
    start = min(max(index - EXCERPT_CHARS // 2, 0), max(len(text) - EXCERPT_CHARS, 0))
    shown = text[start : start + EXCERPT_CHARS]
    left = "…" if start else ""
    right = "…" if start + EXCERPT_CHARS < len(text) else ""
    indent = " " * len(left) + "".join(_blank_character(character) for character in shown[: index - start])
    # Controls, direction marks and surrogates would control a terminal, or reorder the line.
    plain = "".join(
        "\ufffd" if character != "\t" and unicodedata.category(character) in {"Cc", "Cf", "Cs"} else character
        for character in shown
    )
    return f"{left}{plain}{right}\n{indent}^"


def _blank_character(character: str) -> str:
    """Return blanks as wide as the character is on a terminal; a tab stays a tab."""
    if character == "\t":
        return "\t"
    if unicodedata.combining(character):
        return ""
    return "  " if unicodedata.east_asian_width(character) in "WF" else " "
