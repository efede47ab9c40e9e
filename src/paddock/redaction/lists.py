"""The texts of a list within a line, in JSON and in source."""

import re
from collections.abc import Iterator

_BETWEEN_PATTERN = re.compile(rb"[ \t\[\],A-Za-z0-9.+-]*")
"""Brackets and commas; also numbers, `null`, and the letter before a string of Python."""
_OPENER_PATTERN = re.compile(rb"""\\{0,15}["'\x60]""")
_VALUE_PATTERN = re.compile(rb"""[^"'\x60\\\s]*""")
MIN_BYTES = 6
"""Minimum length of a value that may be a secret."""
_BRACKETS_PATTERN = re.compile(rb"[\[\]]")
_END_PATTERNS = {
    quote: re.compile(rb"(?:[^\n\r\\" + quote + rb"]|\\[^\n\r])*" + quote) for quote in (b'"', b"'", b"\x60")
}


def find_texts(data: bytes, position: int) -> Iterator[tuple[int, int]]:
    """Yield where the value in each text of a list begins and ends; `position` is behind the bracket that opens it.

    As elsewhere in a line, a value ends with a quote, a backslash or white space.
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
