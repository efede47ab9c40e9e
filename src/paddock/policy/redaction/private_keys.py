"""Find the base64 in the lines of private keys in PEM (RFC 7468) and PGP armor.

The lines may have a prefix that does not belong to the key: that of a log, `> `, `# `, a line number, quotes. The line
of `-----BEGIN` has the same prefix and suffix, except for digits, and so shows where the base64 begins and ends. In
other lines the base64 is found by its length.
"""

from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

from paddock.model.late_pattern import compile_late

KEY_SIGN = b"PRIVATE KEY"

_BEGIN_PATTERN = compile_late(rb"-----BEGIN[ A-Z0-9_-]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_HEADER_PATTERN = compile_late(rb"\s*(?:(?:Proc-Type|DEK-Info|Comment|Version|Hash|Charset): .*)?")
_BODY_PATTERN = compile_late(
    rb"[^A-Za-z0-9+/=]{0,20}(?:[0-9]{1,6}[^A-Za-z0-9+/=]{1,8})?(?P<body>[A-Za-z0-9+/=]+)(?:\\+[nr])*[^A-Za-z0-9+/=]{0,8}"
)
"""Also in quotes, or after a line number."""
_LONG_BODY = compile_late(rb"(?P<body>[A-Za-z0-9+/=]{40,})")
_STAMPED_BODY = compile_late(
    rb".{0,40}?[0-9]{2}[:/-][0-9]{2}.{0,400}[^A-Za-z0-9+/=](?P<body>[A-Za-z0-9+/=]{16,})(?:\\+[nr])*[^A-Za-z0-9+/=]{0,8}"
)
"""After a time or a date."""
_KEY_START = compile_late(rb"M[C-I][A-Za-z0-9+/]{2}|b3B|(?=.*[0-9+/])(?=.*[A-Z])(?=.*[a-z])")
"""The beginning of a key's base64: an ASN.1 sequence, `openssh-key-v1`, or characters that are not a word."""
_LINE_BYTES = 16
"""Minimum length of a key's first line if it does not begin like that."""
_MAX_AROUND_BYTES = 400
_WRITTEN_LINE_END = compile_late(rb"(?:\\{1,15}[nr])+")
"""An escaped line end, as in JSON and source."""
_LINE_END = compile_late(rb"\n|(?:\\{1,15}[nr])+")
_QUOTE_PATTERN = compile_late(rb"""["'\x60]""")
_DIGITS_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")


class Base64(NamedTuple):
    """The span of the base64 in a line."""

    start: int
    end: int
    is_first: bool
    """Whether it is the first line of its key."""


class _KeyState(Enum):
    NONE = auto()
    BEGUN = auto()
    BODY = auto()


class KeyLines:
    """Follows a text line by line through the private keys in it."""

    def __init__(self) -> None:
        self._state = _KeyState.NONE
        self._least = _LINE_BYTES
        self._around: list[tuple[bytes, bytes]] = []
        """Possible prefixes and suffixes of the base64, with all digits replaced by 0."""

    @property
    def is_within(self) -> bool:
        """Whether the next line may be one of a key."""
        return self._state is not _KeyState.NONE

    def note(self, line: bytes) -> None:
        """Note a line that may contain the beginning of a key; of several, the last one counts."""
        last = line.rfind(b"-----BEGIN") if KEY_SIGN in line else -1
        if last <= line.rfind(b"-----END") or (begin := _BEGIN_PATTERN.match(line, last)) is None:
            return
        self._state, self._around = _KeyState.BEGUN, []
        before, after = line[:last][-_MAX_AROUND_BYTES:], line[begin.end() :]
        inner = _QUOTE_PATTERN.split(before)[-1]
        for prefix in dict.fromkeys((before, inner)):
            self._learn_surroundings(prefix, after)
            self._learn_surroundings(prefix, b"")

    def find(self, line: bytes) -> Base64 | None:
        """Return the span of the base64 in a line within a key; None if the line does not belong to the key."""
        if self._state is _KeyState.BEGUN and _HEADER_PATTERN.fullmatch(line):
            return None
        for body in self._list_candidates(line):
            start, end = body
            if (
                self._state is _KeyState.BODY
                or end - start >= _LINE_BYTES
                or _KEY_START.match(line[start:end])
            ):
                return self._take_line(line, start, end)
        if self._state is _KeyState.BEGUN and any(
            _HEADER_PATTERN.fullmatch(line, len(before))
            for before, _ in self._around
            if _has_shape(line, before, b"")
        ):
            return None
        self._state = _KeyState.NONE if line.strip() else self._state
        return None

    def _list_candidates(self, line: bytes) -> Iterator[tuple[int, int]]:
        for before, after in self._around:
            if (before or after) and _has_shape(line, before, after):
                found = _BODY_PATTERN.fullmatch(line, len(before), len(line) - len(after))
                if found is not None:
                    yield found.span("body")
        for pattern in (_BODY_PATTERN.fullmatch, _STAMPED_BODY.fullmatch, _LONG_BODY.search):
            found = pattern(line)
            if found is not None:
                yield found.span("body")

    def _take_line(self, line: bytes, start: int, end: int) -> Base64:
        is_first = self._state is _KeyState.BEGUN
        if is_first:
            self._least = min(_LINE_BYTES, end - start)
            self._around = []
            self._learn_surroundings(line[:start], line[end:])
            self._learn_surroundings(line[:start], b"")
        self._state = _KeyState.BODY if end - start >= self._least else _KeyState.NONE
        return Base64(start, end, is_first)

    def _learn_surroundings(self, before: bytes, after: bytes) -> None:
        if len(before) <= _MAX_AROUND_BYTES and len(after) <= _MAX_AROUND_BYTES:
            self._around.append((before.translate(_DIGITS_TO_ZERO), after.translate(_DIGITS_TO_ZERO)))


def find_written_keys(data: bytes) -> Iterator[tuple[int, Base64]]:
    """Yield the start of each key with escaped line ends, and the span of the base64 of each of its lines."""
    position = end = 0
    while (begin := _BEGIN_PATTERN.search(data, position)) is not None:
        position = begin.end()
        if end < position:
            end = data.find(b"\n", position) % (len(data) + 1)
        keys = KeyLines()
        before = _LINE_END.split(data[max(0, begin.start() - _MAX_AROUND_BYTES) : begin.start()])[-1]
        keys.note(before + begin[0])
        written = _WRITTEN_LINE_END.match(data, position, end)
        while written is not None and keys.is_within:
            start = written.end()
            written = _WRITTEN_LINE_END.search(data, start, end)
            stop = end if written is None else written.start()
            found = keys.find(data[start:stop])
            if found is not None:
                yield begin.start(), Base64(start + found.start, start + found.end, found.is_first)
            if keys.is_within:
                position = stop


def _has_shape(line: bytes, before: bytes, after: bytes) -> bool:
    """Return whether a line has this prefix and suffix, except for digits."""
    if len(line) < len(before) + len(after):
        return False
    return (
        line[: len(before)].translate(_DIGITS_TO_ZERO) == before
        and line[len(line) - len(after) :].translate(_DIGITS_TO_ZERO) == after
    )
