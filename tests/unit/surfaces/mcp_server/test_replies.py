"""Outcomes as agents read them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.numbers import ExactFloat
from paddock.model.outcome import (
    CallRecord,
    ConsoleLine,
    ErrorInfo,
    Frame,
    Outcome,
    PlannedCall,
    Status,
    Usage,
)
from paddock.surfaces.mcp_server.replies import build_answer, describe_effects

CALLS = (
    CallRecord(server="github", tool="a", status=Status.OK, ms=1),
    CallRecord(server="jira", tool="b", status=Status.FAILED, ms=1),
    CallRecord(server="github", tool="a", status=Status.OK, ms=1),
)


def outcome(status=Status.OK, **fields):
    return Outcome(id="R", status=status, usage=Usage(wall_ms=141.7), **fields)


def texts(result):
    return [block["text"] for block in result.content]


def test_a_value_with_calls_and_console():
    lines = (ConsoleLine(level="log", text="a"), ConsoleLine(level="warn", text="b"))
    result = build_answer(outcome(value={"open": 17}, has_value=True, calls=CALLS, console=lines), 1000)
    assert texts(result) == [
        'ok · 142 ms · 3 calls (github 2, jira 1; 1 failed) · run R\n{"open":17}\n--- console (2 lines)\na\n[warn] b'
    ]
    assert result.structured == {
        "status": "ok",
        "run": "R",
        "ms": 142,
        "calls": {"github": 2, "jira": 1},
        "value": {"open": 17},
        "console": ["a", "[warn] b"],
    }
    assert not result.is_error


def test_a_plan_says_what_a_person_would_be_asked_about():
    planned = (
        PlannedCall(server="odd", tool="echo", arguments={"text": "x"}),
        PlannedCall(server="odd", tool="hang", arguments=None, asks=("it takes long", "it is loud")),
    )
    result = build_answer(outcome(value=1, has_value=True, planned=planned), 1000)
    assert texts(result)[0].splitlines()[2:] == [
        "--- planned, not called (2)",
        'odd.echo({"text":"x"})',
        "odd.hang(...) - a person would be asked: it takes long; it is loud",
    ]
    assert result.structured["planned"] == [
        {"server": "odd", "tool": "echo", "args": {"text": "x"}},
        {"server": "odd", "tool": "hang", "args": None, "asks": ["it takes long", "it is loud"]},
    ]


@pytest.mark.parametrize(("count", "size"), [(25, 39_000), (1000, 20), (3, 90)])
def test_a_plan_keeps_the_cap_and_says_what_it_left_out(count, size):
    call = PlannedCall(server="odd", tool="echo", arguments={"text": "x" * size})
    result = build_answer(outcome(planned=(call,) * count), 1000)
    assert len(texts(result)[0]) <= 1500
    assert len(json.dumps(result.structured)) <= 1500
    assert result.structured.get("truncated", False) is (count > 3)
    assert f"--- planned, not called ({count})" in texts(result)[0]


def test_a_text_is_shown_as_it_is():
    assert texts(build_answer(outcome(value="a\nb", has_value=True), 1000)) == ["ok · 142 ms · run R\na\nb"]


def test_nothing_was_returned():
    assert texts(build_answer(outcome(), 1000)) == ["ok · 142 ms · run R\n(the program returned nothing)"]


def test_an_error_with_its_place_and_what_had_happened():
    error = ErrorInfo(name="TypeError", message="no", line=4, column=2, excerpt="x.y\n^", hint="try z")
    result = build_answer(outcome(Status.FAILED, error=error, calls=CALLS[:1], in_flight=1), 1000)
    assert texts(result)[0].splitlines() == [
        "failed · 142 ms · 1 call (github 1) · run R",
        "TypeError: no",
        "  at line 4, column 2",
        "    x.y",
        "    ^",
        "  calls completed before the error: 1 (github.a ok); 1 in flight, their effect is unknown",
        "  hint: try z",
    ]
    assert result.structured == {
        "status": "failed",
        "run": "R",
        "ms": 142,
        "calls": {"github": 1},
        "error": {"name": "TypeError", "message": "no", "line": 4, "column": 2, "hint": "try z"},
        "happened": "in_flight_unknown",
    }
    assert result.is_error


def test_what_had_happened():
    parse = ErrorInfo(name="SyntaxError", message="", phase="parse")
    assert [
        describe_effects(outcome(Status.DENIED)),
        describe_effects(outcome(Status.FAILED, error=parse)),
        describe_effects(outcome(Status.TIMEOUT, in_flight=1, calls=CALLS)),
        describe_effects(outcome(Status.TIMEOUT, calls=CALLS)),
        describe_effects(outcome(Status.TIMEOUT)),
    ] == ["not_started", "not_started", "in_flight_unknown", "calls_completed", "no_calls"]


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("ok", "calls_completed"),
        ("failed", "calls_completed"),
        ("timeout", "in_flight_unknown"),
        ("lost", "in_flight_unknown"),
        ("denied", "no_calls"),
        ("invalid", "no_calls"),
        ("unavailable", "no_calls"),
    ],
)
def test_what_a_call_had_done_is_told_by_its_own_end(end, told):
    call = CallRecord(server="github", tool="a", status=Status(end), ms=1.0)
    assert describe_effects(outcome(Status.FAILED, calls=(call,))) == told


def test_a_single_call_is_what_it_had_done_itself():
    ends = (Status.TIMEOUT, Status.LOST, Status.FAILED, Status.UNAVAILABLE, Status.DENIED)
    assert [describe_effects(outcome(end), single=True) for end in ends] == [
        "in_flight_unknown",
        "in_flight_unknown",
        "calls_completed",
        "not_started",
        "not_started",
    ]


@given(
    st.text() | st.lists(st.text() | st.integers()),
    st.lists(st.text(max_size=300), max_size=30),
    st.text(max_size=5000),
    st.integers(200, 2000),
)
def test_text_and_data_keep_the_same_cap(value, lines, message, cap):
    console = tuple(ConsoleLine(level="log", text=line) for line in lines)
    good = build_answer(outcome(value=value, has_value=True, console=console), cap)
    bad = build_answer(
        outcome(Status.FAILED, error=ErrorInfo(name="E", message=message), console=console), cap
    )
    for result in (good, bad):
        assert len(texts(result)[0]) <= 2 * cap + 400
        assert len(str(result.structured.get("value", ""))) <= 2 * cap
        assert sum(map(len, result.structured.get("console", []))) <= 2 * cap + 400


def test_an_error_has_the_path_of_calls_that_led_to_it():
    frames = (Frame(function="inner", line=1, column=32), Frame(function="", line=3, column=1))
    error = ErrorInfo(name="TypeError", message="no", line=1, column=32, frames=frames)
    told = build_answer(outcome(Status.FAILED, error=error), 1000).structured["error"]
    assert told == {
        "name": "TypeError",
        "message": "no",
        "line": 1,
        "column": 32,
        "frames": [
            {"function": "inner", "line": 1, "column": 32},
            {"function": "", "line": 3, "column": 1},
        ],
    }
    alone = error.model_copy(update={"frames": frames[:1]})
    assert "frames" not in build_answer(outcome(Status.FAILED, error=alone), 1000).structured["error"]


@pytest.mark.parametrize("beside", [None, "\ud800", 2**64, ExactFloat("0.12345678901234567890123")])
@pytest.mark.parametrize(
    "media",
    [
        {"type": "image", "mimeType": "image/png", "data": "AAAA"},
        {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
        {"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA"}},
    ],
)
def test_media_are_found_beside_whatever_a_value_holds(media, beside):
    answered = build_answer(outcome(value=[{"a": media}, beside], has_value=True), 1000)
    assert answered.content[1:] == [media]
    assert answered.structured["value"][0]["a"]["block"] == 1


def test_what_only_speaks_of_media_stays_as_it_is():
    value = ["image", {"type": "audio"}, {"resource": 1e-7}]
    answered = build_answer(outcome(value=value, has_value=True), 1000)
    assert (answered.structured["value"], len(answered.content)) == (value, 1)
