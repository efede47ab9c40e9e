"""Values that are known to be secret: removed wherever they stand, whatever else is there."""

import base64
import html
import json
import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.policy.redaction.known import VAULT_MARK, KnownSecrets
from paddock.policy.redaction.outgoing import OutgoingRedaction, Removal
from paddock.policy.redaction.scanner import Scanner
from paddock.policy.redaction.stream import StreamRedactor
from paddock.policy.settings.schema import RedactionSettings

MARK = VAULT_MARK

LINE = st.characters(exclude_characters="\n\r")
"""Of a value with several lines, only those of four characters or more are known."""
VALUES = st.text(LINE, min_size=4, max_size=20).filter(
    lambda text: text not in MARK and not set(text) <= set(MARK)
)


def knowing(*values):
    secrets = KnownSecrets()
    for value in values:
        secrets.learn(value)
    return secrets


def test_nothing_known_hides_nothing():
    assert not knowing()
    assert knowing().hide("all") == "all"


def test_longer_values_go_first_and_short_ones_stay():
    secrets = knowing("abcd", "abcdefgh", "no")
    assert secrets.hide("abcdefgh abcd no") == f"{MARK} {MARK} no"


def test_spellings_are_those_of_values_that_are_not_short():
    told = "abc YWJj 616263 %61bc"
    assert knowing("abc").hide(told) == told
    assert knowing("abcd").hide("abcd 61626364") == f"{MARK} {MARK}"


def test_each_line_of_a_value_is_hidden_and_its_json_form():
    secrets = knowing('first line\nsecond "line"')
    assert secrets.hide('second "line"') == MARK
    assert secrets.hide(json.dumps('first line\nsecond "line"')) == f'"{MARK}"'


WORD = 'S3cr3t/va+lue "quoted" é & ~more'


@pytest.mark.parametrize(
    "spelled",
    [
        quote(WORD),
        quote(WORD, safe=""),
        quote(WORD, safe="!'()*"),
        quote(WORD, safe=";,/?:@&=+$#!'()*"),
        quote_plus(WORD),
        re.sub("%..", lambda found: found[0].lower(), quote(WORD)),
        "".join(f"%{byte:02x}" for byte in WORD.encode()),
        WORD.encode().hex(),
        WORD.encode().hex().upper(),
        json.dumps(WORD)[1:-1],
        json.dumps(WORD, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(WORD, ensure_ascii=False))[3:-3].encode().decode(),
        html.escape(WORD),
        base64.b64encode(WORD.encode()).decode(),
        base64.urlsafe_b64encode(WORD.encode()).decode(),
        base64.b64encode(WORD.encode()).decode().rstrip("="),
    ],
)
def test_a_value_is_hidden_as_programs_spell_it(spelled):
    assert knowing(WORD).hide(f"<{spelled}>") in (f"<{MARK}>", f"<{MARK}=>", f"<{MARK}==>")


ODD = "ab/c\"d+e'f<g>h&i=j\\k`é"


@pytest.mark.parametrize(
    "spelled",
    [
        r"""ab\/c\"d+e'f<g>h&i=j\\k`\u00e9""",
        r"""ab\/c\"d+e'f<g>h&i=j\\k`é""",
        r"""ab/c\"d+e'f\u003cg\u003eh\u0026i=j\\k`é""",
        r"""ab/c\"d+e\u0027f\u003cg\u003eh\u0026i=j\\k`\u00e9""",
        r"""ab/c\"d+e\u0027f\u003cg\u003eh\u0026i\u003dj\\k`é""",
        r"""ab/c\u0022d\u002Be\u0027f\u003Cg\u003Eh\u0026i=j\\k\u0060\u00E9""",
        r"""ab\\/c\\\"d+e'f<g>h&i=j\\\\k`\\u00e9""",
        r"""ab/c&quot;d+e&#039;f&lt;g&gt;h&amp;i=j\k`é""",
        r"""ab/c&quot;d+e&#39;f&lt;g&gt;h&amp;i=j\k`é""",
        r"""ab/c&quot;d+e&apos;f&lt;g&gt;h&amp;i=j\k`é""",
        r"""ab/c&quot;d+e'f&lt;g&gt;h&amp;i=j\k`é""",
        r"""ab/c&#34;d+e&#39;f&lt;g&gt;h&amp;i=j\k`é""",
        r"""ab/c"d+e'\''f<g>h&i=j\k`é""",
        """ab/c"d+e'"'"'f<g>h&i=j\\k`é""",
    ],
)
def test_a_value_is_hidden_as_other_languages_escape_it(spelled):
    assert knowing(ODD).hide(f"<{spelled}>") == f"<{MARK}>"


