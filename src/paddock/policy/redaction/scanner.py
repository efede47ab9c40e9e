"""Scan lines for secrets, and replace them by marks."""

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

from paddock.policy.redaction.colours import ColourlessText, may_hold_colours
from paddock.policy.redaction.known import KnownSecrets
from paddock.policy.redaction.private_keys import KEY_SIGN, find_written_keys
from paddock.policy.redaction.rules import (
    Profile,
    RedactionRule,
    Refused,
    SecretMatch,
    Untyped,
    load_rules,
    may_match,
    may_match_name,
)
from paddock.policy.settings.schema import RedactionPattern, RedactionSettings

_MARK_PATTERN = re.compile(rb"\[REDACTED:[A-Za-z0-9 _.-]{1,60}\]")
_LINE_END = re.compile(rb"([\n\r])")
_MAX_PASSES = 3
"""Maximum passes over a line. A mark may uncover another secret; the bound is for hostile lines."""
KEY_MARK = b"[REDACTED:private-key]"
_KEY_ORDER = 0
_OTHER_MARKS = frozenset({b"[REDACTED:vault]", b"[REDACTED:server]", KEY_MARK})
_SECRETS_PER_TURN = 256
"""Number of secrets that are handled without a pause."""
_SEPARATORS = (b" ", b"\t", b",", b";")
"""Bytes after which a line is preferably cut."""
_SEPARATOR_BYTES = 1024
"""Number of bytes that are searched for a separator."""


class Redacted(NamedTuple):
    """A text without its secrets."""

    data: bytes
    removals: int


class LineHead(NamedTuple):
    """The beginning of a line without its secrets, and the rest of the line."""

    data: bytes
    rest: bytes
    removals: int


class _FoundSecret(NamedTuple):
    start: int
    end: int
    order: int
    mark: bytes
    begin: int
    """Start of the whole match: the secret and its name."""
    finish: int

    def join(self, other: "_FoundSecret") -> "_FoundSecret":
        """Return both as one, with the mark of the first rule."""
        named = min((self.order, self.mark), (other.order, other.mark))
        around = min(self.begin, other.begin), max(self.finish, other.finish)
        return _FoundSecret(min(self.start, other.start), max(self.end, other.end), *named, *around)


_Value = TypeVar("_Value")
Slices = Generator[None, None, _Value]
"""Work in slices of less than a millisecond, except during a search by RE2. It returns its value."""


