"""Which places of arguments take bytes as base64, by the schema of a tool."""

import pytest

from paddock.engines.servers.calls.call_checks import find_misplaced

SCHEMA = {
    "type": "object",
    "properties": {
        "file": {"type": "string", "contentEncoding": "base64"},
        "old": {"type": "string", "format": "byte"},
        "name": {"type": "string"},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}},
        "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"contentEncoding": "base64"}]},
        "maybe": {"anyOf": [{"type": "null"}, {"allOf": [{"contentEncoding": "base64"}]}]},
        "self": {"$ref": "#"},
    },
    "additionalProperties": {"contentEncoding": "base64"},
    "$defs": {"part": {"type": "object", "properties": {"a b": {"contentEncoding": "base64"}}}},
}


@pytest.mark.parametrize(
    "place",
    [("file",), ("old",), ("parts", "7", "a b"), ("pair", "1"), ("maybe",), ("other",)],
)
def test_places_that_take_bytes(place):
    assert find_misplaced(SCHEMA, [place]) == ""


@pytest.mark.parametrize(
    ("place", "written"),
    [
        (("name",), "arguments.name"),
        ((), "arguments"),
        (("parts", "7", "c d"), 'arguments.parts[7]["c d"]'),
        (("pair", "0"), "arguments.pair[0]"),
        (("pair", "9" * 5000), "arguments.pair[" + "9" * 185),
        (("file", "x"), "arguments.file.x"),
        (("self",) * 50, "arguments" + ".self" * 38 + "."),
    ],
)
def test_places_that_do_not(place, written):
    assert find_misplaced(SCHEMA, [("file",), place]) == written


def test_a_schema_that_is_none_takes_no_bytes():
    for schema in (
        {},
        {"properties": []},
        {"properties": {"a": True}},
        {"anyOf": [1, {"properties": {"a": 1}}]},
    ):
        assert find_misplaced(schema, [("a",)]) == "arguments.a"
