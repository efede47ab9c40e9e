"""Comparison of output: what counts, what does not, and that hostile output costs no more than it is long."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.gate.batch.compare import TOLERANCE, compare

SPACE = st.text(" \t\r\v\f", max_size=3).map(str.encode)
WORD = st.text("ab1.-e+", min_size=1, max_size=5).map(str.encode)
WORDS = st.lists(WORD, max_size=6)
FINITE = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e9, max_value=1e9)


@pytest.mark.parametrize(
    ("how", "expected", "actual", "message"),
    [
        ("lines", b"1\n2\n", b"1 \t\n2\r\n\n\n", ""),
        ("lines", b"1\n2", b"1\n3\n", "line 2 differs"),
        ("lines", b"1\n2", b"1", "line 2 is missing"),
        ("lines", b"1", b"1\n2", "line 2 is more than expected"),
        ("lines", b"1\n\n2", b"1\n2", "line 2 differs"),
        ("lines", b" 1", b"1", "line 1 differs"),
        ("lines", b"1", b"\n1", "line 1 differs"),
        ("lines", b"", b" \n\n", ""),
        ("lines", b"\xff\n", b"\xff", ""),
        ("exact", b"1\n", b"1\n", ""),
        ("exact", b"1\n", b"1", "the end is missing"),
        ("exact", b"1", b"1\n", "there is more than expected"),
        ("exact", b"abc", b"abd", "byte 3 differs"),
        ("tokens", b"1 2\n3", b"\n1\n\t2 3 ", ""),
        ("tokens", b"1 2", b"12", "token 1 differs"),
        ("tokens", b"1 2", b"1", "token 2 is missing"),
        ("tokens", b"1", b"1 2", "token 2 is more than expected"),
        ("tokens", b"1.0", b"1", "token 1 differs"),
        ("float", b"1.0 yes", b"1.0000005 yes", ""),
        ("float", b"1e6", b"1000000.9", ""),
        ("float", b"1.0", b"1.00001", "token 1 differs"),
        ("float", b"yes 1", b"no 1", "token 1 differs"),
        ("float", b"1.0", b"nan", "token 1 differs"),
        ("float", b"1.0", b"inf", "token 1 differs"),
        ("float", b"1e999", b"5", "token 1 differs"),
        ("float", b"nan", b"nan", ""),
        ("float", b"10", b"1_0", "token 1 differs"),
        ("float", b"3", "\u0663".encode(), "token 1 differs"),
    ],
)
def test_what_differs_is_said_without_the_expected_output(how, expected, actual, message):
    assert compare(expected, actual, how) == message


@given(st.lists(WORDS, max_size=5), st.data())
def test_white_space_at_line_ends_does_not_count(lines, data):
    expected = b"\n".join(b" ".join(words) for words in lines)
    actual = b"\n".join(b" ".join(words) + data.draw(SPACE) for words in lines) + data.draw(
        st.text(" \n", max_size=4).map(str.encode)
    )
    assert compare(expected, actual, "lines") == ""


@given(WORDS, WORDS, st.data())
def test_tokens_are_equal_if_and_only_if_the_words_are(expected, actual, data):
    spaces = st.text(" \n\t\r", min_size=1, max_size=3).map(str.encode)
    text = b"".join(word + data.draw(spaces) for word in actual)
    assert (compare(b" ".join(expected), text, "tokens") == "") == (expected == actual)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_equal_bytes_are_equal_in_every_way_and_exact_means_bytes(one, other):
    assert [compare(one, one, how) for how in ("exact", "lines", "tokens", "float")] == [""] * 4
    assert (compare(one, other, "exact") == "") == (one == other)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_each_comparison_accepts_what_a_stricter_one_accepts(one, other):
    accepted = [compare(one, other, how) == "" for how in ("exact", "lines", "tokens", "float")]
    assert accepted == sorted(accepted)


@given(FINITE, FINITE)
def test_numbers_are_equal_within_the_tolerance(wanted, found):
    near = abs(wanted - found) <= TOLERANCE * max(1.0, abs(wanted))
    assert (compare(repr(wanted).encode(), repr(found).encode(), "float") == "") == near


@given(FINITE)
def test_a_number_equals_itself_in_another_notation(number):
    assert compare(repr(number).encode(), f"{number:.17e}".encode(), "float") == ""


def test_output_is_read_only_as_far_as_it_can_be_right():
    class Counted(bytes):
        searched = 0

        def find(self, *arguments):
            self.searched += 1
            return super().find(*arguments)

    output = Counted(b"x\n" * 100_000)
    assert compare(b"x\ny\n", output, "lines") == "line 2 differs"
    assert output.searched <= 3


def test_a_number_of_a_million_digits_is_not_read():
    assert compare(b"1" * 1_000_000, b"1" * 999_999 + b"2", "float") == "token 1 differs"
    assert math.isinf(float("1" * 400))
