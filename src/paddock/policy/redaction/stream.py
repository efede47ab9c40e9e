"""Remove secrets from the output of programs while it arrives, in chunks of any size.

Redaction works line by line: a rule matches only within a line, so that the result depends only on the text, not on how
it is split into chunks. A carriage return also ends a line, so that progress is passed on frame by frame. A line is
held back until it is complete. A very long line is redacted in overlapping windows. A window never ends within a
secret; if that is not possible, the rest of the line is withheld. Therefore memory is bounded, and every secret of up
to `OVERLAP_BYTES` bytes is found at any position.

Private keys in PEM (RFC 7468) and PGP armor are the only secrets with several lines. Their base64 is replaced line by
line, so that the lines of the output keep their numbers. The lines around it stay, because source contains them, too.
"""

import re

from paddock.policy.redaction.private_keys import KEY_SIGN, KeyLines
from paddock.policy.redaction.scanner import KEY_MARK, Scanner, Slices, finish

MAX_LINE_BYTES = 64 * 1024
"""Size of a window, in bytes."""
OVERLAP_BYTES = 16 * 1024
"""Overlap of two windows, in bytes; no secret up to this size is missed."""

WITHHELD_MARK = b"[REDACTED:rest of line]"

_LINE_END = re.compile(rb"([\n\r])")


class StreamRedactor:
    """Redacts one stream of bytes. `count` is the number of secrets removed so far."""

    def __init__(self, scanner: Scanner) -> None:
        self.count = 0
        self._scanner = scanner
        self._pieces: list[bytes] = []
        self._pending = 0
        self._withholding = False
        self._keys = KeyLines()

    def feed(self, data: bytes) -> bytes:
        """Take the next chunk, and return the redacted bytes that are final."""
        return finish(self.feed_in_slices(data))

    def end(self) -> bytes:
        """Return the redacted bytes that were held back."""
        return finish(self.end_in_slices())

    def feed_in_slices(self, data: bytes) -> Slices[bytes]:
        """Take the next chunk, and return the redacted bytes that are final."""
        if not self._scanner.is_active:
            return data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        done: list[bytes] = []
        if end:
            done.append((yield from self._redact_lines(self._take_pending() + data[:end])))
        yield from self._hold_bytes(data[end:], done)
        return b"".join(done)

    def end_in_slices(self) -> Slices[bytes]:
        """Return the redacted bytes that were held back."""
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
        """Add to the current line. If it fills a window, put its redacted beginning into `done` and keep the rest."""
        if self._withholding or not data:
            return
        self._pieces.append(data)
        self._pending += len(data)
        if self._pending < MAX_LINE_BYTES:
            return
        line = self._take_pending()
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

    def _take_pending(self) -> bytes:
        """Return the bytes of the current line that are not redacted yet, and forget them."""
        line = b"".join(self._pieces)
        self._pieces, self._pending = [], 0
        return line

    def _end_line(self) -> Slices[bytes]:
        """Return the rest of the current line, redacted, without its line end."""
        line, was_withheld = self._take_pending(), self._withholding
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
