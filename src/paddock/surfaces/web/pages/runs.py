"""`/runs`."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.surfaces.web.render import render


async def show_runs(request: Request) -> Response:
    """Show the page."""
    return render(request, "runs.html")


ROUTES = (Route("/runs", show_runs),)
