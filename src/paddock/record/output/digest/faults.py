"""Find errors and their positions in the output of compilers and interpreters.

A line that mentions an error counts as one. Its position is in the line, in the frames below it, or in the lines above
it. The text is hostile: each line is searched a bounded number of times, by patterns that do not backtrack.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from paddock.model.late_pattern import compile_late

_MAX_FRAME_LINES = 12
"""Maximum lines below an error that are searched for its position."""
_LINES_ABOVE = 6

_ERROR_WORD_PATTERN = compile_late(
    r"(?:error|fail|failed|failure|exception|panic|panicked|fatal)\b", re.IGNORECASE
)
_LONE_WORD_PATTERN = compile_late(r"\W*+\w++\W*+")
"""A single word; other lines are more specific."""
_DIAGNOSIS_PATTERN = compile_late(r"[^\s:]++(?<=\.go):\d{1,9}:\d{1,9}: ")
"""An error without the word `error` (Go's compiler)."""
_PLACE_PATTERNS = (
    compile_late(r'\bFile "([^"\n]{1,4096}+)", line (\d{1,9})\b'),  # Python
    compile_late(r"\b(?:at|in) ([^\s:]++)(?: on)? line (\d{1,9})\b"),  # Perl, PHP
    compile_late(r"(?<!\S)([^\s:()]++): line (\d{1,9}): "),  # shells
    compile_late(r"(?<!\S)([^\s:()]++)\((\d{1,9}),\d{1,9}\): "),  # C#
    compile_late(r"\bin ([^\s:]++):line (\d{1,9})\b"),  # .NET
    compile_late(r"(?<![\w./+-])([\w/+-]*+\.[\w./+-]*+):(\d{1,9})\b"),
)
_ERROR_PLACE_PATTERNS = _PLACE_PATTERNS[1:3]
"""Positions that only errors have, even without the word."""
_HEADING_PATTERN = compile_late(r'(?:\S+:\d{1,9}|\s*+File "[^"\n]{1,4096}+", line \d{1,9}\b.*+)')
"""A line that has the position of the lines after it."""
_QUOTED_PATTERN = compile_late(r"\s*+\d++ \| |\s++at ")
"""A line of the program, as compilers quote it, or a frame."""
_INTERNAL_PATTERN = compile_late(r"\bjava\.base/|^\s*+\([a-z_]++ [\d.]++\)")
_LONG_ERROR_PATTERN = compile_late(r"(?:panic|fatal error): ")
"""An error that other lines than frames follow (Go)."""


class ReportedError(NamedTuple):
    """A line about an error, and its position."""

    message: str
    file: str | None = None
    line: str | None = None


def faults(lines: Sequence[str]) -> Iterator[ReportedError]:
    """Yield the errors in the order of the lines."""
    numbers = [
        number
        for number in range(len(lines))
        if (_ERROR_WORD_PATTERN.search(lines[number]) or _DIAGNOSIS_PATTERN.match(lines[number]))
        and not _is_quoted(lines, number)
    ]
    numbers = [number for number in numbers if not _LONE_WORD_PATTERN.fullmatch(lines[number])] or numbers
    if not numbers:
        numbers = [
            number
            for number, line in enumerate(lines)
            if any(pattern.search(line) for pattern in _ERROR_PLACE_PATTERNS)
        ]
    last = -1
    for number in numbers:
        above = lines[max(last + 1, number - _LINES_ABOVE) : number]
        yield ReportedError(
            lines[number], *(_place(lines[number]) or _below(lines, number) or _last(above) or ())
        )
        last = number


def _is_quoted(lines: Sequence[str], number: int) -> bool:
    """Return whether a line quotes the program, or is a frame."""
    return bool(
        _QUOTED_PATTERN.match(lines[number]) or (number and _HEADING_PATTERN.fullmatch(lines[number - 1]))
    )


def _place(line: str) -> tuple[str, str] | None:
    if _INTERNAL_PATTERN.search(line):
        return None
    found = next((match for pattern in _PLACE_PATTERNS if (match := pattern.search(line))), None)
    return (found[1], found[2]) if found else None


def _below(lines: Sequence[str], number: int) -> tuple[str, str] | None:
    """Return the first position in the frames below an error."""
    long = _LONG_ERROR_PATTERN.match(lines[number])
    for line in lines[number + 1 : number + 1 + _MAX_FRAME_LINES]:
        if not long and not line[:1].isspace():
            return None
        if place := _place(line):
            return place
    return None


def _last(above: Sequence[str]) -> tuple[str, str] | None:
    """Return the position of the last heading between the previous error and this one."""
    return next((_place(line) for line in reversed(above) if _HEADING_PATTERN.fullmatch(line)), None)
