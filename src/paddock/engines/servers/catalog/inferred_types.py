"""Infer types from results, for the many tools that declare no output type.

Only types are stored, never values. Keys of an object are stored if they look like names from a programmer. An object
whose keys look like data (ids, paths, addresses, many or uniform members) is a map. A type is a JSON Schema of `type`,
`properties`, `required`, `items` and `additionalProperties` that merges all observed results. Therefore its size grows
with the variety of results, up to a limit, and not with their number.
"""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from paddock.engines.servers.config import Server
from paddock.engines.servers.pins import memory_of
from paddock.engines.servers.result import ToolInfo, ToolResult, native_value
from paddock.foundation.files import JsonFile, Kept
from paddock.model.base import Json
from paddock.model.errors import ConfigurationError

MAX_RESULTS_PER_TOOL = 20
"""Maximum number of results of one tool that a session learns from."""
MAX_TOOLS_PER_SERVER = 500
"""Maximum number of stored tools of one server."""
_MAX_TEXT_CHARS = 64 * 1024
"""Maximum number of inspected characters of a text."""
_MAX_VALUES = 3_000
"""Maximum number of inspected values of one result."""
_MAX_DEPTH = 8
_MAX_MEMBERS = 40
"""Maximum number of keys of an object; one with more is a map."""
_MAX_TYPES = 300
"""Maximum number of types within the type of one tool."""
_MIN_EQUAL_SHAPES = 3

_KEY_PATTERN = re.compile(r"(?=\D*(?:\d\D*){0,3}\Z)[A-Za-z_$@][A-Za-z0-9_$-]{0,39}\Z")
"""A key that a programmer chose: short, plain, with few digits."""


class InferredTypes:
    """The result types of the tools in one servers file, stored across sessions.

    If they cannot be read or written, one warning is logged and nothing is stored; no other function depends on them.
    """

    def __init__(self, state: Path, servers_file: Path, kept: Kept | None = None) -> None:
        """Use `state`, Paddock's directory for facts about servers; or `kept`, which other machines may share."""
        self._kept = kept or JsonFile(memory_of(state, servers_file) / "observed.json")
        self._types: dict[str, dict[str, Any]] | None = None
        self._lessons: dict[tuple[str, str], int] = {}
        self._reported = False

    def load(self) -> None:
        """Read what is stored, for the first time. May block."""
        self._load_types()

    def type_of(self, server: str, tool: str) -> Mapping[str, Json] | None:
        """Return the observed type of a tool's results."""
        return self._load_types().get(server, {}).get(tool)

    def learn_from_result(self, server: Server, tool: ToolInfo, result: ToolResult) -> None:
        """Learn from a result, unless it is an error or the tool declares its own type."""
        key = (server.name, tool.name)
        lessons = self._lessons.get(key, 0)
        if result.is_error or tool.output_schema is not None or lessons >= MAX_RESULTS_PER_TOOL:
            return
        blocks = cast("list[Any]", result.raw["content"])
        texts = [cast("dict[str, Any]", block).get("text") for block in blocks if isinstance(block, dict)]
        if sum(len(text) for text in texts if isinstance(text, str)) > _MAX_TEXT_CHARS:
            return
        self._lessons[key] = lessons + 1
        seen = type_of(native_value(result))
        known = self.type_of(*key)
        merged = seen if known is None else merge_types(known, seen)
        if merged == known or _count_types(merged) > _MAX_TYPES:
            return
        tools = self._load_types().setdefault(server.name, {})
        if tool.name in tools or len(tools) < MAX_TOOLS_PER_SERVER:
            tools[tool.name] = merged
            self._save_type(key, merged)

    def _load_types(self) -> dict[str, dict[str, Any]]:
        if self._types is None:
            try:
                self._types = _select_valid(self._kept.read())
            except ConfigurationError as problem:
                self._log_problem(problem)
                self._types = {}
        return self._types

    def _save_type(self, key: tuple[str, str], merged: dict[str, Json]) -> None:
        server, tool = key

        def change(held: dict[str, Any]) -> None:
            known = _select_valid(held)
            held.clear()
            held.update(known)
            tools: dict[str, Any] = held.setdefault(server, {})
            theirs = tools.get(tool)
            tools[tool] = merged if theirs is None else merge_types(theirs, merged)

        try:
            self._kept.update(change)
        except ConfigurationError as problem:
            self._log_problem(problem)

    def _log_problem(self, problem: ConfigurationError) -> None:
        """Log once why types are not stored."""
        if not self._reported:
            self._reported = True
            logging.getLogger("paddock.foundation.files").warning(
                "types of results are not stored: %s", problem
            )


