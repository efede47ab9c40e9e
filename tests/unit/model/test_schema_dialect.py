"""Schemas as they are written in the field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.foundation.schema.check import Schema
from paddock.foundation.schema.dialect import is_known_dialect, list_anchors, normalize_schema

P = {"type": "object", "properties": {"id": {"type": "integer"}}}


def told(schema, value, **further):
    """Return what is wrong with a value of the member `x`."""
    return Schema({"type": "object", "properties": {"x": schema}, **further}).list_problems({"x": value})


@pytest.mark.parametrize(
    ("schema", "wrong", "problem"),
    [
        ({"type": "string", "nullable": True}, 5, "`x` must be null or a text, not 5"),
        (
            {"type": ["string", "integer"], "nullable": True},
            [],
            "`x` must be null or a whole number or a text, not a list",
        ),
        ({"enum": ["open"], "nullable": True}, 7, '`x` must be one of "open", null, not 7'),
        ({"const": "open", "nullable": True}, 7, '`x` must be one of "open", null, not 7'),
        (
            {"type": "string", "enum": ["open"], "nullable": True},
            "quiet",
            '`x` must be one of "open", null, not the text "quiet"',
        ),
        (
            {"$ref": "#/$defs/P", "nullable": True},
            {"id": "a"},
            '`x.id` must be a whole number, not the text "a"',
        ),
        ({"allOf": [{"$ref": "#/$defs/P"}], "nullable": True}, 4, "`x` must be an object, not 4"),
        (
            {"oneOf": [{}], "type": "integer", "nullable": True},
            "a",
            '`x` must be a whole number, not the text "a"',
        ),
        (
            {"not": {"type": "null"}, "nullable": True, "minLength": 2},
            "a",
            '`x`: "a" is shorter than 2 characters',
        ),
    ],
)
@pytest.mark.parametrize("draft", ["2020-12", "07"])
def test_nullable_means_that_null_is_taken(schema, wrong, problem, draft):
    uri = (
        "http://json-schema.org/draft-07/schema#"
        if draft == "07"
        else "https://json-schema.org/draft/2020-12/schema"
    )
    further = {"$schema": uri, "$defs": {"P": P}}
    assert told(schema, None, **further) == ()
    assert told(schema, wrong, **further) == (problem,)
    assert told({**schema, "nullable": False}, None, **further) != ()


def test_nullable_in_old_drafts_which_have_no_if():
    further = {"$schema": "http://json-schema.org/draft-04/schema#", "definitions": {"P": P}}
    assert told({"$ref": "#/definitions/P", "nullable": True}, None, **further) == ()
    assert told({"$ref": "#/definitions/P", "nullable": True}, 4, **further) != ()


def test_a_property_may_be_called_nullable():
    schema = {"properties": {"nullable": True, "type": {"type": "string"}}, "enum": [{"nullable": True}]}
    assert normalize_schema(schema) == schema


def test_references_to_schemas_that_are_nullable_still_lead_there():
    members = {
        "a": {"$ref": "#/properties/b"},
        "b": {"allOf": [P], "properties": {"c": {"type": "integer"}}, "nullable": True},
    }
    schema = Schema({"properties": {**members, "d": {"$ref": "#/properties/b/properties/c"}}})
    assert schema.list_problems({"a": None, "b": None, "d": 1}) == ()
    assert schema.list_problems({"a": {"c": "x"}}) == ('`a.c` must be a whole number, not the text "x"',)


def test_bounds_of_openapi_are_excluded():
    assert told({"minimum": 3, "exclusiveMinimum": True}, 3) == (
        "`x`: 3 is less than or equal to the minimum of 3",
    )
    assert told({"minimum": 3, "exclusiveMinimum": False}, 3) == ()
    assert told({"maximum": 3, "exclusiveMaximum": True}, 4) == (
        "`x`: 4 is greater than or equal to the maximum of 3",
    )
    assert told({"exclusiveMaximum": True}, 4) == ()


@pytest.mark.parametrize("draft", [{}, {"$schema": "http://json-schema.org/draft-07/schema#"}])
@pytest.mark.parametrize("keyword", ["$id", "id"])
def test_anchors_of_old_drafts_are_places(draft, keyword):
    definitions = {"A/B~": {keyword: "#foo", "type": "integer"}}
    assert told({"$ref": "#foo"}, "a", definitions=definitions, **draft) == (
        '`x` must be a whole number, not the text "a"',
    )
    assert list_anchors({"definitions": definitions}) == {"foo": {keyword: "#foo", "type": "integer"}}


def test_anchors_below_an_address_of_its_own_are_left_alone():
    within = {
        "$id": "https://a.example/b",
        "$defs": {"A": {"$anchor": "foo", "type": "integer"}},
        "$ref": "#foo",
    }
    assert normalize_schema({"$defs": {"W": within}, "$ref": "#foo"}) == {
        "$defs": {"W": within},
        "$ref": "#foo",
    }


@pytest.mark.parametrize(
    ("named", "known"),
    [
        (None, True),
        ("http://json-schema.org/draft-07/schema#", True),
        ("https://json-schema.org/draft/2020-12/schema", True),
        ("http://json-schema.org/draft-03/schema#", False),
        ("https://example.com/my-dialect", False),
        (5, False),
    ],
)
def test_drafts(named, known):
    assert is_known_dialect({} if named is None else {"$schema": named}) is known


SCHEMAS = st.recursive(
    st.one_of(
        st.booleans(),
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["string", "integer", "null", ["string", "null"]]),
                "enum": st.lists(st.sampled_from([1, "a", None]), max_size=2),
                "const": st.sampled_from([1, None]),
                "nullable": st.booleans(),
                "$ref": st.sampled_from(["#", "#foo", "#/properties/a"]),
                "$id": st.sampled_from(["#foo", "#bar"]),
                "exclusiveMinimum": st.booleans(),
            },
        ),
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from(["a", "nullable"]), inner, max_size=2),
            "allOf": st.lists(inner, max_size=2),
            "items": inner,
            "not": inner,
            "nullable": st.booleans(),
        },
    ),
)


@given(
    st.dictionaries(st.sampled_from(["properties", "$defs"]), st.dictionaries(st.sampled_from("ab"), SCHEMAS))
)
def test_what_is_normal_stays_as_it_is(document):
    once = normalize_schema(document)
    assert normalize_schema(once) == once
