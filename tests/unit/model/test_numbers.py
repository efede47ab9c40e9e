"""Numbers that a double does not hold: read, written and marked with their own digits, however hostile."""

import copy
import json
import math
import pickle
import tomllib
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model import numbers
from paddock.model.base import kind
from paddock.model.canonical import canonical, in_order
from paddock.model.numbers import ExactFloat, NumberTooLongError, dumps, loads, mark_numbers, unmark_numbers

DIGITS = st.builds(
    "{}{}{}".format,
    st.integers(-(10**40), 10**40),
    st.just("") | st.integers(0, 10**40).map(".{}".format),
    st.just("") | st.integers(-400, 400).map("e{}".format),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(DIGITS)
def test_what_is_read_is_written_as_the_same_number(digits):
    written = dumps([loads(f"[{digits}]")[0]])
    assert Decimal(written[1:-1]) == Decimal(digits)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_stays_one(number):
    assert type(loads(repr(number))) is float


@given(DIGITS)
def test_no_number_that_a_double_does_not_hold_is_overlooked(digits):
    if isinstance(numbers.read_float(digits), ExactFloat) and not digits.lstrip("-").isdecimal():
        assert numbers.may_lose(f'{{"a":{digits}}}'.encode())


@given(
    st.recursive(
        DIGITS.map(numbers.read_float) | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)
    )
)
def test_marks_are_taken_off_again(value):
    there = unmark_numbers(mark_numbers(value))
    assert dumps(there) == dumps(value)
    assert numbers.unmark_text(json.dumps(mark_numbers(value)).encode()) == dumps(value).encode()
    padded = numbers.unmark_text(json.dumps(mark_numbers(value)).encode(), as_long=True)
    assert (
        len(padded),
        dumps(json.loads(padded, parse_float=numbers.read_float, parse_int=numbers.read_float)),
    ) == (
        len(json.dumps(mark_numbers(value))),
        dumps(value),
    )


def test_an_exact_float_is_its_double_and_has_its_digits():
    number = loads("0.1000000000000000055511151231257827")
    assert (number, repr(number), type(number)) == (0.1, "0.1000000000000000055511151231257827", ExactFloat)
    for twin in (copy.deepcopy(number), pickle.loads(pickle.dumps(number))):
        assert (repr(twin), type(twin)) == (repr(number), ExactFloat)


@pytest.mark.parametrize(
    "digits",
    ["1e400", "-1e400000000", "1e-400000000", "1e99999999999999999999999", "1e-99999999999999999999"],
)
def test_an_exponent_beyond_all_bounds_costs_nothing(digits):
    number = loads(f"[{digits}]")[0]
    assert (repr(number), abs(number)) == (digits, math.inf if "e-" not in digits else 0)
    assert dumps([number]) == f"[{digits}]"
    assert canonical({"n": number}) == in_order({"n": number}) == f'{{"n":{digits}}}'.encode()


@pytest.mark.parametrize("digits", ["1" * 4001, "0." + "1" * 1_000_000, "1" * 1_000_000, "1e" + "1" * 4001])
def test_a_number_of_a_million_digits_is_refused_before_it_is_converted(digits):
    with pytest.raises(NumberTooLongError) as caught:
        loads(f'{{"a":[{digits}]}}')
    assert str(caught.value) == f"a number has {len(digits)} characters; at most 4000 are allowed"


def test_numbers_of_different_digits_have_different_hashes():
    same = [canonical(loads(f'{{"b":1,"a":{digits}}}')) for digits in ("0.30000000000000000001", "0.3")]
    assert same == [b'{"a":0.30000000000000000001,"b":1}', b'{"a":0.3,"b":1}']


def test_what_json_does_not_know_is_no_value():
    for text in ("[NaN]", "[Infinity]", "[0.12345678901234567890,NaN]", "[1e400,-Infinity]"):
        with pytest.raises(ValueError, match="is not a JSON number"):
            loads(text)
    with pytest.raises(ValueError, match=r"1e400 is larger than 1\.8e308"):
        numbers.read_finite("1e400")


def test_options_of_json_dumps_are_those_of_dumps():
    value = {"b": [loads("[1.00000000000000000001]")[0], "\u00e9\ud800"], "a": 2**70}
    assert dumps(value, indent=1, sort_keys=True) == (
        '{\n "a": 1180591620717411303424,\n "b": [\n  1.00000000000000000001,\n  "\\u00e9\\ud800"\n ]\n}'
    )


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        *(
            ("1", "1.0", True),
            ("true", "1", False),
            ("1", "true", False),
            ('"1"', "1", False),
            ("null", "0", False),
        ),
        *(("0.1", "0.10", True), ("0.1", "0.1000000000000000055511151231257827", False)),
        ("0.1000000000000000055511151231257827", "0.10000000000000000555111512312578270", True),
        *(
            ("9007199254740993", "9007199254740993.0", True),
            ("9007199254740993", "9007199254740992.0", False),
        ),
        *(("1e400", "1e400", True), ("1e400", "1e401", False), ("1e99999999999999999999999", "1e400", False)),
        ("1e99999999999999999999999", "1e99999999999999999999999", True),
        *(("0.12345678901234567890", '"0.12345678901234567890"', False), ("[1]", "[1]", True)),
    ],
)
def test_values_are_equal_in_all_digits(one, other, same):
    assert numbers.are_equal(loads(one), loads(other)) is same
    assert numbers.are_equal(loads(other), loads(one)) is same


@pytest.mark.parametrize(
    ("digits", "written"),
    [
        *(("1.5", "1.5"), ("+1_000.25", "1000.25"), ("-0.123456789012345678901", "-0.123456789012345678901")),
        *(("1e2", "100.0"), ("+0.1_234_567_890_123_456_789_012", "0.1234567890123456789012")),
    ],
)
def test_decimals_of_toml_keep_their_digits(digits, written):
    assert repr(numbers.read_toml_float(digits)) == written
    assert tomllib.loads(f"a = {digits}", parse_float=numbers.read_toml_float) == {
        "a": numbers.read_toml_float(digits)
    }


def test_toml_knows_numbers_that_json_does_not():
    found = tomllib.loads("a = inf\nb = -inf\nc = nan", parse_float=numbers.read_toml_float)
    assert (found["a"], found["b"], math.isnan(found["c"])) == (math.inf, -math.inf, True)


def test_a_number_beyond_every_double_is_none_where_doubles_are_wanted():
    assert dumps(numbers.loads_finite("[0.12345678901234567890, 1e30]")) == "[0.12345678901234567890, 1e+30]"
    for text in (
        "[1e400]",
        "[-1e999]",
        "[NaN]",
        "[Infinity]",
        "[0.12345678901234567890, 1e400]",
        "[" + "1" * 4001 + "]",
    ):
        with pytest.raises(ValueError, match=r"is not a JSON number|is larger than|at most 4000"):
            numbers.loads_finite(text)


def test_a_number_of_many_digits_is_told_to_be_a_fraction():
    assert [kind(loads(text)) for text in ("0.12345678901234567890", "1", "true", "0.5")] == [
        *("a fraction", "a number", "a boolean", "a fraction"),
    ]
