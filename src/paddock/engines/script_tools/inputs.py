"""Check the inputs of a tool against its schema, with exact messages.

Two things are stricter than in the compat format: all of JSON Schema 2020-12 applies, not only names and types, and a
whole number is a number.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from paddock.foundation.schema.check import CostlyValueError, Schema
from paddock.model.base import Json
from paddock.model.nesting import MAX_DEPTH, is_deeper
from paddock.model.numbers import loads_finite
from paddock.model.texts import ellipsis

_MAX_MESSAGE_CHARS = 300
_MAX_ERRORS = 50

Inputs = dict[str, Json]


@dataclass(frozen=True, slots=True)
class CheckedInputs:
    """The result of a check: errors, or the inputs for the script."""

    errors: tuple[str, ...]
    inputs: Inputs


def check(inputs: Mapping[str, Json], schema: Schema, *, strict_nulls: bool = False) -> CheckedInputs:
    """Return the inputs in the form for the script, or their faults.

    Unless `strict_nulls`, a null is accepted for any type: existing tools rely on it.
    """
    properties, required = properties_of(schema.document), {*list_required(schema.document)}
    normalised: Inputs = {}
    # Strings that stand for lists and objects are parsed, and empty ones left out.
    for name, given in inputs.items():
        if not isinstance(given, str) or not {"array", "object"} & {*types_of(properties.get(name))}:
            normalised[name] = given
        elif given.strip() or name in required:
            normalised[name] = _parse_text(given.strip(), given)
    value = normalised
    if not strict_nulls:
        value = {
            name: each
            for name, each in normalised.items()
            if each is not None or not types_of(properties.get(name))
        }
    try:
        errors = _list_messages(schema, value, normalised)
    except CostlyValueError as problem:
        errors = (str(problem),)
    return CheckedInputs(errors, normalised)


def json_type(value: Json) -> str:
    """Return the JSON Schema name of a value's type; 1.0 is an integer."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"


def types_of(schema: Json) -> tuple[str, ...]:
    """Return the types that a property's schema names; empty if it names none."""
    named = cast("dict[str, Json]", schema).get("type") if isinstance(schema, dict) else None
    if isinstance(named, str):
        return (named,)
    return tuple(map(str, cast("list[Json]", named))) if isinstance(named, list) else ()


def properties_of(document: Mapping[str, Json]) -> dict[str, Json]:
    """Return the declared properties of a schema."""
    found = document.get("properties")
    return cast("dict[str, Json]", found) if isinstance(found, dict) else {}


def list_required(document: Mapping[str, Json]) -> list[str]:
    """Return the required properties of a schema, in order."""
    found = document.get("required")
    return (
        [name for name in cast("list[Json]", found) if isinstance(name, str)]
        if isinstance(found, list)
        else []
    )


def _parse_text(text: str, otherwise: str) -> Json:
    if not text.startswith(("[", "{")):
        return otherwise
    try:
        value = loads_finite(text)
    except (ValueError, RecursionError):
        return otherwise
    return otherwise if is_deeper(value, MAX_DEPTH) else value


def _list_messages(schema: Schema, value: Inputs, given: Inputs) -> tuple[str, ...]:
    """Return the messages: missing fields, then wrong types in the order of the inputs, then everything else."""
    missing: list[str] = []
    types: list[tuple[int, str]] = []
    others: list[str] = []
    places = {name: place for place, name in enumerate(given)}
    for error in schema.iterate_errors(value):
        path = error.instance_path
        facts: dict[str, Any] = error.kind.as_dict()
        match error.kind.name:
            case "required" if not path:
                missing += [facts["property"]] if facts["property"] not in given else []
            case "type" if path:
                named = facts["types"]
                expected = named if isinstance(named, str) else " | ".join(named)
                text = f"Field '{_field_name(path)}': expected {expected}, got {json_type(error.instance)}"
                types.append((places.get(str(path[0]), len(places)), text))
            case _:
                text = ellipsis(error.message, _MAX_MESSAGE_CHARS)
                others.append(f"Field '{_field_name(path)}': {text}" if path else text)
    required = {name: place for place, name in reversed([*enumerate(list_required(schema.document))])}
    missing.sort(key=lambda name: required.get(name, len(required)))
    absent = [f"Missing required field: {name}" for name in missing]
    return tuple(absent + [text for _, text in sorted(types, key=lambda each: each[0])] + others)[
        :_MAX_ERRORS
    ]


def _field_name(path: list[str | int]) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text[:_MAX_MESSAGE_CHARS]
