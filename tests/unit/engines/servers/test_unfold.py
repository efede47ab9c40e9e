"""Schemas of strangers become trees of bounded size, which forbid nothing that the original allows."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema_rs import validator_for

from paddock.foundation.schema.inline_refs import MAX_NODES, unfold_schema


def size(tree):
    match tree:
        case dict():
            return 1 + sum(size(value) for value in tree.values())
        case list():
            return sum(size(value) for value in tree)
        case _:
            return 0


def test_references_are_replaced_by_what_they_mean():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"a/b": {"type": "string", "description": "theirs"}},
        "properties": {
            "x": {"$ref": "#/$defs/a~1b", "description": "ours"},
            "y": {"$ref": "#/$defs/a~1b", "minLength": 2},
        },
    }
    assert unfold_schema(schema) == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {
            "x": {"type": "string", "description": "ours"},
            "y": {"minLength": 2, "allOf": [{"type": "string", "description": "theirs"}]},
        },
    }


def test_recursion_is_cut():
    node = {"type": "object", "properties": {"next": {"$ref": "#"}, "value": {"type": "number"}}}
    inner = {"type": "object", "properties": {"next": {}, "value": {"type": "number"}}}
    assert unfold_schema(node) == {
        "type": "object",
        "properties": {"next": inner, "value": {"type": "number"}},
    }
    assert unfold_schema({"$ref": "#"}) == {}


@pytest.mark.parametrize(
    "reference",
    ["https://example.com/x", "other.json#/a", "#/none", "#anchor", 7, "#/allOf/9999999", "#/a/0"],
)
def test_what_cannot_be_followed_allows_everything(reference):
    assert unfold_schema({"properties": {"x": {"$ref": reference}}, "a": {"b": 1}}) == {
        "properties": {"x": {}},
        "a": {"b": 1},
    }


def test_data_in_a_schema_is_no_schema():
    assert unfold_schema({"enum": [{"$ref": "#"}], "default": {"$defs": 1}}) == {
        "enum": [{"$ref": "#"}],
        "default": {"$defs": 1},
    }


def test_what_a_cut_would_turn_round_is_dropped():
    cut = {"$ref": "elsewhere"}
    assert unfold_schema({"not": cut, "type": "string"}) == {"type": "string"}
    assert unfold_schema({"if": cut, "then": {"type": "string"}, "else": False}) == {}
    assert unfold_schema({"oneOf": [cut, {"type": "string"}]}) == {
        "allOf": [{"anyOf": [{}, {"type": "string"}]}]
    }
    assert unfold_schema({"allOf": [cut], "unevaluatedProperties": False}) == {"allOf": [{}]}
    assert unfold_schema({"not": {"type": "string"}}) == {"not": {"type": "string"}}


def test_a_bomb_of_references_stays_small():
    bomb = {
        "$defs": {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)},
        "$ref": "#/$defs/d0",
    }
    assert size(unfold_schema(bomb)) <= 3 * MAX_NODES


def test_a_schema_with_too_many_members_allows_everything():
    wide = {
        "properties": {str(n): {"type": "string"} for n in range(MAX_NODES)},
        "additionalProperties": False,
    }
    assert unfold_schema(wide) == {}


keywords = st.deferred(lambda: schemas)
schemas = st.recursive(
    st.booleans()
    | st.sampled_from(
        [{"type": "string"}, {"type": "object"}, {"$ref": "#"}, {"$ref": "#/$defs/a"}, {"minLength": 2}]
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "$defs": st.fixed_dictionaries({"a": inner}),
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "additionalProperties": inner,
            "items": inner,
            "not": inner,
            "if": inner,
            "then": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "unevaluatedProperties": st.booleans(),
        },
    ),
    max_leaves=8,
)
values = st.recursive(
    st.none() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


def loops(schema):
    """Tell whether a schema may lead nowhere, or to itself without going deeper into the value: no validator takes that."""
    text = json.dumps(schema)
    return "$ref" in text and any(
        word in text for word in ('"not"', '"if"', '"anyOf"', '"oneOf"', '"allOf"', '"$defs"', "#/$defs/")
    )


@settings(max_examples=200)
@given(schemas.filter(lambda schema: isinstance(schema, dict) and not loops(schema)), values)
def test_what_a_schema_allows_its_tree_allows(schema, value):
    if "$ref" not in schema and validator_for(schema).is_valid(value):
        assert validator_for(unfold_schema(schema)).is_valid(value)
