"""Errors in the shape of FastAPI, which these clients know: `{"detail": ...}`. A refusal for load is always 504."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from fastapi import Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from paddock.model.base import Json
from paddock.model.texts import MAX_LISTED_FAULTS
from paddock.surfaces.http_server.problems import Problem

_MAX_INPUT_CHARS = 1000
"""Maximum size of the value that an error repeats, in characters of JSON."""
_MAX_ERRORS = 100
_PLACE_PATTERN = re.compile(r" at line (?P<line>\d+) column (?P<column>\d+)$")


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


def answer_problem(problem: Problem) -> Response:
    """Return the answer for a problem: its document, which has a `detail`, too; for a refusal because of load, 504."""
    if problem.kind.status in {429, 503}:
        return Refused(504, f"{problem} Nothing started; it is safe to retry.").respond()
    return problem.respond()


def explain_validation(problem: ValidationError, *path: str) -> InvalidRequest:
    """Return the error for a body, or a value in it at `path`, that does not fit its model, as FastAPI reports it."""
    if (number := problem.error_count()) > MAX_LISTED_FAULTS:
        return reject_value(path, f"{number} values are not valid, which are too many to list", None)
    faults = problem.errors(include_url=False, include_context=False)
    if not path and faults[0]["type"] == "json_invalid":
        return _reject_json(faults[0]["msg"], faults[0]["input"])
    if not path and faults[0]["type"] == "model_type" and not faults[0]["loc"]:
        return reject_body("model_attributes_type", faults[0]["input"])
    return InvalidRequest(
        {
            "type": each["type"],
            "loc": ["body", *path, *each["loc"]],
            "msg": each["msg"],
            "input": render_input(each["input"]),
        }
        for each in faults
    )


def reject_body(kind: Literal["missing", "model_attributes_type"], given: object = None) -> InvalidRequest:
    """Return the error for a body that is missing, or that is no JSON object."""
    messages = {
        "missing": "Field required",
        "model_attributes_type": "Input should be a valid dictionary or object to extract fields from",
    }
    fault: dict[str, Json] = {
        "type": kind,
        "loc": ["body"],
        "msg": messages[kind],
        "input": render_input(given),
    }
    return InvalidRequest([fault])


def reject_value(path: Sequence[str | int], message: str, given: object) -> InvalidRequest:
    """Return the error for a value of the body at `path`."""
    error = {
        "type": "value_error",
        "loc": ["body", *path],
        "msg": f"Value error, {message}",
        "input": render_input(given),
    }
    return InvalidRequest([error])


def _reject_json(message: str, body: object) -> InvalidRequest:
    """Return the error for a body that is not JSON. `message` ends with a line and a column, counted in bytes."""
    found = _PLACE_PATTERN.search(message)
    position = 0
    if found is not None and isinstance(body, bytes | str):
        data = body.encode() if isinstance(body, str) else body
        lines = data.split(b"\n", int(found["line"]) - 1)
        position = len(data) - len(lines[-1]) + int(found["column"]) - 1
    reason = _PLACE_PATTERN.sub("", message.removeprefix("Invalid JSON: "))
    fault = {
        "type": "json_invalid",
        "loc": ["body", max(0, position)],
        "msg": "JSON decode error",
        "input": {},
        "ctx": {"error": reason},
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
