"""A call that must be confirmed runs when it comes once more, within five minutes, and only once."""

import json
from typing import Any

import pytest

from paddock.engines.script_tools.prompts.detection import PromptMatch
from paddock.engines.script_tools.prompts.service import (
    PromptApprovals,
    PromptQuestion,
    Verdict,
    judge_confirmation,
    question,
    request,
)
from paddock.model.numbers import loads


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_p39_asked_then_run_then_asked_again():
    approvals = PromptApprovals(Clock())
    assert [approvals.approve("p", "t", {"a": 1}, "s") for _ in range(4)] == [False, True, False, True]


def test_p40_other_inputs_are_another_question():
    approvals = PromptApprovals(Clock())
    asked = [
        approvals.approve("p", "t", {"a": 1, "b": {"x": 1, "y": 2}}, "s"),
        approvals.approve("p", "t", {"a": 2, "b": {}}, "s"),
        approvals.approve("p", "other", {"a": 1, "b": {"x": 1, "y": 2}}, "s"),
        approvals.approve("q", "t", {"a": 1, "b": {"x": 1, "y": 2}}, "s"),
        approvals.approve("p", "t", {"a": 1, "b": {"x": 1, "y": 2}}, "another"),
        approvals.approve("p", "t", {"b": {"y": 2, "x": 1}, "a": 1}, "s"),
    ]
    assert asked == [False, False, False, False, False, True]


def test_p40_numbers_of_one_double_are_different_inputs():
    approvals = PromptApprovals(Clock())
    numbers = [loads(digits) for digits in ("0.1", "0.1000000000000000055", "0.10000000000000000551", "0.1")]
    asked = [approvals.approve("p", "t", {"amount": number}, "s") for number in numbers]
    assert asked == [False, False, False, True]


@pytest.mark.parametrize(("later", "approved"), [(299.9, True), (300.0, False)])
def test_p40_after_five_minutes_it_is_asked_again(later: float, *, approved: bool):
    clock = Clock()
    approvals = PromptApprovals(clock)
    approvals.approve("p", "t", {}, "s")
    clock.now += later
    assert approvals.approve("p", "t", {}, "s") is approved


def test_questions_that_nobody_answers_are_forgotten():
    approvals = PromptApprovals(Clock())
    for number in range(1001):
        approvals.approve("p", "t", {"n": number}, "s")
    assert approvals.approve("p", "t", {"n": 1000}, "s")
    assert approvals.approve("p", "t", {"n": 1}, "s")
    assert not approvals.approve("p", "t", {"n": 0}, "s")


def test_p39_what_is_asked():
    match = PromptMatch("csv", 0.9, "schema_match", False, ("file",), {"file": "a.csv"}, True)
    one = question(match, name="CSV", prompt="analyse", message=None)
    assert one == PromptQuestion(
        tool_id="csv", tool_name="CSV", message="Execute CSV?", resume_command=">>analyse",
        matched_params=("file",), extracted_inputs={"file": "a.csv"},
    )  # fmt: skip
    assert question(match, name="CSV", prompt="p", message="Sure?").message == "Sure?"
    asked = request([one], "analyse")
    assert json.loads(json.dumps(asked)) == {
        "type": "confirmation_required",
        "tools": [
            {
                "toolId": "csv",
                "toolName": "CSV",
                "message": "Execute CSV?",
                "resumeCommand": ">>analyse",
                "matchedParams": ["file"],
                "extractedInputs": {"file": "a.csv"},
            }
        ],
        "resumeCommand": ">>analyse",
        "message": (
            "The following tools require confirmation before execution:\n- CSV: Execute CSV?\n"
            "To proceed, re-run the same command: >>analyse"
        ),
    }


@pytest.mark.parametrize(
    ("output", "success", "error", "verdict"),
    [
        ({"valid": True, "warnings": ["w"]}, False, "x", Verdict(True, ("w",))),
        ({"valid": False, "errors": ["e", 1]}, True, None, Verdict(False, (), ("e", "1"))),
        ({"valid": False}, True, None, Verdict(False, (), ("Validation failed",))),
        ({"output": "hello"}, True, None, Verdict(False, (), ("Validation failed",))),
        ({"valid": "true"}, True, None, Verdict(False, (), ("Validation failed",))),
        (None, True, None, Verdict(False, (), ("Script did not return valid JSON output",))),
        ([1], False, "Process exited with code 5", Verdict(False, (), ("Process exited with code 5",))),
    ],
)
def test_p41_what_a_run_says_about_itself_counts_before_its_exit_code(
    output: Any, *, success: bool, error: str | None, verdict: Verdict
):
    assert judge_confirmation(output, success=success, error=error) == verdict
