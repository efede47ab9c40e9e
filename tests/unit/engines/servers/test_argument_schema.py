"""As much of a tool's schema as can be checked, and what is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.engines.servers.calls.argument_schema import compile_arguments
from paddock.foundation.schema.inline_refs import unfold_schema

Y = {"y": {"type": "integer"}}
WRONG_Y = '`y` must be a whole number, not the text "a"'
BEYOND = "arguments are not checked beyond types, required names and enums: this is no JSON Schema: "


def checked(schema, value=None):
    found = compile_arguments(schema)
    value = {"x": "foo", "y": "a"} if value is None else value
    return found.unchecked, found.schema.list_problems(value) if found.schema else None


def test_a_schema_that_compiles_is_checked_whole():
    assert checked({"properties": Y}) == ("", (WRONG_Y,))


@pytest.mark.parametrize(
    ("schema", "unchecked"),
    [
        (
            {"properties": {"x": {"pattern": "^(?!foo).*$"}, **Y}},
            'arguments are not checked against `properties.x.pattern` "^(?!foo).*$"',
        ),
        (
            {"$schema": "https://example.com/my-dialect", "properties": Y},
            'arguments are not checked by its $schema "https://example.com/my-dialect", which is unknown',
        ),
        (
            {"properties": {"x": {"type": "any"}, **Y}},
            'arguments are not checked against `properties.x.type` "any"',
        ),
        (
            {"properties": {"x": {"required": True}, "z": {"pattern": "(a)\\1"}, **Y}},
            'arguments are not checked against `properties.z.pattern` "(a)\\\\1" and against'
            " `properties.x.required` true",
        ),
        (
            {"properties": {"x": 5, **Y}, "additionalProperties": False},
            "arguments are not checked against `properties.x` 5",
        ),
        (
            {
                "patternProperties": {"^(?!a)": {"maxLength": 1}},
                "properties": Y,
                "additionalProperties": False,
            },
            "arguments are not checked against `patternProperties.^(?!a)`",
        ),
        (
            {"properties": {"x": {"prefixItems": 3, "items": {"type": "null"}}, **Y}},
            "arguments are not checked against `properties.x.prefixItems` 3",
        ),
        (
            {"properties": {"x": {"$ref": "https://a.example/b"}, **Y}},
            f"{BEYOND}the reference 'https://a.example/b' leads out of it; nothing is fetched",
        ),
        (
            {"oneOf": [{"properties": {"x": {"pattern": "(?!a)"}}}], "properties": Y},
            f"{BEYOND}the pattern '(?!a)' is no regular expression, or none that takes linear time and 512 KiB",
        ),
        (
            {"properties": {**{f"p{n}": {"type": "any"} for n in range(20)}, **Y}},
            f"{BEYOND}\"any\" is not valid under any of the schemas listed in the 'anyOf' keyword",
        ),
        (
            {"properties": Y, "description": "x" * 70_000},
            "arguments are not checked beyond types, required names and enums: the schema has more than 65536 characters",
        ),
    ],
)
def test_what_can_be_checked_is_and_the_rest_is_said(schema, unchecked):
    assert checked(schema) == (unchecked, (WRONG_Y,))


def test_outlines_have_types_required_names_and_enums_of_references():
    schema = {
        "$defs": {"A": {"type": "object", "properties": {"s": {"enum": ["open"]}}, "required": ["s"]}},
        "properties": {"a": {"$ref": "#/$defs/A"}, "n": {"type": "string", "nullable": True}},
        "allOf": [{"$ref": "https://a.example/b"}],
        "additionalProperties": False,
    }
    assert checked(schema, {"a": {"s": 7}, "n": None, "other": 1})[1] == (
        '`a.s` must be one of "open", not 7',
        "`other` is unknown; known: a, n",
    )
    assert checked(schema, {"a": {}, "n": 1})[1] == (
        "`a.s` is missing",
        "`n` must be null or a text, not 1",
    )


def test_what_is_said_of_a_schema_is_short_and_hides_nothing():
    unchecked, _ = checked({"properties": {"x": {"pattern": "(?!\u202e\n" + "a" * 10_000 + ")"}}})
    assert (
        unchecked
        == 'arguments are not checked against `properties.x.pattern` "(?!\\u{202e}\\n' + "a" * 43 + "..."
    )


@pytest.mark.parametrize(
    "schema", [{"$ref": "#"}, {"$ref": "https://evil.example/schema.json"}, {"not": {"pattern": "(?!a)"}}]
)
def test_what_nothing_can_be_checked_of_lets_everything_pass(schema):
    unchecked, problems = checked(schema, {"a": "a"})
    assert (unchecked.startswith("arguments are not checked: "), problems) == (True, ())


def test_a_schema_that_is_nested_deep_costs_little():
    schema = node = {}
    for _ in range(400):
        node["properties"] = {"y": {}}
        node = node["properties"]["y"]
    node["pattern"] = "(?!a)"
    assert compile_arguments(schema).unchecked.startswith("arguments are not checked")


KEYWORDS = st.sampled_from(
    [
        "type",
        "enum",
        "pattern",
        "required",
        "properties",
        "items",
        "allOf",
        "not",
        "$ref",
        "minimum",
        "$schema",
        "if",
        "patternProperties",
        "additionalProperties",
        "prefixItems",
        "contains",
        "nullable",
        "$defs",
        "oneOf",
        "$id",
    ]
)
VALUES = st.sampled_from([True, 3, "string", "any", "(?!a)", "#", "#/$defs/a", ["a"], [3], None, "a"])
HOSTILE = st.recursive(
    VALUES,
    lambda inner: (
        st.dictionaries(KEYWORDS | st.sampled_from("ab"), inner, max_size=4) | st.lists(inner, max_size=3)
    ),
    max_leaves=20,
)


@given(st.dictionaries(KEYWORDS, HOSTILE, max_size=5), HOSTILE)
def test_no_schema_of_a_stranger_breaks_the_check(document, value):
    schema, unchecked = compile_arguments(document)
    assert schema is not None or unchecked
    if schema is not None:
        schema.list_problems({"a": value})
    unfold_schema(document)