def type_of(value: Json) -> dict[str, Json]:
    """Return the type of a value as a JSON Schema; beyond the limits, the schema of any value."""
    return _TypeInference().infer_type(value, 0)


def merge_types(one: Mapping[str, Json], other: Mapping[str, Json]) -> dict[str, Json]:
    """Return a type that allows both. `{}` is the type of any value."""
    if not one or not other:
        return {}
    kinds = list(dict.fromkeys([*_list_kinds(one), *_list_kinds(other)]))
    merged: dict[str, Json] = {"type": kinds[0] if len(kinds) == 1 else kinds}
    if items := [each["items"] for each in (one, other) if "items" in each]:
        merged["items"] = _merge_all(items)
    objects = [each for each in (one, other) if "object" in _list_kinds(each)]
    if objects:
        merged |= _merge_objects(objects)
    return merged


def _select_valid(held: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        server: {tool: schema for tool, schema in cast("dict[str, Any]", tools).items() if _is_type(schema)}
        for server, tools in held.items()
        if isinstance(tools, dict)
    }


def _is_type(schema: object, depth: int = 0) -> bool:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return False
    fields = cast("dict[str, Any]", schema)
    properties, required = fields.get("properties", {}), fields.get("required", [])
    return (
        (_are_texts(fields.get("type", [])) or isinstance(fields["type"], str))
        and _are_texts(required)
        and isinstance(properties, dict)
        and all(_is_type(each, depth + 1) for each in cast("dict[str, Any]", properties).values())
        and all(
            _is_type(fields[key], depth + 1) for key in ("items", "additionalProperties") if key in fields
        )
    )


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in cast("list[object]", value))


class _TypeInference:
    """The inference for one value, within a budget."""

    def __init__(self) -> None:
        self._left = _MAX_VALUES

    def infer_type(self, value: Json, depth: int) -> dict[str, Json]:
        self._left -= 1
        match value:
            case bool():
                return {"type": "boolean"}
            case None:
                return {"type": "null"}
            case str():
                return {"type": "string"}
            case int() | float():
                return {"type": "number"}
            case _ if depth >= _MAX_DEPTH or self._left <= 0:
                return {}
            case list():
                items = [
                    self.infer_type(item, depth + 1)
                    for item in cast("list[Json]", value)[: max(self._left, 1)]
                ]
                return {"type": "array", "items": _merge_all(items)} if items else {"type": "array"}
            case dict():
                return self._infer_object(cast("dict[str, Json]", value), depth)
            case _:
                return {}

    def _infer_object(self, value: dict[str, Json], depth: int) -> dict[str, Json]:
        members = {
            key: self.infer_type(item, depth + 1) for key, item in list(value.items())[: max(self._left, 1)]
        }
        if len(members) < len(value) or _is_map(members):
            return {"type": "object", "additionalProperties": _merge_all(list(members.values()))}
        return {"type": "object", "properties": members, "required": sorted(members)}


def _merge_objects(objects: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """Return the merged type of objects: a map if one of them is a map, else members, some of them optional."""
    members: dict[str, dict[str, Json]] = {}
    for each in objects:
        for name, schema in each.get("properties", {}).items():
            members[name] = merge_types(members[name], schema) if name in members else schema
    maps = [each["additionalProperties"] for each in objects if "additionalProperties" in each]
    if maps or len(members) > _MAX_MEMBERS:
        return {"additionalProperties": _merge_all([*maps, *members.values()])}
    required = [name for name in members if all(name in each.get("required", []) for each in objects)]
    return {"properties": members, "required": sorted(required)}


def _is_map(members: Mapping[str, dict[str, Json]]) -> bool:
    if len(members) > _MAX_MEMBERS or not all(_KEY_PATTERN.match(name) for name in members):
        return True
    shapes = [schema.get("properties") for schema in members.values()]
    return (
        len(shapes) >= _MIN_EQUAL_SHAPES
        and bool(shapes[0])
        and all(
            isinstance(shape, dict) and shape.keys() == cast("dict[str, Json]", shapes[0]).keys()
            for shape in shapes
        )
    )


def _merge_all(schemas: Iterable[dict[str, Json]]) -> dict[str, Json]:
    merged: dict[str, Json] | None = None
    for schema in schemas:
        merged = schema if merged is None or merged == schema else merge_types(merged, schema)
    return merged or {}


def _list_kinds(schema: Mapping[str, Json]) -> list[str]:
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds)


def _count_types(schema: Json) -> int:
    if not isinstance(schema, dict):
        return 0
    fields = cast("dict[str, Json]", schema)
    within = [*fields.get("properties", {}).values(), fields.get("items"), fields.get("additionalProperties")]
    return 1 + sum(_count_types(each) for each in within)
