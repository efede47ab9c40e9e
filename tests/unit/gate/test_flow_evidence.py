"""Texts of earlier results in the arguments of a call: what is found, and what it may cost."""

import base64
import string
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.gate.flow.evidence import (
    MAX_ARGUMENT_CHARS,
    MAX_KEPT_CHARS,
    MAX_MATCHES,
    MIN_CHARS,
    Evidence,
    decode_texts,
)

OWNER, OTHER = object(), object()
WRITTEN: dict[str, Callable[[str], str]] = {
    "": str,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "URL encoding": lambda text: "".join(f"%{each:02X}" for each in text.encode()),
}
WORDS = st.text(string.ascii_letters + string.digits, min_size=MIN_CHARS, max_size=40)
AROUND = st.text(string.ascii_letters + " .,\n", max_size=30)


def find(results: list[object], arguments: object) -> list[tuple[str, str, str]]:
    evidence = Evidence()
    for number, result in enumerate(results):
        evidence.keep(f"r{number}", "mail/read", OWNER, result)
    return [(each.text, each.place, each.encoding) for each in evidence.find(OWNER, arguments)]


@given(WORDS, AROUND, AROUND, st.sampled_from(sorted(WRITTEN)))
def test_every_long_enough_text_is_found(word: str, before: str, after: str, encoding: str) -> None:
    results = [{"mails": [{"body": f"{before}|{word}|{after}"}]}]
    arguments = {"items": [{"url": f"https://a.example/?q={WRITTEN[encoding](word)}"}]}
    found = find(results, arguments)
    assert any(word in text and place == "arguments.items[0].url" for text, place, _ in found), found
    if not encoding:
        assert found[0][2] == ""


@pytest.mark.parametrize("prefix", ["", "x", "xy", "xyz", "a.b/"])
def test_base64_is_found_at_each_offset(prefix: str) -> None:
    secret = "the account is 12 34 56 78"
    for offset in range(3):
        given = prefix + base64.b64encode(b"?" * offset + secret.encode()).decode()
        assert [text for text, _, _ in find([secret], {"text": given})] == [secret]


def test_encodings_inside_each_other_are_named() -> None:
    secret = "correct horse battery staple"
    inner = base64.b64encode(secret.encode()).decode()
    assert find([secret], {"text": inner.encode().hex()}) == [(secret, "arguments.text", "base64 in hex")]
    assert find([secret], {"url": quote(f"{secret}/", safe="")}) == [
        (secret, "arguments.url", "URL encoding")
    ]


def test_long_numbers_are_found_and_short_ones_are_not() -> None:
    assert find([{"pin": 4821337}], {"text": "pin 4821337."}) == [("4821337", "arguments.text", "")]
    assert find([{"pin": 4821337}], {"number": 4821337}) == [("4821337", "arguments.number", "")]
    assert find([{"pin": 48213}], {"number": 48213}) == []
    assert find([10**6000], {"number": 10**6000}) == []
    assert find([{"pin": 4821337}], {"number": 48213378}) == []


@pytest.mark.parametrize("text", ["eleven char", " " * 40, "-" * 40, "a - b - c - d - e"])
def test_what_says_nothing_is_no_evidence(text: str) -> None:
    assert find([text], {"text": text}) == []


def test_results_of_others_are_not_compared() -> None:
    evidence = Evidence()
    evidence.keep("r", "mail/read", OTHER, "correct horse battery staple")
    assert evidence.find(OWNER, {"text": "correct horse battery staple"}) == []
    evidence.move(OTHER, OWNER)
    assert len(evidence.find(OWNER, {"text": "correct horse battery staple"})) == 1
    evidence.forget(OWNER)
    assert evidence.find(OWNER, {"text": "correct horse battery staple"}) == []


def test_old_results_are_dropped_for_new_ones() -> None:
    evidence = Evidence()
    words = [letter * 20 for letter in "abcdefghij"]
    for number, word in enumerate(words):
        evidence.keep(f"r{number}", "mail/read", OWNER, word + "." * (MAX_KEPT_CHARS // 8))
    found = [each.request for each in evidence.find(OWNER, words)]
    assert found == ["r9", "r8", "r7", "r6", "r5", "r4", "r3"]


def test_few_matches_are_named_and_few_arguments_are_compared() -> None:
    texts = [f"text number {number} of many" for number in range(40)]
    assert len(find([texts], {"text": "\n".join(texts)})) == MAX_MATCHES
    late = {"text": "x" * MAX_ARGUMENT_CHARS + texts[0]}
    assert find([texts], late) == []


@pytest.mark.parametrize(
    "piece",
    ["a", "ab", " ", "%41", "QUJD", "4142", "a" * 1000 + "b", "\U0001f600", "1"],
)
def test_repeated_pieces_cost_no_more_than_others(piece: str) -> None:
    """Nothing here grows with the square of the sizes: this would take minutes."""
    text = piece * (2 * MAX_ARGUMENT_CHARS // len(piece))
    assert sum(len(each.text) for each in decode_texts({"text": text})) <= MAX_ARGUMENT_CHARS
    assert len(find([text, text + "!"], {"text": text, "other": "!" + text})) <= MAX_MATCHES


def test_deep_and_wide_values_are_walked() -> None:
    deep: object = "correct horse battery staple"
    for _ in range(5_000):
        deep = [deep]
    assert len(find([deep], {"text": "correct horse battery staple"})) == 1
