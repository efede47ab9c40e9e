"""Two texts side by side, for people who compare them."""

import difflib
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

MAX_COMPARED_LINES = 1_000
"""Maximum number of lines that are compared by their content. The rest of longer texts is paired by its position:
comparing takes time that grows with the product."""


class Half(NamedTuple):
    """A line on one side, in three parts: the middle one differs from the other side."""

    head: str
    changed: str
    tail: str


class LinePair(NamedTuple):
    """A line on both sides."""

    before: Half | None
    """None if the line is only in the second text."""
    after: Half | None
    """None if the line is only in the first text."""

    @property
    def differs(self) -> bool:
        """Whether the sides differ."""
        return self.before != self.after


def pair_lines(before: Sequence[str], after: Sequence[str]) -> list[LinePair]:
    """Return the lines of two texts side by side."""
    if max(len(before), len(after)) > MAX_COMPARED_LINES:
        return list(_pair(before, after))
    pairs: list[LinePair] = []
    matcher = difflib.SequenceMatcher(None, before, after)
    for _, first, end, other, other_end in matcher.get_opcodes():
        pairs += _pair(before[first:end], after[other:other_end])
    return pairs


def _pair(before: Sequence[str], after: Sequence[str]) -> Iterator[LinePair]:
    for one, other in zip_longest(before, after):
        if one is None or other is None:
            yield LinePair(_make_whole(one), _make_whole(other))
            continue
        head = _count_common(one, other)
        tail = _count_common(one[head:][::-1], other[head:][::-1])
        yield LinePair(_split(one, head, tail), _split(other, head, tail))


def _count_common(one: str, other: str) -> int:
    """Return the number of characters with which both texts begin."""
    both = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, its) in both if mine != its), min(len(one), len(other)))


def _make_whole(line: str | None) -> Half | None:
    return None if line is None else Half("", line, "")


def _split(line: str, head: int, tail: int) -> Half:
    end = len(line) - tail
    return Half(line[:head], line[head:end], line[end:])
