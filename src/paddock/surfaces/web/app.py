"""The pages by their paths."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from paddock.model.errors import (
    ConfigurationError,
    EngineError,
    LedgerError,
    PaddockError,
    ServerError,
    StoreUnavailable,
    VaultError,
)
from paddock.surfaces.http_server.problems import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    UNAVAILABLE,
    Problem,
)
from paddock.surfaces.web.entry import LOGIN_PATH, STATIC_PATH
from paddock.surfaces.web.pages import ROUTES
from paddock.surfaces.web.pages.log_in import show_login
from paddock.surfaces.web.render import respond_problem
from paddock.surfaces.web.request import VIEWER_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.surfaces.web.viewer import Viewer

SEGMENTS = frozenset(
    ("", "login", "logout", "static", *(route.path.split("/")[1] for route in ROUTES)),
)
"""The first segments of the paths of pages. The API and MCP have others."""
_OWNERS_ERRORS = (ConfigurationError, EngineError, LedgerError, ServerError, StoreUnavailable, VaultError)
_log = logging.getLogger("paddock.web")


def is_page(path: str) -> bool:
    """Return whether a path is one of the page, and not of the API.

    Targets of requests in other forms (`*`, `NAME:PORT`, `http://...`) are none of ours (RFC 9112, 3.2).
    """
    return path.startswith("/") and path.split("/")[1] in SEGMENTS


def build_pages(link_command: str, *, takes_tokens: bool) -> Starlette:
    """Return the application that answers what has passed `entry`.

    `link_command` prints a link to log in with. `takes_tokens`: users of a server log in with their tokens.
    """
    # Pages are not compressed: the length of a compressed page could tell of its CSRF token (https://breachattack.com).
    static = GZipMiddleware(StaticFiles(directory=Path(__file__).parent / "static"))
    app = Starlette(
        routes=[Route(LOGIN_PATH, show_login), *ROUTES, Mount(STATIC_PATH.rstrip("/"), static)],
        exception_handlers={
            Problem: _show_problem,
            HTTPException: _show_missing,
            PaddockError: _show_error,
            Exception: _show_fault,
        },
    )
    app.router.redirect_slashes = False
    app.state.link_command, app.state.takes_tokens = link_command, takes_tokens
    return app


async def _show_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return respond_problem(request.scope, error)


async def _show_missing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = METHOD_NOT_ALLOWED if error.status_code == METHOD_NOT_ALLOWED.status else NOT_FOUND
    headers: Mapping[str, str] = error.headers or {}
    path = request.scope["path"][:200]  # `request.url` cannot be made of every path
    return respond_problem(request.scope, Problem(kind, f"There is nothing at {path!r}.", headers=headers))


async def _show_error(request: Request, error: Exception) -> Response:
    """Show why something was not done. Only the owner sees texts about the server itself, which have paths."""
    viewer: Viewer | None = request.scope.get(VIEWER_KEY)
    if isinstance(error, _OWNERS_ERRORS) and not (viewer and viewer.is_owner):
        _log.error("a page cannot be shown: %s", error)
        text = "The server cannot show this page just now. The log of the server says why."
        return respond_problem(request.scope, Problem(UNAVAILABLE, text))
    return respond_problem(request.scope, Problem(INVALID_REQUEST, f"{error}."))


async def _show_fault(request: Request, error: Exception) -> Response:
    """Show that Paddock failed, without a text that may have a secret; Starlette raises the error again for the log."""
    text = f"Paddock failed ({type(error).__name__}). The log of the server has the details."
    return respond_problem(request.scope, Problem(INTERNAL_ERROR, text))
