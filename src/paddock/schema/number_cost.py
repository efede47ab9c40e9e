"""What comparing numbers costs a schema: `enum`, `const` and `uniqueItems` look at each pair of them.

Whole numbers of 64 bits are told apart at once. Two numbers one of which is a fraction, or larger, take a third of a
microsecond and more; fractions near zero a hundred times that.
"""

from math import frexp
from typing import NamedTuple, cast

from paddock.model.base import Json

MAX_COMPARISONS = 1_000_000
"""Such comparisons of one value: a third of a second."""
_MIN_INT64, _INT64_LIMIT = -(2**63), 2**63


class Numbers(NamedTuple):
    """The numbers in a JSON value."""

    total: int = 0
    odd: int = 0
    """How much longer than the others those take that are fractions or have more than 64 bits."""
    wide: int = 0
    """The share in `odd` of whole numbers: `uniqueItems` finds none of them, and compares each with each."""


def list_numbers(value: Json) -> Numbers:
    """Return the numbers in a value, at any depth."""
    count = odd = wide = 0
    todo: list[Json] = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, list | tuple):
            todo += cast("list[Json]", each)
        elif isinstance(each, dict):
            todo += cast("dict[str, Json]", each).values()
        elif isinstance(each, float):
            count += 1
            odd += _weigh_number(each)
        elif isinstance(each, int) and not isinstance(each, bool):
            count += 1
            weight = 0 if _MIN_INT64 <= each < _INT64_LIMIT else 2 + each.bit_length() // 64
            odd, wide = odd + weight, wide + weight
    return Numbers(count, odd, wide)


def _weigh_number(number: float) -> int:
    places = frexp(number)[1]
    return 8 + max(0, places) // 64 + max(0, -places) // 8
