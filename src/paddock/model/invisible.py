r"""Characters that people do not see and models read. In untrusted texts they are escaped, as `\u{e0041}`.

Default ignorable code points and format characters of Unicode 16 (DerivedCoreProperties.txt, general category Cf): TAG
characters, marks that change the direction of writing, spaces without a width, variation selectors, fillers. Characters
that visible writing needs are kept: one selector after a symbol, joiners between emoji or letters of joining scripts.
"""

import re
from collections.abc import Callable

from paddock.model.late_pattern import compile_late

_SYMBOLS = r"#*0-9\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff"
_JOINING = r"\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17ff\ufb50-\ufdff\ufe70-\ufefc"
_HIDDEN_PATTERN = compile_late(
    r"[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff]"
    rf"|(?<![{_SYMBOLS}])[\ufe0e\ufe0f]"
    rf"|(?<![{_JOINING}])\u200c|\u200c(?![{_JOINING}])"
    rf"|(?<![{_SYMBOLS}{_JOINING}\ufe0f])\u200d|\u200d(?![{_SYMBOLS}{_JOINING}])"
)


def has_invisible(text: str) -> bool:
    """Return whether a text has invisible characters."""
    return not text.isascii() and _HIDDEN_PATTERN.search(text) is not None


def spell_invisible(text: str) -> str:
    r"""Return a text with escaped invisible characters, as `\u{200b}`."""
    return text if text.isascii() else _HIDDEN_PATTERN.sub(_escape_match, text)


def replace_invisible(text: str, spell: Callable[[str], str]) -> str:
    """Return a text in which `spell` has replaced each invisible character."""
    return text if text.isascii() else _HIDDEN_PATTERN.sub(lambda found: spell(found[0]), text)


def spell_invisible_in_json(text: str) -> str:
    r"""Return a JSON text whose strings and names, once parsed, have escaped invisible characters: `\u{200b}`."""
    return text if text.isascii() else _HIDDEN_PATTERN.sub(lambda found: "\\" + _escape_match(found), text)


def _escape_match(found: re.Match[str]) -> str:
    return f"\\u{{{ord(found[0]):x}}}"