def finish(slices: Slices[_Value]) -> _Value:
    """Return the value of work in slices, without pauses."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value


Pattern = Callable[[bytes], Iterator[tuple[int, int, bytes]]]


class Scanner:
    """Removes secrets from lines: known values, matches of built-in rules and of the settings' patterns.

    `warnings` has the patterns of the settings that are not used, and why.
    """

    def __init__(
        self, settings: RedactionSettings, known: KnownSecrets | None = None, profile: Profile = "default"
    ) -> None:
        self._known = KnownSecrets() if known is None else known
        self._profile: Profile = profile
        self._patterns = settings.patterns if settings.enabled else ()
        self._has_rules = settings.enabled and settings.include_defaults

    @property
    def is_active(self) -> bool:
        """Whether it may find anything."""
        return self._has_rules or bool(self._patterns) or bool(self._known)

    @property
    def has_rules(self) -> bool:
        """Whether the built-in rules are used."""
        return self._has_rules

    @property
    def has_patterns(self) -> bool:
        """Whether the settings have patterns."""
        return bool(self._patterns)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Which patterns of the settings are not used, and why."""
        return self._compiled[1] if self._patterns else ()

    @cached_property
    def _compiled(self) -> tuple[list[Pattern], tuple[str, ...]]:
        return _compile_patterns(self._patterns)

    @cached_property
    def _marks(self) -> frozenset[bytes]:
        own = (f"[REDACTED:{pattern.name}]".encode() for pattern in self._patterns)
        return load_rules().marks | _OTHER_MARKS | frozenset(own)

    def leaves_alone(self, data: bytes) -> bool:
        """Return True if nothing would be removed from a text, by a fast check. False is only a guess."""
        if self._patterns or self._known:
            return False
        return not self._has_rules or not may_match(data)

    def leaves_name_alone(self, text: str) -> bool:
        """Return `leaves_alone` of a short text that recurs, such as a tool name; known values are ignored."""
        if self._patterns:
            return False
        return not self._has_rules or not may_match_name(text)

    def find_keywords(self, data: bytes) -> tuple[str, ...] | None:
        """Return the keywords in a text; None if not only the built-in rules are used."""
        return None if self._patterns or self._known else load_rules().find_keywords(data)

    def redact(self, data: bytes) -> Redacted:
        """Return lines without their secrets, each as if it were alone."""
        return finish(self.redact_in_slices(data))

    def redact_in_slices(self, data: bytes) -> Slices[Redacted]:
        """Return lines without their secrets, each as if it were alone."""
        data, count = self._known.remove(data)
        if self._patterns:
            return (yield from self._redact_each_line(data, count))
        if not self._has_rules or not may_match(data):
            return Redacted(data, count)
        data, found = yield from self._remove_secrets(data, load_rules().select(data, self._profile))
        return Redacted(data, count + found)

    def redact_head(self, data: bytes, max_bytes: int) -> Slices[LineHead | None]:
        """Return the beginning of a line without its secrets, and the rest; the cut is not within a secret.

        Returns None if there is no such cut. The rest can then be redacted separately.
        """
        max_bytes = min(max_bytes, len(data))
        separators = (data.rfind(mark, max_bytes - _SEPARATOR_BYTES, max_bytes) for mark in _SEPARATORS)
        cut = max(separators) + 1 or max_bytes
        if self.leaves_alone(data):
            return LineHead(data[:cut], data[cut:], 0)
        may_hold = self._has_rules and may_match(data)
        rules = load_rules().select(data, self._profile) if may_hold else []
        refused: Refused = set()
        spans = yield from self._find_spans(data, rules, refused)
        known = list(self._known.find(data))
        marks = [found.span() for found in _MARK_PATTERN.finditer(data)] if b"[REDACTED:" in data else []
        uncut = [*((span.begin, span.finish) for span in spans), *known, *marks]
        for begin, finish in sorted(uncut, reverse=True):
            if begin < cut < finish:
                cut = begin
        if not cut:
            return None
        if known:
            redacted, count = yield from self.redact_in_slices(data[:cut])
            return LineHead(redacted, data[cut:], count)
        spans = [span for span in spans if span.end <= cut]
        redacted, count = data[:cut], 0
        if spans:
            redacted = _replace_spans(redacted, spans)
            redacted, count = yield from self._remove_secrets(redacted, rules, refused, _MAX_PASSES - 1)
        return LineHead(redacted, data[cut:], count + len(spans))

    def redact_tail(self, beginning: bytes, tail: bytes) -> Slices[Redacted]:
        """Return the tail of a line without the line's secrets; its beginning may only contain their names."""
        rules = load_rules().select(beginning + tail, self._profile) if self._has_rules else []
        size, count = len(beginning), 0
        # Quotes in the tail would be escaped in a quoted string.
        spans = yield from self._find_spans(beginning + tail.replace(b'"', b"'") + b'"', rules, set())
        done: list[bytes] = []
        position = 0
        for span in spans:
            if span.end > size and span.start < size + len(tail):
                done += (tail[position : max(span.start - size, 0)], span.mark)
                position = span.end - size
                count += 1
        return Redacted(b"".join((*done, tail[position:])), count)

    def _redact_each_line(self, data: bytes, count: int) -> Slices[Redacted]:
        done: list[bytes] = []
        for number, line in enumerate(_LINE_END.split(data)):
            if number % 2:
                done.append(line)
                continue
            rules = load_rules().select(line, self._profile) if self._has_rules and may_match(line) else []
            redacted, found = yield from self._remove_secrets(line, rules)
            yield
            done.append(redacted)
            count += found
        return Redacted(b"".join(done), count)

    def _remove_secrets(
        self,
        data: bytes,
        rules: Sequence[RedactionRule],
        refused: Refused | None = None,
        passes: int = _MAX_PASSES,
    ) -> Slices[tuple[bytes, int]]:
        """Return lines without secrets, and the number of secrets."""
        count = 0
        refused = set() if refused is None else refused
        for _ in range(passes):
            spans = yield from self._find_spans(data, rules, refused)
            if not spans:
                break
            data = _replace_spans(data, spans)
            count += len(spans)
        return data, count

    def _find_spans(
        self, data: bytes, rules: Sequence[RedactionRule], refused: Refused
    ) -> Slices[list[_FoundSecret]]:
        """Return the spans to remove from lines, in order; overlapping ones are joined, with the first rule's mark."""
        seen = self._blank_marks(data).replace(b"\r", b"\n")
        found = yield from find_in(seen, rules, refused)
        for order, pattern in enumerate(self._compiled[0] if self._patterns else ()):
            found += [
                _FoundSecret(start, end, 1_000_000 + order, mark, start, end)
                for start, end, mark in pattern(seen)
            ]
        if may_hold_colours(seen):
            plain = ColourlessText(seen)
            if plain.has_colours:
                hidden = yield from find_in(plain.data, rules, refused)
                found += [
                    _FoundSecret(
                        *plain.locate(span.start, span.end),
                        span.order,
                        span.mark,
                        *plain.locate(span.begin, span.finish),
                    )
                    for span in hidden
                ]
        merged: list[_FoundSecret] = []
        for span in sorted(found):
            if merged and span.start < merged[-1].end:
                merged[-1] = merged[-1].join(span)
            else:
                merged.append(span)
                if not len(merged) % _SECRETS_PER_TURN:
                    yield
        return merged

    def _blank_marks(self, line: bytes) -> bytes:
        """Return a line of the same length in which rules cannot see existing marks."""
        if b"[REDACTED:" not in line:
            return line
        return _MARK_PATTERN.sub(
            lambda found: b"<" * len(found[0]) if found[0] in self._marks else found[0], line
        )


