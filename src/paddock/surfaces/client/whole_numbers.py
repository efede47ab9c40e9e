"""Whole numbers from Python programs; they may come from JSON or data frames."""

from typing import SupportsIndex

from paddock.model.errors import RequestError
from paddock.model.limits import LimitOverrides


def read_whole_number(name: str, value: object, minimum: int = 1) -> int | None:
    """Return a whole number, also from `2.0`; None for None.

    Raises RequestError for every other value, and for one below `minimum`.
    """
    if value is None:
        return None
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(number, bool) or not isinstance(number, SupportsIndex):
        raise RequestError(f"`{name}` must be a whole number, not {value!r:.60}")
    if (whole := number.__index__()) < minimum:
        raise RequestError(f"`{name}` must be at least {minimum}, not {value!r:.60}")
    return whole


def read_limits(**limits: int | None) -> LimitOverrides:
    """Return the limits that a request asks for, by their names there. Raises RequestError as `read_whole_number`."""
    return LimitOverrides(**{name: read_whole_number(name, value) for name, value in limits.items()})
