r"""Cut, search and summarise lines of output for people and models. Pure, and bounded for any input.

A line ends only at `\\n`; a text that ends with `\\n` has no empty line after it. Only lines that may be shown are
processed one by one. Of millions of others, only those that contain a term are found.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from paddock.model.artifact import Excerpt, Stream
from paddock.model.program import CapturedStream
from paddock.record.output.redraw import last_frames, later_frames

LINE_CHARS = 500
"""Maximum characters of a line that are shown."""
CUT_MARK = "[truncated]"

_SEARCH_CHARS = 64 * 1024
"""Length of the part of a line that is searched at a time, in characters."""
_CONTEXT_CHARS = 100
"""Characters shown before a match that is not in the beginning of its line."""


def clip_line(line: str) -> str:
    """Return a line as it is shown: cut after 500 characters, with `[truncated]`."""
    return line if len(line) <= LINE_CHARS else line[:LINE_CHARS] + CUT_MARK


def is_cut(shown: str) -> bool:
    """Return whether a shown line is cut."""
    return len(shown) > LINE_CHARS or (
        shown.startswith(CUT_MARK) and len(shown) > len(CUT_MARK) + _CONTEXT_CHARS
    )


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, without their ends."""
    return text.removesuffix("\n").split("\n") if text else []


def holding(text: str, terms: Sequence[str]) -> list[int]:
    """Return the numbers of the lines, from 0, that contain one of some terms, ignoring case."""
    lower = text.lower()
    wanted = [term for term in map(str.lower, terms) if term in lower]
    if not wanted:
        return []
    lines = lower.split("\n")
    return sorted({number for term in wanted for number, line in enumerate(lines) if term in line})


