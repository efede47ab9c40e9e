"""Errors in the shape of FastAPI, which these clients know: `{"detail": ...}`."""

import json
from collections.abc import Iterable, Mapping, Sequence

from fastapi.responses import JSONResponse
from pydantic import ValidationError

from paddock.model.base import Json

_MAX_INPUT_CHARS = 1000
"""Maximum size of the value that an error repeats, in characters of JSON."""
_MAX_ERRORS = 100


class InvalidRequest(Exception):
    """The request is not valid: 422."""

    def __init__(self, errors: Iterable[Mapping[str, Json]]) -> None:
        super().__init__()
        self.errors = [dict(error) for error in errors][:_MAX_ERRORS]

    def respond(self) -> JSONResponse:
        """Return the answer."""
        return JSONResponse({"detail": self.errors}, 422)


class Refused(Exception):
    """The request cannot be answered now or not at all; its text is for the client. Nothing started."""

    def __init__(self, status_code: int, detail: str) -> None:
        super().__init__(detail)
        self.status_code = status_code
        self.detail = detail

    def respond(self) -> JSONResponse:
        """Return the answer."""
        return JSONResponse({"detail": _clean(self.detail)}, self.status_code)


def explain_validation(problem: ValidationError, *path: str) -> InvalidRequest:
    """Return the error for a body, or a value in it at `path`, that does not fit its model, as FastAPI reports it."""
    return InvalidRequest(
        {
            "type": each["type"],
            "loc": ["body", *path, *each["loc"]],
            "msg": each["msg"],
            "input": render_input(each["input"]),
        }
        for each in problem.errors(include_url=False, include_context=False)
    )


def reject_value(path: Sequence[str | int], message: str, given: object) -> InvalidRequest:
    """Return the error for a value of the body at `path`."""
    error = {
        "type": "value_error",
        "loc": ["body", *path],
        "msg": f"Value error, {message}",
        "input": render_input(given),
    }
    return InvalidRequest([error])


def reject_json(error: json.JSONDecodeError) -> InvalidRequest:
    """Return the error for a body that is not JSON."""
    fault = {
        "type": "json_invalid",
        "loc": ["body", error.pos],
        "msg": "JSON decode error",
        "input": {},
        "ctx": {"error": error.msg},
    }
    return InvalidRequest([fault])


def render_input(value: object) -> Json:
    """Return a value as an error repeats it: Unicode, the head of a long string, null instead of a large object."""
    if isinstance(value, str):
        return _clean(value[:_MAX_INPUT_CHARS])
    try:
        text = _clean(json.dumps(value, allow_nan=False, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        return str(value) if isinstance(value, float) else None
    return json.loads(text) if len(text) <= _MAX_INPUT_CHARS else None


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
