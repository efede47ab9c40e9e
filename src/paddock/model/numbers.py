"""JSON numbers that a double cannot represent, read and written with their own digits.

Whole numbers need nothing: Python's have any size. A decimal that differs from its nearest double becomes an
`ExactFloat`: calculations use the double, and this module writes the digits. Other JSON writers write the double,
except orjson, which raises TypeError. Therefore the fast path costs nothing, and fails loudly.
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
"""Maximum length of a number. Python converts at most 4,300 digits, because the time grows with their square."""

_SAFE_CHARS = 15
"""Maximum length of a decimal of ordinary size that survives a double: 15 digits always do."""
_COMMON_EXPONENTS = range(-960, 961)
"""Range of exponents of 2 in which they do."""
_LONG_DIGITS = b"0" * (_SAFE_CHARS + 1)
_FAR_EXPONENT = b"0e000"
_KINDS = bytes(
    48 if chr(each) in "0123456789.+-" else 101 if chr(each) in "eE" else 32 for each in range(256)
)
"""Maps all characters of numbers to `0`, except the letter of an exponent; all others become a space."""


class NumberTooLongError(ValueError):
    """A number has more characters than any side reads."""

    def __init__(self, length: int) -> None:
        super().__init__(f"a number has {length} characters; at most {MAX_DIGITS} are allowed")


class ExactFloat(float):
    """A number that no double represents: its nearest double (infinite beyond them), and its JSON digits."""

    __slots__ = ("digits",)

    digits: str

    def __new__(cls, digits: str) -> Self:
        """Return the number with these digits, which are a JSON number."""
        number = super().__new__(cls, digits)
        number.digits = digits
        return number

    def __getnewargs__(self) -> tuple[str]:  # pyright: ignore[reportIncompatibleMethodOverride] - for copies
        return (self.digits,)

    def __repr__(self) -> str:
        return self.digits

    __str__ = __repr__


def read_float(digits: str) -> float:
    """Return a JSON decimal. Raises NumberTooLongError."""
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
    """Return a JSON whole number. Raises NumberTooLongError."""
    if len(digits) > MAX_DIGITS:
        raise NumberTooLongError(len(digits))
    return int(digits)


def _is_exact(number: float, digits: str) -> bool:
    """Return whether a double, when written, equals the number it was parsed from."""
    if not number:
        return not re.search("[1-9]", digits.lower().partition("e")[0])
    return math.isfinite(number) and Decimal(repr(number)) == Decimal(digits)


def may_lose(data: bytes) -> bool:
    """Return whether a JSON text may contain a number that no double represents: fast, with false positives."""
    kinds = data.translate(_KINDS)
    return _LONG_DIGITS in kinds or _FAR_EXPONENT in kinds


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(parse_float=read_float, parse_int=read_int, parse_constant=_no_constant)
_PLAIN = json.JSONDecoder(parse_constant=_no_constant)


def decoder_for(data: bytes) -> json.JSONDecoder:
    """Return a decoder that keeps the digits of all numbers; it is slower only if necessary."""
    return _DECODER if may_lose(data) else _PLAIN


def loads(text: str) -> Json:
    """Return the value of a JSON text, with the digits of all numbers.

    Raises ValueError, including NumberTooLongError, and RecursionError.
    """
    decoder = decoder_for(text.encode("utf-8", "surrogatepass"))
    return decoder.decode(text)


def read_finite(digits: str) -> float:
    """Return a JSON decimal, as `read_float`. Raises ValueError also for one beyond every double."""
    number = read_float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits} is larger than 1.8e308")
    return number


_FINITE = json.JSONDecoder(parse_float=read_finite, parse_int=read_int, parse_constant=_no_constant)


def loads_finite(text: str) -> Json:
    """Return the value of a JSON text, as `loads`. Raises ValueError also for a number beyond every double."""
    return (_FINITE if may_lose(text.encode("utf-8", "surrogatepass")) else _PLAIN).decode(text)


def read_toml_float(digits: str) -> float:
    """Return a TOML decimal, which may have underscores, a plus sign, and words such as `inf` that JSON lacks."""
    plain = digits.replace("_", "").removeprefix("+")
    return read_float(plain) if plain.lstrip("-")[0].isdecimal() else float(plain)


def are_equal(one: Json, other: Json) -> bool:
    """Return whether two values are equal, comparing all digits of numbers; true differs from 1."""
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    both = one, other
    if any(isinstance(each, ExactFloat) for each in both) and all(
        isinstance(each, int | float) for each in both
    ):
        try:
            return Decimal(str(one)) == Decimal(str(other))
        except ArithmeticError:  # an exponent that is too large
            return str(one) == str(other)
    return one == other


def dumps(value: Json, **options: Any) -> str:  # noqa: ANN401 - those of json.dumps
    """Return a value as JSON, like `json.dumps` with these options, with the digits of all numbers."""
    try:
        orjson.dumps(value)  # the fastest way to find out that it contains no ExactFloat
    except TypeError:
        return dumps_exact(value, **options)
    return json.dumps(value, **options)


def dumps_exact(value: Json, **options: Any) -> str:  # noqa: ANN401 - as above
    """Return a value like `dumps`; faster after orjson has rejected it, slower otherwise."""
    return _MARK_PATTERN.sub(r"\1", json.dumps(mark_numbers(value), **options))


# The MCP library turns all numbers into doubles. Values that pass it are marked: strings replace the numbers that no
# double represents. Only this process knows the mark, so that no other party can forge one.
MARK = os.urandom(8).hex()
_MARK_PATTERN = re.compile(f'"{MARK}([^"]+)"')
_MARKED_BYTES = re.compile(_MARK_PATTERN.pattern.encode())


def mark_numbers(value: Json) -> Json:
    """Return a value with marked strings in place of numbers that no double represents."""
    if isinstance(value, ExactFloat):
        return MARK + value.digits
    if isinstance(value, dict):
        return {key: mark_numbers(each) for key, each in cast("dict[str, Json]", value).items()}
    if isinstance(value, list | tuple):
        return [mark_numbers(each) for each in cast("list[Json]", value)]
    return value


def unmark_numbers(value: Json) -> Json:
    """Return a value with numbers in place of marked strings."""
    if isinstance(value, str):
        return ExactFloat(value.removeprefix(MARK)) if value.startswith(MARK) else value
    if isinstance(value, dict):
        return {key: unmark_numbers(each) for key, each in cast("dict[str, Json]", value).items()}
    if isinstance(value, list | tuple):
        return [unmark_numbers(each) for each in cast("list[Json]", value)]
    return value


def unmark_text(data: bytes, *, as_long: bool = False) -> bytes:
    """Return a JSON text with numbers in place of marked strings; `as_long` keeps its length with spaces."""
    if MARK.encode() not in data:
        return data
    return _MARKED_BYTES.sub(lambda found: found[1].ljust(len(found[0]) if as_long else 0), data)
