"""Where two JSON values, and two recordings, first differ."""

from typing import Any

import pytest

from paddock.gate.replay.compare import compare, find_difference
from paddock.record.payloads.recorded_run import RecordedRun


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (1, 1.0, None),
        (1, True, ("value", 1, True)),
        ([1, {"a": [2, 3]}], [1, {"a": [2, 4]}], ("value[1].a[1]", 3, 4)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, None),
        ({"a": 1}, {"a": 1, "b c": None}, ('value["b c"]', None, None)),
        ([], [0], ("value[0]", None, 0)),
        ({"b": 1, "a": 2}, {"b": 3, "a": 4}, ("value.b", 1, 3)),
        ("a", ["a"], ("value", "a", ["a"])),
        (2**70, 2**70 + 1, ("value", 2**70, 2**70 + 1)),
    ],
)
def test_the_first_difference_of_values(one: Any, other: Any, expected: Any) -> None:
    assert find_difference(one, other, "value") == expected


def make_run(**fields: Any) -> RecordedRun:
    start = {"instant": 0, "seed": (1, 2, 3, 4), "entropy": "0" * 64}
    given = {"run": "r", "workspace": "/", "recorded": "", "program": {}, "start": start, "status": "ok"}
    return RecordedRun.model_validate(given | fields)


LINE = {"line": {"level": "log", "text": "a"}}
CALL = {"number": 1, "server": "s", "tool": "t", "arguments": {}, "status": "ok", "value": 1}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"actions": [LINE]}, {}, ("console", 1, "", "a", None)),
        ({}, {"actions": [LINE]}, ("console", 1, "", None, "a")),
        (
            {"actions": [LINE, {"call": 1}], "calls": [CALL]},
            {"actions": [{"call": 1}, LINE], "calls": [CALL]},
            ("console", 1, "", "a", {"call": "servers.s.t", "arguments": {}}),
        ),
        (
            {"actions": [{"call": 1}], "calls": [CALL]},
            {"actions": [{"call": 1}], "calls": [CALL | {"value": 2}]},
            ("result", 1, "servers.s.t: result", 1, 2),
        ),
        ({"value": None, "has_value": True}, {}, ("value", None, "value", None, None)),
        ({"status": "timeout"}, {"status": "ok"}, ("status", None, "", "timeout", "ok")),
    ],
)
def test_the_first_difference_of_runs(one: Any, other: Any, expected: Any) -> None:
    found = compare(make_run(**one), make_run(**other))
    assert found is not None
    assert tuple(found) == expected


def test_an_interrupted_run_is_compared_up_to_its_end() -> None:
    one, other = make_run(status="timeout", actions=[LINE]), make_run(status="cancelled", actions=[LINE])
    assert compare(one, other, reached_end=True) is None
    assert compare(make_run(actions=[LINE]), other, reached_end=True) is not None


def test_a_large_value_is_cut_in_the_report() -> None:
    found = compare(make_run(value="x" * 5000, has_value=True), make_run(value=[7] * 5000, has_value=True))
    assert found is not None
    shown = found.to_json()
    assert [len(shown[side]) for side in ("recorded", "replayed")] == [2000, 2000]
