"""What of a text may act on a terminal: line ends, tabs, and colours where they are a program's own.

Everything that a stranger wrote may hold more: control characters move the cursor, retitle the window or write to the
clipboard, and format characters of Unicode turn the direction of writing or are not seen. All of that is spelled out.
The terminal's streams do so with whatever is written to them (`paddock.cli.streams`).
"""

import re

from paddock.model.invisible import spell_invisible

NO_COLOUR = "\x1b[0m"

_COLOUR_SYNTAX = r"\x1b\[[0-9;:]*m"
"""Select Graphic Rendition (ECMA-48, 8.3.117): harmless as long as it ends: it may hide what comes after."""
_CONTROL_CHARACTERS = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
_CONTROL_PATTERN = re.compile(rf"(\r(?=\n))|{_CONTROL_CHARACTERS}")
_CONTROL_EXCEPT_COLOUR = re.compile(rf"({_COLOUR_SYNTAX}|\r(?=\n))|{_CONTROL_CHARACTERS}")
_CONTROL_EXCEPT_PROGRESS = re.compile(rf"({_COLOUR_SYNTAX}|\r)|{_CONTROL_CHARACTERS}")


def escape_text(text: str) -> str:
    r"""Return a text of a stranger with all that acts on a terminal spelled out (`\x1b`), colours included."""
    return spell_invisible(_CONTROL_PATTERN.sub(_spell_control, text))


def escape_except_colour(text: str) -> str:
    r"""Return a text with all that acts on a terminal but colours spelled out; colours end with the text."""
    shown = escape_line(text)
    return shown + NO_COLOUR if stays_coloured(shown) else shown


def escape_line(text: str) -> str:
    """Return a text as `escape_except_colour` does; a colour may go on in a later text."""
    return spell_invisible(_CONTROL_EXCEPT_COLOUR.sub(_spell_control, text))


def escape_piece(text: str) -> str:
    """Return a piece of a program's output as `escape_line` does; carriage returns stay, for progress."""
    return spell_invisible(_CONTROL_EXCEPT_PROGRESS.sub(_spell_control, text))


def stays_coloured(shown: str, *, before: bool = False) -> bool:
    """Return whether a terminal is in colours after such a text, as it was `before` where the text has none."""
    _, coloured, last = shown.rpartition("\x1b[")
    return last.partition("m")[0] not in ("", "0") if coloured else before


def make_encodable(text: str) -> str:
    """Return a text that UTF-8 can hold: pairs of surrogates joined, single ones replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _spell_control(found: re.Match[str]) -> str:
    return found[1] or f"\\x{ord(found[0]):02x}"
