"""Accepting changes is allowed at the command line; agents ask a person, unless a rule of the owner allows it."""

from pathlib import Path

import pytest

from paddock.gate.work import KINDS
from paddock.model.request import ChangesAction, ChangeSetRun, ExecutionRequest
from paddock.policy.decisions.decision import Policy
from paddock.policy.settings.rules import PolicySettings, Rule
from paddock.policy.settings.schema import GrantSettings, Settings

ID = f"changes-{'0' * 32}"


def decide(surface: str, action: ChangesAction, *rules: Rule) -> tuple[bool, tuple[str, ...]]:
    """Return whether a request is allowed, and why a person is asked."""
    settings = Settings(policy=PolicySettings(rule=rules))
    work = ChangeSetRun(action=action, id=ID)
    request = ExecutionRequest(surface=surface, workspace=Path("/w"), work=work)
    decision = Policy(settings, KINDS).decide(request)
    return decision.allowed, decision.asks


@pytest.mark.parametrize("surface", ["cli", "library", "web"])
def test_a_person_may_accept(surface: str) -> None:
    assert decide(surface, "accept") == (True, ())


@pytest.mark.parametrize("surface", ["mcp", "http", "sequence", "temporal", "webhook", "guest"])
def test_agents_ask_before_they_write(surface: str) -> None:
    assert decide(surface, "accept") == (
        False,
        ("accepting changes into the workspace needs a person's approval",),
    )
    assert decide(surface, "undo") == (False, ("undoing accepted changes needs a person's approval",))
    assert decide(surface, "discard") == (True, ())


@pytest.mark.parametrize(
    ("origin", "allowed"), [("user", True), ("system", True), ("workspace", False), ("token", False)]
)
def test_only_a_rule_of_the_owner_turns_the_question_off(origin: str, *, allowed: bool) -> None:
    rule = Rule(effect="allow", changes="accept", origin=origin)
    assert decide("http", "accept", rule)[0] == allowed


def test_rules_match_what_is_done() -> None:
    deny = Rule(effect="deny", changes="accept", reason="no")
    assert decide("cli", "accept", deny) == (False, ())
    assert decide("cli", "undo", deny) == (True, ())
    ask = Rule(effect="ask", changes="*", reason="look first")
    assert decide("cli", "discard", ask) == (False, ("look first",))
    allow = Rule(effect="allow", changes="discard")
    assert decide("cli", "discard", allow) == (True, ())
    assert decide("cli", "accept", allow) == (False, ())


@pytest.mark.parametrize("action", ["accept", "undo", "discard"])
def test_a_run_that_may_only_read_changes_nothing_even_if_a_rule_allows_it(action: ChangesAction) -> None:
    rule = Rule(effect="allow", changes="*", origin="user")
    policy = Policy(Settings(policy=PolicySettings(rule=(rule,))), KINDS)
    work = ChangeSetRun(action=action, id=ID)
    for calls in ("read_only", "dry_run"):
        request = ExecutionRequest(
            surface="sequence", parent="x", workspace=Path("/w"), work=work, calls=calls
        )
        decision = policy.decide(request)
        assert (decision.allowed, decision.asks, decision.rule) == (False, (), "grants.calls")


def test_a_person_accepts_what_programs_that_only_read_changed() -> None:
    policy = Policy(Settings(grants=GrantSettings(calls="read_only")), KINDS)
    work = ChangeSetRun(action="accept", id=ID)
    decisions = [
        policy.decide(ExecutionRequest(surface=surface, workspace=Path("/w"), work=work))
        for surface in ("cli", "http")
    ]
    assert [each.allowed for each in decisions] == [True, False]
    assert decisions[1].reasons == (
        "accepting changes into the workspace changes something, but this run may only read (read_only); "
        "use a run with calls = 'run'",
    )
