"""Schemas as they are written in the field, made into what validators understand.

OpenAPI 3.0 says `nullable: true` and `exclusiveMinimum: true`; draft-07 names a place by `$id: "#foo"`. None of it
is JSON Schema 2020-12, which a schema is where it names no other draft.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from paddock.model.base import Json

_KNOWN_DIALECT_PATTERN = re.compile(
    r"https?://json-schema\.org/(?:schema|draft-0[467]/schema|draft/20(?:19-09|20-12)/schema)#?\Z"
)
_MAX_LEVELS = 100
"""Levels of a schema that are rewritten."""
_DATA_KEYWORDS = frozenset({"enum", "const", "default", "examples", "example"})
"""Keywords that hold values and no schemas."""
MAP_KEYWORDS = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"}
)
"""Keywords that hold schemas by name."""
_SAY_NULL = frozenset({"type", "enum", "const"})
_IN_PLACE_KEYWORDS = frozenset(
    {"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"}
)
"""Keywords that hold schemas of the same value."""
_NAMING_KEYWORDS = frozenset(
    {"$id", "id", "$schema", "$anchor", "$dynamicAnchor", "$defs", "definitions", "description"}
)
"""Keywords by which a schema is found, or that only describe it."""
_BOUND_KEYWORDS = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))


def is_known_dialect(document: Mapping[str, Json]) -> bool:
    """Tell whether a schema names no draft of JSON Schema, or one that validators know."""
    named = document.get("$schema")
    return named is None or (isinstance(named, str) and _KNOWN_DIALECT_PATTERN.match(named) is not None)


def normalize_schema(document: Mapping[str, Json]) -> dict[str, Json]:
    """Return a schema that means the same in plain JSON Schema. What is normal already stays as it is."""
    named = document.get("$schema")
    draft = named if isinstance(named, str) else ""
    places = {} if _has_resources(document) else {name: at for name, at, _ in _iterate_anchors(document)}
    # No arguments are null, and pointers of the whole document start at its root.
    root = {keyword: value for keyword, value in document.items() if keyword != "nullable"}
    return cast("dict[str, Json]", _Rewriting(draft, places).rewrite_node(root, 0))


def list_anchors(document: Mapping[str, Json]) -> dict[str, Json]:
    """Return the schemas of a document that `#NAME` refers to, by name."""
    return {name: node for name, _, node in _iterate_anchors(document, "$anchor")}


class _Rewriting:
    def __init__(self, draft: str, places: Mapping[str, str]) -> None:
        self._has_if = "draft-04" not in draft and "draft-06" not in draft
        self._has_strict_flags = "draft-04" in draft
        self._places = places

    def rewrite_node(self, value: Json, depth: int, *, by_name: bool = False) -> Json:
        """Return a value with the schemas in it rewritten; `by_name` says that it maps names to schemas."""
        if depth > _MAX_LEVELS:
            return value
        if isinstance(value, list):
            return [self.rewrite_node(item, depth + 1) for item in cast("list[Json]", value)]
        if not isinstance(value, dict):
            return value
        fields = cast("dict[str, Json]", value)
        if by_name:
            return {name: self.rewrite_node(each, depth + 1) for name, each in fields.items()}
        tree = {
            keyword: each
            if keyword in _DATA_KEYWORDS
            else self.rewrite_node(each, depth + 1, by_name=keyword in MAP_KEYWORDS)
            for keyword, each in fields.items()
        }
        for keyword in ("$id", "id"):
            if _read_anchor(tree.get(keyword)) in self._places:
                del tree[keyword]
        if (name := _read_anchor(tree.get("$ref"))) in self._places:
            tree["$ref"] = f"#{self._places[name]}"
        if not self._has_strict_flags:
            _exclude_bounds(tree)
        return self._with_null(tree) if tree.get("nullable") is True else tree

    def _with_null(self, schema: dict[str, Json]) -> dict[str, Json]:
        """Return a schema with `nullable: true` as one that says null itself."""
        del schema["nullable"]
        if not schema.keys() & _IN_PLACE_KEYWORDS:
            _allow_null(schema)
            return schema
        moved = (
            schema.keys() - _NAMING_KEYWORDS
            if "$ref" in schema
            else schema.keys() & (_IN_PLACE_KEYWORDS | _SAY_NULL)
        )
        inner = {keyword: value for keyword, value in schema.items() if keyword in moved}
        outer = {keyword: value for keyword, value in schema.items() if keyword not in moved}
        # `else` tells what is wrong within, `anyOf` only that nothing fits.
        either: dict[str, Json] = {"if": {"type": "null"}, "else": inner}
        return outer | (either if self._has_if else {"anyOf": [{"type": "null"}, inner]})


def _allow_null(schema: dict[str, Json]) -> None:
    kinds = schema.get("type")
    named: list[Json] = [kinds] if isinstance(kinds, str) else []
    named = cast("list[Json]", kinds) if isinstance(kinds, list) else named
    if named and "null" not in named:
        schema["type"] = [*named, "null"]
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    options = schema.get("enum")
    if isinstance(options, list) and None not in options:
        schema["enum"] = [*cast("list[Json]", options), None]


def _exclude_bounds(schema: dict[str, Json]) -> None:
    """Make flags of OpenAPI 3.0, which say that a bound is excluded, into bounds."""
    for bound, strict in _BOUND_KEYWORDS:
        if isinstance(flag := schema.get(strict), bool):
            del schema[strict]
            if flag and bound in schema:
                schema[strict] = schema.pop(bound)


def _read_anchor(value: Json) -> str:
    """Return the name of an anchor that draft-07 writes as `#name`; empty for anything else."""
    return value[1:] if isinstance(value, str) and value.startswith("#") and "/" not in value else ""


def _iterate_anchors(document: Mapping[str, Json], *further: str) -> Iterator[tuple[str, str, Json]]:
    """Yield name, JSON pointer and schema of each place with an old anchor, or named by a keyword of `further`."""
    seen = set[str]()
    for node, at in _iterate_schemas(document):
        names = [_read_anchor(node.get(keyword)) for keyword in ("$id", "id")]
        names += [name for keyword in further if isinstance(name := node.get(keyword), str)]
        for name in filter(None, names):
            if name not in seen:
                seen.add(name)
                yield name, at, node


def _has_resources(document: Mapping[str, Json]) -> bool:
    """Return whether nested schemas have addresses, to which anchors are relative."""
    return any(
        isinstance(own := node.get("$id"), str) and not own.startswith("#")
        for node, at in _iterate_schemas(document)
        if at
    )


def _iterate_schemas(document: Mapping[str, Json]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield what may be a schema in a document, and its JSON pointer (RFC 6901)."""
    todo: list[tuple[Json, str, int, bool]] = [(dict(document), "", 0, False)]
    while todo:
        value, at, depth, by_name = todo.pop()
        if depth > _MAX_LEVELS:
            continue
        if isinstance(value, list):
            todo += [
                (item, f"{at}/{n}", depth + 1, False) for n, item in enumerate(cast("list[Json]", value))
            ]
        elif isinstance(value, dict):
            fields = cast("dict[str, Json]", value)
            if not by_name:
                yield fields, at
            for name, child in fields.items():
                if (by_name or name not in _DATA_KEYWORDS) and isinstance(child, dict | list):
                    step = name.replace("~", "~0").replace("/", "~1")
                    todo.append((child, f"{at}/{step}", depth + 1, not by_name and name in MAP_KEYWORDS))  # pyright: ignore[reportUnknownArgumentType]
