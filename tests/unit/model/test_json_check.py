"""What is JSON is decided as `json.dumps` decides it, only faster."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.json_check import check_json
from paddock.model.numbers import ExactFloat

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(max_size=2),
    st.dates(),
    st.just(ExactFloat("0.1000000000000000055511151231257828")),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.text(), st.integers(), st.binary(max_size=1)), inner),
    ),
)


def verdict(check, value):
    try:
        check(value)
    except (TypeError, ValueError, RecursionError) as problem:
        return type(problem)
    return None


@given(VALUES)
def test_every_value_is_judged_as_by_the_encoder(value):
    assert verdict(check_json, value) == verdict(lambda given: json.dumps(given, allow_nan=False), value)


CYCLE: list[object] = []
CYCLE.append(CYCLE)
DEEP: list[object] = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("value", "problem"),
    [(CYCLE, ValueError), (DEEP, RecursionError), (10**5000, ValueError)],
    ids=["cycle", "deep", "long number"],
)
def test_what_the_encoder_cannot_write_is_refused(value, problem):
    assert verdict(check_json, value) is problem
    assert verdict(check_json, {"a": [1, value]}) is problem


def test_a_million_members_are_not_encoded(monkeypatch):
    monkeypatch.setattr(json, "dumps", None)
    check_json({str(number): [number, 0.5, None, True, "text"] for number in range(1000)})
