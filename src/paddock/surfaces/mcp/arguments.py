"""Reads arguments as models and client libraries write them, where their schema leaves one reading only.

null                        an optional argument that was not given
timeoutMs                   `timeout_ms`, and a former name of an argument its present one
"a.b"                       the list of this text, where the schema wants a list of texts
"5000", "true"              the number or the boolean, where the schema wants one
'{"id": 5}', "[1]"           the object or the array, where the schema wants one

Everything else stays as it is, and is held against the schema as it came. The published schemas name the plain form:
this is what a server takes, not what it asks for.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from pydantic_core import from_json

from paddock.model.base import Json

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_MAX_NUMBER_CHARS = 40
_BOOLEANS = {"true": True, "false": False}
_CAMEL_CASE = re.compile(r"\b[a-z][a-z0-9]*(?:[A-Z][a-z0-9]*)+\b", re.ASCII)
_CAPITAL = re.compile(r"[A-Z]", re.ASCII)
_NO_ALIASES: Mapping[str, str] = MappingProxyType({})


def read_arguments(schema: Mapping[str, Json], value: Json, aliases: Mapping[str, str] = _NO_ALIASES) -> Json:
    """Return a value in the form that a schema wants, where it was written in another with the same meaning.

    `aliases` are former names of members, with their present names.
    """
    kind = schema.get("type")
    if isinstance(value, str):
        value = _read_text(kind, value)
        if kind == "array" and isinstance(value, str) and _is_one_of(schema, value):
            value = [value]
    if kind == "object" and isinstance(value, dict):
        return _read_members(schema, cast("dict[str, Json]", value), aliases)
    if kind == "array" and isinstance(value, list) and "items" in schema:
        return [read_arguments(schema["items"], each) for each in cast("list[Json]", value)]
    return cast("Json", value)


def _is_one_of(schema: Mapping[str, Json], text: str) -> bool:
    """Tell whether a text can only be the one item of a list of texts: it does not look like JSON."""
    return schema.get("items", {}).get("type") == "string" and not text.lstrip().startswith(("[", "{"))


def to_snake_case(text: str) -> str:
    """Return a text in which `camelCase` names are written `camel_case`."""
    return _CAMEL_CASE.sub(lambda name: _CAPITAL.sub(lambda letter: f"_{letter[0].lower()}", name[0]), text)


def _read_members(
    schema: Mapping[str, Json], value: dict[str, Json], aliases: Mapping[str, str]
) -> dict[str, Json]:
    known: Mapping[str, Any] = schema.get("properties", {})
    required = schema.get("required", ())
    read: dict[str, Json] = {}
    for given, each in value.items():
        name = given if given in known else aliases.get(given) or to_snake_case(given)
        twice = name != given and value.get(name) is not None
        if each is None and name in known and (twice or name in read or name not in required):
            continue
        if name not in known or twice:
            read[given] = each  # unknown, or written twice: refused under the name that was sent
        else:
            read[name] = read_arguments(known[name], each)
    return read


def _read_text(kind: Json, text: str) -> Json:
    """Return what a text spells where a value of `kind` is wanted; the text itself where it spells none."""
    match kind:
        case "integer" | "number" if len(text) <= _MAX_NUMBER_CHARS and _NUMBER.fullmatch(text):
            return from_json(text)
        case "boolean":
            return _BOOLEANS.get(text.lower(), text)
        case "object" | "array":
            try:
                read: Json = from_json(text, allow_inf_nan=False)  # like the message: as deep, as exact
            except ValueError:
                return text
            return cast("Json", read) if type(read) is (dict if kind == "object" else list) else text
        case _:
            return text
