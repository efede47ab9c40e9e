"""Texts of programs for display, and what no template may contain."""

import re
from pathlib import Path

import pytest

import paddock.surfaces.web
from paddock.surfaces.web.render import MAX_MARKS, show_visible

TEMPLATES = Path(paddock.surfaces.web.__file__).parent / "templates"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb", "a\\x0d\nb"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x00\x07\x08\x7f", "\\x00\\x07\\x08\\x7f"),
        ("\x85\x9b31m", "\\x85\\x9b31m"),
        ("invoice\u202efdp.exe", "invoice\\u202efdp.exe"),
        ("a\u2066b\u2069\u200e\u200f\u061c", "a\\u2066b\\u2069\\u200e\\u200f\\u061c"),
        ("a\u200bb\ufeffc\u00add\u2060e", "a\\u200bb\\ufeffc\\xadd\\u2060e"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\u3164\uffa0\u115f", "\\u3164\\uffa0\\u115f"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
        ("\ue000\U000f0000", "\\ue000\\U000f0000"),
        ("\u0378\uffff", "\\u0378\\uffff"),
        ("é ж 漢 עברית العربية 👩\u200d👧 ❤\ufe0f", "é ж 漢 עברית العربية 👩\u200d👧 ❤\ufe0f"),
        ("e" + "\u0301" * MAX_MARKS, "e" + "\u0301" * MAX_MARKS),
        (
            "e" + "\u0301" * (MAX_MARKS + 2) + "f\u0301",
            "e" + "\u0301" * MAX_MARKS + "\\u0301\\u0301f\u0301",
        ),
        (None, "None"),
        (12, "12"),
    ],
)
def test_hidden_and_reordering_characters_are_spelled(text, shown):
    assert show_visible(text) == shown


def test_a_long_text_loses_its_middle():
    assert show_visible("é" * 100, 10) == "ééééé [... 90 characters not shown ...] ééééé"


def templates() -> list[str]:
    return sorted(path.name for path in TEMPLATES.rglob("*.html"))


FORBIDDEN = {
    "a value that is not escaped": r"\|\s*safe\b|\bautoescape\b|\bMarkup\b",
    "a script or a style in the page": r"<script(?![^>]*\bsrc=)|<style|\sstyle\s*=|\son[a-z]+\s*=|\bhx-on\b|\bjavascript:",
    "code in an attribute of htmx": r"\bhx-vals\s*=\s*[\"']?js:|\bhx-vars\b|\bhx-(?:trigger)\s*=\s*\"[^\"]*\[",
    "a value in an attribute without quotes": r"\s[\w:-]+=\s*{[{%]",
    "an address that a value begins": r"\b(?:href|src|action|formaction|hx-get|hx-post|sse-connect)=\"{{(?! '/)[^}]*",
    "an embedded document": r"<(?:iframe|object|embed|frame|base|applet|math|foreignObject)\b|srcdoc",
    "a link that opens a window": r"\btarget\s*=\s*\"_",
}
OWN_ADDRESSES = {"target", "address", "row.link", "link", "page.older", "older"}
"""Values that pages make of a path of this server, with `quote` or `urlencode`."""


@pytest.mark.parametrize("name", templates())
@pytest.mark.parametrize("what", [*FORBIDDEN])
def test_no_template_has(name, what):
    text = (TEMPLATES / name).read_text()
    found = re.findall(FORBIDDEN[what], text)
    assert [each for each in found if each.partition("{{ ")[2].strip() not in OWN_ADDRESSES] == []


@pytest.mark.parametrize("name", templates())
def test_each_form_of_a_template_sends_the_token_of_the_login(name):
    text = (TEMPLATES / name).read_text()
    forms = re.findall(r"<form\b[^>]*\bmethod=\"post\".*?</form>", text, re.DOTALL | re.IGNORECASE)
    without = [form for form in forms if 'name="csrf"' not in form and "csrf()" not in form]
    assert len(without) == (2 if name == "login.html" else 0)
    assert len(forms) == len(re.findall(r"method\s*=\s*[\"']?post", text, re.IGNORECASE))
