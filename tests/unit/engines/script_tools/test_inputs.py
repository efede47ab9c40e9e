"""Inputs of tools against their schemas: the rules and messages of the original, and all of JSON Schema."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.engines.script_tools.inputs import CheckedInputs, check
from paddock.foundation.schema.check import Schema

STRICT = True


def errors(schema: dict[str, Any], inputs: dict[str, Any], *, strict_nulls: bool = False) -> tuple[str, ...]:
    return check(inputs, Schema(schema), strict_nulls=strict_nulls).errors


def of(name: str, schema: Any, *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema}, "required": list(required)}


TWO = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "count": {"type": "number"}},
    "required": ["name", "count"],
}


def test_p1_a_schema_without_properties_takes_anything():
    assert check({}, Schema({"type": "object"})) == CheckedInputs((), {})
    assert check({"x": [1]}, Schema({"type": "object", "properties": {}})) == CheckedInputs((), {"x": [1]})


def test_p2_every_missing_field_is_named_in_the_order_of_required():
    assert errors(TWO, {}) == ("Missing required field: name", "Missing required field: count")


def test_p3_every_wrong_type_is_named_in_the_order_of_the_inputs():
    assert errors(TWO, {"name": 123, "count": "not a number"}) == (
        "Field 'name': expected string, got integer",
        "Field 'count': expected number, got string",
    )
    assert errors(TWO, {"count": "x", "name": 1.5}) == (
        "Field 'count': expected number, got string",
        "Field 'name': expected string, got number",
    )
    assert errors(TWO, {"count": []}) == (
        "Missing required field: name",
        "Field 'count': expected number, got array",
    )


def test_p4_valid_inputs_are_passed_on():
    assert check({"name": "test", "count": 42}, Schema(TWO)) == CheckedInputs(
        (), {"name": "test", "count": 42}
    )


@pytest.mark.parametrize(
    ("declared", "value", "got"),
    [
        ("array", [1, 2, 3], None),
        ("array", "not-an-array", "string"),
        ("boolean", True, None),
        ("boolean", "true", "string"),
        ("integer", 42, None),
        ("integer", 42.0, None),
        ("integer", 42.5, "number"),
        ("number", 42, None),
        ("number", True, "boolean"),
        ("object", [], "array"),
    ],
)
def test_p5_p6_p7_p9_types(declared: str, value: Any, got: str | None):
    said = (f"Field 'x': expected {declared}, got {got}",) if got else ()
    assert errors(of("x", {"type": declared}), {"x": value}) == said


@pytest.mark.parametrize(("value", "got"), [("hello", None), (123, None), (True, "boolean")])
def test_p8_one_of_several_types(value: Any, got: str | None):
    said = (f"Field 'x': expected string | integer, got {got}",) if got else ()
    found = errors(of("x", {"type": ["string", "integer"]}), {"x": value})
    assert [text.replace("integer | string", "string | integer") for text in found] == list(said)


def test_p10_null_stands_for_any_type_unless_nulls_are_strict():
    schema = of("x", {"type": "string", "minLength": 2}, "x")
    assert check({"x": None}, Schema(schema)) == CheckedInputs((), {"x": None})
    assert errors(schema, {"x": None}, strict_nulls=STRICT) == ("Field 'x': expected string, got null",)
    assert errors(of("x", {"enum": [1]}), {"x": None}) == ("Field 'x': null is not one of 1",)


@pytest.mark.parametrize("declared", ["array", ["array", "null"], ["string", "array"]])
def test_p11_a_text_that_stands_for_a_list_becomes_one(declared: Any):
    assert check({"x": " [1,2] "}, Schema(of("x", {"type": declared}))) == CheckedInputs((), {"x": [1, 2]})


def test_p12_an_empty_text_for_an_optional_object_is_left_out():
    assert check({"x": "  "}, Schema(of("x", {"type": "object"}))) == CheckedInputs((), {})
    assert errors(of("x", {"type": "object"}, "x"), {"x": "  "}) == (
        "Field 'x': expected object, got string",
    )


@pytest.mark.parametrize(
    "text", ["{bad", "[NaN]", "[" * 100_000, "{}}", '{"a": -1e999}', '{"a":' * 201 + "1" + "}" * 201]
)
def test_p13_a_text_that_is_no_json_stays_a_text(text: str):
    assert errors(of("x", {"type": "object"}), {"x": text}) == ("Field 'x': expected object, got string",)


def test_p14_a_text_stays_a_text_where_one_is_wanted():
    assert check({"x": "[1]"}, Schema(of("x", {"type": "string"}))) == CheckedInputs((), {"x": "[1]"})


def test_p15_what_the_schema_does_not_name_passes():
    schema = Schema(of("x", {"type": "string"}))
    assert check({"y": {"z": 1}, "constructor": 1}, schema) == CheckedInputs(
        (), {"y": {"z": 1}, "constructor": 1}
    )


def test_inner_places_are_named():
    inner = {"type": "array", "items": of("b", {"type": "string", "maxLength": 1}, "b")}
    assert errors(of("a", inner), {"a": [{"b": "ok"}, {"b": 1}, {}]}) == (
        "Field 'a[1].b': expected string, got integer",
        "Field 'a[0].b': \"ok\" is longer than 1 character",
        "Field 'a[2]': \"b\" is a required property",
    )


CLASSES = [
    ("type", {"type": "string"}, "a", 1),
    ("enum", {"enum": ["a", 2, None]}, 2, "b"),
    ("const", {"const": {"a": [1]}}, {"a": [1]}, {"a": [2]}),
    ("multipleOf", {"multipleOf": 0.01}, 4.35, 4.355),
    ("maximum", {"maximum": 3}, 3, 3.1),
    ("exclusiveMaximum", {"exclusiveMaximum": 3}, 2.9, 3),
    ("minimum", {"minimum": -2}, -2, -2.1),
    ("exclusiveMinimum", {"exclusiveMinimum": 0}, 0.1, 0),
    ("maxLength", {"maxLength": 2}, "\U0001f600\U0001f600", "abc"),
    ("minLength", {"minLength": 2}, "ab", "\U0001f600"),
    ("pattern", {"pattern": "^a+b$"}, "aab", "ba"),
    ("maxItems", {"maxItems": 1}, [1], [1, 2]),
    ("minItems", {"minItems": 1}, [1], []),
    ("uniqueItems", {"uniqueItems": True}, [1, True, "1"], [{"a": 1}, {"a": 1.0}]),
    ("maxProperties", {"maxProperties": 1}, {"a": 1}, {"a": 1, "b": 2}),
    ("minProperties", {"minProperties": 1}, {"a": 1}, {}),
    ("required", {"required": ["a"]}, {"a": None}, {"b": 1}),
    ("dependentRequired", {"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 1}, {"a": 1}),
    ("dependentSchemas", {"dependentSchemas": {"a": {"minProperties": 2}}}, {"b": 1}, {"a": 1}),
    ("items", {"items": {"type": "integer"}}, [1, 2], [1, "2"]),
    ("prefixItems", {"prefixItems": [{"type": "string"}], "items": False}, ["a"], ["a", 1]),
    ("contains", {"contains": {"const": 5}}, [1, 5], [1, 2]),
    ("minContains", {"contains": {"const": 5}, "minContains": 2}, [5, 5], [5]),
    ("maxContains", {"contains": {"const": 5}, "maxContains": 1}, [5], [5, 5]),
    ("properties", {"properties": {"a": {"type": "integer"}}}, {"a": 1}, {"a": "1"}),
    ("patternProperties", {"patternProperties": {"^x": {"type": "integer"}}}, {"x1": 1, "y": "a"}, {"x1": "a"}),
    ("additionalProperties", {"properties": {"a": {}}, "additionalProperties": False}, {"a": 1}, {"b": 1}),
    ("propertyNames", {"propertyNames": {"maxLength": 2}}, {"ab": 1}, {"abc": 1}),
    ("allOf", {"allOf": [{"minimum": 1}, {"maximum": 2}]}, 1.5, 3),
    ("anyOf", {"anyOf": [{"type": "string"}, {"minimum": 5}]}, 6, 4),
    ("oneOf", {"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]}, 4, 6),
    ("not", {"not": {"type": "string"}}, 1, "a"),
    ("if", {"if": {"minimum": 10}, "then": {"multipleOf": 10}, "else": {"maximum": 5}}, 20, 7),
    ("unevaluatedProperties", {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
    ("unevaluatedItems", {"prefixItems": [{}], "unevaluatedItems": False}, [1], [1, 2]),
    ("boolean schema", {"properties": {"a": False}}, {"b": 1}, {"a": 1}),
    ("$ref", {"$defs": {"n": {"type": "number"}}, "$ref": "#/properties/v/$defs/n"}, 1, "1"),
    ("$anchor", {"$defs": {"n": {"$anchor": "num", "type": "number"}}, "$ref": "#num"}, 1, "1"),
    ("$id", {"$id": "urn:x:a", "$defs": {"n": {"$id": "urn:x:n", "type": "number"}}, "$ref": "urn:x:n"}, 1, "1"),
    (
        "$dynamicRef",
        {
            "$id": "urn:x:tree",
            "$dynamicAnchor": "node",
            "type": "object",
            "properties": {"children": {"type": "array", "items": {"$dynamicRef": "#node"}}},
        },
        {"children": [{"children": []}]},
        {"children": [{"children": 1}]},
    ),
    ("format is an annotation", {"format": "email"}, "no address", None),
    ("content is an annotation", {"contentEncoding": "base64", "contentMediaType": "application/json"}, "{", None),
    ("unknown keywords mean nothing", {"x-ui": {"type": "string"}, "deprecated": True, "default": 1}, [], None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "good", "bad"), [case[1:] for case in CLASSES], ids=[case[0] for case in CLASSES]
)
def test_every_class_of_keywords_of_2020_12_holds(schema: dict[str, Any], good: Any, bad: Any):
    compiled = Schema(of("v", schema))
    assert check({"v": good}, compiled, strict_nulls=STRICT).errors == ()
    if bad is not None:
        [said] = check({"v": bad}, compiled, strict_nulls=STRICT).errors[:1]
        assert said.startswith("Field 'v")


def test_keywords_of_the_root_hold():
    assert errors({"type": "object", "minProperties": 1}, {}) == ("{} has less than 1 property",)
    assert errors({"type": "array"}, {}) == ('{} is not of type "array"',)


def test_older_drafts_are_read_as_they_say():
    draft_7 = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"x": {"items": [{"const": 1}]}},
    }
    assert errors(draft_7, {"x": [2]}) == ("Field 'x[0]': 1 was expected",)


def test_messages_are_bounded():
    found = errors(
        {"additionalProperties": {"const": "y" * 1000}}, {f"k{n}": "x" * 10_000 for n in range(100)}
    )
    assert len(found) == 50
    assert max(map(len, found)) < 700


def test_many_names_take_no_more_than_their_number():
    many = [f"k{n}" for n in range(20_000)]
    started = time.process_time()
    missing = errors({"type": "object", "required": many}, {})
    schema = Schema({"properties": {name: {"type": "string"} for name in many[:2900]}})
    nulls = check(dict.fromkeys(f"k{n}" for n in range(100_000)), schema)
    assert time.process_time() - started < 5  # half a minute when each was looked for among the others
    assert (missing[:2], len(missing)) == (("Missing required field: k0", "Missing required field: k1"), 50)
    assert (nulls.errors, len(nulls.inputs)) == ((), 100_000)


@given(st.dictionaries(st.sampled_from("abc"), st.text(max_size=8) | st.none() | st.integers()))
def test_whatever_comes_in_is_checked(inputs: dict[str, Any]):
    schema = Schema(
        {"properties": {"a": {"type": "array"}, "b": {"type": ["object", "null"]}}, "required": ["c"]}
    )
    checked = check(inputs, schema)
    assert checked.errors == () or all(isinstance(text, str) for text in checked.errors)
    assert check(checked.inputs, schema) == checked
