"""Characters that people do not see."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.invisible import has_invisible, spell_invisible, spell_invisible_in_json


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("plain", "plain"),
        ("Adds.\u200b\u202e\U000e0069", r"Adds.\u{200b}\u{202e}\u{e0069}"),
        ("soft\u00adhyphen, \ufeffmark", r"soft\u{ad}hyphen, \u{feff}mark"),
        ("a\u2066b\u2069\u061c\u200e", r"a\u{2066}b\u{2069}\u{61c}\u{200e}"),
        ("filler\u3164\u115f\uffa0", r"filler\u{3164}\u{115f}\u{ffa0}"),
        # Selectors behind letters carry bytes; behind a symbol one is how emoji are written.
        ("a\ufe0f", r"a\u{fe0f}"),
        ("x\U000e0101\U000e0102", r"x\u{e0101}\u{e0102}"),
        ("\u26a0\ufe0f 1\ufe0f\u20e3 \u2764\ufe0e", "\u26a0\ufe0f 1\ufe0f\u20e3 \u2764\ufe0e"),
        ("\u26a0\ufe0f\ufe0f", "\u26a0\ufe0f" + r"\u{fe0f}"),
        # Joiners between emoji, and between letters of scripts that join.
        ("\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f468\u200d\U0001f469\u200d\U0001f467"),
        ("\u2764\ufe0f\u200d\U0001f525", "\u2764\ufe0f\u200d\U0001f525"),
        (
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        ),
        ("\u0915\u094d\u200d\u0937", "\u0915\u094d\u200d\u0937"),
        ("ab\u200dcd\u200c", r"ab\u{200d}cd\u{200c}"),
        ("\u200d\U0001f525", r"\u{200d}" + "\U0001f525"),
        (
            "gr\u00f6\u00dfe, \u65e5\u672c, \u05e9\u05dc\u05d5\u05dd",
            "gr\u00f6\u00dfe, \u65e5\u672c, \u05e9\u05dc\u05d5\u05dd",
        ),
    ],
)
def test_what_is_not_seen_is_spelled_out(text, spelled):
    assert (spell_invisible(text), has_invisible(text)) == (spelled, text != spelled)


def test_every_format_character_between_latin_letters_is_spelled_out():
    """But for the marks in front of numbers in Arabic, Syriac and Kaithi, which are seen."""
    seen = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
    formats = [chr(n) for n in range(0x110000) if unicodedata.category(chr(n)) == "Cf" and n not in seen]
    assert [hex(ord(each)) for each in formats if not has_invisible(f"a{each}b")] == []


@given(st.text(st.characters(codec="utf-8")))
def test_nothing_is_spelled_twice_and_json_stays_json(text):
    spelled = spell_invisible(text)
    assert spell_invisible(spelled) == spelled
    value = {text: [text]}
    written = spell_invisible_in_json(json.dumps(value, ensure_ascii=False))
    assert not has_invisible(written)
    assert has_invisible(text) or json.loads(written) == value
