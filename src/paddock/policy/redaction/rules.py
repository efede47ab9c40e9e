"""The built-in rules: loaded from `rules.jsonl`, and run by RE2.

Most texts contain no keyword of a rule. A process finds that out without RE2, whose import takes longer than most
programs, until it has searched enough text that RE2 pays off.
"""

from collections.abc import Iterator
from functools import cache, cached_property, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple

import orjson

from paddock.model.late_pattern import compile_late
from paddock.policy.redaction.colours import (
    ESCAPE,
    ESCAPED_SLASH,
    WRITTEN_SIGN,
    drop_colours,
    repeat_without_colours,
)

Profile = Literal["default", "output", "answer"]
"""`output` and `answer` begin with the rules of the compatible profile for that outlet."""

Untyped = Any
"""Values of `re2`, which has no types."""

_RULES_FILE = Path(__file__).with_name("rules.jsonl")
_LOAD_AFTER_BYTES = 64 * 1024
"""Size of the text that a process searches without RE2, in bytes."""
_MAX_CACHED_NAMES = 256
"""Maximum number of names whose answer is cached."""
_NESTED_CHARS = 256
"""Maximum length of a rejected value that is searched for a name and value within it."""


_CHECKED_BYTES = 512
"""Bytes of a value that a check examines."""
_LEAD_BYTES = 4
"""Bytes before a name that a check examines."""
_MAX_REFUSED = 10_000
_QUOTES = frozenset({b'"', b"'", b"`", b";"})
"""The last byte before a quoted value; `;` ends `&quot;`."""

_BETWEEN_PATTERN = compile_late(rb"[ \t\[\],A-Za-z0-9.+-]*")
"""Brackets and commas; also numbers, `null`, and the prefix of a Python string."""
_OPENER_PATTERN = compile_late(rb"""\\{0,15}["'\x60]""")
_LISTED_PATTERN = compile_late(rb"""[^"'\x60\\\s]*""")
_MIN_LISTED_BYTES = 6
"""Minimum length of a value that may be a secret."""
_BRACKETS_PATTERN = compile_late(rb"[\[\]]")
_END_PATTERNS = {
    quote: compile_late(rb"(?:[^\n\r\\" + quote + rb"]|\\[^\n\r])*" + quote)
    for quote in (b'"', b"'", b"\x60")
}


class _Keywords(NamedTuple):
    """Keywords, each with another text that must also occur."""

    by_beginning: dict[tuple[int, int, int], list[tuple[bytes, bytes]]]
    short: list[tuple[bytes, bytes]]
    """Keywords of fewer than three bytes."""


@cache
def _read_rules() -> list[bytes]:
    return _RULES_FILE.read_bytes().splitlines()


@cache
def _keywords() -> _Keywords:
    with _RULES_FILE.open("rb") as lines:
        words: dict[str, str] = orjson.loads(lines.readline())["keywords"]
    found = _Keywords({}, [])
    for word, also in ((word.encode(), also.encode()) for word, also in words.items()):
        if len(word) > 2:
            found.by_beginning.setdefault((word[0], word[1], word[2]), []).append((word, also))
        else:
            found.short.append((word, also))
    return found


class _LoadState:
    """Whether the rules are loaded, or how much has been searched without them."""

    size = 0
    """Bytes searched so far without RE2."""
    rules: "RedactionRules | None" = None


def may_match(data: bytes) -> bool:
    """Return whether a rule may match a text; False is certain."""
    if _LoadState.rules is not None:
        return _LoadState.rules.has_keyword(data)
    _LoadState.size += len(data)
    if _LoadState.size > _LOAD_AFTER_BYTES:
        return load_rules().has_keyword(data)
    lowered, keywords = repeat_without_colours(data).lower(), _keywords()
    beginnings = keywords.by_beginning.keys() & zip(lowered, lowered[1:], lowered[2:])  # noqa: B905 - ends with the shortest
    words = [word for beginning in beginnings for word in keywords.by_beginning[beginning]]
    # `find`, because `in` on bytes creates and drops an exception each time.
    return any(lowered.find(word) >= 0 and lowered.find(also) >= 0 for word, also in words + keywords.short)


@lru_cache(_MAX_CACHED_NAMES)
def may_match_name(text: str) -> bool:
    """Return `may_match` of a short text that recurs; the answer is cached."""
    return may_match(text.encode("utf-8", "surrogatepass"))