def find_in(data: bytes, rules: Sequence[RedactionRule], refused: Refused) -> Slices[list[_FoundSecret]]:
    """Return the secrets in some lines."""
    found: list[_FoundSecret] = []
    for match in _find_matches(data, rules, refused):
        if match is None:
            yield
        else:
            named = match.rule.order, match.rule.mark
            found.append(_FoundSecret(match.start, match.end, *named, match.begin, match.finish))
            if not len(found) % _SECRETS_PER_TURN:
                yield
    if KEY_SIGN in data and any(rule.mark == KEY_MARK for rule in rules):
        for begin, body in find_written_keys(data):
            found.append(_FoundSecret(body.start, body.end, _KEY_ORDER, KEY_MARK, begin, body.end))
            yield
    return found


def _replace_spans(data: bytes, spans: Sequence[_FoundSecret]) -> bytes:
    """Return a text with marks in place of spans."""
    done: list[bytes] = []
    position = 0
    for span in spans:
        done += (data[position : span.start], span.mark)
        position = span.end
    return b"".join((*done, data[position:]))


def _find_matches(
    data: bytes, rules: Sequence[RedactionRule], refused: Refused
) -> Iterator[SecretMatch | None]:
    """Yield the secrets of each line, as if it were alone. Searching all lines at once is many times faster.

    Yield None at times, for a pause.
    """
    alone: set[tuple[int, int]] = set()
    matches: list[tuple[tuple[int, int], SecretMatch]] = []
    for rule in rules:
        line, applies = (0, -1), False
        for match in rule.find(data, refused):
            yield None
            if match is None:
                continue
            if match.start > line[1]:  # once per line; for each match, the time would be quadratic
                line = find_line(data, match.start)
                applies = rule.applies_to(data[line[0] : line[1]].lower())
            if match.crosses:
                alone.add(line)
                following = line
                while following[1] < match.end:
                    following = find_line(data, following[1] + 1)
                    alone.add(following)
            elif applies:
                matches.append((line, match))
        yield None
    yield from (match for line, match in matches if line not in alone)
    for start, end in alone:
        line_alone = data[start:end]
        lowered = line_alone.lower()
        for rule in (rule for rule in rules if rule.applies_to(lowered)):
            yield from (match and match.move(start) for match in rule.find(line_alone, refused))


def find_line(data: bytes, position: int) -> tuple[int, int]:
    """Return the span of the line at a position."""
    end = data.find(b"\n", position)
    return data.rfind(b"\n", 0, position) + 1, len(data) if end < 0 else end


def _compile_patterns(patterns: Sequence[RedactionPattern]) -> tuple[list[Pattern], tuple[str, ...]]:
    """Return the patterns that RE2 accepts, and warnings about the others."""
    import re2

    engine: Untyped = re2
    options = engine.Options()
    options.log_errors = False
    usable: list[Pattern] = []
    warnings: list[str] = []
    for pattern in patterns:
        flags = f"(?{pattern.flags})" if pattern.flags else ""
        try:
            compiled = engine.compile(flags + pattern.pattern, options)
        except engine.error as error:
            why: bytes | str = error.args[0]
            reason = why.decode("utf-8", "replace") if isinstance(why, bytes) else why
            warnings.append(
                f"redaction.patterns: `{pattern.name}` is not used: {reason}; write it in the syntax of RE2"
            )
            continue
        usable.append(_find_pattern(compiled, f"[REDACTED:{pattern.name}]".encode()))
    return usable, tuple(warnings)


def _find_pattern(compiled: Untyped, mark: bytes) -> Pattern:
    """Return a function that finds a pattern of the settings in a line; it ignores empty matches."""

    def find(line: bytes) -> Iterator[tuple[int, int, bytes]]:
        for match in compiled.finditer(line):
            start, end = match.span()
            if start < end:
                yield start, end, mark

    return find
