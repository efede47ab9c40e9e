"""The rules as they ship: each one removes what it is made for, and ordinary source stays as it is."""

import json
import random
import re
import re._constants as code
import re._parser as parser
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paddock.policy.redaction.outgoing import Removal
from paddock.policy.redaction.rules import load_rules
from paddock.policy.redaction.scanner import Scanner
from paddock.policy.redaction.values import find_entropy
from paddock.policy.settings.schema import RedactionSettings

ROOT = Path(__file__).resolve().parents[4]
SCANNER = Scanner(RedactionSettings())
HARMLESS = [json.loads(line) for line in (Path(__file__).parent / "harmless.jsonl").read_text().splitlines()]
RULES = [
    json.loads(line)
    for line in (ROOT / "src/paddock/policy/redaction/rules.jsonl").read_text().splitlines()[1:]
    if "profile" not in json.loads(line)
]
SHAPES = [
    rule for rule in RULES if rule.get("check") not in {"value", "data", "password", "random", "address"}
]
"""Those whose pattern alone says what a secret looks like."""


def test_ordinary_source_stays_as_it_is() -> None:
    assert len(HARMLESS) == 200
    changed = {
        each["from"]: found.text(each["line"])
        for each in HARMLESS
        if (found := Removal(SCANNER)).text(each["line"]) != each["line"] or found.count
    }
    assert changed == {}


def test_ordinary_source_stays_as_it_is_in_one_text() -> None:
    text = "\n".join(each["line"] for each in HARMLESS)
    assert Removal(SCANNER).text(text) == text


def test_every_keyword_is_found_before_re2_is_loaded_if_what_must_be_beside_it_is_there() -> None:
    """A process of its own: this one may have loaded RE2 already."""
    program = """
import sys
from paddock.policy.redaction import rules
words = {word.decode(): also.decode() for word, also in (
    *(each for some in rules._keywords().by_beginning.values() for each in some), *rules._keywords().short)}
texts = [f"<{word.upper()}|{also}>" for word, also in words.items()]
print(sum(rules.may_match(text.encode()) for text in texts) == len(texts) == len(words) > 200)
beginnings = [f"<{word[:-1]}>" for word in words]
print([text for text in beginnings if rules.may_match(text.encode())
    != any(word in text and also in text for word, also in words.items())], "re2" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("True\n[] False\n", "")


def as_python(pattern: str) -> str:
    """Return a pattern of RE2 in the syntax of Python: flags in the middle hold for what follows."""
    pattern = pattern.replace(r"\z", r"\Z").replace("[a-zA-z", "[a-zA-Z").replace(r"[^\S\n]", "[ ]")
    if "(?i)" in pattern:
        head, _, tail = pattern.partition("(?i)")
        depth = head.count("(") - head.count("\\(") - head.count(")") + head.count("\\)")
        if depth == 0:
            return f"{head}(?i:{tail.replace('(?i)', '')})"
        return "(?i)" + pattern.replace("(?i)", "")
    return pattern


class Shape:
    """Makes texts that a pattern matches."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)

    def text(self, parsed: Any) -> str:
        return "".join(self.item(*each) for each in parsed)

    def item(self, kind: Any, given: Any) -> str:
        if kind is code.LITERAL:
            return chr(given)
        if kind is code.IN:
            return self.one_of(given)
        if kind in {code.MAX_REPEAT, code.MIN_REPEAT}:
            least, most, inner = given
            times = self.random.randint(least, min(most, max(least, 1)) if least == 0 else least)
            return "".join(self.text(inner) for _ in range(times))
        if kind is code.SUBPATTERN:
            return self.text(given[3])
        if kind is code.BRANCH:
            return self.text(self.random.choice(given[1]))
        if kind is code.NOT_LITERAL:
            return "x"
        if kind is code.ANY:
            return "."
        assert kind is code.AT, kind
        return ""

    def one_of(self, items: Any) -> str:
        allowed = {char for char in map(chr, range(32, 127)) if self.allows(items, char)}
        usual = [char for char in sorted(allowed) if char.isalnum()] or sorted(allowed)
        return self.random.choice(usual)

    def allows(self, items: Any, char: str) -> bool:
        within = False
        for kind, given in items:
            within |= (
                (kind is code.LITERAL and ord(char) == given)
                or (kind is code.RANGE and given[0] <= ord(char) <= given[1])
                or (kind is code.CATEGORY and re.match(CATEGORIES[given], char) is not None)
            )
        return within != (items[0][0] is code.NEGATE)


CATEGORIES = {
    code.CATEGORY_WORD: r"\w",
    code.CATEGORY_DIGIT: r"\d",
    code.CATEGORY_SPACE: r"\s",
    code.CATEGORY_NOT_SPACE: r"\S",
    code.CATEGORY_NOT_WORD: r"\W",
}


def make_text(rule: dict[str, Any]) -> tuple[str, str]:
    """Return a text with a secret that a rule is made for, and the secret."""
    pattern = as_python(rule["pattern"])
    parsed, compiled = parser.parse(pattern), re.compile(pattern)
    for attempt in range(200):
        text = Shape(f"{rule['name']} {attempt}").text(parsed)
        found = compiled.search(text)
        if found is None:
            continue
        first = rule.get("group", min(1, compiled.groups))
        secret = (
            next((each for each in found.groups()[max(first - 1, 0) :] if each), found[0])
            if first
            else found[0]
        )
        if find_entropy(secret) < rule.get("entropy", 0) or (rule.get("check") and secret.isalpha()):
            continue
        named = any(word in text.lower() for word in rule["keywords"])
        return (text if named else f"{rule['keywords'][0]} {text}"), secret
    raise AssertionError(rule["name"])


@pytest.mark.parametrize("rule", SHAPES, ids=lambda rule: rule["name"])
def test_a_rule_removes_what_it_is_made_for(rule: dict[str, Any]) -> None:
    text, secret = make_text(rule)
    removal = Removal(SCANNER)
    assert secret not in removal.text(f"{text}\n")
    assert removal.count >= 1
    assert secret not in json.dumps(removal.json({"k": [text]}))


def test_there_are_enough_rules() -> None:
    assert len(SHAPES) > 160
    assert len({rule["name"] for rule in RULES}) > 180


def test_the_rules_are_those_of_their_sources() -> None:
    subprocess.run([sys.executable, ROOT / "scripts/redaction_rules.py", "--check"], check=True)


def test_every_pattern_compiles() -> None:
    assert len([rule.regex for rule in load_rules().all]) == len(load_rules().all) > 200
