"""Strip terminal colours and escaped slashes from a text, and map positions back.

They may be within a secret, which rules could not find otherwise.
"""

from bisect import bisect_right

from paddock.model.late_pattern import compile_late

_COLOUR_PATTERN = compile_late(
    # Control sequences (ECMA-48, CSI), also escaped as in JSON and source.
    rb"(?:\x1b|\\{1,15}u001b|\\{1,15}x1b)\[[0-9;:?]{0,40}[A-Za-z]"
    rb"|\x1b[()*+][!-~]"  # selection of a character set, which `tput sgr0` prints
    rb"|\x1b\][^\x07\x1b\n]{0,2048}(?:\x07|\x1b\\)"  # titles and links (OSC)
    rb"|\\{1,15}(?=/)"  # `\/`, as PHP writes JSON
)
ESCAPE = b"\x1b"
WRITTEN_SIGN = b"1b["
"""The part that every escaped colour has in common."""
ESCAPED_SLASH = b"\\/"


def may_hold_colours(data: bytes) -> bool:
    """Return whether a text may contain what `drop_colours` removes; False is certain."""
    return ESCAPE in data or ESCAPED_SLASH in data or WRITTEN_SIGN in data


def drop_colours(data: bytes) -> bytes:
    """Return a text without colours and without the backslashes of escaped slashes."""
    return _COLOUR_PATTERN.sub(b"", data) if may_hold_colours(data) else data


def repeat_without_colours(data: bytes) -> bytes:
    """Return a text, followed by the same text without colours if it has any. A keyword may be in only one of them.

    The address of a link is lost with the colours; a colour may be within a keyword.
    """
    plain = drop_colours(data)
    return data if plain is data or plain == data else b"%b\n%b" % (data, plain)


class ColourlessText:
    """A text without its colours, and the original positions of its bytes."""

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
        """Return the original span of bytes, without colours around it."""
        return self._map_offset(start), self._map_offset(end - 1) + 1 if end > start else self._map_offset(
            start
        )

    def _map_offset(self, position: int) -> int:
        return position + self._shifts[bisect_right(self._starts, position) - 1]
