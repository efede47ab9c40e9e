"""Find the strings of a list within a line, in JSON and in source."""

import re
from collections.abc import Iterator

_BETWEEN_PATTERN = re.compile(rb"[ \t\[\],A-Za-z0-9.+-]*")
"""Brackets and commas; also numbers, `null`, and the prefix of a Python string."""
_OPENER_PATTERN = re.compile(rb"""\\{0,15}["'\x60]""")
_VALUE_PATTERN = re.compile(rb"""[^"'\x60\\\s]*""")
MIN_BYTES = 6
"""Minimum length of a value that may be a secret."""
_BRACKETS_PATTERN = re.compile(rb"[\[\]]")
_END_PATTERNS = {
    quote: re.compile(rb"(?:[^\n\r\\" + quote + rb"]|\\[^\n\r])*" + quote) for quote in (b'"', b"'", b"\x60")
}


def find_texts(data: bytes, position: int) -> Iterator[tuple[int, int]]:
    """Yield the span of the value in each string of a list; `position` is after the opening bracket.

    A value ends at a quote, a backslash or white space, as elsewhere in a line.
    """
    depth = 1
    while (between := _BETWEEN_PATTERN.match(data, position)) is not None:
        for bracket in _BRACKETS_PATTERN.findall(between[0]):
            depth += 1 if bracket == b"[" else -1
            if not depth:
                return
        opener = _OPENER_PATTERN.match(data, between.end())
        value = opener and _VALUE_PATTERN.match(data, opener.end())
        if opener is None or value is None:
            return
        yield value.span()
        closer = _END_PATTERNS[opener[0]].match(data, opener.end()) if len(opener[0]) == 1 else None
        position = closer.end() if closer else data.find(opener[0], opener.end()) + len(opener[0])
        if position < opener.end() + len(opener[0]) or b"\n" in data[opener.end() : position]:
            return
