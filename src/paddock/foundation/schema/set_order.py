"""One order for the parts of a schema whose order means nothing: two schemas that differ only there are equal.

Servers build these parts from sets, so that they have another order at each start: `enum`, `required`, lists of types,
and defaults that list names. Every other part keeps its order, such as `prefixItems`, `anyOf` and `examples`.
"""

import json
import re
from collections.abc import Mapping
from typing import cast

from paddock.foundation.schema.dialect import MAP_KEYWORDS
from paddock.model.base import Json

_MAX_LEVELS = 100
"""Maximum depth of schemas that are sorted; deeper ones keep their order."""
_SCHEMA_KEYWORDS = frozenset(
    {
        *("items", "additionalItems", "unevaluatedItems", "prefixItems", "contains", "propertyNames"),
        *("additionalProperties", "unevaluatedProperties", "contentSchema"),
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
    }
)
"""Keywords that hold a schema or a list of schemas."""
_SET_KEYWORDS = frozenset({"enum", "required", "type"})
_NAME_LIST = re.compile(r"[A-Za-z_][\w.-]*(?:(,\s?)[A-Za-z_][\w.-]*)(?:\1[A-Za-z_][\w.-]*)*", re.ASCII)
"""A list of names with one separator. Numbers are not matched (coordinates), and neither are sentences."""


def sort_sets(schema: Json) -> Json:
    """Return a schema with its sets sorted. Validators accept the same values with both."""
    return _sort(schema, 0)


def _sort(schema: Json, depth: int) -> Json:
    if depth > _MAX_LEVELS:
        return schema
    if isinstance(schema, list):  # of schemas, whose order may count
        return [_sort(each, depth + 1) for each in cast("list[Json]", schema)]
    if not isinstance(schema, dict):
        return schema
    fields = cast("dict[str, Json]", schema)
    return {keyword: _sort_keyword(keyword, value, fields, depth) for keyword, value in fields.items()}


def _sort_keyword(keyword: str, value: Json, fields: Mapping[str, Json], depth: int) -> Json:
    match keyword, value:
        case "required" | "type", list():
            return _sort_texts(value)
        case "dependentRequired", dict():
            return {name: _sort_texts(each) for name, each in cast("dict[str, Json]", value).items()}
        case "enum", list() if not _has_parallel_list(fields):
            return _sort_scalars(cast("list[Json]", value))
        case "default", str() if listed := _NAME_LIST.fullmatch(value):
            return listed[1].join(sorted(value.split(listed[1])))
        case "default", list() if fields.get("uniqueItems") is True and not _has_positions(fields):
            return _sort_scalars(cast("list[Json]", value))
        case _, dict() if keyword in MAP_KEYWORDS:
            return {name: _sort(each, depth + 1) for name, each in cast("dict[str, Json]", value).items()}
        case _ if keyword in _SCHEMA_KEYWORDS:
            return _sort(value, depth + 1)
        case _:
            return value


def _has_parallel_list(fields: Mapping[str, Json]) -> bool:
    """Return whether another keyword may describe the values of `enum` by their position, as `enumNames` does."""
    return any(isinstance(value, list) for keyword, value in fields.items() if keyword not in _SET_KEYWORDS)


def _has_positions(fields: Mapping[str, Json]) -> bool:
    """Return whether a schema describes the items of an array by their position."""
    return "prefixItems" in fields or isinstance(fields.get("items"), list)


def _sort_texts(value: Json) -> Json:
    texts: list[Json] = cast("list[Json]", value) if isinstance(value, list) else []
    if not texts or not all(isinstance(each, str) for each in texts):
        return cast("Json", value)
    return sorted(map(str, texts))


def _sort_scalars(values: list[Json]) -> list[Json]:
    """Sort strings, numbers and null. Booleans and objects may be schemas that a `$ref` points to by position."""
    if any(isinstance(each, bool | dict | list) for each in values):
        return values
    return sorted(values, key=json.dumps)
