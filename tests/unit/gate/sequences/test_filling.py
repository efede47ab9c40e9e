"""References and conditions: paths and literals, and nothing that is evaluated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.gate.sequences.references import (
    MAX_FILLED_CHARS,
    MissingReference,
    ReferenceFiller,
    condition,
    look_up,
    references,
)
from paddock.model.errors import SdkError

SCOPE = {"region": "eu", "steps": {"a": {"ok": True, "value": {"ids": [7, 8], "none": None, "zero": 0}}}}


def find(path):
    return look_up(SCOPE, path)


@pytest.mark.parametrize(
    ("value", "filled"),
    [
        ("${region}", "eu"),
        ("in ${region}!", "in eu!"),
        ("${steps.a.value.ids}", [7, 8]),
        ("ids: ${steps.a.value.ids}", "ids: [7, 8]"),
        ("${steps.a.value.ids.1}", 8),
        ("$${region} $$${region}", "${region} $${region}"),
        ({"k": ["${region}", 1, None, True]}, {"k": ["eu", 1, None, True]}),
        ("$region {region}", "$region {region}"),
    ],
)
def test_fill(value, filled):
    assert ReferenceFiller(find).value(value) == filled


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("steps.b", "${steps.b}: there is no 'b'"),
        ("steps.a.value.ids.2", "${steps.a.value.ids.2}: there is no '2'"),
        ("region.__class__", "${region.__class__}: there is no '__class__'"),
        ("steps.a.value.ids." + "9" * 5000, None),
    ],
)
def test_a_path_that_leads_nowhere(path, message):
    with pytest.raises(MissingReference) as raised:
        find(path)
    assert message in (None, str(raised.value))


def test_what_is_filled_in_is_bounded():
    filling = ReferenceFiller(lambda _: "x" * (MAX_FILLED_CHARS // 2))
    filling.text("${a}${a}")
    with pytest.raises(SdkError, match="have more than 1048576 characters"):
        filling.text("${a}")


def test_what_was_filled_in_is_not_filled_again():
    assert ReferenceFiller(lambda _: "${region}").value(["${a}", "x${a}"]) == ["${region}", "x${region}"]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("region", True),
        ("not region", False),
        ("missing", False),
        ("not missing", True),
        ("steps.a.value.none", False),
        ("steps.a.value.zero", True),
        ("region == 'eu'", True),
        ('region != "eu"', False),
        ("region=='us'", False),
        ("steps.a.ok == true", True),
        ("steps.a.ok == 1", False),
        ("steps.a.value.zero == 0", True),
        ("steps.a.value.none == null", True),
        ("steps.a.value.ids.0 != 7.5", True),
    ],
)
def test_conditions(text, holds):
    assert condition(text).holds(find) is holds


@pytest.mark.parametrize(
    "text", ["", "a b", "a == b", "not a == 'b'", "a > 1", "a..b", "1 == 1 or a", "not", "f()"]
)
def test_what_is_no_condition(text):
    with pytest.raises(ValueError, match="is not a condition; write NAME, not NAME, NAME == 'text'"):
        condition(text)


def test_references_are_found_at_any_depth():
    assert list(references({"a": ["${x}", {"b": "${y.1} $${z}"}], "c": 1})) == ["x", "y.1"]


@pytest.mark.parametrize("text", ["${}", "${a b}", "${__import__('os')}", "${a.}"])
def test_what_is_no_reference(text):
    with pytest.raises(ValueError, match="is not a reference"):
        list(references(text))


@given(st.text())
def test_any_text_is_a_condition_or_none(text):
    try:
        found = condition(text)
    except ValueError:
        return
    assert found.holds(find) in (True, False)
