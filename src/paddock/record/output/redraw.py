r"""Reduce output that redraws itself, such as progress, to what a terminal finally shows. Pure and bounded.

    \r  \x1b[G  \x1b[1G          cursor to the first column: the next frame of a line begins
    \x1b[K  \x1b[1K  \x1b[2K     erase the line, or a part of it
    \x1b[nA  \x1b[nF             cursor up: the next frame of several lines begins
    \x1b[nB  \x1b[nE             cursor down
    \x1b[J                       erase everything below
    \b                           cursor left: what is written next replaces as many characters at the end

A frame replaces its whole line: columns are not counted, so that nothing of a longer earlier frame remains. A frame
that shows nothing is ignored. Text that continues in another line, without a return to the first column, is added to
that line. Backspaces to the beginning of a frame end it. Fewer of them cut its end off, and it loses its colours.

Only the last SCREEN_ROWS rows can be redrawn, as on a terminal of that height. No more rows are held back, whatever the
size of the output. The result does not depend on how the output is split into chunks.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from paddock.model.late_pattern import compile_late

SCREEN_ROWS = 100
"""Rows of the terminal. What scrolls off its top can no longer be redrawn."""
FRAME_CHARS = 64 * 1024
"""Maximum length of a frame, in characters. A longer one is passed on unchanged, with the rest of its line."""

_STEP_PATTERN = compile_late(r"[\n\r]|\x08+|\x1b\[(\d{0,3})([ABEFGJK])")
_MOVE_PATTERN = compile_late(r"\x1b\[\d{0,3}[ABEFGJK]")
_NEXT_FRAME = compile_late(r"\r|\x1b\[(?:[01]?G|[12]K|\d{0,3}[ABEF])")
_REST_ERASED = compile_late(r"\x1b\[0?[JK]")
_CUT_OFF = compile_late(r"(?:\r|\x1b(?:\[[0-9;:?]{0,30})?)\Z")
"""The end of a chunk that may be the beginning of a line end or a control sequence."""
_CUT_OFF_CHARS = 32
_SHOWS_NOTHING = compile_late(r"(?:\s|\x1b\[[0-9;:?]{0,30}[A-Za-z])*+")
_SEQUENCE_PATTERN = compile_late(r"\x1b\[[0-9;:?]{0,30}[A-Za-z]")
_COLOURS_PATTERN = compile_late(r"(?:\x1b\[[0-9;:?]{0,30}[A-Za-z])*+")
"""Control sequences that do not move the cursor, such as colours."""


def last_frame(line: str, terms: Sequence[str] = ()) -> str:
    """Return the last frame of a line that shows anything.

    If any frame holds one of `terms`, in either case, return the last of these.
    """
    if "\b" in line:
        return "".join(last_frames([line], terms))
    if "\x1b" in line:
        line = _REST_ERASED.sub("", _NEXT_FRAME.sub("\r", line))
    if "\r" not in line:
        return line
    frames = line.split("\r")
    if terms:
        frames = [frame for frame in frames if _holds_term(frame, terms)] or frames
    return next((frame for frame in reversed(frames) if not _SHOWS_NOTHING.fullmatch(frame)), "")


def find_unfinished_frame(line: str) -> str:
    """Return the last frame of a line that has not ended, which further output continues."""
    return _NEXT_FRAME.sub("\r", line).rpartition("\r")[2]


def later_frames(line: str) -> str | None:
    """Return the frames of a line after the first one, None if there are none."""
    found = _NEXT_FRAME.search(line)
    return None if found is None else line[found.end() :]


def last_frames(texts: Iterable[str], terms: Sequence[str] = ()) -> Iterator[str]:
    """Yield a text, given in chunks, with each row reduced to its last frame (`last_frame`)."""
    screen = _Screen(terms)
    for text in texts:
        if shown := screen.feed(text):
            yield shown
    yield screen.end()


class _ScreenRow:
    """One row of the screen: its last frame that shows anything, and the frame that is being written."""

    __slots__ = ("_is_plain", "_kept", "_parts", "_shows", "_stays", "is_erased", "left", "size")

    def __init__(self, text: str = "") -> None:
        self._kept: str | None = None
        self._parts: list[tuple[str, int]] = []
        """Texts of the frame, and how many characters of each are left: to cut off some copies none."""
        self._shows = False
        self._stays = True
        self.size = 0
        """Length of the frame that is being written, in characters."""
        self.is_erased = False
        """Whether nothing was written since the row was erased."""
        self.left = 0
        """Columns from the end of the frame to the cursor."""
        self._is_plain = False
        """Whether the frame has a character in each column, without colours between them."""
        if text:
            self.write(text)

    def write(self, text: str) -> None:
        """Continue the frame at its end."""
        if self._is_plain:
            text = _SEQUENCE_PATTERN.sub("", text)
        self._parts.append((text, len(text)))
        self.size += len(text)
        self._stays = self._stays and _COLOURS_PATTERN.fullmatch(text) is not None
        self._shows = self._shows or not (self._stays or _SHOWS_NOTHING.fullmatch(text))
        self.is_erased = self.is_erased and not self._shows

    def begin_frame(self, terms: Sequence[str]) -> None:
        """Begin the next frame, unless the frame is still at its beginning."""
        if self._stays:
            self._kept = self._kept or ""
            return
        self._kept = self.render_row(terms)
        self._parts, self.size, self._shows, self._stays = [], 0, False, True
        self.left, self._is_plain = 0, False

    def cut_off_left(self, terms: Sequence[str]) -> None:
        """Remove what the next text replaces: what is right of the cursor. At the beginning the next frame begins."""
        if not self._is_plain:
            text = _SEQUENCE_PATTERN.sub("", self.frame)
            self._parts, self.size, self._is_plain = [(text, len(text))], len(text), True
        left, self.left = self.left, 0
        if left >= self.size:
            self.begin_frame(terms)
            return
        self.size -= left
        while left:
            text, length = self._parts.pop()
            if length > left:
                self._parts.append((text, length - left))
            left = max(0, left - length)

    @property
    def frame(self) -> str:
        """The frame that is being written."""
        return "".join(text[:length] for text, length in self._parts)

    def render_row(self, terms: Sequence[str]) -> str:
        """Return what the row shows."""
        return last_frame(self.frame if self._kept is None else f"{self._kept}\r{self.frame}", terms)


class _Screen:
    """The rows that can still be redrawn, and the cursor."""

    def __init__(self, terms: Sequence[str]) -> None:
        self._terms = terms
        self._rows = [_ScreenRow()]
        self._at = 0
        self._is_in_first_column = True
        self._passes = False
        """Whether the rest of the current line is passed on unchanged."""
        self._cut_off = ""

    def feed(self, text: str) -> str:
        """Take the next chunk; return the rows that can no longer be redrawn."""
        text = self._cut_off + text
        cut_off = _CUT_OFF.search(text, max(0, len(text) - _CUT_OFF_CHARS))
        self._cut_off = cut_off[0] if cut_off else ""
        text = text[: len(text) - len(self._cut_off)].replace("\r\n", "\n")
        done: list[str] = []
        if not self._takes_at_once(text, done):
            start = 0
            for step in _STEP_PATTERN.finditer(text):
                self._write(text[start : step.start()], done)
                self._take(step, done)
                start = step.end()
            self._write(text[start:], done)
        return "".join(done)

    def end(self) -> str:
        """Return the remaining rows, without empty ones below the cursor."""
        done: list[str] = []
        self._write(self._cut_off, done)
        rows = [row.render_row(self._terms) for row in self._rows]
        while len(rows) > self._at + 1 and not rows[-1]:
            rows.pop()
        return "".join((*done, "\n".join(rows)))

    def _takes_at_once(self, text: str, done: list[str]) -> bool:
        """Take lines that do not move the cursor; return False if that is not possible."""
        if self._passes or self._at + 1 < len(self._rows):
            return False
        if "\r" in text or "\b" in text or ("\x1b" in text and _MOVE_PATTERN.search(text) is not None):
            return False
        begun, *rows = text.rsplit("\n", SCREEN_ROWS)
        first, line_end, further = begun.partition("\n")
        if max(self._rows[-1].size + len(first), *map(len, rows), 0) > FRAME_CHARS:
            return False
        self._write(first, done)
        if line_end:  # all rows that can still be redrawn are in `rows`
            done += [f"{row.render_row(self._terms)}\n" for row in self._rows]
            done.append(f"{further}\n")
            self._rows = []
        self._rows += map(_ScreenRow, rows)
        self._at = len(self._rows) - 1
        self._scroll_rows(done)
        if rows:
            self._is_in_first_column = _COLOURS_PATTERN.fullmatch(rows[-1]) is not None
        return True

    def _write(self, text: str, done: list[str]) -> None:
        if self._passes:
            done.append(text)
        elif text:
            row = self._rows[self._at]
            if row.left:
                row.cut_off_left(self._terms)
            row.write(text)
            self._is_in_first_column = (
                self._is_in_first_column and _COLOURS_PATTERN.fullmatch(text) is not None
            )
            if row.size > FRAME_CHARS:
                done += [f"{other.render_row(self._terms)}\n" for other in self._rows if other is not row]
                done.append(row.frame)
                self._rows, self._at, self._passes = [_ScreenRow()], 0, True

    def _take(self, step: re.Match[str], done: list[str]) -> None:
        """Carry out a cursor movement or an erasure."""
        if self._passes:
            done.append(step[0])
            if step[0] == "\n":
                self._passes, self._is_in_first_column = False, True
            return
        if step[0][0] == "\b":
            self._rows[self._at].left += len(step[0])
            return
        count = int(step[1] or 0)
        match step[2] or step[0]:
            case "\n":
                self._is_in_first_column = True
                self._move_cursor(1)
                self._scroll_rows(done)
            case "\r" | "G" if count <= 1:
                self._is_in_first_column = True
                self._rows[self._at].begin_frame(self._terms)
            case "A" | "F" as way:
                self._is_in_first_column = self._is_in_first_column or way == "F"
                self._move_cursor(-min(max(1, count), self._at))
            case "B" | "E" as way:
                self._is_in_first_column = self._is_in_first_column or way == "E"
                self._move_cursor(min(max(1, count), SCREEN_ROWS - 1 - self._at))
            case "K" | "J" as what if what == "K" or not count:
                self._erase_row(below=what == "J", before=bool(count))
            case _:
                self._write(step[0], done)

    def _move_cursor(self, by: int) -> None:
        """Move the cursor by so many rows. An erased row that it leaves for an existing one shows nothing."""
        left = self._rows[self._at]
        left.left = 0
        if left.is_erased and self._at + by < len(self._rows):
            shown = left.render_row(self._terms)
            self._rows[self._at] = _ScreenRow(shown if _holds_term(shown, self._terms) else "")
        self._at += by
        if self._at >= len(self._rows):
            self._rows += [_ScreenRow() for _ in range(self._at + 1 - len(self._rows))]
        elif self._is_in_first_column:
            self._rows[self._at].begin_frame(self._terms)

    def _erase_row(self, *, below: bool, before: bool) -> None:
        """Erase the row, unless only the empty part after the cursor is to be erased."""
        if below:
            del self._rows[self._at + 1 :]
        if before or self._is_in_first_column:
            row = self._rows[self._at]
            row.begin_frame(self._terms)
            row.is_erased = True

    def _scroll_rows(self, done: list[str]) -> None:
        """Pass on the rows above the screen."""
        above = max(0, len(self._rows) - SCREEN_ROWS)
        done += [f"{row.render_row(self._terms)}\n" for row in self._rows[:above]]
        del self._rows[:above]
        self._at -= above


def _holds_term(text: str, terms: Sequence[str]) -> bool:
    lower = text.lower()
    return any(term.lower() in lower for term in terms)
