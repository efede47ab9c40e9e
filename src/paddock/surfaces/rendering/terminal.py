"""Escape text for a terminal: only line ends, tabs, and a program's own colours may have an effect there.

Untrusted text may contain more: control characters move the cursor, change the window's title or write to the
clipboard, and Unicode format characters change the direction of writing or are invisible. All of these are escaped. The
terminal's streams escape everything that is written to them (`paddock.surfaces.cli.streams`).
"""

import re

from paddock.model.invisible import spell_invisible
from paddock.model.late_pattern import compile_late

NO_COLOUR = "\x1b[0m"

_COLOUR_SYNTAX = r"\x1b\[[0-9;:]*m"
"""Select Graphic Rendition (ECMA-48, 8.3.117): harmless if it is reset; otherwise it may hide later text."""
_CONTROL_CHARACTERS = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
_CONTROL_PATTERN = compile_late(rf"(\r(?=\n))|{_CONTROL_CHARACTERS}")
_ANY_CONTROL_PATTERN = compile_late(r"()[\x00-\x1f\x7f-\x9f]")
_CONTROL_EXCEPT_COLOUR = compile_late(rf"({_COLOUR_SYNTAX}|\r(?=\n))|{_CONTROL_CHARACTERS}")
_CONTROL_EXCEPT_PROGRESS = compile_late(rf"({_COLOUR_SYNTAX}|\r)|{_CONTROL_CHARACTERS}")


def escape_text(text: str) -> str:
    r"""Return an untrusted text; everything with an effect on a terminal is escaped (`\x1b`), also colours."""
    return spell_invisible(_CONTROL_PATTERN.sub(_spell_control, text))


def escape_name(name: str) -> str:
    r"""Return an untrusted name, such as a file's, which is a part of one line: line ends and tabs are escaped, too."""
    return spell_invisible(_ANY_CONTROL_PATTERN.sub(_spell_control, name))


def escape_except_colour(text: str) -> str:
    r"""Return a text; everything with an effect on a terminal except colours is escaped. Colours end with it."""
    shown = escape_line(text)
    return shown + NO_COLOUR if stays_coloured(shown) else shown


def escape_line(text: str) -> str:
    """Return a text like `escape_except_colour`; a colour may continue in a later text."""
    return spell_invisible(_CONTROL_EXCEPT_COLOUR.sub(_spell_control, text))


def escape_piece(text: str) -> str:
    """Return a piece of a program's output like `escape_line`; carriage returns are kept for progress bars."""
    return spell_invisible(_CONTROL_EXCEPT_PROGRESS.sub(_spell_control, text))


def stays_coloured(shown: str, *, before: bool = False) -> bool:
    """Return whether a terminal is in colours after a text; `before` is its state before."""
    _, coloured, last = shown.rpartition("\x1b[")
    return last.partition("m")[0] not in ("", "0") if coloured else before


def make_encodable(text: str) -> str:
    """Return a text that UTF-8 can encode: surrogate pairs are joined, lone surrogates replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _spell_control(found: re.Match[str]) -> str:
    return found[1] or f"\\x{ord(found[0]):02x}"
