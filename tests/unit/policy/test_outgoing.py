"""What leaves a session: patterns of the settings hold for every text and value, not for stored output alone."""

import json

import pytest

from paddock.model.outcome import ConsoleLine
from paddock.model.settings import RedactionPattern, RedactionSettings
from paddock.policy.known import KnownSecrets
from paddock.policy.outgoing import Outgoing

PATTERNS = (
    RedactionPattern(pattern=r"\b\d{16}\b", name="card"),
    RedactionPattern(pattern="acme-[a-z]+", name="acme"),
)


def outgoing(*patterns, enabled=True):
    return Outgoing(RedactionSettings(enabled=enabled, patterns=patterns or PATTERNS), KnownSecrets())


def test_texts_values_numbers_and_names_lose_what_a_pattern_matches():
    value = {"acme-key": [4111111111111111, 1.5, True, None], "n": {"deep": ["my acme-key"]}}
    assert outgoing().json(value) == {
        "[REDACTED:acme]": ["[REDACTED:card]", 1.5, True, None],
        "n": {"deep": ["my [REDACTED:acme]"]},
    }
    assert outgoing().text("a acme-b\n4111111111111111") == "a [REDACTED:acme]\n[REDACTED:card]"


def test_console_lines_lose_what_a_pattern_matches():
    heard = []
    outgoing().console(heard.append)(ConsoleLine(level="log", text="acme-x"))
    assert heard == [ConsoleLine(level="log", text="[REDACTED:acme]")]
    assert outgoing().console(None) is None


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
    found = Outgoing(RedactionSettings(patterns=PATTERNS), known).json(value)
    for _ in range(50_000):
        found = found[0]
    assert found == ["[REDACTED:acme] " + ("[REDACTED:vault]" if secret else "s3cret")]


def test_what_is_given_stays_as_it_is():
    value = {"a": ["acme-x"]}
    before = json.dumps(value)
    outgoing().json(value)
    assert json.dumps(value) == before
