"""Arguments as models write them: what is read, and what stays as it came."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.foundation.schema.check import Schema
from paddock.surfaces.mcp_server.arguments import NamedTwiceError, read_arguments, to_snake_case

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "keep": {"type": "boolean"},
        "args": {"type": "object"},
        "words": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "array", "items": {"type": "integer"}},
        "mode": {"enum": ["a", "b"]},
        "any": {},
        "timeout_ms": {"type": "integer"},
        "limits": {
            "type": "object",
            "properties": {"ms": {"type": "integer"}, "partial": {"type": "boolean"}},
        },
    },
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (dict.fromkeys(SCHEMA["properties"]), {}),
        ({"count": "5000"}, {"count": 5000}),
        ({"count": "-1"}, {"count": -1}),
        ({"count": "5e3"}, {"count": 5000}),
        ({"count": 2.0}, {"count": 2}),
        ({"count": 1e300}, {"count": int(1e300)}),
        ({"sizes": [2.0, "2.0", 2.5]}, {"sizes": [2, 2, 2.5]}),
        ({"limits": {"ms": 50.0}}, {"limits": {"ms": 50}}),
        ({"share": 2.0}, {"share": 2.0}),
        ({"count": "12345678901234567890"}, {"count": 12345678901234567890}),
        ({"share": "0.5"}, {"share": 0.5}),
        ({"keep": "true"}, {"keep": True}),
        ({"keep": "False"}, {"keep": False}),
        ({"args": '{"id":5}'}, {"args": {"id": 5}}),
        ({"args": '{"id":1234567890123456789}'}, {"args": {"id": 1234567890123456789}}),
        ({"words": '["a", "b"]'}, {"words": ["a", "b"]}),
        ({"sizes": ["1", 2]}, {"sizes": [1, 2]}),
        ({"sizes": '["1"]'}, {"sizes": [1]}),
        ({"limits": {"ms": "5", "partial": None}}, {"limits": {"ms": 5}}),
        ({"limits": '{"ms": "5", "partial": null}'}, {"limits": {"ms": 5}}),
        ({"timeoutMs": "5"}, {"timeout_ms": 5}),
        ({"timeoutMs": None}, {}),
        ({"timeoutMs": None, "timeout_ms": 5}, {"timeout_ms": 5}),
        ({"timeoutMs": 5, "timeout_ms": None}, {"timeout_ms": 5}),
        ({"timeout_ms": None, "timeoutMs": 5}, {"timeout_ms": 5}),
        ({"title": "x"}, {"name": "x"}),
        ({"title": None, "name": "x"}, {"name": "x"}),
        ({"name": "x", "title": None}, {"name": "x"}),
        ({"title": "x", "name": None}, {"name": "x"}),
        ({"name": None, "title": "x"}, {"name": "x"}),
    ],
)
def test_what_has_one_reading_is_read(written: Any, read: Any) -> None:
    assert repr(read_arguments(SCHEMA, written, {"title": "name"})) == repr(read)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (
            {"timeoutMs": 5, "timeout_ms": 5},
            "`timeoutMs` and `timeout_ms` are one argument, given twice: give `timeout_ms` alone",
        ),
        (
            {"name": "x", "title": "y"},
            "`name` and `title` are one argument, given twice: give `name` alone",
        ),
        (
            {"limits": {"ms": 1, "Ms": None, "partial": True, "partial_": 1}, "title": "x", "name": "y"},
            "`title` and `name` are one argument, given twice: give `name` alone",
        ),
        (
            {"limits": {"wallMs": 5, "wall_ms": 6}},
            "`wallMs` and `wall_ms` are one argument, given twice: give `limits.wall_ms` alone",
        ),
    ],
)
def test_an_argument_under_two_names_is_refused(written: Any, told: str) -> None:
    limits = {"type": "object", "properties": {"ms": {}, "wall_ms": {"type": "integer"}}}
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"], "limits": limits}}
    with pytest.raises(NamedTwiceError) as caught:
        read_arguments(schema, written, {"title": "name"})
    assert str(caught.value) == told


@pytest.mark.parametrize(
    "written",
    [
        {"TimeoutMs": 5},
        {"timeoutMS": 5},
        {"timeoutM\u017f": 5},
        {"limits": {"title": "x"}},
    ],
)
def test_an_argument_under_another_name_keeps_it_and_is_refused(written: Any) -> None:
    assert read_arguments(SCHEMA, written, {"title": "name"}) == written
    assert (
        "is unknown" in str(Schema({**SCHEMA, "required": []}).list_problems(written)) or "limits" in written
    )


@pytest.mark.parametrize(
    ("text", "snake"),
    [
        (
            "queryTerms are required unless cursor or lineRange is provided",
            "query_terms are required unless cursor or line_range is provided",
        ),
        ("`maxResponseLines` must be at least 10", "`max_response_lines` must be at least 10"),
        (
            "JavaScript, MCP, iOS and a_bC stay; so does x-Y",
            "JavaScript, MCP, i_o_s and a_bC stay; so does x-Y",
        ),
    ],
)
def test_names_in_camel_case_are_written_in_snake_case(text: str, snake: str) -> None:
    assert to_snake_case(text) == snake


@pytest.mark.parametrize(
    "written",
    [
        {"name": "5"},
        {"name": "null"},
        {"unknown": None},
        {"count": 2.5},
        {"count": False},
        {"words": "a b"},
        {"words": "a,b"},
        {"words": "a\tb"},
        {"words": ""},
        {"count": ""},
        {"count": " 5"},
        {"count": "0x10"},
        {"count": "5_000"},
        {"count": "05"},
        {"count": "\u0665"},
        {"count": "NaN"},
        {"count": "5000 ms"},
        {"count": "9" * 41},
        {"count": True},
        {"keep": 1},
        {"keep": "yes"},
        {"args": "id=5"},
        {"args": "[1]"},
        {"args": '{"x": NaN}'},
        {"args": '{"x":' * 1000 + "1" + "}" * 1000},
        {"args": {"nested": None, "text": "5"}},
        {"words": '{"a": 1}'},
        {"words": [None]},
        {"mode": "A"},
        {"any": "5"},
        {"any": '{"a": 1}'},
        {"any": [1, None]},
        {"limits": [{"ms": "5"}]},
        [],
        "{}x",
        None,
        5,
    ],
)
def test_everything_else_stays_as_it_came(written: Any) -> None:
    assert read_arguments(SCHEMA, written) == written


def test_a_text_is_a_list_of_one_where_texts_are_wanted() -> None:
    assert read_arguments(SCHEMA, {"words": "--verbose=1"}) == {"words": ["--verbose=1"]}
    assert read_arguments(SCHEMA, {"words": "a b"}, {}, frozenset({"words"})) == {"words": ["a b"]}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)
members = st.sampled_from([*SCHEMA["properties"], "unknown"])


@given(st.dictionaries(members, json_values))
def test_nothing_is_invented_and_reading_twice_changes_nothing(written: dict[str, Any]) -> None:
    read = read_arguments(SCHEMA, written)
    assert set(read) <= set(written)
    assert {name for name in written if name not in read} <= {
        name for name, value in written.items() if value is None
    }
    assert read_arguments(SCHEMA, read) == read
