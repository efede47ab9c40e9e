"""`/changes`."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.surfaces.web.render import render


async def show_changes(request: Request) -> Response:
    """Show the page."""
    return render(request, "changes.html")


ROUTES = (Route("/changes", show_changes),)
