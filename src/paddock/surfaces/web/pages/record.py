"""`/record`."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.surfaces.web.render import render


async def show_record(request: Request) -> Response:
    """Show the page."""
    return render(request, "record.html")


ROUTES = (Route("/record", show_record),)
