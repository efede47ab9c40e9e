"""Reads arguments as models and client libraries write them, where their schema leaves one reading only.

null                        an optional argument that was not given
"5000", "true"              the number or the boolean, where the schema wants one
'{"id": 5}', "[1]"           the object or the array, where the schema wants one

Everything else stays as it is, and is held against the schema as it came. The published schemas name the plain form:
this is what a server takes, not what it asks for.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

from pydantic_core import from_json

from paddock.model.base import Json

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_MAX_NUMBER_CHARS = 40
_BOOLEANS = {"true": True, "false": False}


def read_arguments(schema: Mapping[str, Json], value: Json) -> Json:
    """Return a value in the form that a schema wants, where it was written in another with the same meaning."""
    kind = schema.get("type")
    if isinstance(value, str):
        value = _read_text(kind, value)
    if kind == "object" and isinstance(value, dict):
        return _read_members(schema, cast("dict[str, Json]", value))
    if kind == "array" and isinstance(value, list) and "items" in schema:
        return [read_arguments(schema["items"], each) for each in cast("list[Json]", value)]
    return cast("Json", value)


def _read_members(schema: Mapping[str, Json], value: dict[str, Json]) -> dict[str, Json]:
    known: Mapping[str, Any] = schema.get("properties", {})
    required = schema.get("required", ())
    return {
        name: read_arguments(known[name], each) if name in known else each
        for name, each in value.items()
        if each is not None or name not in known or name in required
    }


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
