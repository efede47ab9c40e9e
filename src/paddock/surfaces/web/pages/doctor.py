"""`/doctor`."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.surfaces.web.render import render


async def show_doctor(request: Request) -> Response:
    """Show the page."""
    return render(request, "doctor.html")


ROUTES = (Route("/doctor", show_doctor),)
