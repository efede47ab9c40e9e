"""Remove secrets from the output of programs while it arrives, in pieces of any size.

Redaction works line by line: no rule sees beyond the end of a line, so the result depends on the text alone and never
on how it was cut into pieces. A carriage return ends a line too: progress is passed on frame by frame. A line is held
back until it is whole. One of unusual length is redacted in windows that overlap; a window ends only where cutting it
changes nothing, and where there is no such place, the rest of the line is withheld. So memory is bounded, and any
secret of up to `OVERLAP` bytes is found wherever it stands.

Private keys in PEM (RFC 7468) and PGP armor are the one secret of several lines. Their base64 is replaced line by line,
so that the lines of the output keep their numbers; the lines around it stay, because they are also found in source.
"""

import re
from enum import Enum, auto

from paddock.redaction.scanner import Scanner

LONGEST = 64 * 1024
"""Bytes of a line that are redacted together."""
OVERLAP = 16 * 1024
"""Bytes at the end of a window that the next one sees again; no shorter secret is missed."""

KEY_SIGN = b"PRIVATE KEY"
KEY_MARK = b"[REDACTED:private-key]"
WITHHELD = b"[REDACTED:rest of line]"

_STEP = 12 * 1024
"""Between places where a window may be cut: few, because each try redacts the window once more."""

_LINE_END = re.compile(rb"([\n\r])")
_KEY_BEGINS = re.compile(rb"-----BEGIN[ A-Z0-9_-]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_HEADER = re.compile(rb"\s*(?:(?:Proc-Type|DEK-Info|Comment|Version|Hash|Charset): .*)?")
_KEY_BODY = re.compile(
    rb"[^A-Za-z0-9+/=]{0,20}(?:[0-9]{1,6}[^A-Za-z0-9+/=]{1,8})?(?P<body>[A-Za-z0-9+/=]+)(?:\\+[nr])*[^A-Za-z0-9+/=]{0,8}"
)
"""Also with quotes around it, or the number of the line before it."""
_KEY_LINE_BYTES = 16
"""Minimum length of the lines of a key except the last one."""


class _Key(Enum):
    NONE = auto()
    BEGUN = auto()
    BODY = auto()


class StreamRedactor:
    """One stream of bytes, redacted. `count` is how many secrets were removed so far."""

    def __init__(self, scanner: Scanner) -> None:
        self.count = 0
        self._scanner = scanner
        self._pieces: list[bytes] = []
        self._held = 0
        self._withholding = False
        self._key = _Key.NONE

    def feed(self, data: bytes) -> bytes:
        """Take the next piece and return what is certain by now."""
        if not self._scanner.is_active:
            return data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        done: list[bytes] = []
        if end:
            done.append(self._redact_lines(self._release() + data[:end]))
        self._hold(data[end:], done)
        return b"".join(done)

    def end(self) -> bytes:
        """Return what was held back."""
        return self._end_line() if self._held else b""

    def _redact_lines(self, data: bytes) -> bytes:
        if not self._withholding and self._key is _Key.NONE and KEY_SIGN not in data:
            if self._scanner.leaves_alone(data):
                return data
            if len(data) < LONGEST or max(map(len, _LINE_END.split(data))) < LONGEST:
                return self._redact(data)
        done: list[bytes] = []
        parts = _LINE_END.split(data)
        for line, end in zip(parts[::2], parts[1::2], strict=False):
            self._hold(line, done)
            done += (self._end_line(), end)
        return b"".join(done)

    def _redact(self, data: bytes) -> bytes:
        redacted, count = self._scanner.redact(data)
        self.count += count
        return redacted

    def _hold(self, data: bytes, done: list[bytes]) -> None:
        """Add to the current line; a window's worth of it is redacted at once."""
        if self._withholding or not data:
            return
        self._pieces.append(data)
        self._held += len(data)
        if self._held < LONGEST:
            return
        line = self._release()
        while len(line) >= LONGEST:
            window = line[:LONGEST]
            cut = self._find_cut(window)
            if not cut:
                done += (self._redact(window), WITHHELD)
                self.count += 1
                self._withholding = True
                self._note_key(window)
                return
            done.append(self._redact(window[:cut]))
            line = line[cut:]
        self._pieces, self._held = [line], len(line)

    def _find_cut(self, window: bytes) -> int:
        """Return where a window can be cut so that redacting its parts is redacting the whole; 0 where it cannot."""
        if self._scanner.leaves_alone(window):
            return LONGEST - OVERLAP
        whole = self._scanner.redact(window).data
        for cut in range(LONGEST - OVERLAP, 0, -_STEP):
            first = self._scanner.redact(window[:cut]).data
            if whole.startswith(first) and first + self._scanner.redact(window[cut:]).data == whole:
                return cut
        return 0

    def _release(self) -> bytes:
        line = b"".join(self._pieces)
        self._pieces, self._held = [], 0
        return line

    def _end_line(self) -> bytes:
        """Return the rest of the current line, redacted, without its end."""
        line, was_withheld = self._release(), self._withholding
        self._withholding = False
        if was_withheld:
            return b""
        if self._key is not _Key.NONE and (redacted := self._redact_key_line(line)) is not None:
            return redacted
        self._note_key(line)
        return self._redact(line) if line else line

    def _note_key(self, line: bytes) -> None:
        if not self._scanner.has_rules or KEY_SIGN not in line:
            return
        last = line.rfind(b"-----BEGIN")
        if last > line.rfind(b"-----END") and _KEY_BEGINS.match(line, last):
            self._key = _Key.BEGUN

    def _redact_key_line(self, line: bytes) -> bytes | None:
        """Return a line of a private key without its base64; None when it is no such line."""
        if self._key is _Key.BEGUN and _KEY_HEADER.fullmatch(line):
            return self._redact(line)
        found = _KEY_BODY.fullmatch(line)
        if found is None or (self._key is _Key.BEGUN and len(found["body"]) < _KEY_LINE_BYTES):
            self._key = _Key.NONE if line.strip() else self._key
            return None
        self.count += self._key is _Key.BEGUN
        self._key = _Key.BODY if len(found["body"]) >= _KEY_LINE_BYTES else _Key.NONE
        return line[: found.start("body")] + KEY_MARK + line[found.end("body") :]
