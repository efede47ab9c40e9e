"""Redaction of output: what goes, that no chunk border hides a secret, and that memory is bounded."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.model.settings import RedactionPattern, RedactionSettings
from paddock.policy import redaction
from paddock.policy.known import KnownSecrets
from paddock.policy.redaction import LONGEST, OVERLAP, WITHHELD, Redactor, StreamRedactor

GITHUB = "ghp_" + "aB3" * 12
AWS = "AKIAIOSFODNN7EXAMPLE"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow+/=\nabc\n-----END RSA PRIVATE KEY-----"
MARK = "[REDACTED:private-key]"
DEFAULT = Redactor(RedactionSettings())


def custom(*patterns: RedactionPattern, defaults: bool = True) -> Redactor:
    return Redactor(RedactionSettings(include_defaults=defaults, patterns=patterns))


def streamed(redactor: Redactor, pieces: list[bytes]) -> bytes:
    stream = StreamRedactor(redactor)
    return b"".join([*(stream.feed(piece) for piece in pieces), stream.end()])


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (f"id {AWS}.", "id [REDACTED:aws-key]."),
        (f"use {GITHUB}\n", "use [REDACTED:github-token]\n"),
        ("password=x y", "[REDACTED:secret] y"),
        ("API-Key : abc\tz", "[REDACTED:secret]\tz"),
        ("my_token=a, secret: b", "my_[REDACTED:secret] [REDACTED:secret]"),
        ("password\n=x", "password\n=x"),
        ('{"password": "two words"}', '{"password": "[REDACTED:VALUE]"}'),
        ("sk-" + "a" * 20, "[REDACTED:KEY]"),
        (f"a\n{KEY}\nb", f"a\n{MARK}\n{MARK}\n{MARK}\n{MARK}\nb"),
        (
            r'{"key": "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\n"}',
            rf'{{"key": "{MARK}\n"}}',
        ),
        ("-----BEGIN PRIVATE KEY-----\nnot a key!\nMII\n", f"{MARK}\nnot a key!\nMII\n"),
        ("\u017fecret=x", "[REDACTED:secret]"),
        ("a token is a thing", "a token is a thing"),
    ],
)
def test_s43_defaults(text: str, redacted: str) -> None:
    assert DEFAULT.text(text) == redacted


def test_s43_custom_patterns() -> None:
    redactor = custom(
        RedactionPattern(pattern=r"emp-\d+", name="employee"), RedactionPattern(pattern="größe", flags="i")
    )
    assert redactor.warnings == ()
    assert redactor.text("EMP-1 emp-12 GRÖSSE GRÖßE password=x") == (
        "EMP-1 [REDACTED:employee] GRÖSSE [REDACTED:custom] [REDACTED:secret]"
    )
    assert streamed(redactor, [b"\xff emp-7 \xff"]) == b"\xff [REDACTED:employee] \xff"


def test_s43_a_custom_pattern_of_nothing_replaces_nothing() -> None:
    assert custom(RedactionPattern(pattern="x*")).text("axxb") == "a[REDACTED:custom]b"


def test_s43_an_invalid_custom_pattern_is_skipped_with_a_warning(capfd: pytest.CaptureFixture[str]) -> None:
    redactor = custom(
        RedactionPattern(pattern="(?=a)", name="ahead"),
        RedactionPattern(pattern="("),
        RedactionPattern(pattern="abc", name="good"),
    )
    assert redactor.warnings == (
        "redaction.patterns: `ahead` is not used: invalid perl operator: (?=; write it in the syntax of RE2",
        "redaction.patterns: `custom` is not used: missing ): (; write it in the syntax of RE2",
    )
    assert redactor.text("abc") == "[REDACTED:good]"
    assert capfd.readouterr() == ("", "")


def test_s43_disabled_changes_nothing() -> None:
    pattern = RedactionPattern(pattern="a")
    redactor = Redactor(RedactionSettings(enabled=False, patterns=(pattern,)))
    assert redactor.text(f"a password=x {AWS}") == f"a password=x {AWS}"


def test_what_was_handed_out_is_removed_also_where_the_rules_are_switched_off() -> None:
    secrets = KnownSecrets()
    redactor = Redactor(RedactionSettings(enabled=False, patterns=(RedactionPattern(pattern="a"),)), secrets)
    stream = StreamRedactor(redactor)
    assert stream.feed(b"a password=x, half a li") == b"a password=x, half a li"
    secrets.learn("correct-horse")
    assert stream.feed(b"ne correct-ho") == b""
    assert stream.feed(b"rse password=x\n") == b"ne [REDACTED:vault] password=x\n"
    assert stream.feed(b"correct-horse") + stream.end() == b"[REDACTED:vault]"
    key = f"a password=x {KEY}\n{AWS}"
    assert redactor.text(f"{key} correct-horse") == f"{key} [REDACTED:vault]"


def test_s43_without_the_defaults_only_custom_patterns_hold() -> None:
    redactor = custom(RedactionPattern(pattern="emp-1"), defaults=False)
    assert redactor.text(f"emp-1 password=x {KEY}") == f"[REDACTED:custom] password=x {KEY}"


ATOMS = st.sampled_from(
    [
        AWS,
        GITHUB,
        KEY,
        "password",
        "=",
        ":",
        " ",
        "\n",
        '"token": "',
        '"',
        "\\",
        "-----END ",
        "é",
        "\u2028",
        "\r",
        "eyJa.b.c",
        "x" * 50,
    ]
)
TEXTS = st.lists(ATOMS | st.text(max_size=5), max_size=30).map("".join)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(bounds)]


CUTS = st.lists(st.integers(0, 10**6), max_size=12)
CUSTOM = custom(RedactionPattern(pattern="[x=]{3,}é?"), RedactionPattern(pattern="^p"))


@given(TEXTS, CUTS, st.sampled_from([DEFAULT, CUSTOM]))
def test_cutting_a_text_into_pieces_changes_nothing(text: str, places: list[int], redactor: Redactor) -> None:
    data = text.encode("utf-8", "surrogatepass")
    assert streamed(redactor, cut(data, places)) == streamed(redactor, [data])


@given(st.binary(max_size=200), CUTS)
def test_bytes_that_are_no_text_pass_through(data: bytes, places: list[int]) -> None:
    assert streamed(DEFAULT, cut(data, places)) == streamed(DEFAULT, [data])
    assert streamed(
        Redactor(RedactionSettings(patterns=(RedactionPattern(pattern="$^"),))), [data]
    ) == streamed(DEFAULT, [data])


@given(TEXTS.filter(lambda text: redaction.KEY_SIGN not in text), st.sampled_from([DEFAULT, CUSTOM]))
def test_many_lines_are_redacted_as_one_by_one(text: str, redactor: Redactor) -> None:
    assert redactor.lines(text) == "\n".join(map(redactor.line, text.split("\n")))


@given(TEXTS)
def test_lines_keep_their_numbers(text: str) -> None:
    assert DEFAULT.text(text).count("\n") == text.count("\n")


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 200), st.integers(0, 40), CUTS)
def test_a_secret_anywhere_in_a_long_line_is_found(where: int, offset: int, places: list[int]) -> None:
    """`where` puts it around every border of the windows, `offset` within its surroundings."""
    position = where * (LONGEST - OVERLAP) // 50 + offset
    text = "." * position + f" password={'p' * 100} " + "." * (2 * LONGEST) + GITHUB + "\nnext\n"
    assert streamed(DEFAULT, cut(text.encode(), places)).decode() == text.replace(
        "password=" + "p" * 100, "[REDACTED:secret]"
    ).replace(GITHUB, "[REDACTED:github-token]")


def test_a_long_line_of_one_secret_is_withheld() -> None:
    text = "token=" + "x" * (3 * LONGEST) + " rest\nnext"
    assert DEFAULT.text(text) == f"[REDACTED:secret]{WITHHELD}\nnext"


@settings(deadline=None, max_examples=40)
@given(CUTS)
def test_withholding_does_not_depend_on_pieces(places: list[int]) -> None:
    data = (
        "a" * 10 + " token=" + "x" * (2 * LONGEST) + f" {GITHUB} \n" + "b" * LONGEST + GITHUB + "\nend"
    ).encode()
    assert streamed(DEFAULT, cut(data, places)) == streamed(DEFAULT, [data])


def test_what_is_held_back_is_bounded() -> None:
    stream = StreamRedactor(DEFAULT)
    taken = given_back = 0
    for _ in range(200):
        given_back += len(stream.feed(b"." * 4096))
        taken += 4096
        assert taken - given_back <= LONGEST
    assert given_back + len(stream.end()) == taken


def test_whole_lines_are_not_held_back() -> None:
    assert StreamRedactor(DEFAULT).feed(b"one\ntoken=x\nthr") == b"one\n[REDACTED:secret]\n"


def test_frames_of_progress_are_not_held_back() -> None:
    stream = StreamRedactor(DEFAULT)
    taken = [stream.feed(data) for data in (b"\r 1%", b"\r 2%", b"\r 3%\r", b"\npass", b"word=x\ry\n")]
    assert taken == [b"\r", b" 1%\r", b" 2%\r 3%\r", b"\n", b"[REDACTED:secret]\ry\n"]


def test_a_frame_that_may_hold_a_secret_is_held_back_with_what_follows_it() -> None:
    stream = StreamRedactor(DEFAULT)
    assert [stream.feed(data) for data in (b"1%\r", b"token\r", b"=\rhidden", b"\r4%\r")] == [
        b"1%\r",
        b"",
        b"",
        b"",
    ]
    assert stream.feed(b"\n5%\r") == b"[REDACTED:secret]\r4%\r\n5%\r"


@given(TEXTS)
def test_the_quick_look_never_misses(text: str) -> None:
    line = text.replace("\n", " ")
    if not redaction.may_hold_secrets(line):
        assert DEFAULT.text(line) == line
        assert redaction._without_defaults(line) == line


@pytest.mark.parametrize("name", ["pa\u017fsword", "pr\u0130vate_key", "cred\u0131ential", "to\u212aen"])
def test_the_quick_look_knows_letters_that_match_without_case(name: str) -> None:
    found = any(
        re.search(pattern, f'"{name}"=x', re.IGNORECASE) for pattern in ("password", "private", "token")
    )
    assert redaction.may_hold_secrets(name) or not found


def test_a_private_key_that_begins_in_a_withheld_line_is_redacted() -> None:
    text = "-----BEGIN PRIVATE KEY-----" + "A" * LONGEST + "\nMIIEow\n-----END PRIVATE KEY-----\nnext"
    assert DEFAULT.text(text) == f"{MARK}{WITHHELD}{MARK}\n{MARK}\n{MARK}\nnext"
