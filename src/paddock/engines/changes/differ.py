"""Unified differences of a change set, for people and agents: bounded, printable, and without secrets.

Both texts lose their secrets before they are compared, so that the difference never shows half of one. Contents that
are written are never altered.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from paddock.model.base import count
from paddock.model.change_set import Change, FileFacts
from paddock.model.printable import make_printable
from paddock.record.changes.store import ChangeStore

MAX_FILE_BYTES = 1024 * 1024
"""Maximum size of a file whose lines are compared."""
MAX_FILE_LINES = 20_000
MAX_COMPARED = 4_000_000
"""Maximum product of the line counts of two texts without their equal beginnings and ends; comparing takes so long."""
_MAX_LINE_CHARS = 1000
_MAX_PATH_CHARS = 1000
_CONTEXT_LINES = 3
_NO_FILE = "/dev/null"
_MORE = "... (more: `paddock changes diff`)"
_WITHOUT_SECRETS = "secrets are not shown, and may differ"


class FileDiff(NamedTuple):
    """The difference at one path."""

    path: str
    """Printable."""
    lines: tuple[str, ...]
    """Printable, without line ends."""
    added: int = 0
    """Number of added lines."""
    removed: int = 0


class Differ:
    """Makes the differences of one change set. `hide` removes secrets from a text.

    `is_hidden` returns whether files at a path of the workspace are hidden now.
    """

    def __init__(
        self,
        store: ChangeStore,
        set_id: str,
        hide: Callable[[str], str],
        is_hidden: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._is_hidden = is_hidden
        self._store = store
        self._set_id = set_id
        self._hide = hide

    def compare(self, changes: Iterable[Change]) -> Iterator[FileDiff]:
        """Yield the difference of each change. Raises ChangesError."""
        for change in changes:
            yield self._compare(change)

    def render(self, changes: Iterable[Change], max_chars: int) -> str:
        """Return the first lines of the differences, at most so many characters. Raises ChangesError."""
        lines: list[str] = []
        left = max_chars
        for diff in self.compare(changes):
            for line in diff.lines:
                left -= len(line) + 1
                if left < len(_MORE):
                    return "\n".join([*lines, _MORE])
                lines.append(line)
        return "\n".join(lines)

    def _compare(self, change: Change) -> FileDiff:
        path = make_printable(self._hide_name(change.path), _MAX_PATH_CHARS)
        heading = [f"diff a/{path} b/{path}", *self._describe(change)]
        before, after = change.before, change.after
        old = before.sha256 if before is not None else None
        new = after.sha256 if after is not None else None
        if old == new:
            return FileDiff(path, tuple(heading))
        if old is not None and self._is_hidden(change.path):
            return FileDiff(path, (*heading, f"Contents of {path} are not shown: workspace.hide hides them"))
        texts = self._read(before, is_before=True), self._read(after, is_before=False)
        names = f"a/{path}" if old else _NO_FILE, f"b/{path}" if new else _NO_FILE
        if change.binary or isinstance(texts[0], _Unshown) or isinstance(texts[1], _Unshown):
            unshown = [each.why for each in texts if isinstance(each, _Unshown)] or ["they are binary"]
            sizes = f"{_size(before)} before, {_size(after)} after"
            return FileDiff(path, (*heading, f"Contents of {path} are not shown: {unshown[0]} ({sizes})"))
        first, then = self._split(texts[0]), self._split(texts[1])
        body = _unify(first, then, names)
        if body is None:
            return FileDiff(path, (*heading, f"Contents of {path} are not shown: they differ too much"))
        if not body and texts[0] != texts[1]:
            return FileDiff(
                path, (*heading, f"Contents of {path} differ only in secrets, which are not shown")
            )
        if any(self._hide(text) != text for text in texts if isinstance(text, str)):
            heading.append(_WITHOUT_SECRETS)
        added = sum(line.startswith("+") for line in body[2:])
        removed = sum(line.startswith("-") for line in body[2:])
        return FileDiff(path, (*heading, *body), added, removed)

    def _describe(self, change: Change) -> Iterator[str]:
        """Yield what changed besides the lines of a file."""
        before, after = change.before, change.after
        if change.protected:
            yield "protected: accepted only by name"
        if change.outward:
            yield "leads out of the workspace: accepted only by name"
        if change.changed_meanwhile:
            yield "conflict: the workspace's own file was changed during the run"
        if change.renamed_from is not None:
            yield f"renamed from {make_printable(self._hide_name(change.renamed_from), _MAX_PATH_CHARS)}"
        if before is None and after is not None:
            yield f"new {self._name(after)}"
        elif after is None and before is not None:
            yield f"deleted {self._name(before)}"
        elif (
            before is not None and after is not None and (before.type != after.type or before.type == "link")
        ):
            yield f"old {self._name(before)}"
            yield f"new {self._name(after)}"
        elif before is not None and after is not None and before.mode != after.mode:
            yield f"old mode {before.mode:04o}"
            yield f"new mode {after.mode:04o}"

    def _name(self, facts: FileFacts) -> str:
        if facts.type == "link":
            return f"link to {make_printable(self._hide_name(facts.target or ''), _MAX_PATH_CHARS)}"
        return f"{facts.type}, mode {facts.mode:04o}"

    def _hide_name(self, name: str) -> str:
        return self._hide(name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))

    def _read(self, facts: FileFacts | None, *, is_before: bool) -> "str | _Unshown":
        if facts is None or facts.sha256 is None:
            return ""
        if facts.size > MAX_FILE_BYTES:
            return _Unshown("they are too large")
        data = self._store.read_content(self._set_id, facts.sha256, MAX_FILE_BYTES, before=is_before)
        if data is None:
            return _Unshown("those before were not kept")
        return _Unshown("they are binary") if b"\0" in data else data.decode("utf-8", "replace")

    def _split(self, text: str) -> list[str]:
        """Return the lines of a text without its secrets. The last one ends with NUL if it has no line end."""
        lines = self._hide(text).split("\n")
        if lines[-1]:
            lines[-1] += "\0"  # it differs from the same line with an end, and `_show` replaces this
        else:
            lines.pop()
        return lines


class _Unshown(NamedTuple):
    why: str


def _unify(first: list[str], then: list[str], names: tuple[str, str]) -> list[str] | None:
    """Return the unified difference of two lists of lines; None if comparing takes too long."""
    if max(len(first), len(then)) > MAX_FILE_LINES:
        return None
    head = 0
    while head < min(len(first), len(then)) and first[head] == then[head]:
        head += 1
    tail = 0
    while tail < min(len(first), len(then)) - head and first[-1 - tail] == then[-1 - tail]:
        tail += 1
    if (len(first) - head - tail) * (len(then) - head - tail) > MAX_COMPARED:
        return None
    skipped = max(0, head - _CONTEXT_LINES)
    kept = max(0, tail - _CONTEXT_LINES)
    body = difflib.unified_diff(
        first[skipped : len(first) - kept],
        then[skipped : len(then) - kept],
        *names,
        n=_CONTEXT_LINES,
        lineterm="",
    )
    lines: list[str] = []
    for line in body:
        if not line.startswith("@@"):
            lines += _show(line)
        else:
            lines.append(_shift(line, skipped))
    return lines


def _shift(line: str, skipped: int) -> str:
    """Return the heading of a part with line numbers of the whole texts."""
    parts: list[str] = []
    for span in line.split()[1:3]:
        start, comma, length = span[1:].partition(",")
        parts.append(f"{span[0]}{int(start) + skipped}{comma}{length}")
    return f"@@ {' '.join(parts)} @@"


def _show(line: str) -> Iterator[str]:
    has_end = not line.endswith("\0")
    text = line if has_end else line[:-1]
    if len(text) > _MAX_LINE_CHARS:
        text = f"{text[:_MAX_LINE_CHARS]}... ({count(len(text), 'character')})"
    yield "\t".join(make_printable(each, _MAX_LINE_CHARS + 100) for each in text.split("\t"))
    if not has_end:
        yield "\\ No newline at end of file"


def _size(facts: FileFacts | None) -> str:
    return count(0 if facts is None else facts.size, "byte")
