"""The OpenAPI document: schemas of bodies and answers, and every status that an operation can have."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from paddock._version import __version__
from paddock.model.outcome import Outcome
from paddock.surfaces.http_api import models
from paddock.surfaces.http_api.sandboxfusion import models as grading
from paddock.surfaces.http_api.sandboxfusion.models import PATHS as GRADING_PATHS
from paddock.surfaces.http_server.problems import (
    FOREIGN_ORIGIN,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    MEDIA_TYPE,
    RECORD_FAILED,
    SERVER_BUSY,
    SERVER_ENDING,
    TOO_MANY_REQUESTS,
    UNAUTHORIZED,
    UNAVAILABLE,
    WRONG_HOST,
    ProblemDocument,
    ProblemType,
)

if TYPE_CHECKING:
    from fastapi import FastAPI
    from pydantic import BaseModel

Responses = dict[int | str, dict[str, Any]]

_REFERENCE = "#/components/schemas/{model}"
_BODIES: tuple[type["BaseModel"], ...] = (
    models.ExecutionBody,
    models.SessionExecutionBody,
    models.SessionBody,
    models.AnswerBody,
    models.ChangesBody,
    grading.RunCodeRequest,
    grading.RunJupyterRequest,
    grading.TestProgramRequest,
)
_ANSWERS: tuple[type["BaseModel"], ...] = (
    Outcome,
    ProblemDocument,
    models.ExecutionState,
    models.ExecutionList,
    models.SessionInfo,
    models.SessionList,
    models.FileList,
    models.ApprovalList,
    models.GivenVerdict,
    models.ChangesList,
    models.ChangeSetDetails,
    models.ServerInfo,
    grading.RunCodeResponse,
    grading.RunJupyterResponse,
    grading.TestProgramResponse,
)
_OF_EVERY_REQUEST = (
    *(UNAUTHORIZED, FOREIGN_ORIGIN, WRONG_HOST, TOO_MANY_REQUESTS),
    *(INTERNAL_ERROR, RECORD_FAILED, SERVER_BUSY, SERVER_ENDING, UNAVAILABLE),
)


def describe_answer(model: "type[BaseModel]", description: str, status: int = 200) -> Responses:
    """Return the entry of an answer that is a model as JSON."""
    schema = {"$ref": _REFERENCE.format(model=model.__name__)}
    return {status: {"description": description, "content": {"application/json": {"schema": schema}}}}


def describe_problems(*types: ProblemType) -> Responses:
    """Return the entries of problems, by status."""
    found: Responses = {}
    for kind in types:
        name = f"`{kind.name}`: {kind.title}."
        content = {MEDIA_TYPE: {"schema": {"$ref": _REFERENCE.format(model="ProblemDocument")}}}
        entry = found.setdefault(kind.status, {"description": "", "content": content})
        entry["description"] = f"{entry['description']} {name}".strip()
    return found


def describe_body(model: "type[BaseModel]", *, required: bool = True) -> dict[str, Any]:
    """Return the entry of a JSON body, as `openapi_extra` of a route."""
    schema = {"$ref": _REFERENCE.format(model=model.__name__)}
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}}


def build_document(app: "FastAPI", open_paths: frozenset[str]) -> dict[str, Any]:
    """Return the document of an application; paths of `open_paths` need no token."""
    document = get_openapi(
        title="Paddock",
        version=__version__,
        summary="Runs unreviewed code with exactly the powers that its policy grants.",
        routes=app.routes,
    )
    read: Sequence[tuple[type[BaseModel], Literal["validation"]]] = [(each, "validation") for each in _BODIES]
    written: Sequence[tuple[type[BaseModel], Literal["serialization"]]] = [
        (each, "serialization") for each in _ANSWERS
    ]
    _, definitions = models_json_schema([*read, *written], ref_template=_REFERENCE)
    document["components"] = {
        "schemas": definitions["$defs"],
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    }
    common = {str(status): entry for status, entry in describe_problems(*_OF_EVERY_REQUEST).items()}
    invalid = describe_problems(INVALID_REQUEST)[INVALID_REQUEST.status]
    # Where clients give up on these two, the answer is 504.
    grading_common = {status: entry for status, entry in common.items() if status not in {"429", "503"}}
    for path, operations in cast("Mapping[str, dict[str, Any]]", document["paths"]).items():
        for operation in operations.values():
            if path not in open_paths:
                operation["security"] = [{"token": []}]
                operation["responses"].setdefault(str(INVALID_REQUEST.status), invalid)
                _add_responses(operation["responses"], grading_common if path in GRADING_PATHS else common)
    return document


def _add_responses(responses: dict[str, Any], common: Mapping[str, Any]) -> None:
    """Add the statuses that every request can have; one that is listed already may have these reasons, too."""
    for status, entry in common.items():
        listed = responses.setdefault(status, entry)
        if listed is not entry:
            added = f"{listed['description']} {entry['description']}"
            responses[status] = {**listed, "description": added}
