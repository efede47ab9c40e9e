"""Keep the head and the tail of a stream of any length in memory, and decode a stream that comes in pieces."""

import codecs
from collections import deque
from collections.abc import Callable

from paddock.model.program import CapturedStream


class HeadAndTail:
    """Receives a stream in pieces and keeps `kept` bytes of it: half from its head, half from its tail."""

    def __init__(self, kept: int) -> None:
        self._head_room = kept - kept // 2
        self._tail_room = kept // 2
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._line_ends = 0
        self.total = 0
        """Bytes received so far."""

    def take(self, data: bytes) -> None:
        """Add the next piece."""
        self.total += len(data)
        self._line_ends += data.count(b"\n")
        if self._head_room:
            part, data = data[: self._head_room], data[self._head_room :]
            self._head_room -= len(part)
            self._head.append(part)
        if data and self._tail_room:
            data = data[-self._tail_room :]
            self._tail.append(data)
            self._tail_bytes += len(data)
            while self._tail_bytes - len(self._tail[0]) >= self._tail_room:
                self._tail_bytes -= len(self._tail.popleft())

    def make_captured(self, written: int | None = None) -> CapturedStream:
        """Return the kept bytes as text, without cut characters (UTF-8, RFC 3629).

        `written` is the size to report, by default the number of received bytes.
        """
        total = self.total if written is None else written
        head = b"".join(self._head)
        tail = b"".join(self._tail)[-self._tail_room :] if self._tail_room else b""
        if self.total == len(head) + len(tail):
            return CapturedStream(head=(head + tail).decode("utf-8", "replace"), total_bytes=total)
        head, tail = head[: _whole_characters(head)], tail[_first_character(tail) :]
        return CapturedStream(
            head=head.decode("utf-8", "replace"),
            tail=tail.decode("utf-8", "replace"),
            total_bytes=total,
            omitted_bytes=self.total - len(head) - len(tail),
            omitted_line_ends=self._line_ends - head.count(b"\n") - tail.count(b"\n"),
        )


def _whole_characters(data: bytes) -> int:
    """Return the length of `data` without a cut character at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:  # ASCII
            return len(data)
        if byte >= 0xC0:  # the first byte of a longer character
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) if back >= length else len(data) - back
    return len(data)


def _first_character(data: bytes) -> int:
    """Return the start of the first whole character of `data`."""
    for index, byte in enumerate(data[:3]):
        if byte & 0xC0 != 0x80:  # not a continuation
            return index
    return min(3, len(data))


def decode_stream(sink: Callable[[str], None]) -> Callable[[bytes], None]:
    """Return a sink of bytes that passes text to `sink`; a chunk may end within a character (UTF-8, RFC 3629)."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def take(data: bytes) -> None:
        if text := decoder.decode(data):
            sink(text)

    return take
