"""Requests for computations in every form that `read_arguments` understands, with deprecated names of limits."""

from functools import cache

from paddock.foundation.schema.check import Schema
from paddock.model.base import Json
from paddock.surfaces.mcp_server.arguments import NamedTwiceError, read_arguments
from paddock.surfaces.rendering.computation import (
    ComputationRequest,
    InvalidInput,
    build_request_schema,
    check_request,
    convert_request,
    replace_deprecated_limits,
)


def read_computation_request(body: Json, *, jit: bool) -> ComputationRequest:
    """Return the request in a JSON value; without `jit`, its limits have no member `jit`. Raises InvalidInput."""
    try:
        given = read_arguments(build_request_schema(jit=jit, deprecated=True), body)
    except NamedTwiceError as problem:
        raise InvalidInput(str(problem)) from None
    given, warnings = replace_deprecated_limits(given)
    check_request(given, _load_schema(jit=jit).list_problems(given))
    return convert_request(given).replace(warnings=warnings)


@cache
def _load_schema(*, jit: bool) -> Schema:
    return Schema(build_request_schema(jit=jit))
