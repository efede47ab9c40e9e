"""Make a schema of a stranger safe to walk and to check with: a tree without references, of bounded size.

A schema of two hundred bytes can refer to itself so that whoever follows it never ends, or does so 2**30 times.
So it is unfolded once, with a budget: every `$ref` within the document is replaced by what it means, and where
that would recur, go too deep or grow too large, by the schema that allows everything. What comes out allows all
that the original allows, and whoever walks it takes time that is linear in its size.
"""

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote

from paddock.foundation.schema.dialect import list_anchors
from paddock.model.base import Json

MAX_NODES = 2_000
"""Schemas within one unfolded schema."""
MAX_DEPTH = 24
"""Schemas one within the other."""

_SCHEMA_KEYWORDS = frozenset(
    "items additionalItems additionalProperties unevaluatedProperties unevaluatedItems contains not if then else"  # noqa: SIM905 - words
    " propertyNames".split()
)
_LIST_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_MAP_KEYWORDS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_DROPPED_KEYWORDS = frozenset(
    "$ref $defs definitions $id id $anchor $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor $vocabulary"  # noqa: SIM905 - words
    " $comment".split()
)
_INVERTING_KEYWORDS = frozenset(
    {"not", "if", "then", "else", "unevaluatedProperties", "unevaluatedItems", "maxContains"}
)
_NOTE_KEYWORDS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)
"""Keywords that say something and allow or forbid nothing."""


def unfold_schema(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return the schema as a tree without references, which allows at least what the original does."""
    return _Unfolding(schema).unfold_node(dict(schema), 0, ())


class _Unfolding:
    def __init__(self, document: Mapping[str, Json]) -> None:
        self._document = document
        self._left = MAX_NODES
        self._cuts = 0
        self._anchors: dict[str, Json] | None = None

    def unfold_node(self, schema: Json, depth: int, within: tuple[str, ...]) -> dict[str, Json]:
        """Return one schema unfolded; `within` are the references that led to it."""
        self._left -= 1
        if isinstance(schema, bool):
            return {} if schema else {"not": {}}
        if not isinstance(schema, dict) or depth > MAX_DEPTH or _count_children(schema) > self._left:  # pyright: ignore[reportUnknownArgumentType]
            self._cuts += 1
            return {}
        fields = cast("dict[str, Json]", schema)
        cuts = self._cuts
        tree = {
            keyword: self._unfold_child(keyword, value, depth + 1, within)
            for keyword, value in fields.items()
            if keyword not in _DROPPED_KEYWORDS
        }
        reference = fields.get("$ref")
        if isinstance(reference, str):
            target = None if reference in within else self._resolve_target(reference)
            wanted = self.unfold_node(target, depth + 1, (*within, reference))
            if tree.keys() <= _NOTE_KEYWORDS:
                return {**wanted, **tree}
            tree["allOf"] = [*_as_list(tree.get("allOf")), wanted]
        return tree if self._cuts == cuts else _loosen_schema(tree)

    def _unfold_child(self, keyword: str, value: Json, depth: int, within: tuple[str, ...]) -> Json:
        if keyword in _LIST_KEYWORDS and isinstance(value, list):
            return [self.unfold_node(item, depth, within) for item in cast("list[Json]", value)]
        if keyword in _SCHEMA_KEYWORDS:
            return value if isinstance(value, bool) else self.unfold_node(value, depth, within)
        if keyword in _MAP_KEYWORDS and isinstance(value, dict):
            members = cast("dict[str, Json]", value)
            return {name: self.unfold_node(member, depth, within) for name, member in members.items()}
        return value

    def _resolve_target(self, reference: str) -> Json:
        """Return what a reference within the document points at, by RFC 6901 or an anchor; None for any other."""
        if not reference.startswith("#"):
            return None
        if len(reference) > 1 and reference[1] != "/":
            if self._anchors is None:
                self._anchors = list_anchors(self._document)
            return self._anchors.get(reference[1:])
        node: Any = self._document
        for step in unquote(reference[1:]).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict):
                node = cast("dict[str, Any]", node).get(name)
            elif isinstance(node, list) and name.isdecimal() and len(name) < 6:  # digits
                node = (
                    cast("list[Any]", node)[int(name)] if int(name) < len(cast("list[Any]", node)) else None
                )
            else:
                return None
        return node


def _count_children(schema: dict[str, Json]) -> int:
    """Return how many schemas stand directly within one."""
    places = _LIST_KEYWORDS | _MAP_KEYWORDS
    return sum(
        len(cast("list[Json]", schema[key])) for key in places if isinstance(schema.get(key), list | dict)
    )


def _loosen_schema(tree: dict[str, Json]) -> dict[str, Json]:
    """Return a schema of which something was cut, without what would now forbid more than it did.

    The cut part allows everything: under `not` and `if` that turns into its opposite, in `oneOf` it makes a
    second match, and what is unevaluated may have been evaluated there.
    """
    kept = {key: value for key, value in tree.items() if key not in _INVERTING_KEYWORDS}
    if isinstance(kept.get("oneOf"), list):
        kept["allOf"] = [*_as_list(kept.get("allOf")), {"anyOf": kept.pop("oneOf")}]
    return kept


def _as_list(value: Json) -> list[Json]:
    return cast("list[Json]", value) if isinstance(value, list) else []
