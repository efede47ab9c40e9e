"""References such as `${region}` or `${steps.fetch.value.id}`, and conditions on them.

Nothing is evaluated: a reference is a path into variables and results, and a condition compares one with a literal.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, cast

from paddock.model.base import Json
from paddock.model.errors import SdkError
from paddock.model.numbers import are_equal, dumps, loads

MAX_FILLED_CHARS = 1024 * 1024
"""Maximum characters of all filled-in references of one step."""

_REFERENCE_PATTERN = re.compile(r"(\$?)\$\{([^{}]*)\}")
_PATH_PATTERN = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_INDEX_PATTERN = re.compile(r"[0-9]{1,9}")
_CONDITION_PATTERN = re.compile(
    r"""\s*(?:(?P<no>not)\s+)?(?P<path>[A-Za-z0-9_.-]+)
    (?:\s*(?P<sign>==|!=)\s*(?P<literal>'[^']*'|"[^"]*"|-?[0-9]+(?:\.[0-9]+)?|true|false|null))?\s*""",
    re.VERBOSE,
)


class MissingReference(SdkError):
    """A reference to a missing value."""


Find = Callable[[str], Json]
"""Returns the value of a path. Raises MissingReference."""


class Condition(NamedTuple):
    """`path`, `not path`, `path == literal` or `path != literal`."""

    path: str
    negated: bool
    literal: Json
    compares: bool

    def holds(self, find: Find) -> bool:
        """Return whether the condition holds. Without a literal: the value exists and is not null, false or empty."""
        try:
            value = find(self.path)
        except MissingReference:
            value = None
        if self.compares:
            met = are_equal(value, self.literal)
        else:
            met = value is not None and value is not False and value not in ("", [], {})
        return met is not self.negated


def condition(text: str) -> Condition:
    """Return the condition in a text. Raises ValueError."""
    found = _CONDITION_PATTERN.fullmatch(text)
    if (
        found is None
        or not _PATH_PATTERN.fullmatch(found["path"])
        or found["path"] == "not"
        or (found["no"] and found["sign"])
    ):
        what = "NAME, not NAME, NAME == 'text' or NAME != 'text', where NAME is written as in ${}"
        raise ValueError(f"{text!r} is not a condition; write {what}")
    raw = found["literal"]
    literal = None if raw is None else raw[1:-1] if raw[0] in "'\"" else loads(raw)
    return Condition(found["path"], bool(found["no"]) or found["sign"] == "!=", literal, raw is not None)


def references(value: Json) -> Iterator[str]:
    """Yield the paths of all references in a value. Raises ValueError for an invalid path."""
    match value:
        case str():
            for found in _REFERENCE_PATTERN.finditer(value):
                if found[1]:
                    continue
                if not _PATH_PATTERN.fullmatch(found[2]):
                    raise ValueError(f"{found[0]} is not a reference; write $${{...}} for the text itself")
                yield found[2]
        case list() | tuple():
            for each in cast("list[Json]", value):
                yield from references(each)
        case dict():
            for each in cast("dict[str, Json]", value).values():
                yield from references(each)
        case _:
            pass


def look_up(scope: Mapping[str, Json], path: str) -> Json:
    """Return the value at a path; numbers index lists from 0. Raises MissingReference."""
    value: Json = scope
    for part in path.split("."):
        if isinstance(value, Mapping) and part in value:
            value = cast("Mapping[str, Json]", value)[part]
        elif (
            isinstance(value, list)
            and _INDEX_PATTERN.fullmatch(part)
            and int(part) < len(cast("list[Json]", value))
        ):
            value = cast("list[Json]", value)[int(part)]
        else:
            raise MissingReference(f"${{{path}}}: there is no {part!r}")
    return value


class ReferenceFiller:
    """Fills in the references of one step, up to `MAX_FILLED_CHARS` characters in total."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._left = MAX_FILLED_CHARS

    def value(self, value: Json) -> Json:
        """Return a value with its references filled in. A text that is only a reference becomes the referenced value.

        Raises MissingReference, and SdkError for too many characters.
        """
        match value:
            case str():
                whole = _REFERENCE_PATTERN.fullmatch(value)
                if whole and not whole[1]:
                    found = self._find(whole[2])
                    self._count_characters(_format_text(found))
                    return found
                return self.text(value)
            case list() | tuple():
                return [self.value(each) for each in cast("list[Json]", value)]
            case dict():
                return {name: self.value(each) for name, each in cast("dict[str, Json]", value).items()}
            case _:
                return value

    def text(self, text: str) -> str:
        """Return a text with its references filled in; other values are inserted as JSON. Raises as `value`."""
        return _REFERENCE_PATTERN.sub(self._resolve_reference, text)

    def _resolve_reference(self, found: re.Match[str]) -> str:
        return found[0][1:] if found[1] else self._count_characters(_format_text(self._find(found[2])))

    def _count_characters(self, text: str) -> str:
        self._left -= len(text)
        if self._left < 0:
            raise SdkError(
                f"the values of this step's references have more than {MAX_FILLED_CHARS} characters"
            )
        return text


def _format_text(value: Json) -> str:
    return value if isinstance(value, str) else dumps(value, ensure_ascii=False)