def test_a_value_is_hidden_as_python_shows_it():
    assert knowing("it's \\ é").hide(repr(['"', "it's \\ é"])) == repr(['"', MARK]).replace(
        f"'{MARK}'", f'"{MARK}"'
    )
    both = 'it\'s "so" é'
    assert knowing(both).hide(repr(both)) == f"'{MARK}'"


@given(value=st.binary(min_size=6, max_size=60), before=st.binary(max_size=5), after=st.binary(max_size=5))
def test_base64_of_a_text_around_a_value_does_not_hold_it(value, before, after):
    secret = value.hex()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        shown = knowing(secret).hide(encode(before + secret.encode() + after).decode())
        assert shown.count(MARK) == 1
        left = shown.replace(MARK, "").rstrip("=")
        assert len(left) <= 4 + (len(before) + len(after)) * 4 // 3 + 4


def test_broken_lines_of_base64_are_hidden():
    secret = "".join(f"{n:04}" for n in range(100))
    for lines in (base64.encodebytes(secret.encode()).decode(), _wrapped(secret, 64)):
        assert set(knowing(secret).hide(lines).split()) == {MARK}


def _wrapped(text, width):
    encoded = base64.b64encode(text.encode()).decode()
    return "\n".join(encoded[at : at + width] for at in range(0, len(encoded), width))


def test_a_value_that_rules_know_a_part_of_is_hidden_whole():
    secret = f"ghp_{'a' * 36}-and-the-rest"
    known = knowing(secret)
    assert OutgoingRedaction(RedactionSettings(), known).text(f"it is {secret}.") == f"it is {MARK}."
    assert OutgoingRedaction(RedactionSettings(), known).json({"a": [secret]}) == {"a": [MARK]}
    assert Removal(Scanner(RedactionSettings(), known)).text(f"it is {secret}.\n") == f"it is {MARK}.\n"


def test_facts_for_the_record_hold_no_value_at_any_depth():
    known = knowing("s3cr3t-v4lue")
    facts = {"names": ["s3cr3t-v4lue"], "more": {"s3cr3t-v4lue": "s3cr3t-v4lue"}, "count": 3}
    assert OutgoingRedaction(RedactionSettings(), known).facts(facts) == {
        "names": [MARK],
        "more": {MARK: MARK},
        "count": 3,
    }


@given(value=VALUES, before=st.text(max_size=10), after=st.text(max_size=10))
def test_no_text_keeps_a_known_value(value, before, after):
    secrets = knowing(value)
    assert value not in secrets.hide(before + value + after).replace(MARK, "")
    hidden = secrets.hide_json([{before + value: value}, [value + after]])
    assert value not in str(next(iter(hidden[0].values())))


@given(data=st.data(), before=st.text("ab\n", max_size=30), after=st.text("ab\n", max_size=30))
def test_a_value_cut_by_pieces_of_a_stream_is_found(data, before, after):
    secrets = knowing("s3cr3t-v4lue")
    raw = f"{before}s3cr3t-v4lue{after}".encode()
    cut = data.draw(st.integers(0, len(raw)))
    stream = StreamRedactor(Scanner(RedactionSettings(), secrets))
    out = stream.feed(raw[:cut]) + stream.feed(raw[cut:]) + stream.end()
    assert out.decode() == f"{before}{MARK}{after}"


def test_a_value_is_also_known_without_the_white_space_around_it():
    secrets = knowing("s3cret\n", "  other one \n", "first\r\nsecond\r\n")
    told = [
        "s3cret",
        b"s3cret".hex(),
        "other one",
        quote("other one"),
        "first",
        "second",
        b"first\nsecond".hex(),
    ]
    assert [secrets.hide(text) for text in told] == [MARK] * len(told)
