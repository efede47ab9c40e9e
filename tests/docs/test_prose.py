"""Pages are in plain English: no words that stand for a noun of the field, no sentence that needs reading twice."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONGEST_SENTENCE = 30
"""Most words of a sentence outside of code, tables and headings."""

INSTEAD = {
    r"but for": "except",
    r"in the midst of": "during",
    r"at the latest": "within",
    r"nobody('s)?": "name the actor: no process, no client, no person",
    r"somebody('s)?": "name the actor: another user, a person, a process",
    r"anybody('s)?": "name the actor",
    r"whoever": "name the actor",
    r"(is|are|be) told": "print, return, report",
    r"(who|one that) asks": "the caller",
    r"the original": "name the program",
}
"""Words that make a reader go back, and what to write instead."""

FROM_THE_SOURCE = {"benchmarks.md", "commands.md", "configuration.md", "python.md", "troubleshooting.md"}
"""Pages that consist of texts of the source and of the benchmarks; the other generated pages are checked, too."""
PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md")
    ),
    *(path for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in FROM_THE_SOURCE),
]


DECISIONS = sorted((ROOT / "docs" / "adr").glob("*.md"))


def read_prose(text):
    """Return the text of a page without code and comments; links keep their words, tables and headings their lines."""
    text = re.sub(r"^```.*?^```$|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`]+`", "CODE", text)
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)


def split_sentences(text):
    """Return the sentences of paragraphs and list items."""
    lines = [line for line in text.splitlines() if not line.startswith(("|", "#", "--8<--"))]
    items = re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )", "\n".join(lines))
    return [sentence for item in items for sentence in re.split(r"(?<=[.?!])\s+", " ".join(item.split()))]


def find_words(text):
    """Return each word of INSTEAD that a text has, with what to write."""
    return [
        f"{match[0]}: {instead}"
        for pattern, instead in INSTEAD.items()
        for match in re.finditer(rf"(?<![\w-]){pattern}\b", " ".join(text.split()), re.IGNORECASE)
    ]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_uses_plain_words_and_short_sentences(path):
    prose = read_prose(path.read_text())
    long = [sentence for sentence in split_sentences(prose) if len(sentence.split()) > LONGEST_SENTENCE]
    assert (find_words(prose), long) == ([], [])


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_uses_plain_words(path):
    assert find_words(read_prose(path.read_text())) == []


def test_unclear_words_and_long_sentences_are_found():
    text = "# Title\n\nAll hold, but\nfor `one of them`. It says [who asks](page.md).\n\n| nobody | reads |\n|---|---|\n"
    prose = read_prose(text)
    assert find_words(prose) == [
        "but for: except",
        "nobody: name the actor: no process, no client, no person",
        "who asks: the caller",
    ]
    assert split_sentences(prose) == ["All hold, but for CODE.", "It says who asks."]
