"""Numbers of JSON that a double does not hold, read and written with their own digits.

Whole numbers need nothing: Python's have any size. A decimal that its nearest double does not equal becomes an
`ExactFloat`: that double in calculations, and its own digits in what is written here. Other writers of JSON write the
double, except orjson, which raises TypeError: therefore the fast way costs nothing, and fails loudly.
"""

import json
import math
import os
import re
from decimal import Decimal
from typing import Any, NoReturn, Self, cast

import orjson

from paddock.model.base import Json

MAX_DIGITS = 4_000
"""Characters of a number. Python converts at most 4,300 digits, as to convert takes the square of their number."""

_SAFE_CHARS = 15
"""Characters up to which a decimal of usual size survives a double: 15 digits always do."""
_COMMON_EXPONENTS = range(-960, 961)
"""Powers of two within which they do."""
_LONG_DIGITS = b"0" * (_SAFE_CHARS + 1)
_FAR_EXPONENT = b"0e000"
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

    def __new__(cls, digits: str) -> Self:
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
    if len(digits) > MAX_DIGITS:
        raise NumberTooLongError(len(digits))
    number = float(digits)
    if (
        len(digits) <= _SAFE_CHARS
        and number
        and math.isfinite(number)
        and math.frexp(number)[1] in _COMMON_EXPONENTS
    ):
        return number
    return number if _is_exact(number, digits) else ExactFloat(digits)


def read_int(digits: str) -> int:
    """Return a whole number of JSON. Raises NumberTooLongError."""
    if len(digits) > MAX_DIGITS:
        raise NumberTooLongError(len(digits))
    return int(digits)


def _is_exact(number: float, digits: str) -> bool:
    """Return whether a double, as it is written, equals the number it was read from."""
    if not number:
        return not re.search("[1-9]", digits.lower().partition("e")[0])
    return math.isfinite(number) and Decimal(repr(number)) == Decimal(digits)


def may_lose(data: bytes) -> bool:
    """Return whether a JSON text may hold a number that a double does not: quickly, and rather too often."""
    kinds = data.translate(_KINDS)
    return _LONG_DIGITS in kinds or _FAR_EXPONENT in kinds


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number that JSON knows")


_DECODER = json.JSONDecoder(parse_float=read_float, parse_int=read_int, parse_constant=_no_constant)
_PLAIN = json.JSONDecoder(parse_constant=_no_constant)


def decoder_for(data: bytes) -> json.JSONDecoder:
    """Return what reads a JSON text with the digits of all its numbers: a slower decoder only where it is needed."""
    return _DECODER if may_lose(data) else _PLAIN


def loads(text: str) -> Json:
    """Return the value of a JSON text, with the digits of all numbers.

    Raises ValueError, NumberTooLongError among them, and RecursionError.
    """
    decoder = decoder_for(text.encode("utf-8", "surrogatepass"))
    return decoder.decode(text)


def read_finite(digits: str) -> float:
    """Return a decimal of JSON, as `read_float`. Raises ValueError for one that is beyond every double, too."""
    number = read_float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits} is beyond the largest number that can be read, 1.8e308")
    return number


_FINITE = json.JSONDecoder(parse_float=read_finite, parse_int=read_int, parse_constant=_no_constant)


def loads_finite(text: str) -> Json:
    """Return the value of a JSON text, as `loads` does. Raises ValueError for a number beyond every double, too."""
    return (_FINITE if may_lose(text.encode("utf-8", "surrogatepass")) else _PLAIN).decode(text)


def read_toml_float(digits: str) -> float:
    """Return a decimal of TOML, which has underscores, a plus, and words for what is no number of JSON."""
    plain = digits.replace("_", "").removeprefix("+")
    return read_float(plain) if plain.lstrip("-")[0].isdecimal() else float(plain)


def are_equal(one: Json, other: Json) -> bool:
    """Return whether two values are equal, numbers in all their digits; true is not 1."""
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    both = one, other
    if any(isinstance(each, ExactFloat) for each in both) and all(
        isinstance(each, int | float) for each in both
    ):
        try:
            return Decimal(str(one)) == Decimal(str(other))
        except ArithmeticError:  # an exponent beyond all bounds
            return str(one) == str(other)
    return one == other


def dumps(value: Json, **options: Any) -> str:  # noqa: ANN401 - those of json.dumps
    """Return a value as JSON, as `json.dumps` does with these options, with the digits of all numbers."""
    try:
        orjson.dumps(value)  # the fastest way to learn that no ExactFloat is in it
    except TypeError:
        return dumps_exact(value, **options)
    return json.dumps(value, **options)


def dumps_exact(value: Json, **options: Any) -> str:  # noqa: ANN401 - as above
    """Return a value as `dumps` does; quicker where orjson has refused it, slower where it would not."""
    return _MARK_PATTERN.sub(r"\1", json.dumps(mark_numbers(value), **options))


# The MCP library turns all numbers into doubles. What goes through it is marked: texts stand for the numbers that no
# double equals. Only this process knows the mark, therefore nobody else can write one.
MARK = os.urandom(8).hex()
_MARK_PATTERN = re.compile(f'"{MARK}([^"]+)"')
_MARKED_BYTES = re.compile(_MARK_PATTERN.pattern.encode())


def mark_numbers(value: Json) -> Json:
    """Return a value with marked texts in the place of numbers that no double equals."""
    if isinstance(value, ExactFloat):
        return MARK + value.digits
    if isinstance(value, dict):
        return {key: mark_numbers(each) for key, each in cast("dict[str, Json]", value).items()}
    if isinstance(value, list | tuple):
        return [mark_numbers(each) for each in cast("list[Json]", value)]
    return value


def unmark_numbers(value: Json) -> Json:
    """Return a value with numbers again in the place of marked texts."""
    if isinstance(value, str):
        return ExactFloat(value.removeprefix(MARK)) if value.startswith(MARK) else value
    if isinstance(value, dict):
        return {key: unmark_numbers(each) for key, each in cast("dict[str, Json]", value).items()}
    if isinstance(value, list | tuple):
        return [unmark_numbers(each) for each in cast("list[Json]", value)]
    return value


def unmark_text(data: bytes, *, as_long: bool = False) -> bytes:
    """Return a JSON text with numbers again in the place of marked texts; `as_long` keeps its length, by spaces."""
    if MARK.encode() not in data:
        return data
    return _MARKED_BYTES.sub(lambda found: found[1].ljust(len(found[0]) if as_long else 0), data)
