"""`/login`: the button of a printed link, or the form for a token."""

from starlette.requests import Request
from starlette.responses import Response

from paddock.surfaces.web.render import render


async def show_login(request: Request) -> Response:
    """Show the form. Opening the link does not log in, because programs that preview links would use it up."""
    answer = render(request, "login.html", code=request.query_params.get("code", ""))
    answer.headers["Referrer-Policy"] = "no-referrer"  # the address has the code
    return answer
