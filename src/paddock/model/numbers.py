"""Numbers of JSON that a double does not hold, read and written with their own digits.

Whole numbers need nothing: Python's have any size. A decimal that its nearest double does not equal becomes an
`ExactFloat`, which is that double for all who calculate and has its digits for those who write. What writes JSON without
knowing it writes the double, except orjson, which raises TypeError: so the fast way costs nothing, and fails loudly.
"""

import json
import math
import re
import secrets
from decimal import Decimal
from typing import Any, NoReturn, cast

import orjson

from paddock.model.base import Json

MAX_DIGITS = 4_000
"""Characters of a number. Python converts at most 4,300 digits, as to convert takes the square of their number."""

_SAFE_CHARS = 15
"""Characters up to which a decimal of usual size survives a double: 15 digits always do."""
_USUAL = range(-960, 961)
"""Powers of two within which they do."""
_LONG = b"0" * (_SAFE_CHARS + 1)
_FAR = b"0e000"
_KINDS = bytes(
    48 if chr(each) in "0123456789.+-" else 101 if chr(each) in "eE" else 32 for each in range(256)
)
"""What numbers are made of as `0`, but for the letter of an exponent; all else as a space."""


class NumberTooLongError(ValueError):
    """A number has more characters than any side reads."""

    def __init__(self, length: int) -> None:
        super().__init__(f"a number of {length} characters, where at most {MAX_DIGITS} are read")


class ExactFloat(float):
    """A number that no double equals: its nearest double, infinite beyond them all, and its digits as JSON has them."""

    __slots__ = ("digits",)

    digits: str

    def __new__(cls, digits: str) -> "ExactFloat":
        """Return the number with these digits, a number of JSON."""
        number = super().__new__(cls, digits)
        number.digits = digits
        return number

    def __getnewargs__(self) -> tuple[str]:  # pyright: ignore[reportIncompatibleMethodOverride] - what copies are made of
        return (self.digits,)

    def __repr__(self) -> str:
        return self.digits

    __str__ = __repr__


def read_float(digits: str) -> float:
    """Return a decimal of JSON. Raises NumberTooLongError."""
    number = float(digits)
    if len(digits) <= _SAFE_CHARS and number and math.isfinite(number) and math.frexp(number)[1] in _USUAL:
        return number
    if len(digits) > MAX_DIGITS:
        raise NumberTooLongError(len(digits))
    return number if _equals(number, digits) else ExactFloat(digits)


def read_int(digits: str) -> int:
    """Return a whole number of JSON. Raises NumberTooLongError."""
    if len(digits) > MAX_DIGITS:
        raise NumberTooLongError(len(digits))
    return int(digits)


def _equals(number: float, digits: str) -> bool:
    """Return whether a double, as it is written, equals the number it was read from."""
    if not number:
        return not re.search("[1-9]", digits.lower().partition("e")[0])
    return math.isfinite(number) and Decimal(repr(number)) == Decimal(digits)


def may_lose(data: bytes) -> bool:
    """Return whether a JSON text may hold a number that a double does not: quickly, and rather too often."""
    kinds = data.translate(_KINDS)
    return _LONG in kinds or _FAR in kinds


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number that JSON knows")


_DECODER = json.JSONDecoder(parse_float=read_float, parse_int=read_int, parse_constant=_no_constant)
_PLAIN = json.JSONDecoder(parse_constant=_no_constant)


def loads(text: str) -> Json:
    """Return the value of a JSON text, with the digits of all numbers.

    Raises ValueError, NumberTooLongError among them, and RecursionError.
    """
    decoder = _DECODER if may_lose(text.encode("utf-8", "surrogatepass")) else _PLAIN
    return decoder.decode(text)


def read_finite(digits: str) -> float:
    """Return a decimal of JSON, as `read_float`. Raises ValueError for one that is beyond every double, too."""
    number = read_float(digits)
    return _no_constant(digits) if math.isinf(number) else number


def dumps(value: Json, **options: Any) -> str:  # noqa: ANN401 - those of json.dumps
    """Return a value as JSON, as `json.dumps` does with these options, with the digits of all numbers."""
    try:
        orjson.dumps(value)  # the fastest way to learn that no ExactFloat is in it
    except TypeError:
        return dumps_exact(value, **options)
    return json.dumps(value, **options)


def dumps_exact(value: Json, **options: Any) -> str:  # noqa: ANN401 - as above
    """Return a value as `dumps` does; quicker where orjson has refused it, slower where it would not."""
    mark = secrets.token_hex(8)  # nobody who wrote a text in the value knew it
    text = json.dumps(_marked(value, mark), **options)
    return re.sub(f'"{mark}([^"]+)"', r"\1", text)


def _marked(value: Json, mark: str) -> Json:
    """Return a value with marked texts in the place of numbers that no double equals."""
    if isinstance(value, ExactFloat):
        return mark + value.digits
    if isinstance(value, dict):
        return {key: _marked(each, mark) for key, each in cast("dict[str, Json]", value).items()}
    if isinstance(value, list | tuple):
        return [_marked(each, mark) for each in cast("list[Json]", value)]
    return value
