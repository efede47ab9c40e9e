"""What is told about values that break a JSON Schema."""

import socket
import threading
from decimal import Decimal

import pytest

from paddock.foundation.schema.check import Schema
from paddock.model.numbers import ExactFloat

TOOL = Schema(
    {
        "type": "object",
        "properties": {
            "code": {"type": "string", "description": "The program."},
            "mode": {"enum": ["run", "read_only"]},
            "limits": {
                "type": "object",
                "properties": {"wall_ms": {"type": "integer", "minimum": 1}},
                "additionalProperties": False,
            },
            "names": {"type": "array", "items": {"type": ["string", "null"]}},
        },
        "required": ["code"],
        "additionalProperties": False,
    }
)


@pytest.mark.parametrize(
    ("value", "problems"),
    [
        ({"code": "1"}, ()),
        ({}, ("`code` is missing: The program",)),
        ({"code": 1}, ("`code` must be a text, not 1",)),
        ([], ("the value must be an object, not a list",)),
        ({"code": "", "mod": "run"}, ("`mod` is unknown; did you mean `mode`?",)),
        ({"code": "", "x": 1}, ("`x` is unknown; known: code, mode, limits, names",)),
        (
            {"code": "", "mode": "read-only"},
            (
                '`mode` must be one of "run", "read_only", not the text "read-only"; did you mean "read_only"?',
            ),
        ),
        (
            {"code": "", "limits": {"wall_ms": "5"}},
            ('`limits.wall_ms` must be a whole number, not the text "5"',),
        ),
        (
            {"code": "", "mode": "on"},
            ('`mode` must be one of "run", "read_only", not the text "on"',),
        ),
        (
            {"code": "", "mode": "Read_Only"},
            (
                '`mode` must be one of "run", "read_only", not the text "Read_Only"; did you mean "read_only"?',
            ),
        ),
        ({"code": "", "limits": {"ms": 5}}, ("`limits.ms` is unknown; did you mean `wall_ms`?",)),
        ({"code": "", "limits": {"wall": 5}}, ("`limits.wall` is unknown; did you mean `wall_ms`?",)),
        (
            {"code": "", "limits": {"wall_ms": 0}},
            ("`limits.wall_ms`: 0 is less than the minimum of 1",),
        ),
        ({"code": "", "names": ["a", {}]}, ("`names[1]` must be null or a text, not an object",)),
    ],
)
def test_problems_are_told_with_path_expectation_and_nearest_name(value: object, problems: tuple[str, ...]):
    assert TOOL.list_problems(value) == problems


def test_half_of_a_character_is_a_text_like_any_other():
    schema = Schema({"type": "object", "properties": {"a": {"type": "string"}, "b": {"maxLength": 2}}})
    assert schema.list_problems({"a": "half \ud83d", "\udc00": 1, "b": "\ud800x"}) == ()
    numbers = Schema({"type": "object", "additionalProperties": {"type": "number"}})
    assert numbers.list_problems({"\ud800": "\ud83d"}) == (
        '`\ufffd` must be a number, not the text "\\ufffd"',
    )


def test_what_the_library_cannot_take_is_no_reason_not_to_tell_what_is_wrong():
    schema = Schema({"type": "object", "required": ["id"]})
    for value in ({"price": ExactFloat("19.990000000000000001")}, {"text": "\ud800"}):
        assert schema.list_problems(value) == ("`id` is missing",)


def test_what_is_told_is_short():
    problems = TOOL.list_problems({"code": ["x"] * 10_000, **{"n" * 500 + str(n): 1 for n in range(50)}})
    assert len(problems) == 5
    assert max(map(len, problems)) < 400


def test_no_schema():
    with pytest.raises(ValueError, match=r'^this is no JSON Schema: "strin" is not valid under any'):
        Schema({"type": "strin"})


def test_a_reference_to_elsewhere_fetches_nothing():
    asked: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def listen() -> None:
            connection, _ = listener.accept()
            asked.append(connection.recv(100))
            connection.close()

        thread = threading.Thread(target=listen)
        thread.start()
        address = listener.getsockname()
        url = f"http://{address[0]}:{address[1]}/schema.json"
        with pytest.raises(
            ValueError, match=r"^this is no JSON Schema: .* leads out of it; nothing is fetched$"
        ):
            Schema({"$ref": url})
        with socket.create_connection(address) as mine:
            mine.sendall(b"nobody else came")
        thread.join()
    assert asked == [b"nobody else came"]


def test_a_reference_inside_is_followed():
    schema = Schema(
        {"$defs": {"n": {"type": "number"}}, "type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}}
    )
    assert schema.list_problems({"a": "x"}) == ('`a` must be a number, not the text "x"',)


def test_a_pattern_that_backtracks_ends():
    schema = Schema({"type": "string", "pattern": "^(a+)+$"})
    assert len(schema.list_problems("a" * 40 + "b")) == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"body": "x"}, "`query_text` is missing"),
        ({"queryText": "x"}, "`query_text` is missing; `queryText` was given: did you mean `query_text`?"),
        ({"QUERY-TEXT": "x"}, "`query_text` is missing; `QUERY-TEXT` was given: did you mean `query_text`?"),
        ({"query_txt": 1}, "`query_text` is missing; `query_txt` was given: did you mean `query_text`?"),
        ({"limit": 1}, "`query_text` is missing"),
        ({}, "`query_text` is missing"),
    ],
)
def test_a_name_that_may_stand_for_a_missing_one_is_told(given: dict[str, object], told: str) -> None:
    properties = {"query_text": {"type": "string"}, "limit": {"type": "integer"}}
    schema = Schema({"type": "object", "properties": properties, "required": ["query_text"]})
    assert schema.list_problems(given) == (told,)
    [first, *_] = Schema({**schema.document, "additionalProperties": False}).list_problems({})
    assert first == "`query_text` is missing"


@pytest.mark.parametrize(
    "digits", ["9007199254740993.5", "-12345678901234567890.5", "1234567890123456789012345.25e1"]
)
def test_a_fraction_whose_double_is_whole_is_no_integer(digits):
    value = {"id": ExactFloat(digits)}
    schema = Schema({"type": "object", "properties": {"id": {"type": "integer"}}})
    assert schema.list_problems(value) == (f"`id` must be a whole number, not {Decimal(digits)}",)
    assert Schema({"properties": {"id": {"type": "number"}}}).list_problems(value) == ()


def test_whole_numbers_of_any_length_are_integers():
    schema = Schema({"type": "integer"})
    for number in (2**53 + 1, 10**30, ExactFloat("12345678901234567890123.0")):
        assert schema.list_problems(number) == ()
