"""`/approvals`."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.surfaces.web.render import render


async def show_approvals(request: Request) -> Response:
    """Show the page."""
    return render(request, "approvals.html")


ROUTES = (Route("/approvals", show_approvals),)
