"""Python functions as tools: their schema from annotations and docstring, their arguments and results as JSON."""

import inspect
import json
import re
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from typing import Any, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError

from paddock.engines.servers.local_server import LocalServer, LocalTool, NoJsonError
from paddock.model.base import Json
from paddock.model.errors import InvalidArguments, RequestError
from paddock.model.texts import explain
from paddock.surfaces.client.arguments import check_type, read_text

_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_MAX_DESCRIPTION_CHARS = 4_000


def make_local_server(name: str) -> LocalServer:
    """Return a server without tools. Raises RequestError for a name that programs could not write."""
    if not _NAME_PATTERN.fullmatch(read_text(name, "tool_server")):
        raise RequestError(
            f"{name[:80]!r} cannot name a server of tools; use up to 64 letters, digits, _ and -, such as local"
        )
    return LocalServer(name)


def add_function(
    server: LocalServer,
    function: Callable[..., Any],
    *,
    name: str | None,
    description: str | None,
    read_only: bool,
    timeout_ms: int | None,
) -> None:
    """Add a function to the tools of a server. Raises RequestError for one that cannot be a tool, and says why."""
    check_type(function, Callable, "the tool", "a function")  # pyright: ignore[reportArgumentType] - an ABC
    check_type(description, (str, type(None)), "description", "a text")
    called = read_text(name or getattr(function, "__name__", ""), "tool_name")
    if not _NAME_PATTERN.fullmatch(called):
        raise RequestError(
            f"{called[:80]!r} cannot name a tool; give `tool_name`, up to 64 letters, digits, _ and -"
        )
    if called in server.tools:
        raise RequestError(
            f"there is a tool {server.name}.{called} already; give this one another `tool_name`"
        )
    try:
        tool = _make_tool(function, called, description, read_only=read_only, timeout_ms=timeout_ms)
    except (PydanticUserError, NameError) as problem:
        text = re.split(r"\. |\n", str(problem))[0]
        raise RequestError(
            f"{called} cannot be a tool: {text}; annotate it with types that JSON has"
        ) from None
    server.tools[called] = tool


def _make_tool(
    function: Callable[..., Any],
    name: str,
    description: str | None,
    *,
    read_only: bool,
    timeout_ms: int | None,
) -> LocalTool:
    hinted = function if inspect.isroutine(function) else type(function).__call__
    hints = get_type_hints(hinted, include_extras=True)
    arguments = _make_model(name, inspect.signature(function), hints)
    returned = hints.get("return", inspect.Parameter.empty)
    adapter = _make_adapter(Any if returned is inspect.Parameter.empty else returned)
    definition: dict[str, Json] = {
        "name": name,
        "description": (description or inspect.getdoc(function) or "")[:_MAX_DESCRIPTION_CHARS],
        "inputSchema": _make_schema(arguments.model_json_schema),
        "annotations": {"readOnlyHint": read_only},
    }
    if returned is not inspect.Parameter.empty and (
        schema := _make_schema(partial(adapter.json_schema, mode="serialization"))
    ):
        definition["outputSchema"] = schema
    return LocalTool(
        definition,
        partial(_start_call, function, arguments),
        partial(_write_json, adapter),
        is_async=inspect.iscoroutinefunction(hinted),
        timeout_ms=timeout_ms,
    )


def _make_adapter(kind: Any) -> "TypeAdapter[Any]":  # noqa: ANN401 - annotations have no common type
    try:
        # JSON has no NaN: as a constant it is refused later, where it would be null otherwise.
        return TypeAdapter(kind, config=ConfigDict(ser_json_inf_nan="constants"))
    except PydanticUserError as problem:
        if problem.code != "type-adapter-config-unused":
            raise
        return TypeAdapter(kind)  # a model, which has a configuration


def _make_model(name: str, signature: inspect.Signature, hints: Mapping[str, Any]) -> type[BaseModel]:
    """Return what checks and converts the arguments of a function. Its fields have generated names."""
    fields: dict[str, Any] = {}
    for number, parameter in enumerate(signature.parameters.values()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise RequestError(
                f"{name} cannot be a tool: `{parameter.name}` has no name in a call; use parameters with names"
            )
        if parameter.name not in hints:
            raise RequestError(f"{name} cannot be a tool: `{parameter.name}` has no type; annotate it")
        default: Any = ... if parameter.default is parameter.empty else parameter.default
        fields[f"field_{number}"] = (hints[parameter.name], Field(default, alias=parameter.name))
    config = ConfigDict(extra="forbid", hide_input_in_errors=True)
    return create_model(name, __config__=config, **fields)


def _make_schema(generate: Callable[[], dict[str, Json]]) -> dict[str, Json]:
    """Return a JSON Schema without titles, which only repeat names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a default that JSON does not have is left out
        return cast("dict[str, Json]", _remove_titles(generate()))


def _remove_titles(node: Json, *, is_schema: bool = True) -> Json:
    if isinstance(node, list):
        return [_remove_titles(each) for each in cast("list[Json]", node)]
    if not isinstance(node, dict):
        return node
    return {
        key: _remove_titles(value, is_schema=not is_schema or key not in {"properties", "$defs"})
        for key, value in cast("dict[str, Json]", node).items()
        if not (is_schema and key == "title" and isinstance(value, str))
    }


def _start_call(
    function: Callable[..., Any], arguments: type[BaseModel], given: Mapping[str, Json]
) -> Callable[[], Any]:
    """Return the call of a function, not made yet. Raises InvalidArguments."""
    try:
        checked = arguments.model_validate(given)
    except ValidationError as problem:
        raise InvalidArguments("; ".join(explain(problem, limit=None))) from None
    fields = arguments.model_fields
    named = {str(fields[field].alias): getattr(checked, field) for field in checked.model_fields_set}
    return partial(function, **named)


def _write_json(adapter: "TypeAdapter[Any]", value: object) -> str:
    """Return a value as JSON text. Raises NoJsonError for what has none."""
    if isinstance(value, Iterator | AsyncIterator):
        raise NoJsonError  # it may never end
    try:
        plain = adapter.dump_python(value, mode="json", by_alias=True, warnings="none")
        return json.dumps(plain, allow_nan=False, ensure_ascii=False)
    except (PydanticSerializationError, TypeError, ValueError, RecursionError):
        raise NoJsonError from None
