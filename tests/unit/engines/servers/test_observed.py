"""Types that are learned from results: no value and no key that is data is ever kept."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import validator_for

from paddock.engines.servers.catalog.inferred_types import (
    MAX_RESULTS_PER_TOOL,
    InferredTypes,
    merge_types,
    type_of,
)
from paddock.engines.servers.config import StdioServer
from paddock.engines.servers.result import ToolInfo, ToolResult

SERVER = StdioServer("git", "git")
TOOL = ToolInfo("log", "", {}, None, {})
STRING, NUMBER = {"type": "string"}, {"type": "number"}


def said(value, **more):
    return ToolResult({"content": [{"type": "text", "text": json.dumps(value)}], **more})


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ({"a": 1, "b": [True]}, {
            "type": "object",
            "properties": {"a": NUMBER, "b": {"type": "array", "items": {"type": "boolean"}}},
            "required": ["a", "b"],
        }),
        ([], {"type": "array"}),
        ([1, None, "x"], {"type": "array", "items": {"type": ["number", "null", "string"]}}),
        ([{"a": 1}, {"a": "x", "b": 2}], {"type": "array", "items": {
            "type": "object",
            "properties": {"a": {"type": ["number", "string"]}, "b": NUMBER},
            "required": ["a"],
        }}),
        ({"usr_8f3a9c1b2d": 1}, {"type": "object", "additionalProperties": NUMBER}),
        ({"anna@example.com": 1}, {"type": "object", "additionalProperties": NUMBER}),
        ({"/home/anna/x": 1}, {"type": "object", "additionalProperties": NUMBER}),
        ({"2026-11-21": "x"}, {"type": "object", "additionalProperties": STRING}),
        ({f"k{n}": 1 for n in range(41)}, {"type": "object", "additionalProperties": NUMBER}),
        ({"anna": {"age": 1}, "berta": {"age": 2}, "carla": {"age": None}}, {
            "type": "object",
            "additionalProperties": {
                "type": "object", "properties": {"age": {"type": ["number", "null"]}}, "required": ["age"],
            },
        }),
    ],
)  # fmt: skip
def test_types(value, schema):
    assert type_of(value) == schema


def test_what_was_seen_is_merged():
    first, second = type_of({"a": 1, "b": 1}), type_of({"a": None})
    assert merge_types(first, second) == {
        "type": "object",
        "properties": {"a": {"type": ["number", "null"]}, "b": NUMBER},
        "required": ["a"],
    }
    assert merge_types(first, type_of({"id-12345": "x"})) == {
        "type": "object",
        "additionalProperties": {"type": ["string", "number"]},
    }
    assert merge_types(type_of([]), type_of([1])) == type_of([1])
    assert merge_types(first, {}) == {}


values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("ab1/ ", max_size=4), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(st.lists(values, min_size=1, max_size=4))
def test_the_merged_type_allows_every_value_that_was_seen(seen):
    merged = type_of(seen[0])
    for value in seen[1:]:
        merged = merge_types(merged, type_of(value))
    assert all(validator_for(merged).is_valid(value) for value in seen)


@given(st.dictionaries(st.text(min_size=1), st.text("0123456789abcdef", min_size=12), min_size=1))
def test_no_value_is_in_a_type(value):
    text = json.dumps(type_of(value))
    assert not any(secret in text for secret in value.values())


def test_a_type_outlives_the_session_and_two_sessions_add_up(tmp_path):
    file = tmp_path / ".mcp.json"
    one, two = InferredTypes(tmp_path, file), InferredTypes(tmp_path, file)
    assert one.type_of("git", "log") is None
    assert two.type_of("git", "log") is None
    one.learn_from_result(SERVER, TOOL, said({"a": 1}))
    two.learn_from_result(SERVER, TOOL, said({"a": "x"}))
    kept = InferredTypes(tmp_path, file).type_of("git", "log")
    assert kept == {"type": "object", "properties": {"a": {"type": ["number", "string"]}}, "required": ["a"]}
    assert InferredTypes(tmp_path, tmp_path / "other.json").type_of("git", "log") is None


def test_what_teaches_nothing(tmp_path):
    observed = InferredTypes(tmp_path, tmp_path / ".mcp.json")
    observed.learn_from_result(SERVER, TOOL, said({"a": 1}, isError=True))
    observed.learn_from_result(SERVER, TOOL, said("x" * 70_000))
    observed.learn_from_result(SERVER, ToolInfo("log", "", {}, {"type": "object"}, {}), said({"a": 1}))
    assert observed.type_of("git", "log") is None
    assert list(tmp_path.iterdir()) == []


def test_a_tool_whose_results_always_differ_stays_small(tmp_path):
    observed = InferredTypes(tmp_path, tmp_path / ".mcp.json")
    for n in range(MAX_RESULTS_PER_TOOL + 5):
        letters = "".join(chr(97 + int(digit)) for digit in str(n))
        observed.learn_from_result(
            SERVER, TOOL, said({f"{letters}_{m}": {f"x{letters}": 1} for m in range(2)})
        )
    kept = observed.type_of("git", "log")
    assert kept is not None
    assert len(json.dumps(kept)) < 10_000


@pytest.mark.parametrize("name", ["observed.json", "observed.lock"])
@pytest.mark.parametrize("plant", [os.mkfifo, os.mkdir])
def test_what_is_in_the_way_is_no_obstacle_and_is_named_once(tmp_path, caplog, name, plant):
    InferredTypes(tmp_path, tmp_path / ".mcp.json").learn_from_result(SERVER, TOOL, said(1))
    [place] = tmp_path.rglob(name)
    place.unlink()
    plant(place)
    observed = InferredTypes(tmp_path, tmp_path / ".mcp.json")
    for value in (1, "a", [2]):
        observed.learn_from_result(SERVER, TOOL, said(value))
    assert observed.type_of("git", "log") is not None
    [record] = caplog.records
    kind = "a pipe" if plant is os.mkfifo else "a directory"
    what = "read" if name.endswith(".json") else "written"
    assert record.getMessage() == (
        f"types of results are not stored: {place}: cannot be {what}: it is {kind}, not a regular file; "
        f"move {place} away"
    )


def test_a_broken_file_is_no_obstacle(tmp_path):
    observed = InferredTypes(tmp_path, tmp_path / ".mcp.json")
    observed.learn_from_result(SERVER, TOOL, said(1))
    [kept] = tmp_path.rglob("observed.json")
    kept.write_text("{")
    again = InferredTypes(tmp_path, tmp_path / ".mcp.json")
    again.learn_from_result(SERVER, TOOL, said(1))
    assert again.type_of("git", "log") == NUMBER