class SecretMatch(NamedTuple):
    """A secret in a text."""

    start: int
    end: int
    rule: "RedactionRule"
    begin: int
    finish: int
    """Span of the rule's whole match: the secret and its name."""
    crosses: bool = False
    """Whether it is not a secret, but a match across lines."""

    def move(self, by: int) -> "SecretMatch":
        """Return the same match, moved in the text."""
        return self._replace(
            start=self.start + by, end=self.end + by, begin=self.begin + by, finish=self.finish + by
        )


class RedactionRule:
    """One rule. Its pattern is compiled when a text contains one of its keywords."""

    def __init__(self, facts: dict[str, Any], order: int) -> None:
        self.mark = f"[REDACTED:{facts['name']}]".encode()
        self.keywords: tuple[bytes, ...] = tuple(word.encode() for word in facts["keywords"])
        self.also: bytes = facts.get("also", "").encode()
        self.profile: str | None = facts.get("profile")
        self.order = order if self.profile is None else order - 1_000_000
        self._pattern: str = facts["pattern"]
        self._group: int | None = facts.get("group")
        self._entropy: float = facts.get("entropy", 0)
        self._check: str = facts.get("check", "")
        self._is_list: bool = facts.get("list", False)

    @cached_property
    def regex(self) -> Untyped:
        return _compile_re2().compile(b"(?m)" + self._pattern.encode(), _latin_options())

    @cached_property
    def _groups(self) -> range:
        """The groups of the pattern that may be the secret; none if it is the whole match."""
        count: int = self.regex.groups
        first = min(1, count) if self._group is None else self._group
        return range(first, count + 1) if first else range(0)

    @cached_property
    def _is_named(self) -> bool:
        """Whether the first group of the pattern is the name of the value."""
        return self._groups.start > 1

    def applies_to(self, lowered: bytes) -> bool:
        """Return whether a text in lower case contains a keyword."""
        return self.also in lowered and any(word in lowered for word in self.keywords)

    def find(self, data: bytes, refused: "Refused") -> Iterator[SecretMatch | None]:
        """Yield the secrets in some lines, and matches across lines, which are not secrets.

        Yield None after each rejected candidate: hostile text may have one every few bytes.
        """
        position, search, groups = 0, self.regex.search, self._groups
        listed = 0  # end of the searched part of lists: each string is searched once
        while (found := search(data, position)) is not None:
            begin, finish = start, end = found.span()
            for group in groups:
                where = found.span(group)
                if where[0] < where[1]:
                    start, end = where
                    break
            position = max(finish, position + 1)
            if (line_end := data.find(b"\n", begin, finish)) >= 0 and line_end < finish - 1:
                yield SecretMatch(begin, finish, self, begin, finish, crosses=True)
            elif self._is_list:
                for start, end in _find_listed(data, finish) if begin >= listed else ():
                    listed = end
                    is_secret = end - start >= _MIN_LISTED_BYTES and self._is_accepted(
                        found, data, start, end, refused
                    )
                    yield SecretMatch(start, end, self, begin, end) if is_secret else None
            elif self._is_accepted(found, data, start, end, refused):
                yield SecretMatch(start, end, self, begin, finish)
            else:
                if start > begin and end - start <= _NESTED_CHARS:
                    position = max(start, begin + 1)
                yield None

    def _is_accepted(self, found: Untyped, data: bytes, start: int, end: int, refused: "Refused") -> bool:
        if not self._check and not self._entropy:
            return True
        secret = data[start : min(end, start + _CHECKED_BYTES)]
        named = slice(*found.span(1)) if self._is_named else slice(0)
        lead = data[max(named.start - _LEAD_BYTES, 0) : named.start] if self._is_named else b""
        candidate = (self, data[named], lead, data[start - 1 : start], secret, data[end : end + 1])
        if candidate in refused:
            return False
        if self._is_secret(*candidate[1:]):
            return True
        if len(refused) < _MAX_REFUSED:
            refused.add(candidate)
        return False

    def _is_secret(self, name: bytes, lead: bytes, before: bytes, secret: bytes, after: bytes) -> bool:
        values = self._values
        if self._entropy and values.find_entropy(secret) < self._entropy:
            return False
        if not self._check:
            return True
        found_value = values.FoundValue(
            name.decode("latin-1"),
            lead.decode("latin-1"),
            secret.decode("utf-8", "replace"),
            before in _QUOTES,
            after.decode("latin-1"),
        )
        return values.CHECKS[self._check](found_value)

    @cached_property
    def _values(self) -> ModuleType:
        from paddock.policy.redaction import values

        return values


