"""Whole numbers that Python programs pass: they come from JSON, from data frames and from people."""

from typing import SupportsIndex


def read_whole_number(name: str, value: object, least: int = 1) -> int | None:
    """Return the whole number that is meant, also by `2.0`; None for None.

    Raises ValueError for everything else, and for what is below `least`.
    """
    if value is None:
        return None
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(number, bool) or not isinstance(number, SupportsIndex):
        raise ValueError(f"`{name}` must be a whole number, not {value!r:.60}")  # noqa: TRY004 - as for every request that makes no sense
    if (whole := number.__index__()) < least:
        raise ValueError(f"`{name}` must be at least {least}, not {value!r:.60}")
    return whole
