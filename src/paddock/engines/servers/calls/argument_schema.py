"""Compile the schema of a tool's arguments as far as possible, and report what is not checked.

A server may publish a schema that Paddock does not compile: a pattern with a lookahead, a reference to another
document, an unknown draft. Its tool can still be called. Descriptions, answers and warnings name the unchecked part.
The compiled part never rejects a value that the whole schema allows:

    whole     the schema compiles
    mended    keywords that do not compile are left out and named
    outline   only types, required names and enums, with references inlined
    nothing
"""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from paddock.foundation.schema.check import BrokenSchemaError, Schema
from paddock.foundation.schema.dialect import MAP_KEYWORDS, is_known_dialect, normalize_schema
from paddock.foundation.schema.inline_refs import unfold_schema
from paddock.foundation.schema.pattern_cost import BadPatternError
from paddock.model.base import Json
from paddock.model.invisible import spell_invisible
from paddock.model.texts import ellipsis

_MAX_SCHEMA_CHARS = 64 * 1024
"""Maximum size of a schema that is compiled as a whole, in characters."""
_MAX_REMOVED_KEYWORDS = 8
"""Maximum number of keywords that are left out; beyond it only the outline is checked. A large schema may lose fewer,
because it is compiled again after each.
"""
_MAX_VALUE_CHARS = 60
_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_INVERTING_KEYWORDS = frozenset(
    {
        "not",
        "if",
        "oneOf",
        "contains",
        "minContains",
        "maxContains",
        "unevaluatedProperties",
        "unevaluatedItems",
    }
)
"""Keywords under which a weaker subschema makes the whole schema stricter."""
_COMPANION_KEYWORDS = {
    "properties": "additionalProperties",
    "patternProperties": "additionalProperties",
    "prefixItems": "items",
}
"""By keyword: a sibling that becomes stricter if the keyword is removed."""
_NULL = {"type": "null"}

Path = list[str | int]


class ArgumentSchema(NamedTuple):
    """The check of a tool's arguments."""

    schema: Schema | None
    """None if nothing can be checked."""
    unchecked: str = ""
    """What is not checked and why, as a clause without a full stop; empty if everything is."""


