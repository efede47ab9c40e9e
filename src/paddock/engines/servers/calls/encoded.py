"""Bytes in a program's arguments: sent as base64 if the tool's schema declares base64 there."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from paddock.foundation.schema.inline_refs import unfold_schema
from paddock.model.base import Json

_NAME_PATTERN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")
_MAX_PATH_CHARS = 200


def find_misplaced(schema: Mapping[str, Json], places: Sequence[Sequence[str]]) -> str:
    """Return the first place, in a program's notation, that a schema does not declare as base64; empty if none."""
    tree = unfold_schema(schema)
    for place in places:
        nodes = [tree]
        for step in place:
            nodes = [
                below
                for node in nodes
                for each in _iterate_same_place(node)
                for below in _iterate_below(each, step)
            ]
        if not any(_is_base64(each) for node in nodes for each in _iterate_same_place(node)):
            return _render_place(place)[:_MAX_PATH_CHARS]
    return ""


def _is_base64(node: Mapping[str, Json]) -> bool:
    return node.get("contentEncoding") == "base64" or node.get("format") == "byte"


def _iterate_same_place(node: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    """Yield a schema and the schemas that it combines for the same value."""
    yield node
    for keyword in ("allOf", "anyOf", "oneOf"):
        members = node.get(keyword)
        for each in cast("list[Json]", members) if isinstance(members, list) else []:
            if isinstance(each, dict):
                yield from _iterate_same_place(cast("dict[str, Json]", each))


def _iterate_below(node: Mapping[str, Json], step: str) -> Iterator[dict[str, Json]]:
    """Yield the schemas of a member or element."""
    named, items = node.get("properties"), node.get("items")
    first: Json = cast("Json", items) if isinstance(items, list) else node.get("prefixItems")
    found: list[Json] = []
    if isinstance(named, dict) and step in named:
        found.append(cast("dict[str, Json]", named)[step])
    elif isinstance(first, list) and step.isdecimal() and int(step[:9]) < len(cast("list[Json]", first)):
        found.append(cast("list[Json]", first)[int(step[:9])])
    else:
        found += [items if step.isdecimal() else None, node.get("additionalProperties")]
    yield from (cast("dict[str, Json]", each) for each in found if isinstance(each, dict))


def _render_place(place: Sequence[str]) -> str:
    steps = (
        f"[{step}]"
        if step.isdecimal()
        else f".{step}"
        if _NAME_PATTERN.match(step)
        else f"[{json.dumps(step)}]"
        for step in place
    )
    return "arguments" + "".join(steps)
