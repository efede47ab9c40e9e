"""Scan lines for secrets, and put marks in their place."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from paddock.model.settings import RedactionPattern, RedactionSettings
from paddock.redaction.known import KnownSecrets
from paddock.redaction.rules import Match, Profile, Rule, Untyped, load_rules, may_match

_MARK = re.compile(rb"\[REDACTED:[A-Za-z0-9 _.-]{1,60}\]")
_LINE_END = re.compile(rb"([\n\r])")
_MAX_PASSES = 3
"""What a mark uncovers is searched again; a hostile line does not make that take for ever."""
_OTHER_MARKS = frozenset({b"[REDACTED:vault]", b"[REDACTED:server]", b"[REDACTED:private-key]"})


class Redacted(NamedTuple):
    """A text without its secrets."""

    data: bytes
    removals: int


class _Span(NamedTuple):
    start: int
    end: int
    mark: bytes


Pattern = Callable[[bytes], Iterator[_Span]]


class Scanner:
    """What is removed from lines: known values, built-in rules, patterns of the settings.

    `warnings` says which patterns of the settings are not used, and why.
    """

    def __init__(
        self, settings: RedactionSettings, known: KnownSecrets | None = None, profile: Profile = "default"
    ) -> None:
        self._known = KnownSecrets() if known is None else known
        self._profile: Profile = profile
        self._settings = settings.patterns if settings.enabled else ()
        self._has_rules = settings.enabled and settings.include_defaults

    @property
    def is_active(self) -> bool:
        """Whether there is anything to look for."""
        return self._has_rules or bool(self._settings) or bool(self._known)

    @property
    def has_rules(self) -> bool:
        """Whether the built-in rules hold."""
        return self._has_rules

    @property
    def has_patterns(self) -> bool:
        """Whether the settings have patterns."""
        return bool(self._settings)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Which patterns of the settings are not used, and why."""
        return self._compiled[1] if self._settings else ()

    @cached_property
    def _compiled(self) -> tuple[list[Pattern], tuple[str, ...]]:
        return _compile_patterns(self._settings)

    @cached_property
    def _marks(self) -> frozenset[bytes]:
        own = (f"[REDACTED:{pattern.name}]".encode() for pattern in self._settings)
        return load_rules().marks | _OTHER_MARKS | frozenset(own)

    def leaves_alone(self, data: bytes) -> bool:
        """Tell, quickly, that nothing is removed from any line of a text. False is no more than a guess."""
        if self._settings or self._known:
            return False
        return not self._has_rules or not may_match(data)

    def find_keywords(self, data: bytes) -> tuple[str, ...] | None:
        """Return the keywords in a text; None where more than the built-in rules is looked for."""
        return None if self._settings or self._known else load_rules().find_keywords(data)

    def redact(self, data: bytes) -> Redacted:
        """Return lines without their secrets, each as if it stood alone."""
        data, count = self._known.remove(data)
        if self._settings:
            return self._redact_each_line(data, count)
        if not self._has_rules or not may_match(data):
            return Redacted(data, count)
        data, found = self._remove(data, load_rules().select(data, self._profile))
        return Redacted(data, count + found)

    def redact_tail(self, beginning: bytes, tail: bytes) -> Redacted:
        """Return the tail of a line without the secrets that the line holds; its beginning only gives them a name."""
        rules = load_rules().select(beginning + tail, self._profile) if self._has_rules else []
        size, count = len(beginning), 0
        # Within quotes, quotes would be escaped.
        spans = self._find_spans(beginning + tail.replace(b'"', b"'") + b'"', rules)
        done: list[bytes] = []
        position = 0
        for start, end, mark in spans:
            if end > size and start < size + len(tail):
                done += (tail[position : max(start - size, 0)], mark)
                position = end - size
                count += 1
        return Redacted(b"".join((*done, tail[position:])), count)

    def _redact_each_line(self, data: bytes, count: int) -> Redacted:
        done: list[bytes] = []
        for number, line in enumerate(_LINE_END.split(data)):
            if number % 2:
                done.append(line)
                continue
            rules = load_rules().select(line, self._profile) if self._has_rules and may_match(line) else []
            redacted, found = self._remove(line, rules)
            done.append(redacted)
            count += found
        return Redacted(b"".join(done), count)

    def _remove(self, data: bytes, rules: Sequence[Rule]) -> tuple[bytes, int]:
        """Return lines without secrets, and how many there were."""
        count = 0
        for _ in range(_MAX_PASSES):
            spans = self._find_spans(data, rules)
            if not spans:
                break
            done: list[bytes] = []
            position = 0
            for start, end, mark in spans:
                done += (data[position:start], mark)
                position = end
            data = b"".join((*done, data[position:]))
            count += len(spans)
        return data, count

    def _find_spans(self, data: bytes, rules: Sequence[Rule]) -> list[_Span]:
        """Return what to remove from lines, in order; what overlaps is one, named by the rule that comes first."""
        seen = self._blank_marks(data).replace(b"\r", b"\n")
        spans = [(start, end, rule.order, rule.mark) for start, end, rule, _ in _find_matches(seen, rules)]
        for order, pattern in enumerate(self._compiled[0] if self._settings else ()):
            spans += [(start, end, 1_000_000 + order, mark) for start, end, mark in pattern(seen)]
        merged: list[tuple[int, int, int, bytes]] = []
        for span in sorted(spans):
            if merged and span[0] < merged[-1][1]:
                before = merged.pop()
                merged.append((before[0], max(before[1], span[1]), *min(before[2:], span[2:])))
            else:
                merged.append(span)
        return [_Span(start, end, mark) for start, end, _, mark in merged]

    def _blank_marks(self, line: bytes) -> bytes:
        """Return a line with what no rule may see again, at the same length."""
        if b"[REDACTED:" not in line:
            return line
        return _MARK.sub(lambda found: b"<" * len(found[0]) if found[0] in self._marks else found[0], line)


