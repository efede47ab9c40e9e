"""What leaves a session: patterns of the settings hold for every text and value, not for stored output alone."""

import json

import pytest

from paddock.model.outcome import CallRecord, ConsoleLine, Decision, ErrorInfo, Outcome, PlannedCall, Status
from paddock.model.program import ProgramEnd
from paddock.model.tool import ToolEnd
from paddock.policy.redaction.known import KnownSecrets
from paddock.policy.redaction.outgoing import OutgoingRedaction
from paddock.policy.redaction.scanner import finish
from paddock.policy.settings.schema import RedactionPattern, RedactionSettings

PATTERNS = (
    RedactionPattern(pattern=r"\b\d{16}\b", name="card"),
    RedactionPattern(pattern="acme-[a-z]+", name="acme"),
)


def outgoing(*patterns, enabled=True):
    return OutgoingRedaction(
        RedactionSettings(enabled=enabled, patterns=patterns or PATTERNS), KnownSecrets()
    )


def test_texts_values_numbers_and_names_lose_what_a_pattern_matches():
    value = {"acme-key": [4111111111111111, 1.5, True, None], "n": {"deep": ["my acme-key"]}}
    assert outgoing().json(value) == {
        "[REDACTED:acme]": ["[REDACTED:card]", 1.5, True, None],
        "n": {"deep": ["my [REDACTED:acme]"]},
    }
    assert outgoing().text("a acme-b\n4111111111111111") == "a [REDACTED:acme]\n[REDACTED:card]"


def test_console_lines_lose_what_a_pattern_matches():
    line = outgoing().line(ConsoleLine(level="log", text="acme-x"))
    assert line == ConsoleLine(level="log", text="[REDACTED:acme]")


def test_a_pattern_sees_one_line_at_a_time():
    assert (
        outgoing(RedactionPattern(pattern=r"^a.*z$", flags="s")).text("a\nz\naz") == "a\nz\n[REDACTED:custom]"
    )


def test_nothing_is_matched_when_redaction_is_off():
    assert outgoing(enabled=False).text("acme-b") == "acme-b"
    assert outgoing(enabled=False).warnings == ()


def test_a_pattern_that_re2_does_not_take_is_told():
    found = outgoing(RedactionPattern(pattern="(?=a)", name="ahead")).warnings
    assert len(found) == 1
    assert found[0].startswith("redaction.patterns: `ahead` is not used: ")


@pytest.mark.parametrize("secret", ["", "s3cret"])
def test_depth_is_no_obstacle(secret):
    known = KnownSecrets()
    known.learn(secret)
    value = deep = []
    for _ in range(50_000):
        deep.append([])
        deep = deep[0]
    deep.append("acme-x s3cret")
    found = OutgoingRedaction(RedactionSettings(patterns=PATTERNS), known).json(value)
    for _ in range(50_000):
        found = found[0]
    assert found == ["[REDACTED:acme] " + ("[REDACTED:vault]" if secret else "s3cret")]


def test_what_is_given_stays_as_it_is():
    value = {"a": ["acme-x"]}
    before = json.dumps(value)
    outgoing().json(value)
    assert json.dumps(value) == before


HELD = {"pattern": "acme-secret", "vault": "hunter2hunter2", "aws-access-key": "AKIA" + "IOSFODNN7ABCDEFG"}
"""A secret of each kind, by what stands in its place."""


def holding(secret):
    """Return an outcome that holds a text wherever one can be."""
    return Outcome(
        id="x",
        status=Status.FAILED,
        value={secret: [secret]},
        has_value=True,
        console=(ConsoleLine(level="log", text=secret), ConsoleLine(level="warn", text="plain")),
        calls=(CallRecord(server=secret, tool=secret, status=Status.OK, ms=1.0),),
        planned=(PlannedCall(server=secret, tool=secret, arguments={"a": secret}, asks=(secret,)),),
        tool=ToolEnd(
            success=False,
            output={"a": secret},
            stdout=secret,
            stderr=secret,
            exit_code=1,
            duration_ms=1.0,
            error=secret,
            violations=(f"{secret}/.mcp.json",),
        ),
        program=ProgramEnd(runtime="shell", violations=(f"{secret}/.mcp.json",)),
        error=ErrorInfo(name=secret, message=secret, excerpt=secret, thrown=secret, hint=secret),
    )


