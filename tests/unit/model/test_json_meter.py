"""The meter counts what a decoder would read: exactly for valid texts, and never less for any other."""

import contextlib
import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.json_meter import COUNTED_BYTES, JsonMeter, holds_more

TEXTS = st.text(alphabet='ab"\\[]{},: \u00e9\U0001f600\n', max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=30,
)
FORMS: list[dict[str, Any]] = [
    {},
    {"indent": 1},
    {"separators": (",", ":")},
    {"separators": (" \t,\r\n", "\n: "), "ensure_ascii": False},
]


def counted(pieces: list[bytes]) -> tuple[int, int]:
    """Return the values in a text, and the levels: the least bound that it keeps."""
    for most_depth in itertools.count():
        meter = JsonMeter(most_depth)
        for piece in pieces:
            meter.feed(piece)
        if not meter.too_deep:
            return meter.values, most_depth
    raise AssertionError


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(bounds)]


def size(value: object) -> tuple[int, int]:
    """Return the number of values and levels in a decoded value."""
    if not isinstance(value, list | dict):
        return 1, 0
    parts = [size(each) for each in (value.values() if isinstance(value, dict) else value)]
    return 1 + sum(count for count, _ in parts), 1 + max((depth for _, depth in parts), default=0)


@given(VALUES, st.sampled_from(FORMS), st.lists(st.integers(0, 500), max_size=6))
def test_a_valid_text_is_counted_exactly_however_it_is_cut(value, form, places):
    data = json.dumps(value, **form).encode()
    assert counted(cut(data, places)) == size(value)


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_any_bytes_are_counted_alike_however_they_are_cut(data, places):
    assert counted(cut(data, places)) == counted([data])


@given(st.text(alphabet='[]{}",:\\1 \n', max_size=40))
def test_what_a_decoder_has_read_of_any_text_is_counted(text):
    made = 0

    def note(_: object) -> None:
        nonlocal made
        made += 1

    decoder = json.JSONDecoder(strict=False, object_pairs_hook=note, parse_int=note)  # pyright: ignore[reportArgumentType]
    with contextlib.suppress(ValueError):
        decoder.raw_decode(text)
    assert counted([text.encode()])[0] >= made


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"[]", (1, 1)),
        (b"[ \n]", (1, 1)),
        (b"{}", (1, 1)),
        (b'[""]', (2, 1)),
        (b'{"a,[": []}', (2, 2)),
        (rb'["\\", "\"[[,", [[]]]', (5, 3)),
        (b"[[],[],[]]", (4, 2)),
        (b"1", (1, 0)),
        (b"[" * 40 + b"]" * 40, (40, 40)),
        (b"[[],[" * 20 + b"[]" + b"]]" * 20, (61, 41)),
    ],
)
def test_examples(text, found):
    assert counted([text]) == found
    assert counted([text[at : at + 1] for at in range(len(text))]) == found


def test_a_short_text_is_not_counted_and_a_long_one_is_bounded():
    assert not holds_more(b"[" * COUNTED_BYTES, 1)
    long = b"[" + b",".join([b"[[1]]"] * 5_000) + b"]"
    assert not holds_more(long, 15_001)
    assert holds_more(long, 15_000)
    assert not holds_more(b'"' + b"[[,{" * 5_000 + b'"', 1)


def test_a_line_break_ends_a_string_where_no_string_has_one():
    meter = JsonMeter()
    for line in (b'id: "', b"data: [1,"):
        meter.feed(line)
        meter.end_line()
    assert meter.values == 3
