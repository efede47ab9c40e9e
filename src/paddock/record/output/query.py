"""Read stored output by terms, lines or bytes. It is decompressed while it is read, so that memory is bounded.

Stored data is not trusted: data that exceeds the limit when decompressed, is damaged, or does not match its manifest
raises ArtifactError.
"""

import codecs
import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from paddock.model.artifact import STREAMS, Cursor, Excerpt, MatchStatus, OutputFound, OutputQuery, Stream
from paddock.model.errors import ArtifactError, ArtifactTooLarge
from paddock.record.output.artifacts import Artifacts, StoredArtifact
from paddock.record.output.redraw import last_frames
from paddock.record.output.text import (
    CUT_MARK,
    LINE_CHARS,
    ExcerptCollector,
    LineSplitter,
    blocks,
    excerpt,
    holding,
    is_cut,
)

MAX_LINES = 1000
"""Maximum lines that one answer returns by number."""
MAX_LINE_CHARS = 20_000
"""Maximum characters of one line that one answer returns."""

_GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS
_PIECE_BYTES = 256 * 1024


class OpenArtifact:
    """One artifact, opened for reading."""

    def __init__(self, artifacts: Artifacts, handle: str, workspace: Path | None) -> None:
        self.found: StoredArtifact = artifacts.find(handle, workspace)
        self._artifacts = artifacts
        self._left = artifacts.settings.max_read_bytes

    def pieces(self, stream: Stream) -> Iterator[bytes]:
        """Yield the bytes of a stream in chunks of at most 256 KiB. Raises ArtifactError."""
        digest = hashlib.sha256()
        unpacker = zlib.decompressobj(_GZIP_WINDOW_BITS)
        for packed in self._artifacts.read_packed(self.found.handle, stream):
            rest = packed
            while not unpacker.eof:
                try:
                    piece = unpacker.decompress(rest, _PIECE_BYTES)
                except zlib.error as error:
                    raise self._explain_damage(stream, str(error)) from None
                rest = unpacker.unconsumed_tail
                if not piece and not rest:
                    break
                self._left -= len(piece)
                if self._left < 0:
                    limit = self._artifacts.settings.max_read_bytes
                    raise ArtifactTooLarge(
                        f"The artifact {self.found.handle} decompresses to more than artifacts.max_read_bytes = {limit}"
                    )
                digest.update(piece)
                yield piece
        if not unpacker.eof:
            raise self._explain_damage(stream, "it ends too early")
        manifest = self.found.manifest
        if manifest and digest.hexdigest() != getattr(manifest, f"{stream}_sha256"):
            raise self._explain_damage(stream, "its SHA-256 is not that of the manifest")

    def _explain_damage(self, stream: Stream, why: str) -> ArtifactError:
        return ArtifactError(f"The {stream} of the artifact {self.found.handle} is damaged: {why}")


def read_bytes(reading: OpenArtifact, stream: Stream, start: int, length: int) -> bytes:
    """Return up to `length` bytes of a stream from byte `start` on; fewer at its end. Raises ArtifactError."""
    kept = bytearray()
    position = 0
    for piece in reading.pieces(stream):
        kept += piece[max(0, start - position) : max(0, start + length - position)]
        position += len(piece)
        if position >= start + length:
            break
    return bytes(kept)


def query(artifacts: Artifacts, asked: OutputQuery, workspace: Path | None) -> OutputFound:
    """Answer a query. Blocks while it reads.

    Raises InvalidHandle, UnknownArtifact, or ArtifactError if the artifact cannot be read.
    """
    return _OutputSearch(OpenArtifact(artifacts, asked.artifact_handle, workspace), asked).answer()


def query_text(text: str, asked: OutputQuery) -> OutputFound:
    """Answer a query of a text, which counts as standard output."""
    return _OutputSearch(_OpenText(text), asked).answer()


class _Readable(Protocol):
    def pieces(self, stream: Stream) -> Iterator[bytes]: ...


class _OpenText:
    def __init__(self, text: str) -> None:
        self._data = text.encode("utf-8", "replace")

    def pieces(self, stream: Stream) -> Iterator[bytes]:
        """Yield the text in chunks; standard error is empty."""
        if stream == "stdout":
            for start in range(0, len(self._data), _PIECE_BYTES):
                yield self._data[start : start + _PIECE_BYTES]


