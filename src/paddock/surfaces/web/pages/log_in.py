"""`/login`: the button of a printed link, or the form for a token."""

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from paddock.surfaces.web.render import render

if TYPE_CHECKING:
    from starlette.datastructures import State


async def show_login(request: Request) -> Response:
    """Show the form. Opening the link does not log in, because programs that preview links would use it up."""
    state: State = request.app.state
    answer = render(
        request,
        "login.html",
        code=request.query_params.get("code", ""),
        command=state.link_command,
        takes_tokens=state.takes_tokens,
    )
    answer.headers["Referrer-Policy"] = "no-referrer"  # the address has the code
    return answer
