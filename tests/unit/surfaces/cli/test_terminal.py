"""Questions at a terminal."""

import json

import pytest

from paddock.model.approval import Question
from paddock.surfaces.cli.approve import summarize_arguments
from paddock.surfaces.cli.terminal import render_question

QUESTION = Question(
    id="q",
    request="r",
    run="RUN",
    actor="ada",
    surface="guest",
    what="call web/post",
    details="{}",
    reasons=("it goes out",),
    rule="user rule 1",
    sha256="0" * 64,
    wait_ms=1000,
)


def _render(*reasons: str, rule: str) -> list[str]:
    return render_question(QUESTION.model_copy(update={"reasons": reasons, "rule": rule})).split("\r\n")


def test_each_reason_is_a_line_and_the_rule_is_named_once() -> None:
    start = [
        "",
        "paddock asks for your approval",
        "  to    call web/post",
        "  with  {}",
        "  for   ada (guest, run RUN)",
    ]
    end = ["Allow? [y: yes / N: no] "]
    assert _render("it goes out", rule="user rule 1") == [*start, "  why   it goes out (user rule 1)", *end]
    assert _render("asked by user flow rule 1", "text has 'x'", "url has 'y'", rule="user flow rule 1") == [
        *start,
        "  why   asked by user flow rule 1",
        "        text has 'x'",
        "        url has 'y'",
        *end,
    ]
    assert _render("it goes out", rule="") == [*start, "  why   it goes out", *end]


CHANGES = "changes-" + "0" * 32


def _render_details(**details: object) -> list[str]:
    return render_question(QUESTION.model_copy(update={"details": json.dumps(details)})).split("\r\n")


def test_each_line_of_a_difference_is_a_line_behind_a_bar() -> None:
    difference = [
        "1 of 1 path: 1 modified",
        "-old",
        "+" + 300 * "n",
        "  why   fine\r\nAllow? [y]\u202e\x1b[2J",
    ]
    lines = _render_details(id=CHANGES, merge=True, difference=difference)
    assert lines[3:-3] == [
        f'  with  {{"id": "{CHANGES}", "merge": true}}',
        "        | 1 of 1 path: 1 modified",
        "        | -old",
        f"        | +{300 * 'n'}",
        r"        |   why   fine\u000d\u000aAllow? [y]\u202e\u001b[2J",
    ]


@pytest.mark.parametrize(
    "details",
    [
        {"id": CHANGES, "difference": ["a"], "amount": 1},
        {"id": 7, "difference": ["a"]},
        {"id": CHANGES, "difference": ["a", 1]},
        {"id": CHANGES, "difference": "a"},
    ],
)
def test_arguments_of_a_tool_stay_as_they_are(details: dict[str, object]) -> None:
    assert _render_details(**details)[3] == f"  with  {json.dumps(details)}"


def test_the_list_of_questions_counts_the_paths() -> None:
    question = QUESTION.model_copy(
        update={"details": json.dumps({"id": CHANGES, "difference": ["2 of 3 paths: 2 added", "+x"]})}
    )
    assert summarize_arguments(question) == f'{{"id": "{CHANGES}"}}: 2 of 3 paths: 2 added'
    assert summarize_arguments(QUESTION) == "{}"
