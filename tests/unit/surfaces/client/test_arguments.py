"""Values of Python become JSON with all their digits, or the one that is no JSON is named."""

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.errors import RequestError
from paddock.model.numbers import ExactFloat, dumps, loads
from paddock.surfaces.client.arguments import encode_text, read_object, read_value

JSON = "None, booleans, finite numbers, texts, lists, and dicts with texts as keys"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Decimal(5), "5"),
        (Decimal(-12345678901234567890123), "-12345678901234567890123"),
        (Decimal("1.10"), "1.1"),
        (Decimal("0.1234567890123456789012345678901"), "0.1234567890123456789012345678901"),
        ({"a": [1, {"b": Decimal("9007199254740993.5")}]}, '{"a": [1, {"b": 9007199254740993.5}]}'),
        ({1: Decimal(2), None: (True,)}, '{"1": 2, "null": [true]}'),
    ],
)
def test_a_finite_decimal_is_a_number_with_its_digits(value: Any, written: str) -> None:
    assert dumps(read_value(value, "input")) == written


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**40), max_value=10**40))
def test_no_decimal_loses_a_digit(number: Decimal) -> None:
    [read] = read_value([number], "input")
    assert Decimal(read.digits if isinstance(read, ExactFloat) else repr(read)) == number
    assert dumps(loads(dumps(read))) == dumps(read)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (float("nan"), f"input is nan; give {JSON}"),
        ({"rows": [{"id": Decimal("-Infinity")}]}, f"input.rows[0].id is -Infinity; give {JSON}"),
        ([Decimal("NaN")], f"input[0] is NaN; give {JSON}"),
        (
            {"day": date(2026, 1, 1)},
            "input.day is a date, which JSON does not support; give a text, such as its isoformat()",
        ),
        (
            {"at it": datetime(2026, 1, 1, tzinfo=UTC)},
            'input["at it"] is a datetime, which JSON does not support; give a text, such as its isoformat()',
        ),
        ({"a": b"x"}, "input.a is a bytes, which JSON does not support; give a text, such as its base64"),
        ([[{1}]], "input[0][0] is a set, which JSON does not support; give a list"),
        (object(), f"input is an object, which JSON does not support; give {JSON}"),
        ({("a", "b"): 1}, f"input has a tuple as a key; give {JSON}"),
        ([Decimal("1e400")], "input[0] is a number that JSON parsers reject; give a text"),
        (
            [Decimal("1." + "1" * 5000)],
            "input[0] is a number has 5002 characters; at most 4000 are allowed",
        ),
        ([10**5000], "input[0] is a number that JSON parsers reject; give a text"),
    ],
)
def test_what_is_no_json_is_named_by_its_path(value: Any, told: str) -> None:
    with pytest.raises(ValueError, match=rf"\A{re.escape(told)}\Z"):
        read_value(value, "input")


def test_a_value_that_holds_itself_is_told() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(ValueError, match=r"\Ainput is nested too deeply, or contains itself\Z"):
        read_value(value, "input")


def test_what_is_json_is_given_on_as_it_is() -> None:
    value = {"a": [1, 2.5, None, "x", True, {"b": 10**40}]}
    assert read_value(value, "input") is value
    assert json.loads(json.dumps(value)) == value


def test_an_object_is_a_mapping() -> None:
    assert (read_object(None, "inputs"), read_object({"a": 1}, "inputs")) == ({}, {"a": 1})
    with pytest.raises(ValueError, match=r"\Aarguments must be a dict, but is a list\Z"):
        read_object([("a", 1)], "arguments")


def test_a_whole_number_beyond_what_python_spells_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^input is a number that JSON parsers reject; give a text$"):
        read_value(10**5000, "input")


def test_a_text_that_is_not_unicode_is_refused() -> None:
    assert encode_text("\u00e9", "stdin") == b"\xc3\xa9"
    with pytest.raises(RequestError) as refused:
        encode_text("\ud800", "files['a']")
    assert str(refused.value) == (
        "files['a'] has half of a surrogate pair, which is not Unicode; replace it by U+FFFD, or give bytes"
    )
