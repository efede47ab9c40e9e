"""Remove secrets from the output of programs while it arrives, in pieces of any size.

Redaction works line by line: no rule sees beyond the end of a line, so the result depends on the text alone and never
on how it was cut into pieces. A carriage return ends a line too: progress is passed on frame by frame. A line is held
back until it is whole. One of unusual length is redacted in windows that overlap; a window ends only where no secret is
cut, and where there is no such place, the rest of the line is withheld. So memory is bounded, and any
secret of up to `OVERLAP_BYTES` bytes is found wherever it stands.

Private keys in PEM (RFC 7468) and PGP armor are the one secret of several lines. Their base64 is replaced line by line,
so that the lines of the output keep their numbers; the lines around it stay, because they are also found in source.
"""

import re

from paddock.redaction.keys import KEY_SIGN, KeyLines
from paddock.redaction.scanner import KEY_MARK, Scanner, Slices, finish

MAX_LINE_BYTES = 64 * 1024
"""Bytes of a line that are redacted together."""
OVERLAP_BYTES = 16 * 1024
"""Bytes at the end of a window that the next one sees again; no shorter secret is missed."""

WITHHELD_MARK = b"[REDACTED:rest of line]"

_LINE_END = re.compile(rb"([\n\r])")


class StreamRedactor:
    """One stream of bytes, redacted. `count` is how many secrets were removed so far."""

    def __init__(self, scanner: Scanner) -> None:
        self.count = 0
        self._scanner = scanner
        self._pieces: list[bytes] = []
        self._pending = 0
        self._withholding = False
        self._keys = KeyLines()

    def feed(self, data: bytes) -> bytes:
        """Take the next piece and return what is certain by now."""
        return finish(self.feed_in_slices(data))

    def end(self) -> bytes:
        """Return what was held back."""
        return finish(self.end_in_slices())

    def feed_in_slices(self, data: bytes) -> Slices[bytes]:
        """Take the next piece and return what is certain by now."""
        if not self._scanner.is_active:
            return data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        done: list[bytes] = []
        if end:
            done.append((yield from self._redact_lines(self._release_lines() + data[:end])))
        yield from self._hold_bytes(data[end:], done)
        return b"".join(done)

    def end_in_slices(self) -> Slices[bytes]:
        """Return what was held back."""
        return (yield from self._end_line()) if self._pending else b""

    def _redact_lines(self, data: bytes) -> Slices[bytes]:
        if not self._withholding and not self._keys.is_within and KEY_SIGN not in data:
            if self._scanner.leaves_alone(data):
                return data
            if len(data) < MAX_LINE_BYTES or max(map(len, _LINE_END.split(data))) < MAX_LINE_BYTES:
                return (yield from self._redact(data))
        done: list[bytes] = []
        parts = _LINE_END.split(data)
        for line, end in zip(parts[::2], parts[1::2], strict=False):
            yield from self._hold_bytes(line, done)
            done += ((yield from self._end_line()), end)
            yield
        return b"".join(done)

    def _redact(self, data: bytes) -> Slices[bytes]:
        redacted, count = yield from self._scanner.redact_in_slices(data)
        self.count += count
        return redacted

    def _hold_bytes(self, data: bytes, done: list[bytes]) -> Slices[None]:
        """Add to the current line; a window's worth of it is redacted at once."""
        if self._withholding or not data:
            return
        self._pieces.append(data)
        self._pending += len(data)
        if self._pending < MAX_LINE_BYTES:
            return
        line = self._release_lines()
        while len(line) >= MAX_LINE_BYTES:
            window, after = line[:MAX_LINE_BYTES], line[MAX_LINE_BYTES:]
            head = yield from self._scanner.redact_head(window, MAX_LINE_BYTES - OVERLAP_BYTES)
            if head is None:
                done += ((yield from self._redact(window)), WITHHELD_MARK)
                self.count += 1
                self._withholding = True
                self._keys.note(window)
                return
            self.count += head.removals
            done.append(head.data)
            line = head.rest + after
        self._pieces, self._pending = [line], len(line)

    def _release_lines(self) -> bytes:
        line = b"".join(self._pieces)
        self._pieces, self._pending = [], 0
        return line

    def _end_line(self) -> Slices[bytes]:
        """Return the rest of the current line, redacted, without its end."""
        line, was_withheld = self._release_lines(), self._withholding
        self._withholding = False
        if was_withheld:
            return b""
        if not self._scanner.has_rules:
            return (yield from self._redact(line)) if line else line
        found = self._keys.find(line) if self._keys.is_within else None
        if found is None:
            self._keys.note(line)
        else:
            line = line[: found.start] + KEY_MARK + line[found.end :]
            self.count += found.is_first
        return (yield from self._redact(line)) if line else line
