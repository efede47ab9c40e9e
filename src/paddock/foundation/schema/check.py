"""JSON Schemas that say what is wrong with a value in words that help to put it right.

Schemas of strangers are welcome: nothing is fetched that a schema refers to, patterns take linear time, what looks too
often at one value is refused (`paddock.foundation.schema.cost`), and error texts quote only a short part of a value.
"""

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from paddock.foundation.schema.cost import CostlyValueError, SchemaCost
from paddock.foundation.schema.dialect import normalize_schema
from paddock.foundation.schema.pattern_cost import SIZES_KIB, BadPatternError
from paddock.model.base import Json
from paddock.model.numbers import dumps
from paddock.model.texts import ellipsis, find_nearest

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

_MAX_PROBLEMS = 5
_MAX_VALUE_CHARS = 60
_MAX_NAMES_CHARS = 300

_PATTERN_BYTES = SIZES_KIB[-1] * 1024
_AUTOMATON_BYTES = 64 * 1024
_MAX_ERROR_WORK = 2_000
"""Looks whose errors are all collected, which costs a thousand times as much as to learn that there are some."""
_FEW_LOOKS, _MAX_ERROR_WORK_OF_FEW = 16, 30_000
"""A large value of an ordinary schema: it is the value that costs time, not the schema."""
_MAX_ERROR_CHARS = 20_000_000
"""Characters of schema and value in all errors of a value: 50 ms."""

_MAX_EXACT_INTEGER, _MAX_FRACTION, _FRACTION_CHARS = 2**53, 1e40, 60
"""Fractions from 2**53 on have no exact double. Larger or longer ones are checked as doubles: it is faster."""
_MIN_SIMILARITY = 0.7
"""How like an option a text must be to be taken for it: "on" is two thirds of "none"."""
_MAX_SUGGESTION_CHARS, _MAX_SUGGESTION_NAMES = 100, 500
"""What the nearest name is looked for among: comparing takes the square of the length."""

_TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a text",
}


class BrokenSchemaError(ValueError):
    """A schema that cannot be compiled for what stands at `path` in it."""

    def __init__(self, message: str, path: list[str | int]) -> None:
        super().__init__(message)
        self.path = path


class Problem(NamedTuple):
    """What is wrong with a value, and the path of the member at fault: `rows[0].id`."""

    text: str
    path: str = ""


