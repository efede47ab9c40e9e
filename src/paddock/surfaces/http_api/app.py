"""The application of the API: all routers, and errors as problem documents."""

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.routing import Match, Route

from paddock._version import __version__
from paddock.model.texts import suggest
from paddock.surfaces.http_api import approvals, artifacts, changes, executions, service_routes, sessions
from paddock.surfaces.http_api.context import ServerContext
from paddock.surfaces.http_api.openapi import build_document
from paddock.surfaces.http_api.running import explain_fault
from paddock.surfaces.http_api.sandboxfusion import routes as sandboxfusion_routes
from paddock.surfaces.http_api.sandboxfusion.models import PATHS as GRADING_PATHS
from paddock.surfaces.http_server.problems import (
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    UNAUTHORIZED,
    Problem,
    reject_fields,
)
from paddock.surfaces.tenants import UnknownToken

if TYPE_CHECKING:
    from fastapi.dependencies.models import Dependant

_log = logging.getLogger("paddock.http")

ROUTERS: tuple[APIRouter, ...] = (
    executions.router,
    sessions.router,
    artifacts.router,
    approvals.router,
    changes.router,
    service_routes.router,
    sandboxfusion_routes.router,
)
"""All routers of the API. Another surface over HTTP adds its own here."""


def build_api(server: ServerContext, routers: Sequence[APIRouter] = ROUTERS) -> FastAPI:
    """Return the application that answers the requests of known callers."""
    app = FastAPI(
        title="Paddock",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(reject_unknown_parameters)],
    )
    app.state.paddock = server
    for router in routers:
        app.include_router(router)
    document: dict[str, Any] = {}

    def describe() -> dict[str, Any]:
        if not document:
            document.update(build_document(app, service_routes.OPEN_PATHS))
        return document

    app.openapi = describe
    app.add_exception_handler(Problem, _answer_problem)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(UnknownToken, _answer_revoked)
    app.add_exception_handler(404, _answer_missing_path)
    routes = [each for found in (app, *routers) for each in found.routes if isinstance(each, Route)]
    app.add_exception_handler(405, partial(_answer_missing_method, routes))
    app.add_exception_handler(Exception, _answer_fault)
    return app


def reject_unknown_parameters(request: Request) -> None:
    """Raise Problem for a parameter of the query that the route does not declare.

    Health checks ignore them, as do the endpoints of SandboxFusion, whose own server does.
    """
    path = request.scope["path"]
    if not request.query_params or path in service_routes.OPEN_PATHS or path in GRADING_PATHS:
        return
    known = {*_list_parameters(request.scope["route"].dependant)}
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        raise reject_fields(
            [(f"query.{name}", f"there is no such parameter{suggest(name, known)}") for name in unknown]
        )


def _list_parameters(dependant: "Dependant") -> Iterator[str]:
    """Yield the names of the query's parameters, also of those that dependencies declare."""
    yield from (field.alias for field in dependant.query_params)
    for each in dependant.dependencies:
        yield from _list_parameters(each)


async def _answer_problem(_request: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    return problem.respond()


async def _answer_invalid(_request: Request, error: Exception) -> Response:
    """Answer for parameters outside of the body. The values are not repeated, which may be secrets."""
    assert isinstance(error, RequestValidationError)
    faults = [(".".join(map(str, each["loc"])), str(each["msg"])) for each in error.errors()]
    return reject_fields(faults).respond()


async def _answer_revoked(_request: Request, error: Exception) -> Response:
    """Answer for a token that was revoked while its request was read."""
    return Problem(UNAUTHORIZED, f"{error}.").respond()


async def _answer_missing_path(request: Request, _error: Exception) -> Response:
    path = request.url.path[:200]
    return Problem(NOT_FOUND, f"There is nothing at {path!r}. /openapi.json lists all paths.").respond()


async def _answer_missing_method(routes: Sequence[Route], request: Request, _error: Exception) -> Response:
    path, method = request.url.path[:200], request.method[:20]
    text = f"{path!r} does not have the method {method}. /openapi.json lists all of them."
    allowed = {  # Starlette names only those of the first route
        method
        for route in routes
        if route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }
    return Problem(METHOD_NOT_ALLOWED, text, headers={"Allow": ", ".join(sorted(allowed))}).respond()


async def _answer_fault(_request: Request, error: Exception) -> Response:
    return explain_fault(error).respond()
