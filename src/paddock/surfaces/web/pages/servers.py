"""`/servers`."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.surfaces.web.render import render


async def show_servers(request: Request) -> Response:
    """Show the page."""
    return render(request, "servers.html")


ROUTES = (Route("/servers", show_servers),)