def blocks(texts: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield a text, given in chunks, in other chunks, each with whether it consists of complete lines."""
    begun = False
    for text in texts:
        end = text.rfind("\n") + 1
        start = text.find("\n") + 1 if begun else 0
        for piece, whole in ((text[:start], False), (text[start:end], True), (text[end:], False)):
            if piece:
                yield piece, whole
                begun = not piece.endswith("\n")


class LineSplitter:
    """Splits a text, given in chunks, into clipped lines, and finds those that contain a term.

    Searches the whole line, of any length, ignoring case. If the first 500 characters do not show the term, the 500
    around it are shown instead.
    """

    def __init__(self, terms: Sequence[str]) -> None:
        self._terms = [term.lower() for term in terms]
        self._overlap = max((len(term) for term in self._terms), default=0) + _CONTEXT_CHARS
        self._begin_line()

    def _begin_line(self) -> None:
        self._shown = ""
        self._pending: list[str] = []
        self._size = 0
        self._length = 0
        self._hit = False
        self._around: _Window | None = None
        self._open = False

    @property
    def kept_chars(self) -> int:
        """Number of characters in memory of the line that has not ended."""
        return sum(map(len, self._pending)) + len(self._shown)

    def feed(self, text: str) -> Iterator[tuple[str, bool]]:
        """Yield each line that is now complete, and whether it contains a term."""
        *whole, rest = text.split("\n")
        for part in whole:
            if self._open or len(part) > LINE_CHARS:
                self._hold_part(part)
                yield self._close_line()
            else:
                yield part, self._holds(part)
        if rest:
            self._hold_part(rest)

    def end(self) -> Iterator[tuple[str, bool]]:
        """Yield the last line, if it has no end."""
        if self._open:
            yield self._close_line()

    def _hold_part(self, part: str) -> None:
        self._open = True
        if len(self._shown) <= LINE_CHARS:
            self._shown += part[: LINE_CHARS + 1]
        self._pending.append(part)
        self._size += len(part)
        self._length += len(part)
        if self._size >= _SEARCH_CHARS:
            self._search_part()

    def _search_part(self) -> None:
        text = "".join(self._pending)
        if self._terms and not self._hit:
            self._find_term(text)
        text = text[-self._overlap :]
        self._pending, self._size = [text], len(text)

    def _holds(self, line: str) -> bool:
        if not self._terms:
            return False
        lower = line.lower()
        return any(term in lower for term in self._terms)

    def _find_term(self, text: str) -> None:
        """Search the last part of the line received so far for the first term."""
        lower = text.lower()
        found = [(place, len(term)) for term in self._terms if (place := lower.find(term)) >= 0]
        if not found:
            return
        self._hit = True
        place, size = min(found)
        before = self._length - len(text)
        if before + place + size > LINE_CHARS:
            start = max(0, place - _CONTEXT_CHARS)
            self._around = _Window(text[start : start + LINE_CHARS], before + start)

    def _close_line(self) -> tuple[str, bool]:
        self._search_part()
        shown = clip_line(self._shown) if self._around is None else self._around.of(self._length)
        found = shown, self._hit
        self._begin_line()
        return found


@dataclass(frozen=True, slots=True)
class _Window:
    """A part of a line."""

    text: str
    start: int

    def of(self, length: int) -> str:
        """Return the part with marks where a line of so many characters is cut."""
        goes_on = self.start + len(self.text) < length
        return CUT_MARK * (self.start > 0) + self.text + CUT_MARK * goes_on


class ExcerptCollector:
    """Collects excerpts around the matching lines of one stream.

    A window is a match with `context` lines before and after it. The next one begins with the first match after its
    end; the lines before that match may have been shown already.
    """

    def __init__(self, source: Stream, *, context: int, limit: int) -> None:
        self.excerpts: list[Excerpt] = []
        self.matches = 0
        """Number of matching lines, shown or not."""
        self.more = False
        """Whether a match is outside of all excerpts."""
        self._source: Stream = source
        self._context = context
        self._limit = limit
        self._before: deque[str] = deque(maxlen=context)
        self._window: list[str] = []
        self._ends = 0

    def feed(self, number: int, line: str, *, hit: bool) -> None:
        """Take the next line; `number` counts from 1."""
        self.matches += hit
        if self._window:
            self._window.append(line)
        elif hit and len(self.excerpts) < self._limit:
            self._window = [*self._before, line]
            self._ends = number + self._context
        elif hit:
            self.more = True
        self._before.append(line)
        if self._window and number == self._ends:
            self.end(number)

    @property
    def is_open(self) -> bool:
        """Whether the next line belongs to an excerpt."""
        return bool(self._window)

    def passes_over(self, block: str, matches: int) -> bool:
        """Skip a block of complete lines with so many matches, unless an excerpt needs it; return whether skipped."""
        if self.is_open or (matches and len(self.excerpts) < self._limit):
            return False
        self.matches += matches
        self.more = self.more or bool(matches)
        if self._context and not matches:  # after a match beyond the limit there is no further window
            before = block[:-1].rsplit("\n", self._context)[-self._context :]
            self._before.extend(map(clip_line, before))
        return True

    def end(self, number: int) -> None:
        """Close an open window; `number` is that of the last line."""
        if self._window:
            self.excerpts.append(excerpt(self._source, number - len(self._window) + 1, self._window))
            self._window = []


def excerpt(source: Stream, start: int, lines: Sequence[str]) -> Excerpt:
    """Return lines from number `start` on as an excerpt."""
    return Excerpt(line_start=start, line_end=start + len(lines) - 1, content="\n".join(lines), source=source)


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """A summary of one stream: lines from its start, lines from its end, and excerpts.

    The lines in between are counted, so that every line has its true number. A line that is cut at the end of the known
    head has a mark; the rest of a line that began before the known tail is left out. Output that redraws itself is
    shown and numbered as a terminal finally shows it (`paddock.record.output.redraw`).
    """

    first: tuple[str, ...]
    last: tuple[str, ...]
    """Up to the last line; may overlap with `first`."""
    total: int
    """Number of lines."""
    excerpts: tuple[Excerpt, ...]

    def lines(self) -> list[str]:
        """Return the lines from both ends without duplicates."""
        start = self.total - len(self.last)
        return [*self.first, *self.last[max(0, len(self.first) - start) :]]

    def summary(self, max_lines: int) -> str:
        """Return all lines, or `max_lines` in all from both ends with the number of omitted lines.

        `max_lines` must not exceed the `keep` of `gist`.
        """
        if len(self.first) == self.total <= max_lines:
            return "\n".join(self.first)
        tail = max_lines - max_lines // 2
        first, last = self.first[: max_lines // 2], self.last[-tail:]
        omitted = self.total - len(first) - len(last)
        marker = [f"\n... ({omitted} lines omitted) ...\n"] if omitted > 0 else []
        return "\n".join([*first, *marker, *last])


def gist(
    captured: CapturedStream,
    source: Stream,
    *,
    keep: int,
    terms: Sequence[str] = (),
    context: int = 0,
    limit: int = 0,
) -> StreamSummary:
    """Return the summary of a stream, with `keep` lines from each end and up to `limit` excerpts around terms."""
    cut = captured.truncated
    head, tail = (captured.head, captured.tail) if cut else (captured.head + captured.tail, "")
    # The rest of a line that began in the omitted part is not a line, but its later frames may be complete.
    begun, line_end, rest = tail.partition("\n")
    frames = later_frames(begun)
    rest = _redraw_text(rest if frames is None else frames + line_end + rest, terms)
    head = _redraw_text(head, terms)
    total = head.count("\n") + captured.omitted_line_ends + (line_end if frames is None else "").count("\n")
    total += rest.count("\n") + ((cut or head != "") and not (tail or head).endswith("\n"))
    first: list[str] = []
    excerpts: list[Excerpt] = []

    def read(text: str, number: int, *, partial: int = 0) -> list[str]:
        """Take the lines from `number` + 1 on, and return the last ones; line `partial` is incomplete."""
        lines = lines_of(text)

        def cut_lines(start: int, end: int) -> list[str]:
            found = [_around(line, terms) for line in lines[start:end]]
            if found and partial == number + start + len(found):  # the last line is incomplete
                found[-1] = found[-1].removesuffix(CUT_MARK) + CUT_MARK
            return found

        if number <= len(first):
            first.extend(cut_lines(len(first) - number, keep - number))
        end = 0
        for hit in holding(text, terms) if limit else ():
            if hit >= end and len(excerpts) < limit:
                start, end = max(0, hit - context), min(len(lines), hit + context + 1)
                excerpts.append(excerpt(source, number + start + 1, cut_lines(start, end)))
        return cut_lines(max(0, len(lines) - keep), len(lines))

    last = read(head, 0, partial=head.count("\n") + 1 if cut else 0)
    if cut:
        number = total - len(lines_of(rest))
        del first[number:]
        last = read(rest, number)
    return StreamSummary(tuple(first), tuple(last), total, tuple(excerpts))


def _redraw_text(text: str, terms: Sequence[str]) -> str:
    moves = any(sign in text for sign in "\r\b\x1b")
    return "".join(last_frames([text], terms)) if moves else text


def _around(line: str, terms: Sequence[str]) -> str:
    """Return a line as `LineSplitter` shows it."""
    if len(line) <= LINE_CHARS:
        return line
    [(shown, _)] = LineSplitter(terms).feed(f"{line}\n")
    return shown
