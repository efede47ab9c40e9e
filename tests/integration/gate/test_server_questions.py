"""Questions of servers in the midst of a call: a person answers, or nobody does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.servers import make_entry, write_servers

from paddock import BlockingPaddock
from paddock.model.approval import Answer, Question
from paddock.model.errors import ConfigurationError
from paddock.model.outcome import Outcome, Status
from paddock.policy.settings.loader import load
from paddock.policy.settings.schema import Settings

ERAS = ("modern", "legacy")

Asker = Callable[[Question], Any]


class Person:
    """Says the same to every question, and remembers them."""

    def __init__(self, verdict: str) -> None:
        self.verdict = verdict
        self.questions: list[Question] = []

    async def __call__(self, question: Question) -> Answer:
        self.questions.append(question)
        return Answer(verdict=self.verdict, by="the person")


def call(
    place: Path, era: str, tool: str, asker: Asker | None = None, *, passed_on: bool = True, calls: int = 1
) -> Outcome:
    """Return what becomes of a program that calls a tool."""
    entry = make_entry("asking", era)
    write_servers(place, {"asking": entry})
    names = ["ask*"] if passed_on else []
    state = {
        "servers": {"state": place / "state", "questions": names},
        "audit": {"directory": place / "audit"},
    }
    settings = Settings.model_validate({**state, "approvals": {"directory": place / "approvals"}})
    source = f"return (await Promise.all(Array.from({{length: {calls}}}, () => servers.asking.{tool}())))[0]"
    with BlockingPaddock(place, settings=settings, asker=asker) as paddock:
        return paddock.execute(source)


@pytest.mark.parametrize("era", ERAS)
def test_a_person_agrees_to_what_the_form_holds(tmp_path: Path, era: str) -> None:
    person = Person("once")
    outcome = call(tmp_path, era, "confirm", person)
    assert outcome.value == {"action": "accept", "content": {"name": "Ada", "times": 3}}
    [question] = person.questions
    assert question.what == "answer what server asking asks during a call"
    assert json.loads(question.details) == {"question": "Shall I?", "answer": {"name": "Ada", "times": 3}}
    assert question.reasons == ("only this answer is sent",)
    assert question.scopes == ("once",)
    recorded = "".join(file.read_text() for file in (tmp_path / "audit").glob("*.ndjson"))
    assert '"asked"' in recorded
    assert "Shall I?" not in recorded


@pytest.mark.parametrize("era", ERAS)
def test_a_person_says_no(tmp_path: Path, era: str) -> None:
    assert call(tmp_path, era, "confirm", Person("denied")).value == {"action": "decline"}


@pytest.mark.parametrize("era", ERAS)
def test_forms_are_offered_only_where_questions_are_passed_on(tmp_path: Path, era: str) -> None:
    assert call(tmp_path, era, "can").value == {"form": {}}
    assert call(tmp_path, era, "can", passed_on=False).value == "no"


@pytest.mark.parametrize("era", ERAS)
def test_nobody_is_asked_unless_the_settings_say_so(tmp_path: Path, era: str) -> None:
    person = Person("once")
    outcome = call(tmp_path, era, "confirm", person, passed_on=False)
    assert person.questions == []
    if era == "legacy":
        assert outcome.value == "refused"
    else:
        assert outcome.error is not None
        assert outcome.error.message == (
            "Tool 'confirm' asks its user for more input, which a program cannot give; pass all it needs, or let a "
            "person be asked: `servers.questions` names the servers that may."
        )


@pytest.mark.parametrize(
    ("tool", "why"),
    [
        (
            "confirm",
            "only this answer is sent: there is no person to ask here: run it on a terminal or from a client",
        ),
        ("type", "it asks for values that a person would have to type, which is not possible here"),
        ("open", "it asks its user to open an address, which Paddock never does for a server"),
        ("odd", "its question breaks the protocol"),
        ("sample", "it requests something other than an answer of its user"),
        ("roots", "it requests something other than an answer of its user"),
    ],
)
def test_what_is_not_answered_fails_the_call(tmp_path: Path, tool: str, why: str) -> None:
    person = None if tool == "confirm" else Person("once")
    outcome = call(tmp_path, "modern", tool, person)
    assert outcome.status is Status.FAILED
    assert outcome.error is not None
    assert outcome.error.message.startswith(f"Tool '{tool}' asks its user for more input: {why}")
    assert person is None or person.questions == []


@pytest.mark.parametrize(
    ("tool", "answer"),
    [
        *(("confirm", {"action": "cancel"}), ("type", {"action": "cancel"}), ("open", {"action": "cancel"})),
        *(("odd", "refused"), ("sample", "refused"), ("roots", "refused")),
    ],
)
def test_the_older_era_hears_that_nobody_answers(tmp_path: Path, tool: str, answer: object) -> None:
    person = None if tool == "confirm" else Person("once")
    assert call(tmp_path, "legacy", tool, person).value == answer
    assert person is None or person.questions == []


def test_a_server_that_never_has_enough(tmp_path: Path) -> None:
    person = Person("once")
    outcome = call(tmp_path, "modern", "endless", person)
    assert outcome.error is not None
    assert outcome.error.message == "Tool 'endless' asks its user for more input: it asked more than 5 times."
    assert len(person.questions) == 5


def test_a_question_past_two_calls_belongs_to_nobody(tmp_path: Path) -> None:
    person = Person("once")
    assert call(tmp_path, "legacy", "together", person, calls=2).value == {"action": "cancel"}
    assert person.questions == []


def test_a_workspace_may_not_let_a_server_ask(tmp_path: Path) -> None:
    (tmp_path / "paddock.toml").write_text('[servers]\nquestions = ["*"]\n')
    with pytest.raises(ConfigurationError, match=r"servers\.questions"):
        load(tmp_path, environment={}, system=tmp_path / "none", user=tmp_path / "none")
