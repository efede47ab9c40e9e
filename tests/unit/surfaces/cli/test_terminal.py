"""Questions at a terminal."""

from paddock.model.approval import Question
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
