"""Colours of terminals and escaped slashes within a text: a secret is the same with them and without."""

import re
from bisect import bisect_right

_COLOUR_PATTERN = re.compile(
    # Control sequences (ECMA-48, CSI), also as JSON and source write them.
    rb"(?:\x1b|\\{1,15}u001b|\\{1,15}x1b)\[[0-9;:?]{0,40}[A-Za-z]"
    rb"|\x1b[()*+][!-~]"  # the choice of a character set, which `tput sgr0` writes
    rb"|\x1b\][^\x07\x1b\n]{0,2048}(?:\x07|\x1b\\)"  # titles and links (OSC)
    rb"|\\{1,15}(?=/)"  # `\/`, as PHP writes JSON
)
ESCAPE = b"\x1b"
WRITTEN_SIGN = b"1b["
"""What is in every colour that is written with letters."""
ESCAPED_SLASH = b"\\/"


def may_hold_colours(data: bytes) -> bool:
    """Tell whether a text may hold what `drop_colours` drops; False is sure."""
    return ESCAPE in data or ESCAPED_SLASH in data or WRITTEN_SIGN in data


def drop_colours(data: bytes) -> bytes:
    """Return a text without colours, and without the backslashes of escaped slashes."""
    return _COLOUR_PATTERN.sub(b"", data) if may_hold_colours(data) else data


def repeat_without_colours(data: bytes) -> bytes:
    """Return a text and, if it has colours, the same without them: a word may be in either alone.

    A link holds an address, which is not there without colours; a colour may stand within a word.
    """
    plain = drop_colours(data)
    return data if plain is data or plain == data else b"%b\n%b" % (data, plain)


class ColourlessText:
    """A text without its colours, and where its bytes stood."""

    def __init__(self, data: bytes) -> None:
        pieces: list[bytes] = []
        self._starts, self._shifts = [0], [0]
        position = size = 0
        for found in _COLOUR_PATTERN.finditer(data):
            pieces.append(data[position : found.start()])
            size += found.start() - position
            position = found.end()
            if self._starts[-1] == size:
                self._shifts[-1] = position - size
            else:
                self._starts.append(size)
                self._shifts.append(position - size)
        pieces.append(data[position:])
        self.data = b"".join(pieces)
        self.has_colours = position > 0

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Return where bytes of the text without colours stand in the text with them, without colours around them."""
        return self._map_offset(start), self._map_offset(end - 1) + 1 if end > start else self._map_offset(
            start
        )

    def _map_offset(self, position: int) -> int:
        return position + self._shifts[bisect_right(self._starts, position) - 1]
