"""Schemas and values that mean harm: refused before work is done, or bounded by counts that do not depend on the machine."""

import random
import socket
import sys

import pytest

from paddock.foundation.schema import check as subject
from paddock.foundation.schema.check import CostlyValueError, Schema
from paddock.foundation.schema.cost import CostlySchemaError, SchemaCost
from paddock.foundation.schema.pattern_cost import SIZES_KIB, measure_patterns

TOO_LONG = "the value is too large for its schema, or takes too long to check with it; pass less at once"
UNTOLD = "the value does not match its schema, and is too large to tell where"

Json = dict[str, object]


def stacked(depth: int, keyword: str, unevaluated: str) -> Json:
    """Return a schema whose every level asks all levels below what they have evaluated."""
    found: Json = {"properties": {"a": True}, "prefixItems": [True]}
    for _ in range(depth):
        found = {keyword: [found], unevaluated: False}
    return found


def deep(keyword: str, depth: int) -> Json:
    found: Json = {}
    for _ in range(depth):
        found = {keyword: found}
    return found


def nested(depth: int, value: object) -> object:
    for _ in range(depth):
        value = {"a": value}
    return value


DRAFT_7: Json = {"$schema": "http://json-schema.org/draft-07/schema#"}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"enum": list(range(200_000))}, "it has more than 50000 values"),
        ({"const": list(range(200_000))}, "it has more than 50000 values"),
        ({"required": [f"p{n}" for n in range(60_000)]}, "it has more than 50000 values"),
        ({"dependentRequired": {f"p{n}": ["a"] for n in range(20_000)}}, "it has more than 50000 values"),
        ({"enum": [{"a": n} for n in range(10_000)]}, "it has more than 3000 parts"),
        ({"patternProperties": {f"^a{n}": {} for n in range(301)}}, "it has more than 300 patterns"),
        ({"pattern": "a" * 20_000}, "its patterns have more than 16384 characters"),
        ({"pattern": r"(?i:[\p{L}\p{N}])" * 30}, "its patterns have more than 40 Unicode classes"),
        (
            {"patternProperties": {f"^{n}.{{1,255}}$": {} for n in range(9)}},
            "its patterns compile to more than 4096 KiB",
        ),
        ({"$id": "https://a/" + "b" * 2000}, "its $id has more than 2000 characters"),
        ({"$ref": "#" + "/a" * 65}, "a reference of it has more than 64 steps"),
        (deep("items", 100_000), "it has more than 3000 parts"),
        (deep("not", 100), "it follows more than 64 references for one value"),
        (
            stacked(25, "allOf", "unevaluatedProperties"),
            "it looks more than 1000 times at one value",
        ),
        (stacked(25, "anyOf", "unevaluatedItems"), "it looks more than 1000 times at one value"),
    ],
)
def test_schemas_are_refused_before_they_are_compiled(
    monkeypatch: pytest.MonkeyPatch, schema: Json, why: str
):
    compiled: list[object] = []

    def note(document: Json, **_: object) -> None:
        compiled.append(document)

    import jsonschema_rs

    if "compile" not in why:
        monkeypatch.setattr(jsonschema_rs, "validator_for", note)
    with pytest.raises(ValueError, match=f"^this is no JSON Schema: {why.replace('$', '[$]')}$"):
        Schema(schema)
    assert not compiled


def test_pointers_do_not_pile_up():
    """A deep schema with long names costs what it is long, not the square of it."""
    found: Json = {"type": "string"}
    for _ in range(300):
        found = {"properties": {"x" * 10_000: found}}
    cost = SchemaCost(found).measure(1)
    assert (cost.work, cost.most_looks) == (1, 1)
    assert 10_000 * 300 < cost.error_chars < 10_000 * 300 + 300 * 20


@pytest.mark.parametrize(
    ("pattern", "letters"),
    [
        (r"(.*a){20}", "b"),
        (r"^(a?){200}a{200}$", "a"),
        (r"^(a+)+$", "ab"),
        (r"(x+x+)+y", "x"),
        (r"(a|b)*a(a|b){12}c", "ab"),
        (r"[ab]*a[ab]{300}c", "ab"),
        (r".*.*.*=.*", "x"),
        (r"(\w+\s?)+\d$", "aé "),
    ],
)
def test_what_a_pattern_may_cost_bounds_the_texts_it_meets(pattern: str, letters: str):
    """A character may meet every state of a pattern: the size of the pattern times that of the text is bounded."""
    schema = Schema({"type": "string", "pattern": pattern})
    size = measure_patterns({pattern: 1})[pattern]
    assert size in SIZES_KIB
    longest = 199_999 // size
    source = random.Random(1)
    text = "".join(source.choices(letters, k=longest))
    assert len(schema.list_problems(text)) == 1
    assert schema.list_problems(text + "b" * size) == (TOO_LONG,)