Refused = set[tuple[RedactionRule, bytes, bytes, bytes, bytes, bytes]]
"""Rejected candidates of one text, because hostile text may repeat the same ones.

Each is a rule, the name of the value, what is before the name, the byte before the value, the value, and the byte
after it.
"""


class RedactionRules:
    """All built-in rules."""

    def __init__(self) -> None:
        self.all = tuple(
            RedactionRule(orjson.loads(line), number) for number, line in enumerate(_read_rules()[1:])
        )
        by_keyword: dict[bytes, list[RedactionRule]] = {}
        for rule in self.all:
            for word in rule.keywords:
                by_keyword.setdefault(word, []).append(rule)
        self._by_number: list[list[RedactionRule]] = list(by_keyword.values())
        self._words = [word.decode() for word in by_keyword]
        self._keywords = _compile_re2().Set.SearchSet(_latin_options(case_sensitive=False))
        for word in by_keyword:
            self._keywords.Add(_compile_re2().escape(word))
        self._keywords.Add(_compile_re2().escape(WRITTEN_SIGN.decode()))
        self._keywords.Compile()
        self.marks = frozenset(rule.mark for rule in self.all)

    def has_keyword(self, data: bytes) -> bool:
        """Return whether a text may contain a keyword; False is certain."""
        return self._keywords.Match(repeat_without_colours(data)) is not None

    def find_keywords(self, data: bytes) -> tuple[str, ...]:
        """Return the keywords in a text, also with colours in them."""
        return tuple(self._words[number] for number in self._find_numbers(data))

    def _find_numbers(self, data: bytes) -> list[int]:
        found: list[int] = self._keywords.Match(data) or []
        if ESCAPE in data or ESCAPED_SLASH in data or len(self._words) in found:
            plain: list[int] = self._keywords.Match(drop_colours(data)) or []
            found = sorted({*found, *plain} - {len(self._words)})
        return found

    def select(self, data: bytes, profile: Profile) -> list[RedactionRule]:
        """Return the rules of a profile with a keyword in a text, in the order of precedence for marks."""
        found = self._find_numbers(data)
        rules = {
            rule
            for number in found
            for rule in self._by_number[number]
            if rule.profile in (None, profile) and rule.also in data
        }
        return sorted(rules, key=lambda rule: rule.order)


@cache
def load_rules() -> RedactionRules:
    """Return the rules; the first call loads RE2."""
    _LoadState.rules = RedactionRules()
    return _LoadState.rules


def _compile_re2() -> Untyped:
    import re2  # takes longer than most programs

    return re2


@cache
def _latin_options(*, case_sensitive: bool = True) -> Untyped:
    """Return options for bytes of any encoding: a character is a byte, and only ASCII letters have case."""
    options = _compile_re2().Options()
    options.encoding = _compile_re2().Options.Encoding.LATIN1
    options.log_errors = False
    options.case_sensitive = case_sensitive
    return options


def _find_listed(data: bytes, position: int) -> Iterator[tuple[int, int]]:
    """Yield the span of the value in each string of a list in JSON or source; `position` is after its opening bracket.

    A value ends at a quote, a backslash or white space, as elsewhere in a line.
    """
    depth = 1
    while (between := _BETWEEN_PATTERN.match(data, position)) is not None:
        for bracket in _BRACKETS_PATTERN.findall(between[0]):
            depth += 1 if bracket == b"[" else -1
            if not depth:
                return
        opener = _OPENER_PATTERN.match(data, between.end())
        value = opener and _LISTED_PATTERN.match(data, opener.end())
        if opener is None or value is None:
            return
        yield value.span()
        closer = _END_PATTERNS[opener[0]].match(data, opener.end()) if len(opener[0]) == 1 else None
        position = closer.end() if closer else data.find(opener[0], opener.end()) + len(opener[0])
        if position < opener.end() + len(opener[0]) or b"\n" in data[opener.end() : position]:
            return
