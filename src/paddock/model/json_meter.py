"""Count the values of a JSON text and their depth, in its bytes, before it is decoded.

A decoded value takes up to 200 bytes of memory for 3 bytes of text. Therefore a limit on bytes limits neither memory
nor time. The count takes 2 to 8 ns per byte, at most a tenth of the decoder's time, and works on pieces of the text.
"""

from array import array
from itertools import accumulate

from paddock.model.nesting import MAX_DEPTH

MAX_VALUES = 1_250_000
"""Default maximum number of values in one message: 16 MiB of records contain about as many. Decoded they take 50 to 250
MB."""
MAX_CHECKED_VALUES = 1_000_000
"""Maximum number of values that are checked against a schema: 50 ms, if the schema visits each one once."""
COUNTED_BYTES = 16 * 1024
"""Messages up to this size are not counted: N bytes contain at most N / 2 values."""
_PIECE_BYTES = 64 * 1024
_SPACE = b" \t\r\n"
_SIGNS = bytes({ord("["): 1, ord("{"): 1, ord("]"): 255, ord("}"): 255}.get(byte, 0) for byte in range(256))
_PAIR = b"\x01\xff"
_MAX_ROUNDS = 8
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


class JsonMeter:
    """Counts the values and levels of one JSON text that arrives in pieces.

    For a valid text the count is exact. For any other it is at least what a decoder reads before it fails.
    """

    __slots__ = ("_escaped", "_in_string", "_level", "_most_depth", "_open", "too_deep", "values")

    def __init__(self, most_depth: int = MAX_DEPTH) -> None:
        self.values = 1
        """Number of scalars, arrays and objects so far; names of members are not counted."""
        self.too_deep = False
        """Whether arrays and objects are nested more than `most_depth` levels deep."""
        self._most_depth = most_depth
        self._level = 0
        self._open = b""
        """The last opened array or object, if nothing of its contents has arrived."""
        self._in_string = 0
        self._escaped = False

    def feed(self, data: bytes) -> None:
        """Count the next piece of the text."""
        for start in range(0, len(data), _PIECE_BYTES):
            self._count_piece(data[start : start + _PIECE_BYTES])

    def end_line(self) -> None:
        """Continue outside of strings, for a text in which no string contains a line break."""
        self._in_string, self._escaped = 0, False

    def _count_piece(self, piece: bytes) -> None:
        if self._escaped:
            piece, self._escaped = piece[1:], False
        if b"\\" in piece:
            self._escaped = (len(piece) - len(piece.rstrip(b"\\"))) % 2 == 1
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        # One quote replaces each string, so that `["a"]` does not look like an empty array.
        outside = b'"' * self._in_string + b'"'.join(parts[self._in_string :: 2])
        self._in_string = (self._in_string + len(parts) - 1) % 2
        compact = self._open + outside.translate(None, _SPACE)
        # An array of k values has k - 1 commas. The next byte shows whether the last opened one has any.
        empty = compact.count(b"[]") + compact.count(b"{}")
        self.values += compact.count(b",") + compact.count(b"[") + compact.count(b"{") - empty
        self._follow_levels(compact[len(self._open) :].translate(_SIGNS, _NO_BRACKETS))
        self._open = compact[-1:] if compact[-1:] in (b"[", b"{") else b""
        self.values -= len(self._open)

    def _follow_levels(self, brackets: bytes) -> None:
        """Follow the level. Pairs are removed from the inside out, which is fast for shallow values."""
        if not brackets or self.too_deep:
            return
        rest, rounds = brackets, 0
        while rounds < _MAX_ROUNDS and len(rest) > len(rest := rest.replace(_PAIR, b"")):
            rounds += 1
        if self._level + rounds + rest.count(1) > self._most_depth:
            self.too_deep = max(accumulate(array("b", brackets), initial=self._level)) > self._most_depth
        self._level += 2 * brackets.count(1) - len(brackets)


def holds_more(text: bytes, max_values: int) -> bool:
    """Return whether a text has more values than allowed; a short one is not counted."""
    if len(text) <= COUNTED_BYTES:
        return False
    meter = JsonMeter()
    meter.feed(text)
    return meter.values > max_values
