"""Redaction of output: no chunk border hides a secret, live output is not held back for long, and memory is bounded."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.policy.redaction import scanner
from paddock.policy.redaction.known import KnownSecrets
from paddock.policy.redaction.outgoing import Removal
from paddock.policy.redaction.private_keys import KEY_SIGN
from paddock.policy.redaction.scanner import Scanner
from paddock.policy.redaction.stream import MAX_LINE_BYTES, OVERLAP_BYTES, WITHHELD_MARK, StreamRedactor
from paddock.policy.settings.schema import RedactionPattern, RedactionSettings

GITHUB = "ghp_" + "aB3" * 12
AWS = "AKIA" + "IOSFODNN7ABCDEFG"
LINES = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw", "ggSjAgEAAoIBAQC7VJTUt9Us8cKB", "abc="]
BEGIN, END = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
KEY = "\n".join([BEGIN, *LINES, END])
MARK = "[REDACTED:private-key]"
RED, PLAIN = "\x1b[1;31m", "\x1b[0m"
REDACTED_KEY = f"{BEGIN}\n{MARK}\n{MARK}\n{MARK}\n{END}"
DEFAULT = Scanner(RedactionSettings())
COMPATIBLE = Scanner(RedactionSettings(), profile="output")


def custom(*patterns: RedactionPattern, defaults: bool = True) -> Scanner:
    return Scanner(RedactionSettings(include_defaults=defaults, patterns=patterns))


def redact(scanner: Scanner, text: str) -> str:
    return streamed(scanner, [text.encode("utf-8", "surrogatepass")]).decode("utf-8", "surrogatepass")


def streamed(scanner: Scanner, pieces: list[bytes]) -> bytes:
    stream = StreamRedactor(scanner)
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
        ("sk-" + "a" * 20, "[REDACTED:api-key]"),
        (f"a\n{KEY}\nb", f"a\n{REDACTED_KEY}\nb"),
        ("a token is a thing", "a token is a thing"),
    ],
)
def test_s43_the_compatible_profile_keeps_its_rules_and_marks(text: str, redacted: str) -> None:
    assert redact(COMPATIBLE, text) == redacted


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (f"id {AWS}.", "id [REDACTED:aws-access-key]."),
        (f"use {GITHUB}\n", "use [REDACTED:github-token]\n"),
        ("password=hunter2secret y", "password=[REDACTED:secret] y"),
        ("password=x y", "password=x y"),
        ("password\n=hunter2secret", "password\n=hunter2secret"),
        (f"a\n{KEY}\nb", f"a\n{REDACTED_KEY}\nb"),
        (f"a\r\n{KEY}\r\nb".replace("\n", "\r\n"), f"a\r\n{REDACTED_KEY}\r\nb".replace("\n", "\r\n")),
        (
            "\n".join([f'key = "{BEGIN}\\n"', *(f'    "{line}\\n"' for line in LINES), f'    "{END}"']),
            "\n".join([f'key = "{BEGIN}\\n"', *[f'    "{MARK}\\n"'] * 3, f'    "{END}"']),
        ),
        (
            "\n".join(f"{n:6}\t{line}" for n, line in enumerate(KEY.split("\n"), 1)),
            "\n".join(f"{n:6}\t{line}" for n, line in enumerate(REDACTED_KEY.split("\n"), 1)),
        ),
        (f"{BEGIN}\nnot a key!\n{LINES[0]}\n", f"{BEGIN}\nnot a key!\n{LINES[0]}\n"),
        (f"{BEGIN}\nreturn\n{LINES[0]}\n", f"{BEGIN}\nreturn\n{LINES[0]}\n"),
        (
            f"{BEGIN}\nProc-Type: 4,ENCRYPTED\n\n{LINES[0]}\nend",
            f"{BEGIN}\nProc-Type: 4,ENCRYPTED\n\n{MARK}\n{MARK}",
        ),
    ],
)
def test_defaults(text: str, redacted: str) -> None:
    assert redact(DEFAULT, text) == redacted


def armor(prefix: str, *lines: str, suffix: str = "") -> str:
    return "".join(f"{prefix}{line}{suffix}\n" for line in (BEGIN, *lines, END))


PREFIXES = [
    *("2026-11-25 INFO  ", "2026-11-25T12:00:01.123Z [main] INFO a.b.C - ", "Nov 25 12:00:01 host app[12]: "),
    *("> ", "# ", "    #   ", " * ", "+", "src/key.pem:", "\x1b[32mINFO\x1b[0m "),
]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("lines", [LINES, ["MIIEvQIB", *LINES], ["MIIEvQ", "IBADAN", "BgkqhA", "abc="]])
def test_a_key_behind_a_prefix_loses_its_base64(prefix: str, lines: list[str]) -> None:
    assert redact(DEFAULT, armor(prefix, *lines)) == armor(prefix, *[MARK] * len(lines))


@pytest.mark.parametrize("lines", [["MIIEvQIB", *LINES], ["MIIEvQ", "IBADAN", "BgkqhA", "abc="]])
def test_a_key_whose_first_line_is_short_loses_its_base64(lines: list[str]) -> None:
    assert redact(DEFAULT, armor("", *lines)) == armor("", *[MARK] * len(lines))


def test_a_key_behind_times_that_change_loses_its_base64() -> None:
    lines = [f"2026-11-25 12:00:{second} INFO " for second in ("01.5", "02.25", "03.125", "04", "5.1")]
    text = "".join(f"{time}{line}\n" for time, line in zip(lines, [BEGIN, *LINES[:2], END], strict=False))
    assert redact(DEFAULT, text) == text.replace(LINES[0], MARK).replace(LINES[1], MARK)


def test_a_key_in_lines_of_json_loses_its_base64() -> None:
    lines = ["A1b2" * 16, "C3d4" * 16, "e5=="]
    text = armor('{"log":"', *lines, suffix='\\n","stream":"stdout","time":"2026-11-25T12:00:00Z"}')
    assert redact(DEFAULT, text) == text.replace(lines[0], MARK).replace(lines[1], MARK).replace(
        lines[2], MARK
    )


@pytest.mark.parametrize("prefix", ["", *PREFIXES])
@pytest.mark.parametrize("lines", [LINES, ["MIIEvQIB", *LINES]])
@pytest.mark.parametrize("times", [1, 2])
def test_a_key_within_a_text_of_json_loses_its_base64(prefix: str, lines: list[str], times: int) -> None:
    text = armor(prefix, *lines)
    for _ in range(times):
        text = json.dumps({"key": text, "name": "one"})
    redacted = redact(DEFAULT, text)
    assert [line for line in lines if line in redacted] == []
    for _ in range(times):
        redacted = json.loads(redacted)
        assert redacted["name"] == "one"
        redacted = redacted["key"]
    assert redacted.startswith(f"{prefix}{BEGIN}")
    assert redacted.endswith(f"{END}\n")


@pytest.mark.parametrize(
    "text",
    [
        f"{BEGIN}\n    return loadKey()\n{LINES[0]}\n",
        f'if text.startswith("{BEGIN}"):\n    return\n',
        f"2026-11-25 {BEGIN}\n2026-11-25 12:00 INFO started\n2026-11-25 12:00 INFO {LINES[0]}\n",
    ],
)
def test_what_follows_the_name_of_a_key_stays(text: str) -> None:
    assert redact(DEFAULT, text) == text


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (f"{RED}ghp_{PLAIN}{GITHUB[4:]}{PLAIN} x", f"{RED}[REDACTED:github-token]{PLAIN} x"),
        (f"x {GITHUB[:2]}{RED}{GITHUB[2:20]}{PLAIN}{GITHUB[20:]}\n", "x [REDACTED:github-token]\n"),
        (f"password={RED}hunter2secret{PLAIN} z", f"password={RED}[REDACTED:secret]{PLAIN} z"),
        (
            f'{RED}"password"{PLAIN}: {RED}"hunter2secret"',
            f'{RED}"password"{PLAIN}: {RED}"[REDACTED:secret]"',
        ),
        (f"{RED}sk-{'A1b2' * 6}", f"{RED}[REDACTED:api-key]"),
        (f"{RED}a token is{PLAIN} a thing, [1b[", f"{RED}a token is{PLAIN} a thing, [1b["),
    ],
)
def test_colours_hide_no_secret(text: str, redacted: str) -> None:
    assert redact(DEFAULT, text) == redacted
    assert json.loads(redact(DEFAULT, json.dumps(text))) == redacted
    assert Removal(DEFAULT).json({"a": [text]}) == {"a": [redacted]}


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("PASSWORD=\x1b(B\x1b[mhunter2secret z", "PASSWORD=\x1b(B\x1b[m[REDACTED:secret] z"),
        (f"{GITHUB[:4]}\x1b(B\x1b[m{GITHUB[4:]} z", "[REDACTED:github-token] z"),
        (
            "password: \x1b]8;;http://a\x07hunter2secretX9\x1b]8;;\x07 z",
            "password: \x1b]8;;http://a\x07[REDACTED:secret]\x1b]8;;\x07 z",
        ),
        (
            r'{"dsn":"postgres:\/\/ada:hunter2secret9@db\/x"}',
            r'{"dsn":"postgres:\/\/ada:[REDACTED:url-password]@db\/x"}',
        ),
        (
            r'{"aws_secret_access_key":"wJalrXUtnFEMI\/K7MDENG\/bPxRfiCYzzzzzzKEY1"}',
            '{"aws_secret_access_key":"[REDACTED:secret]"}',
        ),
        (
            f"\x1b]8;;https://example.org/{GITHUB}\x07click\x1b]8;;\x07",
            "\x1b]8;;https://example.org/[REDACTED:github-token]\x07click\x1b]8;;\x07",
        ),
        (r"a path C:\/x and https:\/\/example.org\/a", r"a path C:\/x and https:\/\/example.org\/a"),
    ],
)
def test_neither_character_sets_nor_links_nor_escaped_slashes_hide_a_secret(text: str, redacted: str) -> None:
    assert redact(DEFAULT, text) == redacted
    assert Removal(DEFAULT).json({"a": [text]}) == {"a": [redacted]}
    assert Removal(DEFAULT).text(text) == redacted


def test_a_key_counts_once() -> None:
    stream = StreamRedactor(DEFAULT)
    stream.feed(f"{KEY}\n{KEY}\n{GITHUB} {AWS}\n".encode())
    assert stream.count == 4


def test_s43_custom_patterns() -> None:
    scanner = custom(
        RedactionPattern(pattern=r"emp-\d+", name="employee"), RedactionPattern(pattern="größe", flags="i")
    )
    assert scanner.warnings == ()
    assert redact(scanner, "EMP-1 emp-12 GRÖSSE GRÖßE password=hunter2secret") == (
        "EMP-1 [REDACTED:employee] GRÖSSE [REDACTED:custom] password=[REDACTED:secret]"
    )
    assert streamed(scanner, [b"\xff emp-7 \xff"]) == b"\xff [REDACTED:employee] \xff"


def test_s43_a_custom_pattern_of_nothing_replaces_nothing() -> None:
    assert redact(custom(RedactionPattern(pattern="x*")), "axxb") == "a[REDACTED:custom]b"


def test_s43_an_invalid_custom_pattern_is_skipped_with_a_warning(capfd: pytest.CaptureFixture[str]) -> None:
    scanner = custom(
        RedactionPattern(pattern="(?=a)", name="ahead"),
        RedactionPattern(pattern="("),
        RedactionPattern(pattern="abc", name="good"),
    )
    assert scanner.warnings == (
        "redaction.patterns: `ahead` is not used: invalid perl operator: (?=; write it in the syntax of RE2",
        "redaction.patterns: `custom` is not used: missing ): (; write it in the syntax of RE2",
    )
    assert redact(scanner, "abc") == "[REDACTED:good]"
    assert capfd.readouterr() == ("", "")


def test_s43_disabled_changes_nothing() -> None:
    pattern = RedactionPattern(pattern="a")
    for profile in ("default", "output"):
        scanner = Scanner(RedactionSettings(enabled=False, patterns=(pattern,)), profile=profile)
        assert redact(scanner, f"a password=x {AWS}\n{KEY}") == f"a password=x {AWS}\n{KEY}"


def test_what_was_handed_out_is_removed_also_where_the_rules_are_switched_off() -> None:
    secrets = KnownSecrets()
    scanner = Scanner(RedactionSettings(enabled=False, patterns=(RedactionPattern(pattern="a"),)), secrets)
    stream = StreamRedactor(scanner)
    assert stream.feed(b"a password=x, half a li") == b"a password=x, half a li"
    secrets.learn("correct-horse")
    assert stream.feed(b"ne correct-ho") == b""
    assert stream.feed(b"rse password=x\n") == b"ne [REDACTED:vault] password=x\n"
    assert stream.feed(b"correct-horse") + stream.end() == b"[REDACTED:vault]"
    key = f"a password=x {KEY}\n{AWS}"
    assert redact(scanner, f"{key} correct-horse") == f"{key} [REDACTED:vault]"


def test_s43_without_the_defaults_only_custom_patterns_hold() -> None:
    scanner = custom(RedactionPattern(pattern="emp-1"), defaults=False)
    assert redact(scanner, f"emp-1 {GITHUB} {KEY}") == f"[REDACTED:custom] {GITHUB} {KEY}"


ATOMS = st.sampled_from(
    [
        *(
            AWS,
            GITHUB,
            KEY,
            BEGIN,
            END,
            *LINES,
            "password",
            "hunter2secret",
            "=",
            ":",
            " ",
            "\n",
            '"token": "',
            '"',
            "\\",
        ),
        *(
            "é",
            "\u2028",
            "\r",
            "eyJhbGciOiJI.eyJz.b",
            "x" * 50,
            "https://a:",
            "@",
            "adobe",
            "0a1b2c3d" * 4,
            "bearer ",
        ),
        *(RED, "\\u001b[0m", "\\n", "2026-11-25 INFO ", "MIIEvQ", "[", "passwords: ['a', '"),
        *("[REDACTED:secret]", "[REDACTED:", "]", "sentry", "9"),
    ]
)
TEXTS = st.lists(ATOMS | st.text(max_size=5), max_size=30).map("".join)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(bounds)]


CUTS = st.lists(st.integers(0, 10**6), max_size=12)
CUSTOM = custom(RedactionPattern(pattern="[x=]{3,}é?"), RedactionPattern(pattern="^p"))
SCANNERS = st.sampled_from([DEFAULT, CUSTOM, COMPATIBLE])


@given(TEXTS, CUTS, SCANNERS)
def test_cutting_a_text_into_pieces_changes_nothing(text: str, places: list[int], scanner: Scanner) -> None:
    data = text.encode("utf-8", "surrogatepass")
    assert streamed(scanner, cut(data, places)) == streamed(scanner, [data])


@given(TEXTS, SCANNERS)
def test_a_whole_text_is_redacted_as_a_stream(text: str, scanner: Scanner) -> None:
    assert Removal(scanner).text(text) == redact(scanner, text)


@given(st.binary(max_size=200), CUTS)
def test_bytes_that_are_no_text_pass_through(data: bytes, places: list[int]) -> None:
    assert streamed(DEFAULT, cut(data, places)) == streamed(DEFAULT, [data])
    assert streamed(custom(RedactionPattern(pattern="$^")), [data]) == streamed(DEFAULT, [data])


@given(TEXTS.filter(lambda text: KEY_SIGN.decode() not in text), SCANNERS)
def test_many_lines_are_redacted_as_one_by_one(text: str, scanner: Scanner) -> None:
    data = text.encode("utf-8", "surrogatepass")
    assert scanner.redact(data).data == b"\n".join(scanner.redact(line).data for line in data.split(b"\n"))


@given(TEXTS)
def test_lines_keep_their_numbers(text: str) -> None:
    assert redact(DEFAULT, text).count("\n") == text.count("\n")


@given(TEXTS)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact(DEFAULT, text)
    assert redact(DEFAULT, once) == once


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 200), st.integers(0, 40), CUTS)
def test_a_secret_anywhere_in_a_long_line_is_found(where: int, offset: int, places: list[int]) -> None:
    """`where` puts it around every border of the windows, `offset` within its surroundings."""
    position = where * (MAX_LINE_BYTES - OVERLAP_BYTES) // 50 + offset
    secret = "p4x" * 40
    text = "." * position + f" password={secret} " + "." * (2 * MAX_LINE_BYTES) + GITHUB + "\nnext\n"
    assert streamed(DEFAULT, cut(text.encode(), places)).decode() == text.replace(
        secret, "[REDACTED:secret]"
    ).replace(GITHUB, "[REDACTED:github-token]")


def test_a_long_line_of_many_secrets_loses_nothing_else() -> None:
    line = '{"id": 1, "password": "hunter2secret"},' * (4 * MAX_LINE_BYTES // 40)
    assert redact(DEFAULT, line) == line.replace("hunter2secret", "[REDACTED:secret]")


def test_a_window_of_a_long_line_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    find_in = scanner.find_in

    def find_and_count(data: bytes, *rest: Any) -> Any:
        searched.append(len(data))
        return find_in(data, *rest)

    monkeypatch.setattr(scanner, "find_in", find_and_count)
    text = "password=password=" * (MAX_LINE_BYTES // 4)
    assert redact(DEFAULT, text) == text
    assert sum(searched) < len(text) * 1.5


def test_what_was_handed_out_is_removed_at_any_border_of_a_window() -> None:
    secrets = KnownSecrets()
    secrets.learn("vault")
    text = "a vault, password=x;" * (MAX_LINE_BYTES // 5)
    assert redact(Scanner(RedactionSettings(), secrets), text) == text.replace("vault", "[REDACTED:vault]")


def test_a_long_line_of_one_secret_is_withheld() -> None:
    text = "token=" + "aB3xK9mQ2pL7" * MAX_LINE_BYTES + " rest\nnext"
    assert redact(DEFAULT, text) == f"token=[REDACTED:secret]{WITHHELD_MARK.decode()}\nnext"


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(CUTS)
def test_withholding_does_not_depend_on_pieces(places: list[int]) -> None:
    data = (
        "a" * 10
        + " token="
        + "aB3xK9mQ2pL7" * (MAX_LINE_BYTES // 2)
        + f" {GITHUB} \n"
        + "b" * MAX_LINE_BYTES
        + f" {GITHUB}\nend"
    ).encode()
    assert streamed(DEFAULT, cut(data, places)) == streamed(DEFAULT, [data])


def test_what_is_held_back_is_bounded() -> None:
    stream = StreamRedactor(DEFAULT)
    taken = given_back = 0
    for _ in range(200):
        given_back += len(stream.feed(b"." * 4096))
        taken += 4096
        assert taken - given_back <= MAX_LINE_BYTES
    assert given_back + len(stream.end()) == taken


def test_whole_lines_are_not_held_back() -> None:
    assert StreamRedactor(DEFAULT).feed(b"one\ntoken=a1b2c3d4e5\nthr") == b"one\ntoken=[REDACTED:secret]\n"


def test_frames_of_progress_are_not_held_back() -> None:
    stream = StreamRedactor(DEFAULT)
    pieces = (b"\r 1%", b"\r 2%", b"\r 3%\r", b"\npass", b"word=hunter2secret\ry\n", b"token\r", b"=")
    assert [stream.feed(data) for data in pieces] == [
        *(b"\r", b" 1%\r", b" 2%\r 3%\r", b"\n", b"password=[REDACTED:secret]\ry\n", b"token\r", b"")
    ]


def test_a_private_key_that_begins_in_a_withheld_line_is_redacted() -> None:
    text = f"{BEGIN}{'A' * MAX_LINE_BYTES}\n{LINES[0]}\n{END}\nnext"
    assert LINES[0] not in redact(DEFAULT, text)


def test_profiles_differ_by_their_own_rules_alone() -> None:
    profiles = ("default", "output", "answer")
    marked = [
        redact(Scanner(RedactionSettings(), profile=each), f"<{GITHUB}> glpat-{'a1B2' * 5}")
        for each in profiles
    ]
    assert marked == [
        "<[REDACTED:github-token]> [REDACTED:gitlab-token]",
        "<[REDACTED:github-token]> [REDACTED:gitlab-token]",
        "<[REDACTED:KEY]> [REDACTED:gitlab-token]",
    ]
