"""Compare the output of a program with what its test expects.

The output is hostile: up to megabytes of anything. Therefore it is read lazily, up to its first difference. The work
and the memory are bounded by the expected output, and by one pass over the output.
"""

import math
import re
from collections.abc import Callable, Iterator
from itertools import zip_longest
from operator import eq

from paddock.gate.batch.program import Comparison

TOLERANCE = 1e-6
"""Maximum difference of two numbers: absolute, or relative to the expected one."""
_WHITE = b" \t\n\r\v\f"
_TOKEN_PATTERN = re.compile(rb"[^ \t\n\r\v\f]+")
_NUMBER_PATTERN = re.compile(rb"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
_MAX_NUMBER_CHARS = 400
"""Maximum length of a number; reading a longer one takes quadratic time. The longest double has 327 characters."""


def compare(expected: bytes, actual: bytes, how: Comparison = "lines") -> str:
    """Return how the actual output differs from the expected output, without either; "" if it does not."""
    match how:
        case "exact":
            return _compare_exactly(expected, actual)
        case "lines":
            return _compare_parts(_list_lines(expected), _list_lines(actual), "line", eq)
        case "tokens":
            return _compare_parts(_list_tokens(expected), _list_tokens(actual), "token", eq)
        case "float":
            return _compare_parts(_list_tokens(expected), _list_tokens(actual), "token", _is_near)


def _compare_exactly(expected: bytes, actual: bytes) -> str:
    if expected == actual:
        return ""
    same, end = 0, min(len(expected), len(actual))
    while same < end:  # bisects, because a loop over megabytes would take seconds
        middle = (same + end + 1) // 2
        same, end = (middle, end) if expected[same:middle] == actual[same:middle] else (same, middle - 1)
    if same < min(len(expected), len(actual)):
        return f"byte {same + 1} differs"
    return "there is more than expected" if len(actual) > len(expected) else "the end is missing"


def _compare_parts(
    expected: Iterator[bytes], actual: Iterator[bytes], what: str, same: Callable[[bytes, bytes], bool]
) -> str:
    for number, (wanted, found) in enumerate(zip_longest(expected, actual), 1):
        if wanted is None:
            return f"{what} {number} is more than expected"
        if found is None:
            return f"{what} {number} is missing"
        if not same(wanted, found):
            return f"{what} {number} differs"
    return ""


def _list_lines(text: bytes) -> Iterator[bytes]:
    """Yield lines without white space at their ends, and without empty lines at the end of the text."""
    end, start = len(text.rstrip(_WHITE)), 0
    while start < end:
        stop = text.find(b"\n", start)
        stop = end if stop == -1 else min(stop, end)
        yield text[start:stop].rstrip(_WHITE)
        start = stop + 1


def _list_tokens(text: bytes) -> Iterator[bytes]:
    return (found[0] for found in _TOKEN_PATTERN.finditer(text))


def _is_near(expected: bytes, actual: bytes) -> bool:
    if expected == actual:
        return True
    if max(len(expected), len(actual)) > _MAX_NUMBER_CHARS:
        return False
    if not (_NUMBER_PATTERN.fullmatch(expected) and _NUMBER_PATTERN.fullmatch(actual)):
        return False
    wanted, found = float(expected), float(actual)
    return math.isfinite(wanted) and abs(wanted - found) <= TOLERANCE * max(1.0, abs(wanted))
