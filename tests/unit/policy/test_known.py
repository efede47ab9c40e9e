"""Values that are known to be secret: removed wherever they stand, whatever else is there."""

import json

from hypothesis import given
from hypothesis import strategies as st

from paddock.model.settings import RedactionSettings
from paddock.policy.known import MARK, KnownSecrets
from paddock.policy.redaction import Redactor, StreamRedactor

VALUES = st.text(min_size=4, max_size=20).filter(lambda text: text not in MARK and not set(text) <= set(MARK))


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


def test_each_line_of_a_value_is_hidden_and_its_json_form():
    secrets = knowing('first line\nsecond "line"')
    assert secrets.hide('second "line"') == MARK
    assert secrets.hide(json.dumps('first line\nsecond "line"')) == f'"{MARK}"'


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
    stream = StreamRedactor(Redactor(RedactionSettings(), secrets))
    out = stream.feed(raw[:cut]) + stream.feed(raw[cut:]) + stream.end()
    assert out.decode() == f"{before}{MARK}{after}"