def leaving(secret):
    known = KnownSecrets()
    if secret == HELD["vault"]:
        known.learn(secret)
    pattern = RedactionPattern(pattern="acme-[a-z]+", name="pattern")
    given = holding(secret)
    outgoing = OutgoingRedaction(
        RedactionSettings(patterns=(pattern,) if secret == HELD["pattern"] else ()), known
    )
    return finish(outgoing.result_in_slices(given, json.dumps(given.value).encode()))


@pytest.mark.parametrize("name", HELD)
def test_x36_an_outcome_leaves_without_secrets_wherever_they_were(name):
    found = leaving(HELD[name])
    assert found == holding(f"[REDACTED:{name}]").model_copy(update={"redactions": found.redactions})
    assert found.redactions == 20


@pytest.mark.parametrize(("name", "mark"), [("vault", "vault"), ("aws-access-key", "KEY")])
def test_x36_a_compatible_session_keeps_its_marks(name, mark):
    known = KnownSecrets()
    known.learn(HELD["vault"])
    outgoing = OutgoingRedaction(RedactionSettings(), known, compatible=True)
    text = f"token {HELD[name]}"
    assert (outgoing.text(text), outgoing.json([text])) == (
        f"token [REDACTED:{mark}]",
        [f"token [REDACTED:{mark}]"],
    )
    assert outgoing.output.redact(b"password=x").data == b"[REDACTED:secret]"


def test_what_did_not_run_says_why_without_secrets():
    why = f"git/{HELD['aws-access-key']} is not granted"
    decision = Decision(allowed=False, reasons=(why,), asks=(why,))
    outcome = Outcome(
        id="x", status=Status.DENIED, decision=decision, error=ErrorInfo(name="PolicyError", message=why)
    )
    found = OutgoingRedaction(RedactionSettings(), KnownSecrets()).refusal(outcome)
    told = "git/[REDACTED:aws-access-key] is not granted"
    assert (found.decision.reasons, found.decision.asks, found.error.message) == ((told,), (told,), told)
    assert found.redactions == 3


def test_an_outcome_without_secrets_leaves_as_it_is():
    assert leaving("plain") == holding("plain")
    bare = Outcome(id="x", status=Status.OK, value=1, has_value=True)
    assert finish(outgoing().result_in_slices(bare, b"1")) == bare


def test_facts_for_the_record_lose_what_looks_like_a_secret():
    """A program or its caller chooses these texts."""
    secret, mark = HELD["aws-access-key"], "[REDACTED:aws-access-key]"
    facts = {"name": secret, "variables": f"A {secret}", "violations": [f"{secret}/.mcp.json", ".envrc"]}
    facts |= {"hosts": [f"{secret}.example"], "requirements": [], "n": 1}
    assert outgoing().facts(facts) == {
        "name": mark,
        "variables": f"A {mark}",
        "violations": [f"{mark}/.mcp.json", ".envrc"],
        "hosts": [f"{mark}.example"],
        "requirements": [],
        "n": 1,
    }


def test_facts_for_the_record_lose_what_was_handed_out():
    known = KnownSecrets()
    facts = {"name": "hunter2hunter2", "n": 1}
    assert OutgoingRedaction(RedactionSettings(), known).facts(facts) == facts
    known.learn("hunter2hunter2")
    assert OutgoingRedaction(RedactionSettings(), known).facts(facts) == {"name": "[REDACTED:vault]", "n": 1}


def test_each_of_many_records_loses_the_token_in_a_name():
    leaving = OutgoingRedaction(RedactionSettings(), KnownSecrets())
    token = "ghp_" + "a1" * 18
    facts = [leaving.facts({"name": name, "n": 1}) for name in (f"git/{token}", "git/log") * 2]
    assert [each["name"] for each in facts] == ["git/[REDACTED:github-token]", "git/log"] * 2


def test_a_name_that_was_let_through_is_removed_once_it_is_known():
    known = KnownSecrets()
    leaving = OutgoingRedaction(RedactionSettings(), known)
    assert leaving.facts({"name": "hunter2hunter2"}) == {"name": "hunter2hunter2"}
    known.learn("hunter2hunter2")
    assert leaving.facts({"name": "hunter2hunter2"}) == {"name": "[REDACTED:vault]"}


def test_ended_calls_lose_what_a_pattern_matches():
    heard = []
    calls = outgoing().calls(heard.append)
    calls(CallRecord(server="s", tool="acme-x", status=Status.OK, ms=1.0))
    assert heard == [CallRecord(server="s", tool="[REDACTED:acme]", status=Status.OK, ms=1.0)]
    assert outgoing().calls(None) is None