class Schema:
    """A JSON Schema (draft 2020-12 unless it names another); `nullable` of OpenAPI means what it says."""

    def __init__(self, document: Mapping[str, Json]) -> None:
        """Compile a schema. Raises ValueError for one that is none, or that refers to something outside of it.

        The error is a BadPatternError or BrokenSchemaError where one keyword is to blame.
        """
        from jsonschema_rs import (  # 30 ms that only tools with arguments pay
            RegexOptions,
            ValidationError,
            validator_for,
        )

        self.document = document = normalize_schema(document)
        patterns = RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_AUTOMATON_BYTES)
        try:
            self._cost = SchemaCost(document)
            self._validator = validator_for(document, retriever=_refuse_reference, pattern_options=patterns)
        except ValueError as problem:
            first = str(problem).partition("\n")[0]
            first = f"this is no JSON Schema: {ellipsis(first, _MAX_NAMES_CHARS)}"
            if isinstance(problem, BadPatternError):
                raise BadPatternError(first, problem.pattern) from None
            if isinstance(problem, ValidationError) and problem.instance_path:
                raise BrokenSchemaError(first, problem.instance_path) from None
            raise ValueError(first) from None

    def list_problems(self, value: Json) -> tuple[str, ...]:
        """Return what is wrong with a value, at most five sentences; none when nothing is.

        Each names the path, what is expected, and the nearest known name where one was misspelled.
        """
        return tuple(problem.text for problem in self.locate_problems(value))

    def locate_problems(self, value: Json) -> "tuple[Problem, ...]":
        """Return the same as `list_problems`, with the places."""
        found: list[Problem] = []
        try:
            for error in self.iterate_errors(value):
                found += self._describe_error(error)
                if len(found) >= _MAX_PROBLEMS:
                    break
        except CostlyValueError as problem:
            return (Problem(str(problem)),)
        return tuple(found[:_MAX_PROBLEMS])

    def iterate_errors(self, value: Json) -> "Iterator[ValidationError]":
        """Yield the errors of a value. Raises CostlyValueError where checking or telling would take too long."""
        cost = self._cost.measure(value)
        readable: Json = None
        try:
            is_valid = self._validator.is_valid(value)
        except (
            ValueError
        ):  # half of a character, or a number that no double equals: the library takes neither
            readable = _make_readable(value)
            is_valid = self._validator.is_valid(readable)
        if is_valid:
            return
        max_work = _MAX_ERROR_WORK_OF_FEW if cost.most_looks <= _FEW_LOOKS else _MAX_ERROR_WORK
        if cost.work > max_work or cost.error_chars > _MAX_ERROR_CHARS:
            raise CostlyValueError("the value does not match its schema, and is too large to tell where")
        # `is_valid` stops at the first error, before what the library cannot take.
        yield from self._validator.iter_errors(_make_readable(value) if readable is None else readable)

    def _describe_error(self, error: "ValidationError") -> "Iterator[Problem]":
        path = _render_path(error.instance_path)
        facts = error.kind.as_dict()
        match error.kind.name:
            case "required":
                name = facts["property"]
                about = self._describe_property(error, name) + self._find_misspelling(error, name)
                missing = _join_path(path, name)
                yield Problem(f"`{missing}` is missing{about}", missing)
            case "additionalProperties" | "unevaluatedProperties":
                known = list(self._find_subschema(error.schema_path[:-1]).get("properties", {}))
                for name in facts["unexpected"][:_MAX_PROBLEMS]:
                    shown = ellipsis(_join_path(path, name), _MAX_VALUE_CHARS)
                    yield Problem(f"`{shown}` is unknown{_suggest_names(name, known)}", shown)
            case "type":
                expected = " or ".join(_TYPES.get(name, name) for name in _as_list(facts["types"]))
                given = _render_value(error.instance)
                yield Problem(f"{_name_subject(path)} must be {expected}, not {given}", path)
            case "enum":
                options = [json.dumps(option) for option in facts["options"]]
                near = _near_option(error.instance, facts["options"])
                hint = f"; did you mean {near}?" if near else ""
                listed, given = ellipsis(", ".join(options), _MAX_VALUE_CHARS), _render_value(error.instance)
                yield Problem(f"{_name_subject(path)} must be one of {listed}, not {given}{hint}", path)
            case _:
                yield Problem(f"{_name_subject(path)}: {ellipsis(error.message, _MAX_NAMES_CHARS)}", path)

    def _describe_property(self, error: "ValidationError", name: str) -> str:
        """Return what the schema says about a missing property, in front of which stands a colon."""
        member = self._find_subschema(error.schema_path[:-1]).get("properties", {}).get(name)
        text = member.get("description") if isinstance(member, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return f": {ellipsis(text.rstrip('. '), _MAX_NAMES_CHARS)}" if isinstance(text, str) else ""

    def _find_misspelling(self, error: "ValidationError", name: str) -> str:
        """Return which name that the schema does not know may stand for a missing one; empty where none is near."""
        parent = self._find_subschema(error.schema_path[:-1])
        known = parent.get("properties", {})
        if not isinstance(error.instance, dict) or parent.get("additionalProperties") is False:
            return ""  # what is unknown is told by itself
        given = {_normalize_name(each): each for each in error.instance if each not in known}
        near = _find_nearest(_normalize_name(name), list(given))
        return (
            f"; `{ellipsis(given[near], _MAX_VALUE_CHARS)}` was given: did you mean `{name}`?" if near else ""
        )

    def _find_subschema(self, path: list[str | int]) -> dict[str, Any]:
        """Return the object at a path of the schema; an empty one where a reference leads elsewhere."""
        node: Any = self.document
        for step in path:
            try:
                node = node[step]
            except (KeyError, IndexError, TypeError):
                return {}
        return node if isinstance(node, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _refuse_reference(uri: str) -> NoReturn:
    raise ValueError(f"a schema may not refer to {ellipsis(uri, _MAX_VALUE_CHARS)}")


def _render_path(steps: list[str | int]) -> str:
    path = ""
    for step in steps:
        path = f"{path}[{step}]" if isinstance(step, int) else _join_path(path, step)
    return ellipsis(path, _MAX_VALUE_CHARS)


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _name_subject(path: str) -> str:
    return f"`{path}`" if path else "the value"


def _as_list(types: str | list[str]) -> list[str]:
    return [types] if isinstance(types, str) else types


def _suggest_names(name: str, known: list[str]) -> str:
    if nearest := _find_nearest(name, known):
        return f"; did you mean `{nearest}`?"
    return f"; known: {ellipsis(', '.join(known), _MAX_NAMES_CHARS)}" if known else ""


def _find_nearest(name: str, known: list[str]) -> str | None:
    """Return the known name that is most like another; None for none, and for names that are very long."""
    if len(name) > _MAX_SUGGESTION_CHARS:
        return None
    short = [each for each in known[:_MAX_SUGGESTION_NAMES] if len(each) <= _MAX_SUGGESTION_CHARS]
    containing = [
        each for each in short if name.lower() in each.lower().split("_")
    ]  # as `handle` for `artifact_handle`
    return next(iter(find_nearest(name, short) or containing[: len(containing) == 1]), None)


def _near_option(value: Json, options: list[Json]) -> str | None:
    """Return the option that a text misspells, as JSON; None where that is not sure, for all are listed anyway."""
    if not isinstance(value, str) or len(value) > _MAX_SUGGESTION_CHARS:
        return None
    texts = {
        each.lower(): each
        for each in options[:_MAX_SUGGESTION_NAMES]
        if isinstance(each, str) and len(each) <= _MAX_SUGGESTION_CHARS
    }
    near = find_nearest(value.lower(), texts, cutoff=_MIN_SIMILARITY)
    return json.dumps(texts[near[0]]) if near else None


def _normalize_name(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _render_value(value: Json) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return f"the text {json.dumps(ellipsis(value, _MAX_VALUE_CHARS))}"
        case Decimal():
            return str(value)
        case _:
            return json.dumps(value)


def _make_readable(value: Json) -> Json:
    """Return a value with U+FFFD for each half of a character, and with doubles: with more digits checks take long.

    A fraction whose double is a whole number stays a fraction: else it would pass for an integer.
    """
    text = (
        dumps(value, ensure_ascii=False).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    )
    return json.loads(text, parse_float=_read_fraction)


def _read_fraction(digits: str) -> float | Decimal:
    number = float(digits)
    if (
        len(digits) <= _FRACTION_CHARS
        and _MAX_EXACT_INTEGER <= abs(number) < _MAX_FRACTION
        and (exact := Decimal(digits)) != number
    ):
        return exact
    return number
