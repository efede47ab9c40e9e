"""What a page finds in its request."""

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from paddock.surfaces.http_server.problems import NOT_PERMITTED, Problem

if TYPE_CHECKING:
    from starlette.requests import Request

    from paddock.surfaces.web.viewer import Viewer

VIEWER_KEY: Final = "paddock.viewer"
"""In the scope of a request: the `Viewer` who is logged in."""
LOGIN_KEY: Final = "paddock.login"
"""In the scope of a request: its `Login`; None without one."""
FORM_KEY: Final = "paddock.form"
"""In the scope of a POST: the fields of its form, by name; the last one of a name counts."""
LISTS_KEY: Final = "paddock.form.lists"
"""In the scope of a POST: all values of each field."""
_PATH_CHARACTERS = "/%?&=#:@!$'()*+,;[]~"

WAITING_KEY: Final = "paddock.waiting"
"""In the scope of a request for a page: how many questions wait for the viewer."""


def find_viewer(request: "Request") -> "Viewer":
    """Return who is logged in."""
    return request.scope[VIEWER_KEY]


def require_owner(request: "Request") -> "Viewer":
    """Return the owner who is logged in. Raises Problem for everybody else."""
    viewer = find_viewer(request)
    if not viewer.is_owner:
        raise Problem(NOT_PERMITTED, "Only the owner of the server may see this page.")
    return viewer


def find_form(request: "Request") -> dict[str, str]:
    """Return the fields of the form of a POST, by name."""
    return request.scope[FORM_KEY]


def find_list(request: "Request", name: str) -> list[str]:
    """Return all values of a field of the form of a POST."""
    return request.scope[LISTS_KEY].get(name, [])


def read_number(text: str) -> int | None:
    """Return a small whole number of an address or a form; None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 6 else None


def read_page(request: "Request") -> int:
    """Return the number of the page of a list, from 1."""
    return max(1, read_number(request.query_params.get("page", "")) or 1)


def is_part(request: "Request") -> bool:
    """Return whether a script of the page asks for a part of it."""
    return request.headers.get("hx-request") == "true"


def go_to(request: "Request", path: str) -> Response:
    r"""Return the answer to a form: the browser loads a page with GET.

    Raises ValueError unless `path` is one of this server: browsers read `//NAME` and `/\NAME` as another server.
    """
    if not path.startswith("/") or path[1:2] in {"/", "\\"}:
        raise ValueError(f"{path[:200]!r} is not a path of this server")
    path = quote(path, safe=_PATH_CHARACTERS)
    if is_part(request):
        return Response(headers={"HX-Redirect": path})
    return RedirectResponse(path, 303)
