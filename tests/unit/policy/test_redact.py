"""What is a secret, what is not, and that hostile text costs linear time."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.canonical import canonical
from paddock.policy.redact import may_hold_secrets, redact_json, redact_lines, redact_text

TOKEN = "ghp_" + "a1" * 18
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (f"use {TOKEN}.", "use [REDACTED:KEY]."),
        (f"a={JWT};", "a=[REDACTED:JWT];"),
        (f"x{JWT}", "x[REDACTED:JWT]"),
        (f"a.{JWT}.b", "a.[REDACTED:JWT].b"),
        ("sk-" + "a" * 20, "[REDACTED:KEY]"),
        ("sk-" + "a" * 19, "sk-" + "a" * 19),
        ("xoxb-1234567890-abc", "[REDACTED:KEY]"),
        ("AKIAIOSFODNN7EXAMPLE ASIAIOSFODNN7EXAMPLE", "[REDACTED:KEY] [REDACTED:KEY]"),
        ('{"password":"x"}', '{"password":"[REDACTED:VALUE]"}'),
        ('{"Password" : "a\\"b", "n": 1}', '{"Password" : "[REDACTED:VALUE]", "n": 1}'),
        ('{"api_key":"x","apiKey":"y"}', '{"api_key":"[REDACTED:VALUE]","apiKey":"[REDACTED:VALUE]"}'),
        ('{"token":12345}', '{"token":"[REDACTED:VALUE]"}'),
        ('{"token":null,"secret":{"a":1}}', '{"token":null,"secret":{"a":1}}'),
        ('{"password":"cut of', '{"password":"[REDACTED:VALUE]"'),
        (r'{"t":"{\"password\":\"hun\\\"ter\"}"}', r'{"t":"{\"password\":\"[REDACTED:VALUE]\"}"}'),
        ('{"passwords":"x","my_token":"x"}', '{"passwords":"x","my_token":"x"}'),
        ("eyJ is how a token begins. eyJx.y", "eyJ is how a token begins. eyJx.y"),
    ],
)
def test_x36_texts(text: str, redacted: str) -> None:
    assert redact_text(text) == redacted


def test_x36_json_values() -> None:
    value = {
        "authorization": "Bearer x",
        "list": [TOKEN, 1, None, True],
        "token": ["a", 2, {"b": "c"}],
        "credential": {"kind": "text", "private_key": "x", "secret": False},
        TOKEN: 1.5,
    }
    before = json.dumps(value)
    assert redact_json(value) == {
        "authorization": "[REDACTED:VALUE]",
        "list": ["[REDACTED:KEY]", 1, None, True],
        "token": ["[REDACTED:VALUE]", "[REDACTED:VALUE]", {"b": "c"}],
        "credential": {"kind": "text", "private_key": "[REDACTED:VALUE]", "secret": False},
        "[REDACTED:KEY]": 1.5,
    }
    assert json.dumps(value) == before


def test_depth_is_no_problem() -> None:
    value: object = TOKEN
    for _ in range(100_000):
        value = [value]
    found = redact_json(value)
    while isinstance(found, list):
        value, found = None, found[0]
    assert found == "[REDACTED:KEY]"


ATOMS = [
    TOKEN,
    JWT,
    "eyJ",
    ".",
    "sk-",
    '"password":',
    '"',
    "\\",
    '\\"token\\":',
    " ",
    "a",
    "AKIA",
    "xoxb-",
    "1",
]
texts = st.lists(st.sampled_from(ATOMS) | st.text(max_size=3), max_size=20).map("".join)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "token", "apiKey"]), inner, max_size=3)
    ),
)


@given(texts, texts)
def test_no_known_secret_survives(before: str, after: str) -> None:
    for secret in (TOKEN, JWT, "sk-" + "Z" * 24):
        assert secret not in redact_text(f"{before} {secret} {after}")


@given(texts)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once


@given(json_values)
def test_json_keeps_its_shape_and_redacting_twice_changes_nothing_more(value: object) -> None:
    once = redact_json(value)
    assert redact_json(once) == once
    assert json.loads(json.dumps(once)) == once


names = st.sampled_from(
    [
        "password",
        "Api-Key",
        "API_KEY",
        "apikey",
        "authori\u017fation",
        "to\u212aen",
        "private\u212aey",
        "cl\u0131ent_secret",
    ]
)


@given(st.recursive(json_values, lambda inner: st.dictionaries(names | texts, inner, max_size=3)))
def test_what_surely_holds_no_secret_stays_as_it_is(value: object) -> None:
    written = canonical(value).decode("utf-8", "surrogatepass")
    assert may_hold_secrets(written) or redact_json(value) == value


@pytest.mark.parametrize(
    "name",
    [
        *("password", "SECRET", "token", "apikey", "api_key", "Api-Key", "access_token", "refreshToken"),
        *(
            "authorization",
            "private-key",
            "client_secret",
            "credential",
            "pa\u017fsword",
            "to\u212aen",
            "credent\u0131al",
        ),
    ],
)
def test_every_name_of_a_secret_is_noticed(name: str) -> None:
    assert redact_json({name: "x"}) == {name: "[REDACTED:VALUE]"}
    assert may_hold_secrets(canonical({name: "x"}).decode())


def test_a_large_harmless_value_is_let_through() -> None:
    assert not may_hold_secrets(json.dumps([{"id": n, "name": "task-1, right?"} for n in range(100)]))


@given(st.text(alphabet="abc \n{}[],:", max_size=100))
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "piece",
    [
        *ATOMS,
        "eyJa.",
        "eyJ.",
        "sk-a",
        '"password": ',
        '"password":"',
        '\\"token\\":\\"',
        '\\\\"',
        "a.",
        '"token":"\\',
    ],
)
def test_hostile_text_costs_linear_time(piece: str) -> None:
    text = piece * (2_000_000 // len(piece))
    start = time.process_time()
    redact_text(text)
    assert time.process_time() - start < 20


LINES = st.lists(
    st.sampled_from(
        [
            *(
                "\n",
                '"',
                "\\",
                ":",
                " ",
                ",",
                "token",
                '"Token"',
                '"ap\u0131_key"',
                "é",
                "1",
                "x",
                '"token": "',
                '"token":"a\\"',
            ),
            *('\\"secret\\":\\"', '\\\\"secret\\\\":', "eyJa.b.c", "sk-" + "a" * 20),
        ]
    ),
    max_size=30,
).map("".join)


@given(LINES)
def test_lines_are_redacted_as_one_by_one(text: str) -> None:
    assert redact_lines(text) == "\n".join(map(redact_text, text.split("\n")))


@pytest.mark.parametrize(
    "start", ["ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "sk-", "xoxa-", "xoxp-"]
)
def test_every_kind_of_key_is_found(start: str) -> None:
    assert redact_text(f"key: {start}{'A1' * 12}\n") == "key: [REDACTED:KEY]\n"


@pytest.mark.parametrize(
    "key",
    [
        *("sk-" + "a" * 20, "sk-proj-" + "A1_" * 6),
        *(f"gh{kind}_" + "a1B" * 7 for kind in "opsur"),
        "github_pat_" + "a_1" * 7,
        *(f"xox{kind}-12345678" for kind in "abeprs"),
        *("AKIA" + "A1" * 8, "ASIA" + "A1" * 8),
    ],
)
def test_well_known_keys_are_removed_alone_and_in_json(key: str) -> None:
    assert redact_text(f"<{key}>") == "<[REDACTED:KEY]>"
    assert redact_json({key: [f"<{key}>"]}) == {"[REDACTED:KEY]": ["<[REDACTED:KEY]>"]}
    assert may_hold_secrets(f'["{key}"]')
    assert redact_text(key[:7]) == key[:7]


@pytest.mark.parametrize("name", ["pr\u0130vate_key", "pr\u0131vate_key", "\u017fecret", "to\u212aen"])
def test_a_name_in_odd_letters_is_seen_before_a_value_is_walked(name: str) -> None:
    assert redact_json({name: "x"}) == {name: "[REDACTED:VALUE]"}
    assert may_hold_secrets(json.dumps({name: "x"}))
    assert may_hold_secrets(json.dumps({name: "x"}, ensure_ascii=False))
