"""Find texts of earlier results in the arguments of a call, for the person who is asked about it.

A label holds whatever a program computes. Evidence is exact and can be missing: only texts that stand in the arguments
as they are, or in base64, hex or URL encoding, are found.
"""

import base64
import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple, cast
from urllib.parse import unquote, unquote_plus

from paddock.model.base import Json

MIN_CHARS = 12
"""Minimum length of a common text, in characters."""
MAX_KEPT_CHARS = 1024 * 1024
"""Maximum size of the texts of all kept results, in characters. The oldest are dropped for newer ones."""
MAX_RESULT_CHARS = 256 * 1024
"""Maximum size of the kept texts of one result, in characters; the rest of it is not compared."""
MAX_ARGUMENT_CHARS = 64 * 1024
"""Maximum size of the compared arguments and all that is decoded of them, in characters."""
MAX_MATCHES = 8
"""Maximum number of common texts that are reported for one call."""
_GRAM_CHARS, _STRIDE = 7, 6
"""A common text of `MIN_CHARS` contains a piece of 7 characters that begins at a multiple of 6 in the result."""
_MAX_PLACES = 4
"""Maximum number of places in the arguments that are compared for one piece."""
_MAX_VALUES = 50_000
"""Maximum number of JSON values of one result or of arguments that are looked at."""
_MIN_LETTERS = 6
"""Minimum number of letters and digits in a common text: white space and lines say nothing."""
_MAX_LAYERS = 3
"""Maximum number of encodings inside each other."""
_MAX_PATH_CHARS = 80
_AROUND_CHARS = 16 * 1024
_NUMBER = re.compile(r"\d{6,}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}")
_HEX = re.compile(r"[0-9A-Fa-f]{24,}")
_URL_SAFE = bytes.maketrans(b"-_", b"+/")


class ArgumentText(NamedTuple):
    """A text of the arguments, or one that was decoded from it."""

    place: str
    """The argument, such as `arguments.items[2].url`."""
    encoding: str
    """How it is written there, such as `base64`; empty for a text as it is."""
    text: str


class Match(NamedTuple):
    """A text of an earlier result that stands in the arguments."""

    request: str
    """Id of the earlier call."""
    name: str
    """The earlier call, such as `mail/read`."""
    text: str
    around: str
    """The text with what is around it in the result: secrets may begin before it, and a key has thousands of
    characters."""
    place: str
    encoding: str


class KeptResult(NamedTuple):
    """The texts of one result."""

    request: str
    name: str
    owner: Any
    """Whose result it is; the tracker knows."""
    texts: tuple[str, ...]
    size: int


class Evidence:
    """The texts of the last results that have a label."""

    def __init__(self) -> None:
        self._results: deque[KeptResult] = deque()
        self._size = 0

    def keep(self, request: str, name: str, owner: object, *values: Json) -> None:
        """Keep the texts and long numbers of a result."""
        texts: list[str] = []
        left = MAX_RESULT_CHARS
        for _, text in islice(iterate_texts(list(values)), _MAX_VALUES):
            if len(text) >= MIN_CHARS or _NUMBER.search(text):
                texts.append(text[:left])
                left -= len(text)
                if left <= 0:
                    break
        if not texts:
            return
        size = sum(map(len, texts))
        self._results.append(KeptResult(request, name, owner, tuple(texts), size))
        self._size += size
        while self._size > MAX_KEPT_CHARS:
            self._size -= self._results.popleft().size

    def forget(self, owner: object) -> None:
        """Drop the results of one owner."""
        kept = [each for each in self._results if each.owner is not owner]
        self._results = deque(kept)
        self._size = sum(each.size for each in kept)

    def move(self, owner: object, other: object) -> None:
        """Let the results of `owner` belong to another one."""
        self._results = deque(
            each._replace(owner=other) if each.owner is owner else each for each in self._results
        )

    def find(self, owner: object, arguments: Json) -> list[Match]:
        """Return texts of the owner's results that stand in arguments, the newest result first."""
        own = [each for each in reversed(self._results) if each.owner is owner]
        if not own:
            return []
        given = decode_texts(arguments)
        places = _index_pieces(given)
        numbers: dict[str, ArgumentText] = {}
        for each in reversed(given):
            numbers.update(dict.fromkeys(_NUMBER.findall(each.text), each))
        found: dict[tuple[str, str], Match] = {}
        for result in own:
            for text in result.texts:
                for start, end, where in _find_common(text, given, places, numbers):
                    around = text[max(0, start - _AROUND_CHARS) : end + _AROUND_CHARS]
                    match = Match(
                        result.request, result.name, text[start:end], around, where.place, where.encoding
                    )
                    found.setdefault((match.request, match.text), match)
                    if len(found) >= MAX_MATCHES:
                        return [*found.values()]
        return [*found.values()]