def compile_arguments(document: Mapping[str, Json]) -> ArgumentSchema:
    """Compile as much of a tool's schema as possible. Raises nothing."""
    try:
        characters = len(str(document))
    except RecursionError:
        characters = _MAX_SCHEMA_CHARS + 1
    if characters > _MAX_SCHEMA_CHARS:
        return _check_outline(document, f"the schema has more than {_MAX_SCHEMA_CHARS} characters")
    schema, skipped, why = normalize_schema(document), list[str](), ""
    if not is_known_dialect(document):
        skipped.append(f"by its $schema {_render_value(schema.pop('$schema'))}, which is unknown")
    for _ in range(1 + min(_MAX_REMOVED_KEYWORDS, _MAX_SCHEMA_CHARS // characters)):
        try:
            compiled = Schema(schema)
        except BadPatternError as problem:
            why, path = str(problem), next(_find_patterns(schema, problem.pattern), None)
        except BrokenSchemaError as problem:
            why, path = str(problem), problem.path
        except (ValueError, RecursionError) as problem:
            return _check_outline(document, str(problem))
        else:
            unchecked = f"arguments are not checked {' and '.join(skipped)}" if skipped else ""
            return ArgumentSchema(compiled, unchecked)
        mended = None if path is None else _remove_keyword(schema, path)
        if mended is None or path is None:
            return _check_outline(document, why)
        skipped.append(f"against {_describe_keyword(schema, path)}")
        schema = mended
    return _check_outline(document, why)


def _check_outline(document: Mapping[str, Json], why: str) -> ArgumentSchema:
    """Check only types, required names and enums."""
    why = _shorten_text(why, 3 * _MAX_VALUE_CHARS)
    outline = _simplify_schema(unfold_schema(document))
    try:
        compiled = Schema(outline)
    except ValueError:
        compiled = None
    if compiled is None or not outline.keys() & {"properties", "required", "enum", "const"}:
        return ArgumentSchema(compiled, f"arguments are not checked: {why}")
    return ArgumentSchema(
        compiled, f"arguments are not checked beyond types, required names and enums: {why}"
    )


def _simplify_schema(schema: Json) -> dict[str, Json]:
    """Reduce a schema with inlined references to types, required names and enums."""
    if not isinstance(schema, dict):
        return {}
    fields = cast("dict[str, Any]", schema)
    rough: dict[str, Json] = {key: fields[key] for key in ("const", "nullable") if key in fields}
    kinds = [fields.get("type")] if isinstance(fields.get("type"), str) else fields.get("type")
    if (named := _list_texts(kinds)) and _TYPES.issuperset(named):
        rough["type"] = named
    if isinstance(options := fields.get("enum"), list) and options:
        rough["enum"] = options
    if required := _list_texts(fields.get("required")):
        rough["required"] = required
    if isinstance(fields.get("items"), dict) and "prefixItems" not in fields:
        rough["items"] = _simplify_schema(fields["items"])
    members = fields.get("properties", {})
    if not isinstance(members, dict):
        return rough
    if members:
        rough["properties"] = {
            name: _simplify_schema(each) for name, each in cast("dict[str, Json]", members).items()
        }
    further = fields.get("additionalProperties", True)
    if "patternProperties" not in fields:
        rough["additionalProperties"] = (
            _simplify_schema(further) if isinstance(further, dict) else further is not False
        )  # pyright: ignore[reportUnknownArgumentType]
    return rough


def _list_texts(value: object) -> list[str]:
    """Return the distinct strings of a list; an empty list for any other value."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    texts = [each for each in items if isinstance(each, str)]
    return list(dict.fromkeys(texts)) if len(texts) == len(items) else []


def _remove_keyword(schema: Mapping[str, Json], path: Path) -> dict[str, Json] | None:
    """Return a schema without the keyword at `path`; None if removing it could make the schema stricter."""
    whole = path[: len(path) - next((n for n, step in enumerate(reversed(path)) if isinstance(step, str)), 0)]
    keywords = set(_iterate_keywords(schema))
    turns = bool(keywords & _INVERTING_KEYWORDS)
    if not whole or (turns and ("$ref" in keywords or _INVERTING_KEYWORDS & set(path))):
        return None
    if any(keyword.startswith("unevaluated") for keyword in keywords):
        return None
    *above, last = whole
    mended = dict(schema)
    parent: Any = mended
    is_name = False  # whether the last step is a name that the schema defines, not a keyword
    for step in above:
        parent[step] = copy.copy(parent[step])
        parent = parent[step]
        is_name = not is_name and step in MAP_KEYWORDS
    if not is_name:
        del parent[last]
        parent.pop(_COMPANION_KEYWORDS.get(cast("str", last), ""), None)
    elif above[-1] == "patternProperties":
        return _remove_keyword(schema, above)
    else:
        parent[last] = {}
    return mended


def _iterate_keywords(schema: Json) -> Iterator[str]:
    """Yield the names in a schema, except an `if` that stands for `nullable`: it does not invert anything."""
    todo: list[Json] = [schema]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            fields = cast("dict[str, Json]", value)
            yield from (name for name, each in fields.items() if name != "if" or each != _NULL)
            todo += fields.values()
        elif isinstance(value, list):
            todo += cast("list[Json]", value)


def _find_patterns(schema: Json, pattern: str) -> Iterator[Path]:
    todo: list[tuple[Json, Path]] = [(schema, [])]
    while todo:
        value, path = todo.pop()
        if isinstance(value, dict):
            for name, each in cast("dict[str, Json]", value).items():
                here: Path = [*path, name]
                if (name == "pattern" and each == pattern) or (
                    name == pattern and path[-1:] == ["patternProperties"]
                ):
                    yield here
                todo.append((each, here))
        elif isinstance(value, list):
            todo += [(each, [*path, n]) for n, each in enumerate(cast("list[Json]", value))]


def _describe_keyword(schema: Mapping[str, Json], path: Path) -> str:
    value: Any = schema
    for step in path:
        value = value[step]
    at = _shorten_text(".".join(map(str, path)), 2 * _MAX_VALUE_CHARS)
    return f"`{at}`" + (f" {_render_value(value)}" if not isinstance(value, dict | list) else "")


def _render_value(value: Json) -> str:
    return _shorten_text(json.dumps(value, ensure_ascii=False), _MAX_VALUE_CHARS)


def _shorten_text(text: str, max_chars: int) -> str:
    return ellipsis(" ".join(spell_invisible(text[: 4 * max_chars]).split()), max_chars)
