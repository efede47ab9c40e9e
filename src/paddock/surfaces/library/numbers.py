"""Whole numbers that Python programs pass: they come from JSON, from data frames and from people."""

from math import isfinite
from numbers import Real


def read_whole_number(name: str, value: object, least: int = 1) -> int | None:
    """Return the whole number that is meant, also by `2.0`; None for None.

    Raises ValueError for everything else, and for what is below `least`.
    """
    if value is None:
        return None
    if isinstance(value, Real) and not isinstance(value, bool) and isfinite(value) and value == int(value):
        if value >= least:
            return int(value)
        raise ValueError(f"`{name}` must be at least {least}, not {value}")
    raise ValueError(f"`{name}` must be a whole number, not {value!r:.60}")