def _find_matches(data: bytes, rules: Sequence[Rule]) -> Iterator[Match]:
    """Yield the secrets of each line, as if it stood alone. Searching all lines at once is many times as fast."""
    alone: set[tuple[int, int]] = set()
    matches: list[tuple[tuple[int, int], Match]] = []
    for rule in rules:
        line, applies = (0, -1), False
        for match in rule.find(data):
            if (
                match.start > line[1]
            ):  # once for a line: for each match it would take the square of its length
                line = _find_line(data, match.start)
                applies = rule.applies_to(data[line[0] : line[1]].lower())
            if match.crosses:
                crossed = line
                alone.add(crossed)
                while crossed[1] < match.end:
                    crossed = _find_line(data, crossed[1] + 1)
                    alone.add(crossed)
            elif applies:
                matches.append((line, match))
    yield from (match for line, match in matches if line not in alone)
    for start, end in alone:
        line = data[start:end]
        lowered = line.lower()
        for rule in rules:
            if rule.applies_to(lowered):
                yield from (Match(start + each.start, start + each.end, rule) for each in rule.find(line))


def _find_line(data: bytes, position: int) -> tuple[int, int]:
    """Return where the line of a position begins and ends."""
    end = data.find(b"\n", position)
    return data.rfind(b"\n", 0, position) + 1, len(data) if end < 0 else end


def _compile_patterns(patterns: Sequence[RedactionPattern]) -> tuple[list[Pattern], tuple[str, ...]]:
    """Return the patterns that RE2 takes, and what is wrong with the others."""
    import re2  # noqa: PLC0415 - only needed for patterns of the settings

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
            told = why.decode("utf-8", "replace") if isinstance(why, bytes) else why
            warnings.append(
                f"redaction.patterns: `{pattern.name}` is not used: {told}; write it in the syntax of RE2"
            )
            continue
        usable.append(_find_pattern(compiled, f"[REDACTED:{pattern.name}]".encode()))
    return usable, tuple(warnings)


def _find_pattern(compiled: Untyped, mark: bytes) -> Pattern:
    """Return what finds a pattern of the settings in a line; an empty match is none."""

    def find(line: bytes) -> Iterator[_Span]:
        for match in compiled.finditer(line):
            start, end = match.span()
            if start < end:
                yield _Span(start, end, mark)

    return find
