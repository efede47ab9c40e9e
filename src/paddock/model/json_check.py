"""Check quickly that a value is JSON.

`json.dumps` takes a second for a million members, in which the event loop runs nothing else. This check looks at whole
levels of a value at a time, in a few calls that take about 0.1 us for each member.
"""

import json
import math
from typing import Any

_PLAIN_TYPES = {str, int, float, bool, type(None), list, tuple, dict}
_MAX_LEVELS = 500
"""Maximum depth that is checked level by level; `json.dumps` has its own limit."""
_MAX_BITS = 13_000
"""Whole numbers of fewer bits have fewer digits than Python converts (`sys.set_int_max_str_digits`)."""


def check_json(value: object) -> None:
    """Return if `json.dumps` can write a value without `NaN`; else raise what it raises: TypeError, ValueError, ..."""
    if not _is_plain(value):
        json.dumps(value, allow_nan=False)


def _is_plain(value: object) -> bool:
    """Return True if a value is JSON; False is only a guess."""
    level: list[Any] = [value]
    for _ in range(_MAX_LEVELS):
        kinds = set(map(type, level))
        if not kinds <= _PLAIN_TYPES:
            return False
        if float in kinds and not all(map(math.isfinite, _select(level, kinds, float))):
            return False
        if int in kinds and max(map(int.bit_length, _select(level, kinds, int))) > _MAX_BITS:
            return False
        below: list[Any] = []
        for container in _select(level, kinds, list, tuple):
            below += container
        for container in _select(level, kinds, dict):
            if not set(map(type, container)) <= {str}:
                return False
            below += container.values()
        if not below:
            return True
        level = below
    return False


def _select(level: list[Any], kinds: set[type], *wanted: type) -> list[Any]:
    """Return the values of some types; the whole level if it has no other."""
    if kinds <= set(wanted):
        return level
    return [each for each in level if type(each) in wanted] if kinds.intersection(wanted) else []
