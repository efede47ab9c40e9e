"""How outcomes are told to people."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.outcome import CallRecord, ConsoleLine, Decision, ErrorInfo, Outcome, Status, write_outcome
from paddock.surfaces.rendering.render import error_text, output_text, value_text
from paddock.surfaces.rendering.terminal import escape_except_colour, make_encodable


def failed(status: Status = Status.FAILED, **error: object) -> Outcome:
    return Outcome(id="1", status=status, error=ErrorInfo(**{"name": "Error", "message": "", **error}))


def returned(value: object) -> Outcome:
    return Outcome(id="1", status=Status.OK, value=value, has_value=True)


def test_x3_console_lines_carry_their_level() -> None:
    levels = {"log": "a", "warn": "b", "error": "c", "info": "d", "debug": "e"}
    lines = tuple(ConsoleLine(level=level, text=text) for level, text in levels.items())
    assert output_text(Outcome(id="1", status=Status.OK, console=lines)) == (
        "a\n[warn] b\n[error] c\n[info] d\n[debug] e"
    )


def test_m10_lines_and_value_in_order() -> None:
    lines = (ConsoleLine(level="log", text="one"), ConsoleLine(level="warn", text="two"))
    outcome = returned({"signals": 42, "healthy": True}).model_copy(update={"console": lines})
    assert output_text(outcome) == 'one\n[warn] two\n{\n  "signals": 42,\n  "healthy": true\n}'


def test_m11_x6_a_text_is_printed_as_it_is() -> None:
    assert output_text(returned("plain")) == "plain"


def test_m12_null_is_a_value_and_undefined_is_none() -> None:
    assert output_text(returned(None)) == "null"
    assert output_text(Outcome(id="1", status=Status.OK)) == ""


def test_x5_json_has_two_spaces() -> None:
    assert output_text(returned({"a": [1, 2], "b": {}, "c": []})) == (
        '{\n  "a": [\n    1,\n    2\n  ],\n  "b": {},\n  "c": []\n}'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"), (-0.0, "0"), (0.000001, "0.000001"), (1.5e-7, "1.5e-7"), (1e21, "1e+21"), (1e300, "1e+300"),
        (1.2345678901234568e20, "123456789012345680000"), (0.1, "0.1"), (-123.456, "-123.456"),
        (float("nan"), "null"), (float("-inf"), "null"), (10**20, "100000000000000000000"),
    ],
)  # fmt: skip
def test_numbers_are_spelled_as_in_javascript(value: float, text: str) -> None:
    assert value_text(value) == text


def test_deep_values_are_rendered() -> None:
    value: object = []
    for _ in range(5_000):
        value = [value]
    assert value_text(value).count("[") == 5_001


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53), 2**53)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).filter(lambda value: not isinstance(value, str))
)
def test_the_text_of_a_value_is_its_json(value: object) -> None:
    assert json.loads(value_text(value), parse_int=float) == value


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (failed(message="boom"), "Sandbox error: boom"),
        (failed(name="TypeError", message="no"), "Sandbox error: TypeError: no"),
        (failed(name="Thrown", message="str", thrown="str"), "Sandbox error: str"),
        (failed(message="boom", thrown="Error: boom"), "Sandbox error: boom"),
        (failed(name="TypeError", message="", thrown="TypeError"), "Sandbox error: TypeError"),
        (failed(name="SyntaxError", message="Unexpected end", phase="parse"), "SyntaxError: Unexpected end"),
        (failed(name="SyntaxError", message="bad JSON"), "Sandbox error: SyntaxError: bad JSON"),
        (
            failed(Status.TIMEOUT, name="Timeout", message="Execution timeout"),
            "Sandbox error: Execution timeout",
        ),
        (failed(Status.LOST, name="Lost", message="the worker died"), "the worker died"),
        (failed(Status.UNAVAILABLE), "unavailable"),
        (returned(1), ""),
    ],
)
def test_m19_m23_error_texts(outcome: Outcome, text: str) -> None:
    assert error_text(outcome) == text


def test_m14_x18_a_refusal_is_told_by_its_reason_alone() -> None:
    decision = Decision(allowed=False, reasons=("Code size exceeds limit (51200 bytes)",))
    outcome = Outcome(id="1", status=Status.DENIED, decision=decision)
    assert error_text(outcome) == "Code size exceeds limit (51200 bytes)"


def test_the_place_what_was_done_and_a_hint_follow_the_message() -> None:
    outcome = failed(
        name="TypeError",
        message="x is undefined",
        line=4,
        column=22,
        excerpt="const t = x.map(f)\n          ^",
        hint="list_issues returns an array",
    ).model_copy(
        update={
            "calls": tuple(CallRecord(server="git", tool=t, status=Status.OK, ms=1) for t in "abcd"),
            "in_flight": 1,
        }
    )
    assert error_text(outcome) == (
        "Sandbox error: TypeError: x is undefined\n"
        "  at line 4, column 22\n"
        "    const t = x.map(f)\n"
        "              ^\n"
        "  calls completed before the error: 4 (git.a ok, git.b ok, git.c ok, and 1 more); "
        "1 in flight, their effect is unknown\n"
        "  hint: list_issues returns an array"
    )


def test_json_is_one_line_with_everything() -> None:
    value: object = "\ud800"
    for _ in range(400):
        value = [value]
    text = write_outcome(returned(value))
    assert "\n" not in text
    assert json.loads(text)["value"] == value
    assert Outcome.model_validate({**json.loads(text), "value": None}) == returned(None)


def test_a_terminal_is_not_controlled_by_a_program() -> None:
    assert escape_except_colour("line\r\nend") == "line\r\nend"
    assert escape_except_colour("\x1b[8mhidden") == "\x1b[8mhidden\x1b[0m"
    assert escape_except_colour("a\tb\n\x1b[31mred\x1b[0m\x1b]52;c;eA==\x07\r\x9b2J") == (
        "a\tb\n\x1b[31mred\x1b[0m\\x1b]52;c;eA==\\x07\\x0d\\x9b2J"
    )


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_every_text_can_be_printed(text: str) -> None:
    make_encodable(text).encode()


def test_surrogates() -> None:
    assert make_encodable("a\ud83d\ude00b\ud800") == "a😀b\ufffd"
    assert value_text(["\ud800"]) == '[\n  "\\ud800"\n]'