def iterate_texts(value: Json, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each string and number in a JSON value as text, with its path. Names of members count, too."""
    waiting: list[tuple[str, Json]] = [(path, value)]
    while waiting:
        where, each = waiting.pop()
        if isinstance(each, str):
            yield where, each
        elif isinstance(each, dict):
            members = cast("dict[str, Json]", each)
            for name in members:
                yield where, name
            waiting += [(f"{where}.{name}"[:_MAX_PATH_CHARS], members[name]) for name in reversed(members)]
        elif isinstance(each, list | tuple):
            items = cast("list[Json]", each)
            waiting += [
                (f"{where}[{at}]"[:_MAX_PATH_CHARS], items[at]) for at in range(len(items) - 1, -1, -1)
            ]
        elif isinstance(each, int | float) and not isinstance(each, bool):
            with suppress(ValueError):  # too many digits for Python to write
                yield where, str(each)


def decode_texts(arguments: Json) -> list[ArgumentText]:
    """Return the texts of arguments and what is decoded of them, up to `MAX_ARGUMENT_CHARS` in all."""
    found: list[ArgumentText] = []
    left = MAX_ARGUMENT_CHARS
    layer = [
        ArgumentText(where, "", text)
        for where, text in islice(iterate_texts(arguments, "arguments"), _MAX_VALUES)
    ]
    for _ in range(_MAX_LAYERS + 1):
        below: list[ArgumentText] = []
        for each in layer:
            text = each.text[:left]
            if len(text) < MIN_CHARS and not _NUMBER.search(text):
                continue
            left -= len(text)
            found.append(each._replace(text=text))
            if left <= 0:
                return found
            below += [
                ArgumentText(each.place, f"{name} in {each.encoding}" if each.encoding else name, decoded)
                for name, decoded in _decode(text)
            ]
        layer = below
    return found


def _decode(text: str) -> Iterator[tuple[str, str]]:
    """Yield what a text may be the encoding of; most of it is nonsense, which matches nothing."""
    if "%" in text:
        yield "URL encoding", unquote(text)
    if "+" in text:
        yield "URL encoding", unquote_plus(text)
    compact = re.sub(r"\s+", "", text) if re.search(r"\S\s", text) else text
    for written in dict.fromkeys((text, compact)):
        for run in _HEX.findall(written):
            for offset in (0, 1):
                digits = run[offset:]
                yield from _keep_text("hex", bytes.fromhex(digits[: len(digits) // 2 * 2]))
        for run in _BASE64.findall(written):
            data = run.encode().translate(_URL_SAFE)
            for offset in range(4):
                part = data[offset:]
                rest = len(part) % 4
                part = part[:-1] if rest == 1 else part
                yield from _keep_text("base64", base64.b64decode(part + b"=" * (-len(part) % 4)))


def _keep_text(name: str, data: bytes) -> Iterator[tuple[str, str]]:
    """Yield decoded bytes as text, unless most of them are none."""
    text = data.decode("utf-8", "replace")
    if sum(map(str.isprintable, text)) - text.count("\ufffd") > len(text) * 0.7:
        yield name, text


def _index_pieces(given: list[ArgumentText]) -> dict[str, list[tuple[int, int]]]:
    """Return the first places of each piece of the arguments: number of the text, and position."""
    places: dict[str, list[tuple[int, int]]] = {}
    for number, each in enumerate(given):
        for at in range(len(each.text) - _GRAM_CHARS + 1):
            listed = places.setdefault(each.text[at : at + _GRAM_CHARS], [])
            if len(listed) < _MAX_PLACES:
                listed.append((number, at))
    return places


def _find_common(
    text: str,
    given: list[ArgumentText],
    places: dict[str, list[tuple[int, int]]],
    numbers: dict[str, ArgumentText],
) -> Iterator[tuple[int, int, ArgumentText]]:
    """Yield beginning and end of each part of a result's text that stands in the arguments, and where."""
    passed = 0
    reported: list[tuple[int, int]] = []
    for at in range(0, len(text) - _GRAM_CHARS + 1, _STRIDE):
        if at < passed or (listed := places.get(text[at : at + _GRAM_CHARS])) is None:
            continue
        parts = [(*_extend(text, at, given[number].text, place, passed), number) for number, place in listed]
        start, end, number = max(parts, key=lambda part: part[1] - part[0])
        if end - start < MIN_CHARS:
            continue
        passed = end
        if sum(map(str.isalnum, text[start:end])) >= _MIN_LETTERS:
            reported.append((start, end))
            yield start, end, given[number]
    for digits in _NUMBER.finditer(text) if numbers else ():
        if (where := numbers.get(digits[0])) is not None:
            start, end = digits.span()
            if not any(first <= start and end <= last for first, last in reported):
                yield start, end, where


def _extend(text: str, at: int, other: str, place: int, floor: int) -> tuple[int, int]:
    """Return beginning and end in `text` of what both have in common around a common piece, from `floor` on."""
    start, shift = at, place - at
    while start > floor and start + shift > 0 and text[start - 1] == other[start + shift - 1]:
        start -= 1
    end, step = at + _GRAM_CHARS, 1
    while step:  # by slices, because both may be long
        piece = text[end : end + step]
        if len(piece) == step and piece == other[end + shift : end + shift + step]:
            end, step = end + step, step * 2
        else:
            step //= 2
    return start, end