def test_only_texts_that_meet_patterns_are_bounded():
    schema = Schema(
        {
            "$defs": {"slug": {"anyOf": [{"pattern": "^[a-z]*$"}, {"type": "null"}]}},
            "properties": {
                "path": {"$ref": "#/$defs/slug"},
                "tags": {"items": {"$ref": "#/$defs/slug"}},
                "content": {"type": "string"},
            },
        }
    )
    assert schema.list_problems({"path": "a", "tags": ["b"], "content": "c" * 5_000_000}) == ()
    assert schema.list_problems({"path": "a" * 200_000}) == (TOO_LONG,)
    assert schema.list_problems({"tags": ["a" * 200_000]}) == (TOO_LONG,)
    assert schema.list_problems({"path": {"x" * 5_000_000: 1}}) == ()
    anything = Schema({"additionalProperties": {"pattern": "a"}})
    assert anything.list_problems({"any": "a" * 200_000}) == (TOO_LONG,)
    assert Schema({"patternProperties": {"^a": True}}).list_problems({"a" * 200_001: 1}) == (TOO_LONG,)


def test_a_pattern_of_a_common_size_can_be_used():
    schema = Schema({"properties": {"title": {"type": "string", "pattern": "^.{1,255}$"}}})
    assert schema.list_problems({"title": "x" * 255}) == ()
    assert schema.list_problems({"title": ""}) == ('`title`: "" does not match "^.{1,255}$"',)


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        (
            {"items": {"dependentSchemas": {f"p{n}": True for n in range(2900)}}},
            [{}] * 10_000,
            TOO_LONG,
        ),
        (
            {"items": {"dependentRequired": {f"p{n}": ["a"] for n in range(3000)}}},
            [{}] * 10_000,
            TOO_LONG,
        ),
        ({"items": {"enum": list(range(5000))}}, [6000] * 20_000, TOO_LONG),
        ({"items": {"multipleOf": 1e-300}}, [1e300] * 10_000, TOO_LONG),
        ({"items": {"multipleOf": 0.1}}, [10**4000] * 1_000, TOO_LONG),
        ({"items": {"enum": ["x" * 1_000_000, "b"]}}, [1] * 10_000, UNTOLD),
        ({"allOf": [False] * 900}, "x" * 1_000_000, UNTOLD),
        ({"allOf": [{"type": "integer"}] * 900}, "x" * 1_000_000, UNTOLD),
        ({"items": {"required": ["x" * 1_000_000]}}, [{}] * 10_000, UNTOLD),
        ({"items": {"required": [f"r{n}" for n in range(1000)]}}, [{}] * 1000, UNTOLD),
        ({"required": [f"r{n}" for n in range(1000)]}, {f"m{n}": 1 for n in range(1000)}, UNTOLD),
        ({"required": [f"r{n}" for n in range(1000)]}, {"text": "x" * 100_000}, UNTOLD),
        (
            {"dependentRequired": {"m0": [f"r{n}" for n in range(1000)]}},
            {f"m{n}": 1 for n in range(1000)},
            UNTOLD,
        ),
        (
            {**DRAFT_7, "dependencies": {"m0": [f"r{n}" for n in range(1000)]}},
            {f"m{n}": 1 for n in range(1000)},
            UNTOLD,
        ),
        ({"propertyNames": {"maxLength": 1}}, {f"m{n}": 1 for n in range(1000)}, UNTOLD),
        ({"minProperties": 9, "additionalProperties": {"$ref": "#"}}, nested(300, [0] * 1_000), UNTOLD),
    ],
)
def test_schemas_that_multiply_what_a_value_costs(schema: Json, value: object, problem: str):
    assert Schema(schema).list_problems(value) == (problem,)


@pytest.mark.parametrize(
    ("schema", "most", "more"),
    [
        ({"uniqueItems": True}, [2**63 + n for n in range(800)], [2**63 + n for n in range(5_000)]),
        ({"uniqueItems": True}, [-(2**63) - 1 - n for n in range(800)], [[2**64 + n] for n in range(5_000)]),
        ({"items": {"enum": [n + 0.5 for n in range(1_000)]}}, [0.5] * 50, [999.5] * 2_000),
        ({"items": {"enum": [1e-300 * n for n in range(90)]}}, [0.0] * 60, [1e-300] * 2_000),
        ({"items": {"enum": [*range(5_000)]}}, [4_999] * 9_000, [4_999.0] * 5_000),
        ({"items": {"const": 2**6_000}}, [2**6_000] * 50, [2**6_000] * 5_400),
    ],
)
def test_numbers_that_take_long_to_compare_are_bounded(schema: Json, most: object, more: object):
    """A pair of them takes up to 40 microseconds, and each is compared with each."""
    assert Schema(schema).list_problems(most) == ()
    assert Schema(schema).list_problems(more) == (TOO_LONG,)


