"""Schemas of structured answers, made from the types of the answers: every possible member, and no others.

Clients can build types with all members, and validate every answer: results, failures, refusals, answers that wait for
a person, and shortened ones. Clients do not show these schemas to models. Therefore they cost no context.
"""

from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from paddock.model.base import Json, Value
from paddock.surfaces.mcp_server.toolbox import object_schema

Schema = dict[str, Json]


def build_schema(kind: Any) -> Schema:  # noqa: ANN401 - any annotation
    """Return the schema of an annotation; `paddock.surfaces.rendering.answers` says how to write one."""
    if kind in _PLAIN_TYPES:
        return _PLAIN_TYPES[kind]
    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)
        members = {name: build_schema(each) for name, each in hints.items()}
        return object_schema([name for name in members if name in kind.__required_keys__], **members)
    if get_origin(kind) is None:
        return _build_model_schema(kind)
    return _GENERIC_TYPES[get_origin(kind)](*get_args(kind))


def _build_model_schema(model: type[Value]) -> Schema:
    """Return the schema of a model, which is sent without the fields that are None: they are annotated `X | None`."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    members = {
        name: build_schema(get_args(field.annotation)[0] if field.default is None else field.annotation)
        for name, field in fields.items()
    }
    return object_schema([name for name in members if fields[name].default is not None], **members)


def _annotate(kind: object, *notes: object) -> Schema:
    """Return the schema of a type with a description, with its possible values, or of the model that it stands for."""
    schema = {**build_schema(kind)}
    for note in notes:
        if isinstance(note, str):
            schema["description"] = note
        elif isinstance(note, tuple):
            schema["enum"] = [*cast("tuple[str, ...]", note)]
        elif isinstance(note, type):
            schema |= _build_model_schema(note)
    return schema


def _build_enum(*words: str) -> Schema:
    return {"type": "string", "enum": [*words]}


def _build_list(item: object, *_others: object) -> Schema:
    return {"type": "array", "items": build_schema(item)}


def _build_map(_name: object, value: object) -> Schema:
    return {"type": "object", "additionalProperties": build_schema(value)}


def _build_choice(*kinds: object) -> Schema:
    return {"anyOf": [build_schema(kind) for kind in kinds]}


_PLAIN_TYPES: Mapping[object, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    dict[str, Json]: {"type": "object"},
    # Any JSON value, for clients that reject an empty schema.
    Json: {"anyOf": [{"type": name} for name in ("object", "array", "string", "number", "boolean", "null")]},
}
_GENERIC_TYPES: Mapping[object, Callable[..., Schema]] = {
    NotRequired: build_schema,
    Required: build_schema,
    Annotated: _annotate,
    Literal: _build_enum,
    list: _build_list,
    tuple: _build_list,
    dict: _build_map,
    Union: _build_choice,
    UnionType: _build_choice,
}
