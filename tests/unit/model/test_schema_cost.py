"""Hostile schemas cost next to nothing: they are refused before anything is checked with them, or checked in bounds."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.foundation.schema.check import CostlyValueError, Schema
from paddock.foundation.schema.cost import CostlySchemaError, SchemaCost

TOO_LONG = "the value is too large for its schema, or takes too long to check with it; pass less at once"


def doubling(levels: int, keyword: str = "anyOf") -> dict[str, object]:
    """Return a schema of few bytes that looks 2 ** levels times at a value."""
    twice = {
        f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n - 1}"}, {"$ref": f"#/$defs/d{n - 1}"}]}
        for n in range(1, levels)
    }
    return {"$defs": {"d0": {"type": "string"}, **twice}, "$ref": f"#/$defs/d{levels - 1}"}


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_a_schema_that_doubles_its_looks_is_refused(keyword: str):
    with pytest.raises(CostlySchemaError, match=r"^it looks more than 1000 times at one value$"):
        SchemaCost(doubling(30, keyword))
    with pytest.raises(ValueError, match=r"^this is no JSON Schema: it looks more than 1000 times"):
        Schema(doubling(30, keyword))
    cost = SchemaCost(doubling(5, keyword)).measure("x")
    assert (cost.work, cost.most_looks) == (62, 62)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"$ref": "#"}, "it refers to itself without end"),
        ({"allOf": [{"$ref": "#"}]}, "it refers to itself without end"),
        ({"$dynamicAnchor": "x", "not": {"$dynamicRef": "#x"}}, "it refers to itself without end"),
        (
            {"$ref": "http://127.0.0.1/x"},
            "the reference 'http://127.0.0.1/x' leads out of it; nothing is fetched",
        ),
        ({"properties": {f"p{n}": {} for n in range(3000)}}, "it has more than 3000 parts"),
        (
            {
                "$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(80)} | {"d80": {}},
                "$ref": "#/$defs/d0",
            },
            "it follows more than 64 references for one value",
        ),
    ],
)
def test_schemas_without_end_are_refused(schema: dict[str, object], why: str):
    with pytest.raises(CostlySchemaError) as refused:
        SchemaCost(schema)
    assert str(refused.value) == why


def count_looks(schema: dict[str, object], value: object) -> tuple[int, int]:
    cost = SchemaCost(schema).measure(value)
    return cost.work, cost.most_looks


def test_recursion_costs_nothing_when_every_member_is_looked_at_once():
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
    assert count_looks(tree, {"left": {"right": {}}, "right": {}}) == (1 + 2 * 3, 2)
    assert count_looks({"items": {"$ref": "#"}}, [[], [[]]]) == (1 + 2 * 3, 2)


def test_recursion_that_doubles_bounds_the_depth_of_values():
    twice = {
        "anyOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}, "title": "x"}]
    }
    assert count_looks(twice, nested(3)) == (3 + 8 + 16 + 32, 32)
    assert Schema(twice).list_problems(nested(7)) == ()
    assert Schema(twice).list_problems(nested(8)) == (TOO_LONG,)
    assert Schema(twice).list_problems(nested(1_000)) == (TOO_LONG,)


def test_the_depth_of_values_is_bounded():
    """The validator takes a stack frame for each level."""
    schema = Schema({"items": {"$ref": "#"}, "additionalProperties": {"$ref": "#"}})
    deepest = nested(3_999)
    with ThreadPoolExecutor() as threads:
        assert threads.submit(schema.list_problems, deepest).result() == ()
    assert schema.list_problems({"a": deepest}) == ("the value is nested more than 4000 deep",)


def test_only_what_the_value_has_is_counted():
    either = {
        "anyOf": [
            {"items": {"$ref": "#"}},
            {"additionalProperties": {"$ref": "#"}},
            {"properties": {"a": {"$ref": "#"}}},
        ]
    }
    lists: object = []
    for _ in range(200):
        lists = [lists]
    assert count_looks(either, lists) == (4 + 200 * 5, 5)
    assert Schema(either).list_problems({"b": lists}) == ()
    assert Schema(either).list_problems(nested(200)) == (TOO_LONG,)


def test_the_count_is_the_same_each_time_and_remembers_little():
    schema = SchemaCost({"additionalProperties": {"$ref": "#"}, "properties": {"left": {"$ref": "#"}}})
    first = schema.measure(nested(2_000)), schema.measure({f"m{n}": {} for n in range(200_000)})
    assert (schema.measure(nested(2_000)), schema.measure({f"m{n}": {} for n in range(200_000)})) == first
    kept: object = {}
    for n in range(100):
        kept = {"left": kept, f"m{n}": kept}
    tracemalloc.start()
    with pytest.raises(CostlyValueError, match=f"^{TOO_LONG}$"):
        schema.measure(kept)
    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()


def test_a_long_name_above_many_wrong_values_is_copied_with_each():
    schema = Schema({"additionalProperties": {"items": {"type": "string"}}})
    assert len(schema.list_problems({"x" * 1_000: [1] * 1_000})) == 5
    untold = "the value does not match its schema, and is too large to tell where"
    assert schema.list_problems({"x" * 1_000_000: [1] * 1_000}) == (untold,)


def test_the_metaschema_and_resources_inside_are_known():
    assert count_looks({"$ref": "https://json-schema.org/draft/2020-12/schema"}, 1) == (1, 1)
    inner = {"$id": "https://example.org/a", "$defs": {"b": {"$id": "b", "$anchor": "c"}}}
    both = {**inner, "properties": {"x": {"$ref": "b"}, "y": {"$ref": "b#c"}}}
    assert count_looks(both, {"x": 1, "y": 1}) == (5, 2)
    assert count_looks({"$defs": {"a/b~%": {}}, "items": {"$ref": "#/$defs/a~1b~0%25"}}, [1]) == (3, 2)


def test_many_choices_count():
    assert count_looks({"enum": list(range(6400))}, 1) == (101, 101)
    with pytest.raises(CostlySchemaError):
        SchemaCost({"enum": list(range(64_000))})


def test_large_values_are_checked_but_not_explained():
    schema = Schema({"type": "array", "items": {"type": "integer"}})
    assert schema.list_problems([1] * 100_000) == ()
    assert schema.list_problems([*[1] * 100_000, "x"]) == (
        "the value does not match its schema, and is too large to tell where",
    )
    with pytest.raises(CostlyValueError, match=f"^{TOO_LONG}$"):
        list(schema.iterate_errors([1] * 1_000_000))


def test_patterns_meet_texts_of_bounded_size():
    schema = Schema({"type": "string", "pattern": "^a*$"})
    assert schema.list_problems("a" * 199_999) == ()
    assert schema.list_problems("a" * 200_000) == (TOO_LONG,)


@pytest.mark.parametrize("pattern", ["((a{1,100}){1,100}){1,100}", "(?=a)b", r"(a)\1"])
def test_patterns_that_cannot_be_matched_in_linear_time_are_refused(pattern: str):
    with pytest.raises(
        ValueError,
        match=r"^this is no JSON Schema: the pattern '.*' is no regular expression, or none that takes linear",
    ):
        Schema({"pattern": pattern})


KEYWORDS = ["allOf", "anyOf", "oneOf", "not", "if", "items", "properties", "additionalProperties", "contains"]
REFERENCES = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/nowhere"])


def _grown(schemas: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    lists = st.dictionaries(
        st.sampled_from(KEYWORDS[:3]), st.lists(schemas, min_size=1, max_size=3), max_size=2
    )
    single = st.dictionaries(st.sampled_from(KEYWORDS[3:]), schemas, max_size=2)
    maps = st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("xy"), schemas, max_size=2)})
    return st.one_of(lists, single, maps)


LEAVES = st.one_of(st.just({"type": "string"}), st.builds(lambda to: {"$ref": to}, REFERENCES), st.booleans())
SCHEMAS = st.recursive(LEAVES, _grown, max_leaves=12)
VALUES = st.recursive(
    st.one_of(st.integers(), st.text(max_size=3)),
    lambda values: st.one_of(st.lists(values, max_size=3), st.dictionaries(st.sampled_from("xy"), values)),
    max_leaves=8,
)


@given(SCHEMAS, SCHEMAS, SCHEMAS, VALUES)
def test_whatever_the_schema_says_the_answer_comes(root: object, a: object, b: object, value: object):
    try:
        schema = Schema({"$defs": {"a": a, "b": b}, "allOf": [root]})
    except ValueError:
        return
    assert len(schema.list_problems(value)) <= 5
