"""What went wrong and where, out of the words of compilers and interpreters.

A line that speaks of an error is one; its place stands in it, in the frames below it, or in the lines above it. What is
read is hostile text: each line is looked at a bounded number of times, by patterns that never go back.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_FRAMES = 12
"""Lines below an error that are looked at for its place."""
_ABOVE = 6

_WORD = re.compile(r"(?:error|fail|failed|failure|exception|panic|panicked|fatal)\b", re.IGNORECASE)
_BARE = re.compile(r"\W*+\w++\W*+")
"""A word alone, which says what other lines say better."""
_DIAGNOSIS = re.compile(r"[^\s:]++(?<=\.go):\d{1,9}:\d{1,9}: ")
"""What speaks of an error without the word (Go's compiler)."""
_PLACES = (
    re.compile(r'\bFile "([^"\n]{1,4096}+)", line (\d{1,9})\b'),  # Python
    re.compile(r"\b(?:at|in) ([^\s:]++)(?: on)? line (\d{1,9})\b"),  # Perl, PHP
    re.compile(r"(?<!\S)([^\s:()]++): line (\d{1,9}): "),  # shells
    re.compile(r"(?<!\S)([^\s:()]++)\((\d{1,9}),\d{1,9}\): "),  # C#
    re.compile(r"\bin ([^\s:]++):line (\d{1,9})\b"),  # .NET
    re.compile(r"(?<![\w./+-])([\w/+-]*+\.[\w./+-]*+):(\d{1,9})\b"),
)
_SAYING = _PLACES[1:3]
"""Places that only an error has, whether it says so or not."""
_HEADING = re.compile(r'(?:\S+:\d{1,9}|\s*+File "[^"\n]{1,4096}+", line \d{1,9}\b.*+)')
"""A line that says where what follows stands."""
_QUOTED = re.compile(r"\s*+\d++ \| |\s++at ")
"""A line of a program, as compilers quote it, or a frame."""
_INTERNAL = re.compile(r"\bjava\.base/|^\s*+\([a-z_]++ [\d.]++\)")
_LONG = re.compile(r"(?:panic|fatal error): ")
"""What is followed by more than frames (Go)."""


class Fault(NamedTuple):
    """A line that speaks of an error, and the place that it is about."""

    said: str
    file: str | None = None
    line: str | None = None


def faults(lines: Sequence[str]) -> Iterator[Fault]:
    """Yield what went wrong, in the order of the lines."""
    told = [
        number
        for number in range(len(lines))
        if (_WORD.search(lines[number]) or _DIAGNOSIS.match(lines[number])) and not _is_quoted(lines, number)
    ]
    told = [number for number in told if not _BARE.fullmatch(lines[number])] or told
    if not told:
        told = [number for number, line in enumerate(lines) if any(each.search(line) for each in _SAYING)]
    last = -1
    for number in told:
        above = lines[max(last + 1, number - _ABOVE) : number]
        yield Fault(lines[number], *(_place(lines[number]) or _below(lines, number) or _last(above) or ()))
        last = number


def _is_quoted(lines: Sequence[str], number: int) -> bool:
    """Tell whether a line is the program's own, or says where one stands."""
    return bool(_QUOTED.match(lines[number]) or (number and _HEADING.fullmatch(lines[number - 1])))


def _place(line: str) -> tuple[str, str] | None:
    if _INTERNAL.search(line):
        return None
    found = next((match for pattern in _PLACES if (match := pattern.search(line))), None)
    return (found[1], found[2]) if found else None


def _below(lines: Sequence[str], number: int) -> tuple[str, str] | None:
    """Return the first place in the frames below an error."""
    long = _LONG.match(lines[number])
    for line in lines[number + 1 : number + 1 + _FRAMES]:
        if not long and not line[:1].isspace():
            return None
        if place := _place(line):
            return place
    return None


def _last(above: Sequence[str]) -> tuple[str, str] | None:
    """Return the last heading among the lines between the fault before and this one."""
    return next((_place(line) for line in reversed(above) if _HEADING.fullmatch(line)), None)