def test_a_list_in_an_enumeration_is_compared_part_by_part():
    choices: list[Json] = [{"a": [0] * 50, "b": n} for n in range(100)]
    assert Schema({"items": {"enum": choices}}).list_problems(choices[-1:] * 10) == ()
    assert Schema({"items": {"enum": choices}}).list_problems(choices[-1:] * 100) == (TOO_LONG,)
    assert Schema({"enum": [*range(2_000)]}).list_problems(5) == ()


ROWS: Json = {
    "type": "object",
    "properties": {
        "rows": {
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "name": {"type": "string"},
                    "tag": {"enum": ["a", "b"]},
                },
                "required": ["id", "name", "tag"],
            }
        }
    },
    "required": ["rows"],
}


def test_what_is_wrong_with_many_rows_is_told():
    """The bounds are for hostile schemas: thousands of values of an ordinary one are told what is wrong with them."""
    rows: list[object] = [{"id": n, "name": "n", "tag": "a"} for n in range(2000)]
    assert Schema(ROWS).list_problems({"rows": [*rows, {"id": "1", "name": "n", "tag": "a"}]}) == (
        '`rows[2000].id` must be a whole number, not the text "1"',
    )
    assert Schema({"propertyNames": {"maxLength": 2}}).list_problems({f"{n}": 1 for n in range(101)}) == (
        'the value: "100" is longer than 2 characters',
    )


def test_the_nearest_name_is_not_looked_for_among_long_ones(monkeypatch: pytest.MonkeyPatch):
    compared: list[tuple[str, list[str]]] = []

    def near(name: str, known: list[str]) -> list[str]:
        compared.append((name, known))
        return known[:1]

    monkeypatch.setattr(subject, "find_nearest", near)
    schema = Schema(
        {"properties": {"xy" * 100: {}, **{f"p{n}": {} for n in range(900)}}, "additionalProperties": False}
    )
    assert schema.list_problems({"a" * 101: 1, "b": 1})[1].endswith("did you mean `p0`?")
    assert [(name, len(known)) for name, known in compared] == [("b", 499)]


def test_telling_stops_at_a_bound_of_characters():
    schema = Schema({"items": {"enum": ["x" * 1_000]}})
    assert len(schema.list_problems([1] * 1_000)) == 5
    with pytest.raises(CostlyValueError, match=f"^{UNTOLD}$"):
        list(schema.iterate_errors([1] * 20_000))


REMOTE = [
    {"$ref": "{url}"},
    {"$dynamicRef": "{url}#x"},
    {"$schema": "{url}"},
    {"$id": "{url}", "$ref": "other.json"},
    {"properties": {"a": {"$id": "{url}", "items": {"$ref": "b#c"}}}},
    {"$schema": "http://json-schema.org/draft-04/schema#", "id": "{url}", "items": {"$ref": "a"}},
    {"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveRef": "{url}"},
]


@pytest.mark.parametrize("template", REMOTE)
def test_nothing_is_fetched_whatever_refers_to_it(template: Json):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        url = "http://{}:{}/schema.json".format(*listener.getsockname())
        filled = _filled(template, url)
        assert isinstance(filled, dict)
        with pytest.raises(ValueError, match=r"^this is no JSON Schema: "):
            Schema(filled)
        with pytest.raises(
            BlockingIOError
        ):  # nobody has connected, and what nobody answers stays in the backlog
            listener.accept()


def _filled(value: object, url: str) -> object:
    if isinstance(value, dict):
        return {name: _filled(each, url) for name, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value.replace("{url}", url) if isinstance(value, str) else value


def test_files_are_not_read_either(tmp_path_factory: pytest.TempPathFactory):
    place = tmp_path_factory.mktemp("schemas") / "a.json"
    place.write_text("{}")
    with pytest.raises(ValueError, match=r"^this is no JSON Schema: .* leads out of it; nothing is fetched$"):
        Schema({"$ref": place.as_uri()})


def test_deep_schemas_and_values_do_not_exhaust_the_stack():
    with pytest.raises(CostlySchemaError):
        SchemaCost(deep("not", 2_900))
    value: object = 1
    for _ in range(sys.getrecursionlimit() * 2):
        value = [value]
    assert Schema({"items": {"$ref": "#"}, "type": ["array", "integer"]}).list_problems(value) == ()
