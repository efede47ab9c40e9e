"""Every class of keyword of JSON Schema 2020-12 through the validator of tools, with values on both sides of each."""

import pytest

from paddock.foundation.schema.check import Schema

Json = dict[str, object]

APPLICATORS: list[tuple[Json, list[object], list[object]]] = [
    ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, [1, 3, "x"], [0, 4]),
    ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, ["x", 5], [4]),
    ({"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]}, [2, 3, 4], [6, 5]),
    ({"not": {"type": ["null", "boolean"]}}, [0, ""], [None, True]),
    ({"not": True}, [], [None, {}]),
    (
        {"if": {"minimum": 10}, "then": {"multipleOf": 10}, "else": {"maximum": 5}},
        [10, 20, 5, "x"],
        [11, 6],
    ),
    ({"if": False, "then": False}, [1], []),
    ({"then": False, "else": False}, [1], []),
    (
        {"properties": {"a": {"type": "null"}, "b": False}},
        [{}, {"a": None}, {"c": 1}, []],
        [{"a": 1}, {"b": 1}],
    ),
    (
        {"patternProperties": {"^n_": {"type": "integer"}, "[0-9]$": False}},
        [{"n_": 1, "x": ""}],
        [{"n_": ""}, {"n_1": 1}],
    ),
    (
        {"properties": {"a": True}, "patternProperties": {"^x": True}, "additionalProperties": {"const": 1}},
        [{"a": 2, "xy": 2, "z": 1}],
        [{"z": 2}],
    ),
    ({"propertyNames": {"maxLength": 2, "pattern": "^[a-z]"}}, [{"ab": 1}, {}, "x"], [{"abc": 1}, {"1": 1}]),
    (
        {"dependentSchemas": {"a": {"required": ["b"]}, "c": False}},
        [{}, {"a": 1, "b": 1}],
        [{"a": 1}, {"c": 1}],
    ),
    ({"dependentRequired": {"a": ["b", "c"]}}, [{"b": 1}, {"a": 1, "b": 1, "c": 1}, "a"], [{"a": 1, "b": 1}]),
    (
        {"prefixItems": [{"type": "integer"}, {"type": "string"}]},
        [[1, "a", None], [1], [], {}],
        [["a"], [1, 2]],
    ),
    ({"prefixItems": [True], "items": {"type": "integer"}}, [["a", 1, 2], ["a"]], [["a", "b"]]),
    ({"prefixItems": [True, True], "items": False}, [[1], [1, 2]], [[1, 2, 3]]),
    ({"contains": {"const": 1}}, [[0, 1], "x"], [[], [0]]),
    ({"contains": {"const": 1}, "minContains": 2, "maxContains": 3}, [[1, 1], [1, 1, 1, 0]], [[1], [1] * 4]),
    ({"contains": {"const": 1}, "minContains": 0}, [[], [0]], []),
    ({"minContains": 2, "maxContains": 0}, [[], [1]], []),
]

UNEVALUATED: list[tuple[Json, list[object], list[object]]] = [
    (
        {"allOf": [{"properties": {"a": True}}], "properties": {"b": True}, "unevaluatedProperties": False},
        [{"a": 1, "b": 1}, {}],
        [{"c": 1}],
    ),
    (
        {
            "anyOf": [
                {"properties": {"kind": {"const": "x"}, "x": True}, "required": ["x"]},
                {"properties": {"kind": {"const": "y"}, "y": True}, "required": ["y"]},
            ],
            "unevaluatedProperties": False,
        },
        [{"kind": "x", "x": 1}, {"kind": "y", "y": 1}],
        [{"kind": "x", "x": 1, "y": 1}],
    ),
    (
        {
            "if": {"required": ["a"], "properties": {"a": True}},
            "then": {"properties": {"b": True}},
            "else": {"properties": {"c": True}},
            "unevaluatedProperties": {"type": "null"},
        },
        [{"a": 1, "b": 1}, {"c": 1}, {"d": None}],
        [{"a": 1, "c": 1}, {"b": 1}],
    ),
    (
        {
            "$defs": {"base": {"properties": {"a": True}}},
            "$ref": "#/$defs/base",
            "unevaluatedProperties": False,
        },
        [{"a": 1}],
        [{"b": 1}],
    ),
    (
        {"not": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "unevaluatedProperties": False},
        [{}],
        [{"a": 2}],
    ),
    (
        {"dependentSchemas": {"a": {"properties": {"a": True}}}, "unevaluatedProperties": False},
        [{"a": 1}],
        [{"b": 1}],
    ),
    ({"prefixItems": [True], "unevaluatedItems": False}, [[], [1]], [[1, 2]]),
    (
        {"allOf": [{"prefixItems": [True, True]}], "unevaluatedItems": {"type": "integer"}},
        [["a", "b", 1]],
        [["a", "b", "c"]],
    ),
    (
        {"contains": {"type": "string"}, "unevaluatedItems": {"type": "integer"}},
        [["a", 1]],
        [["a", None], [1]],
    ),
    ({"allOf": [{"items": True}], "unevaluatedItems": False}, [[1, 2]], []),
]

ASSERTIONS: list[tuple[Json, list[object], list[object]]] = [
    ({"type": "integer"}, [1, 1.0, -0.0, 10**30], [1.5, True, "1"]),
    ({"type": "number"}, [1, 1.5, 1e300], [True, None]),
    ({"type": ["object", "array"]}, [{}, []], [None, ""]),
    (
        {"enum": [1, "a", None, [1], {"a": 1}]},
        [1, 1.0, "a", None, [1.0], {"a": 1}],
        [True, "b", [], {"a": 2}],
    ),
    ({"enum": [False, 0]}, [False, 0], [True, 1, ""]),
    ({"enum": []}, [], [None]),
    ({"const": {"a": [1, {"b": None}]}}, [{"a": [1, {"b": None}]}], [{"a": [1, {"b": 0}]}, {}]),
    ({"const": 0}, [0, 0.0, -0.0], [False, ""]),
    ({"const": "é"}, ["é"], ["e\u0301"]),
    ({"minimum": 1, "maximum": 1.5}, [1, 1.5, "x"], [0.9999, 1.6]),
    ({"exclusiveMinimum": 0, "exclusiveMaximum": 1}, [0.5, 5e-324], [0, 1, 1.0]),
    ({"multipleOf": 0.01}, [0.07, 19.99, 1], [0.075]),
    ({"multipleOf": 3}, [0, 9, 9.0, -3], [10, 9.5]),
    ({"maximum": 9007199254740992}, [9007199254740992], [9007199254740993]),
    ({"minimum": -(2**70), "maximum": 2**70}, [2**70, -(2**70)], [2**70 + 1]),
    ({"minLength": 2, "maxLength": 3}, ["ab", "😀😀😀", 1], ["a", "😀", "abcd"]),
    ({"pattern": "b"}, ["abc", 1], ["ac"]),
    ({"pattern": "^\\d+$"}, ["12"], ["1٣", "1\n2"]),
    ({"pattern": "^\\p{Lu}"}, ["É"], ["é"]),
    (
        {"minItems": 1, "maxItems": 2, "uniqueItems": True},
        [[1], [1, True], [{"a": 1}, {"a": 2}]],
        [[], [1, 1.0], [1, 2, 3]],
    ),
    ({"uniqueItems": True}, [[[1], [2]]], [[{"a": 1, "b": 2}, {"b": 2, "a": 1}]]),
    ({"minProperties": 1, "maxProperties": 2}, [{"a": 1}, []], [{}, {"a": 1, "b": 1, "c": 1}]),
    ({"required": ["a", "__proto__"]}, [{"a": 1, "__proto__": 1}, "x"], [{"a": 1}]),
    ({"required": []}, [{}], []),
]

REFERENCES: list[tuple[Json, list[object], list[object]]] = [
    ({"$defs": {"a": {"type": "integer"}}, "items": {"$ref": "#/$defs/a"}}, [[1]], [["x"]]),
    (
        {
            "$defs": {"yes": True, "no": False},
            "properties": {"a": {"$ref": "#/$defs/yes"}, "b": {"$ref": "#/$defs/no"}},
        },
        [{"a": 1}],
        [{"b": 1}],
    ),
    (
        {
            "$defs": {"a/b": {"$anchor": "x", "type": "null"}},
            "properties": {"p": {"$ref": "#/$defs/a~1b"}, "q": {"$ref": "#x"}},
        },
        [{"p": None, "q": None}],
        [{"p": 1}, {"q": 1}],
    ),
    ({"prefixItems": [{"type": "integer"}, {"$ref": "#/prefixItems/0"}]}, [[1, 2]], [[1, "x"]]),
    (
        {
            "$id": "https://example.org/root",
            "$defs": {"n": {"$id": "number", "type": "number"}},
            "items": {"$ref": "number"},
        },
        [[1]],
        [["x"]],
    ),
    (
        {
            "$id": "urn:example:root",
            "$defs": {"n": {"type": "number"}},
            "items": {"$ref": "urn:example:root#/$defs/n"},
        },
        [[1]],
        [["x"]],
    ),
    ({"$defs": {"n": {"minimum": 5}}, "$ref": "#/$defs/n", "maximum": 9}, [5, 9], [4, 10]),
    (
        {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False},
        [{"next": {"next": {}}}],
        [{"next": {"x": 1}}],
    ),
    (
        {
            "$id": "https://example.org/strict",
            "$dynamicAnchor": "node",
            "$ref": "tree",
            "unevaluatedProperties": False,
            "$defs": {
                "tree": {
                    "$id": "tree",
                    "$dynamicAnchor": "node",
                    "type": "object",
                    "properties": {"data": True, "children": {"items": {"$dynamicRef": "#node"}}},
                }
            },
        },
        [{"children": [{"data": 1}]}],
        [{"children": [{"daat": 1}]}, {"children": [1]}],
    ),
]

ANNOTATIONS: list[tuple[Json, list[object], list[object]]] = [
    ({"type": "string", "format": "email"}, ["no address"], [1]),
    ({"format": "of our own"}, ["x", 1], []),
    (
        {"type": "string", "contentEncoding": "base64", "contentMediaType": "application/json"},
        ["?", "e30="],
        [1],
    ),
    ({"contentMediaType": "application/json", "contentSchema": {"type": "object"}}, ["[]"], []),
    (
        {
            "title": "T",
            "description": "D",
            "default": 5,
            "examples": [1],
            "deprecated": True,
            "type": "string",
        },
        ["x"],
        [5],
    ),
    ({"readOnly": True, "writeOnly": True, "$comment": "c"}, [1], []),
    ({"x-of-our-own": {"type": "string"}, "type": "integer"}, [1], ["x"]),
]


@pytest.mark.parametrize(
    ("schema", "fitting", "others"), [*APPLICATORS, *UNEVALUATED, *ASSERTIONS, *REFERENCES, *ANNOTATIONS]
)
def test_keywords(schema: Json, fitting: list[object], others: list[object]):
    compiled = Schema(schema)
    assert [value for value in fitting if compiled.list_problems(value)] == []
    assert [value for value in others if not compiled.list_problems(value)] == []
    assert all(
        isinstance(text, str) and 0 < len(text) < 500
        for value in others
        for text in compiled.list_problems(value)
    )


NOT_SCHEMAS: list[Json] = [
    {"type": "text"},
    {"minimum": "1"},
    {"multipleOf": 0},
    {"minLength": -1},
    {"required": "a"},
    {"required": ["a", "a"]},
    {"properties": []},
    {"allOf": []},
    {"items": [{}]},
    {"pattern": "("},
    {"patternProperties": {"[": {}}},
    {"$ref": 1},
    {"$ref": "#/nowhere"},
    {"$defs": {"a": {"type": 1}}},
]


@pytest.mark.parametrize("document", NOT_SCHEMAS)
def test_what_is_no_schema_is_refused(document: Json):
    with pytest.raises(ValueError, match=r"^this is no JSON Schema: ."):
        Schema(document)


def test_an_older_draft_is_read_as_what_it_names():
    seventh = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "items": [{"type": "integer"}],
        "additionalItems": False,
    }
    assert Schema(seventh).list_problems([1]) == ()
    assert len(Schema(seventh).list_problems([1, 2])) == 1
    together = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "dependencies": {"a": ["b"], "c": {"required": ["d"]}},
    }
    assert [
        bool(Schema(together).list_problems(value)) for value in ({"a": 1, "b": 1}, {"a": 1}, {"c": 1})
    ] == [
        False,
        True,
        True,
    ]
