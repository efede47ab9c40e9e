"""Untrusted text for display: one printable line, from left to right."""

import unicodedata

from paddock.model.texts import cut_middle

_MAX_CHARS = 200
"""Default maximum length of a displayed text, in characters."""
_MARKS = frozenset({"Mn", "Me", "Mc"})
"""Categories of characters that change the preceding character."""


def make_printable(text: str, max_chars: int = _MAX_CHARS) -> str:
    """Return a text for display: one line, printable, left to right; a long text without its middle."""
    text = cut_middle(text, max_chars)
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_escape_character, text))


def _escape_character(character: str) -> str:
    sane = character.isprintable() and unicodedata.category(character) not in _MARKS
    if sane and unicodedata.bidirectional(character) not in {"R", "AL", "AN"}:
        return character
    number = ord(character)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"
