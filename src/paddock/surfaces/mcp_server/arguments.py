"""Read arguments as models and client libraries write them, if the schema leaves only one meaning.

    null                      the argument is missing
    timeoutMs                 `timeout_ms`; a former name of an argument becomes its present name
    "a.b"                     a list with this string, if the schema wants a list of strings; a string with spaces
                              could be several items, so that it is read only if items are phrases
    5e3, "5000", "true"       the whole number, number or boolean, if the schema wants one
    '{"id": 5}', "[1]"        the object or the array, if the schema wants one
    {"a.csv": "x"}            the list of files that has this text at this path
    "bash", "Python"          the language `shell`, `python`, if the schema lists that and not the alias

Every other value is checked against the schema unchanged. The published schemas name only the plain form.
"""

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Any, cast

from pydantic_core import from_json

from paddock.model.base import Json
from paddock.model.languages import read_language
from paddock.model.work_files import read_files_by_path

_NUMBER_PATTERN = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_MAX_NUMBER_CHARS = 40
_BOOLEANS = {"true": True, "false": False}
_CAMEL_CASE = re.compile(r"\b[a-z][a-z0-9]*(?:[A-Z][a-z0-9]*)+\b", re.ASCII)
_CAPITAL_PATTERN = re.compile(r"[A-Z]", re.ASCII)
_SEPARATOR_PATTERN = re.compile(r"[\s,]")
_NO_ALIASES: Mapping[str, str] = MappingProxyType({})
_NO_PHRASES: AbstractSet[str] = frozenset()


class NamedTwiceError(ValueError):
    """An argument was given under two of its names; the text names both."""


def read_arguments(
    schema: Mapping[str, Json],
    value: Json,
    aliases: Mapping[str, str] = _NO_ALIASES,
    phrases: AbstractSet[str] = _NO_PHRASES,
) -> Json:
    """Return a value in the form of its schema, if it was written in another form with the same meaning.

    `aliases` are former names of members, with their present names; `phrases` are lists whose items contain spaces.
    Raises NamedTwiceError.
    """
    return _read_value(schema, value, aliases, phrases, "")


def _read_value(
    schema: Mapping[str, Json], value: Json, aliases: Mapping[str, str], phrases: AbstractSet[str], path: str
) -> Json:
    kind = schema.get("type")
    if kind == ["string", "array"] and isinstance(value, str):
        return _read_text("array", value)
    if isinstance(value, str):
        value = _read_text(kind, value)
        if kind == "array" and isinstance(value, str) and _is_one_item(schema, value, path in phrases):
            value = [value]
        if path == "language" and value not in schema.get("enum", [value]):
            name = read_language(value)
            return name if name in schema["enum"] else value
    if path == "files" and kind == "array":
        value = read_files_by_path(value)
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind == "object" and isinstance(value, dict):
        return _read_members(schema, cast("dict[str, Json]", value), aliases, phrases, path)
    if kind == "array" and isinstance(value, list) and "items" in schema:
        return [
            _read_value(schema["items"], each, {}, phrases, f"{path}[]") for each in cast("list[Json]", value)
        ]
    return cast("Json", value)


def _is_one_item(schema: Mapping[str, Json], text: str, is_phrase: bool) -> bool:
    """Return whether a string can only be a single item of a list of strings: it is not JSON, and not several items."""
    if schema.get("items", {}).get("type") != "string" or text.lstrip().startswith(("[", "{")):
        return False
    return is_phrase or not (text == "" or _SEPARATOR_PATTERN.search(text))


def to_snake_case(text: str) -> str:
    """Return a text with `camelCase` names as `camel_case`."""
    return _CAMEL_CASE.sub(
        lambda name: _CAPITAL_PATTERN.sub(lambda letter: f"_{letter[0].lower()}", name[0]), text
    )


def _read_members(
    schema: Mapping[str, Json],
    value: dict[str, Json],
    aliases: Mapping[str, str],
    phrases: AbstractSet[str],
    path: str,
) -> dict[str, Json]:
    known: Mapping[str, Any] = schema.get("properties", {})
    read: dict[str, Json] = {}
    written: dict[str, str] = {}
    for given, each in value.items():
        name = given if given in known else aliases.get(given) or to_snake_case(given)
        if name not in known:
            read[given] = each
        elif each is not None:
            place = f"{path}.{name}" if path else name
            if (other := written.setdefault(name, given)) != given:
                raise NamedTwiceError(
                    f"`{other}` and `{given}` are one argument, given twice: give `{place}` alone"
                )
            read[name] = _read_value(known[name], each, {}, phrases, place)
    return read


def _read_text(kind: Json, text: str) -> Json:
    """Return the value of type `kind` that a string spells; the string itself if it spells none."""
    match kind:
        case "integer" | "number" if len(text) <= _MAX_NUMBER_CHARS and _NUMBER_PATTERN.fullmatch(text):
            return from_json(text)
        case "boolean":
            return _BOOLEANS.get(text.lower(), text)
        case "object" | "array":
            try:
                read: Json = from_json(
                    text, allow_inf_nan=False
                )  # with the limits and the precision of the message
            except ValueError:
                return text
            return cast("Json", read) if type(read) is (dict if kind == "object" else list) else text
        case _:
            return text