class _OutputSearch:
    def __init__(self, reading: _Readable, asked: OutputQuery) -> None:
        self._reading = reading
        self._asked = asked
        self._total_lines = 0
        self._total_bytes = 0
        self._searched: list[Stream] = []

    def answer(self) -> OutputFound:
        asked = self._asked
        if asked.query_terms:
            return self._find_matches()
        if (span := asked.line_range) is not None:
            max_lines = min(span.end_line - span.start_line + 1, MAX_LINES)
            return self._read_page(span.stream, span.start_line, max_lines, last=span.end_line)
        assert asked.cursor is not None
        if asked.cursor.after_char is not None:
            return self._read_within_line(
                asked.cursor.stream, asked.cursor.after_line + 1, asked.cursor.after_char
            )
        return self._read_page(asked.cursor.stream, asked.cursor.after_line + 1, asked.max_excerpts)

    def _find_matches(self) -> OutputFound:
        asked = self._asked
        excerpts: list[Excerpt] = []
        first: list[Excerpt] = []
        matches, more = 0, False
        for stream in self._list_streams():
            after = asked.cursor.after_line if asked.cursor and asked.cursor.stream == stream else 0
            windows = ExcerptCollector(
                stream, context=asked.context_lines, limit=asked.max_excerpts - len(excerpts)
            )
            start: list[str] = []
            number = 0
            pass_over = _LineSkipper(windows, start, after, asked)
            for number, line, hit in self._read_lines(stream, pass_over):
                if number > after:
                    windows.feed(number, line, hit=hit)
                    if len(start) < asked.max_excerpts:
                        start.append(line)
            windows.end(number)
            if start and not first:
                first = [excerpt(stream, after + 1, start)]
            excerpts += windows.excerpts
            matches += windows.matches
            more = more or windows.more
        return self._make_found(
            excerpts if matches else first,
            status="matched" if matches else "noMatchFallback",
            matches=matches,
            following=_end_of(excerpts[-1]) if more else None,
        )

    def _read_page(
        self, stream: Stream, start: int, max_lines: int, *, last: int | None = None
    ) -> OutputFound:
        """Return lines by number, with a cursor if more of the requested lines follow."""

        def passes_over(_: str, before: int, count: int) -> bool:
            return before + count < start or before + 1 >= start + max_lines

        lines = [
            line
            for number, line, _ in self._read_lines(stream, passes_over)
            if start <= number < start + max_lines
        ]
        excerpts = [excerpt(stream, start, lines)] if lines else []
        end = self._total_lines if last is None else min(last, self._total_lines)
        following = _end_of(excerpts[0]) if excerpts and excerpts[0].line_end < end else None
        return self._make_found(excerpts, status="lineRange", matches=0, following=following)

    def _read_within_line(self, stream: Stream, wanted: int, after: int) -> OutputFound:
        """Return the part of a line after so many characters; the cursor continues in it, or in the next line."""
        line, length, shown, whole = 1, 0, "", 0
        for text in last_frames(self._read_texts(stream)):
            ends = text.count("\n")
            if not line <= wanted <= line + ends:
                line, length = line + ends, len(text) - text.rfind("\n") - 1 + (0 if ends else length)
                continue
            for place, part in enumerate(text.split("\n")):
                if place:
                    line, length = line + 1, 0
                if line == wanted:
                    taken = part[max(0, after - length) : max(0, after + MAX_LINE_CHARS - length)]
                    shown += taken
                    whole += len(part)
                length += len(part)
        self._total_lines = line if length else line - 1
        end = after + len(shown)
        following = None
        if end < whole:
            following = Cursor(stream=stream, after_line=wanted - 1, after_char=end)
        elif wanted < self._total_lines:
            following = Cursor(stream=stream, after_line=wanted)
        excerpts = [excerpt(stream, wanted, [shown])] if shown else []
        return self._make_found(excerpts, status="lineRange", matches=0, following=following)

    def _list_streams(self) -> tuple[Stream, ...]:
        """Return the streams to search: for a cursor in the second stream, the first one is done."""
        asked = self._asked
        if asked.stream != "both":
            return (asked.stream,)
        return STREAMS[STREAMS.index(asked.cursor.stream) :] if asked.cursor else STREAMS

    def _read_lines(
        self, stream: Stream, passes_over: Callable[[str, int, int], bool]
    ) -> Iterator[tuple[int, str, bool]]:
        """Yield the lines of a stream, except blocks of whole lines for which `passes_over` returns True.

        It is called with the block, the number of lines before it, and the number of lines in it.
        """
        terms = self._asked.query_terms
        lines = LineSplitter(terms)
        number = 0
        for text, whole in blocks(last_frames(self._read_texts(stream), terms)):
            count = text.count("\n") if whole else 0
            if whole and passes_over(text, number, count):
                number += count
                continue
            for line, hit in lines.feed(text):
                number += 1
                yield number, line, hit
        for line, hit in lines.end():
            number += 1
            yield number, line, hit
        self._total_lines += number

    def _read_texts(self, stream: Stream) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for piece in self._reading.pieces(stream):
            if stream not in self._searched:
                self._searched.append(stream)
            self._total_bytes += len(piece)
            yield decoder.decode(piece)
        yield decoder.decode(b"", final=True)

    def _make_found(
        self, excerpts: list[Excerpt], *, status: MatchStatus, matches: int, following: Cursor | None
    ) -> OutputFound:
        reads_on = self._asked.cursor is not None and self._asked.cursor.after_char is not None
        return OutputFound(
            artifact_handle=self._asked.artifact_handle,
            excerpts=tuple(excerpts),
            total_lines=self._total_lines,
            total_bytes=self._total_bytes,
            searched_streams=tuple(self._searched),
            match_status=status,
            match_count=matches,
            next_cursor=following,
            line_cursor=None if reads_on else _cut_position(excerpts),
        )


@dataclass(frozen=True, slots=True)
class _LineSkipper:
    """Skips blocks of whole lines of which a search shows none."""

    windows: ExcerptCollector
    start: Sequence[str]
    """The first lines, which are shown if nothing matches."""
    after: int
    asked: OutputQuery

    def __call__(self, block: str, before: int, count: int) -> bool:
        """Return whether the block was skipped."""
        if before + count <= self.after:
            return True
        if before < self.after or len(self.start) < self.asked.max_excerpts or self.windows.is_open:
            return False
        return self.windows.passes_over(block, len(holding(block, self.asked.query_terms)))


def _cut_position(excerpts: Iterable[Excerpt]) -> Cursor | None:
    """Return the cursor for the rest of the first line that is cut: after the shown part, or from its beginning."""
    for found in excerpts:
        for number, line in enumerate(found.content.split("\n"), found.line_start):
            if is_cut(line):
                shown = 0 if line.startswith(CUT_MARK) else LINE_CHARS
                return Cursor(stream=found.source, after_line=number - 1, after_char=shown)
    return None


def _end_of(shown: Excerpt) -> Cursor:
    return Cursor(stream=shown.source, after_line=shown.line_end)
