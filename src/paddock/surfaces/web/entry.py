"""What every request for a page passes before a page sees it, and every answer on its way out.

    Host, Origin          this server's names, against DNS rebinding (`http_server/hosts.py`)
    Sec-Fetch-Site        requests that another site or another port starts are refused; such pages share our cookies
    cookie                who is logged in; without a login there is only /login and the static files
    CSRF token            every POST has it, beside the right Origin
    headers               nothing from elsewhere, no inline script or style, no frame, no cache

The name of the cookie has the port, because servers on other ports of one host share cookies
(https://www.rfc-editor.org/rfc/rfc6265#section-8.5).
"""

import hmac
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse

from paddock.model.errors import PaddockError
from paddock.surfaces.http_server.asgi import App, Receive, Scope, Send
from paddock.surfaces.http_server.entry import check_host, check_origin
from paddock.surfaces.http_server.problems import (
    BODY_TOO_LARGE,
    FOREIGN_ORIGIN,
    INVALID_REQUEST,
    UNSUPPORTED_MEDIA_TYPE,
    Problem,
)
from paddock.surfaces.web.login import Login, Logins
from paddock.surfaces.web.render import respond_problem
from paddock.surfaces.web.request import (
    FORM_KEY,
    LISTS_KEY,
    LOGIN_KEY,
    VIEWER_KEY,
    WAITING_KEY,
    go_to,
    is_part,
)
from paddock.surfaces.web.viewer import NoViewer, Viewers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.surfaces.http_server.hosts import HostNames
    from paddock.surfaces.tenants.refusals import Refusals

LOGIN_PATH, STATIC_PATH = "/login", "/static/"
_MAX_FORM_BYTES = 256 * 1024
_MAX_FIELDS = 10_000
_FORM_TYPE = "application/x-www-form-urlencoded"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Other origins get no Referer. Without one for this origin, a POST of a form would have `Origin: null`.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer, unless a page sets its own."""


class WebEntry:
    """The application of the pages, and of what is served beside them."""

    def __init__(
        self,
        pages: App,
        names: "HostNames",
        logins: Logins,
        viewers: Viewers,
        refusals: "Refusals",
        *,
        cookie_name: str,
        is_secure: bool,
    ) -> None:
        """`is_secure`: browsers reach this server only over TLS, and send the cookie only there."""
        self._pages = pages
        self._names = names
        self._logins = logins
        self._viewers = viewers
        self._refusals = refusals
        self._cookie_name = cookie_name
        self._is_secure = is_secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for a page."""
        if scope["type"] == "lifespan":
            await self._pages(scope, receive, send)
            return
        send = _add_headers(send)
        try:
            await self._answer(Request(scope, receive), send)
        except Problem as problem:
            await respond_problem(scope, problem)(scope, receive, send)

    async def _answer(self, request: Request, send: Send) -> None:
        scope, path = request.scope, request.scope["path"]
        check_host(scope, self._names, self._refusals)
        if not _is_form_of_link(request):
            check_origin(scope, self._names, self._refusals)
        if scope["method"] not in {"GET", "HEAD", "POST"}:
            raise Problem(INVALID_REQUEST, "Pages are read with GET, and their forms are sent with POST.")
        _check_site(request)
        login = self._logins.find(request.cookies.get(self._cookie_name, ""))
        scope[LOGIN_KEY] = login
        form = await _read_form(request) if scope["method"] == "POST" else {}
        scope[LISTS_KEY] = form
        scope[FORM_KEY] = {name: values[-1] for name, values in form.items()}
        if path.startswith(STATIC_PATH):
            await self._pages(scope, request.receive, send)
        elif path == LOGIN_PATH:
            await self._log_in(request, send)
        elif login is None:
            await go_to(request, LOGIN_PATH)(scope, request.receive, send)
        else:
            await self._answer_login(request, login, send)

    async def _answer_login(self, request: Request, login: Login, send: Send) -> None:
        """Answer a request of somebody who is logged in."""
        scope = request.scope
        if scope["method"] == "POST":
            given = scope[FORM_KEY].get("csrf", "")
            if not hmac.compare_digest(given.encode(), login.csrf_token.encode()):
                raise Problem(FOREIGN_ORIGIN, "The form is not one of this login. Load the page again.")
        if scope["path"] == "/logout" and scope["method"] == "POST":
            self._logins.log_out(login.cookie)
            answer = RedirectResponse(LOGIN_PATH, 303)
            answer.delete_cookie(self._cookie_name, path="/")
            await answer(scope, request.receive, send)
            return
        try:
            async with self._viewers.view(login) as viewer:
                scope[VIEWER_KEY] = viewer
                if not is_part(request):
                    scope[WAITING_KEY] = await viewer.count_waiting()
                await self._pages(scope, request.receive, send)
        except NoViewer as error:
            self._logins.log_out(login.cookie)
            raise Problem(FOREIGN_ORIGIN, f"{error}. Log in again.") from None

    async def _log_in(self, request: Request, send: Send) -> None:
        """Show the form of a link, or carry it out."""
        scope = request.scope
        if scope["method"] != "POST":
            await self._pages(scope, request.receive, send)
            return
        form = scope[FORM_KEY]
        cookie = (
            self._logins.use_code(form["code"])
            if "code" in form
            else await self._use_token(form.get("token", ""))
        )
        if cookie is None:
            self._refusals.note("unauthorized")
            text = (
                "The link was used already, or is older than a minute. Print another one: paddock ui --link"
            )
            raise Problem(FOREIGN_ORIGIN, text)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            self._cookie_name,
            cookie,
            max_age=12 * 3600,
            path="/",
            secure=self._is_secure,
            httponly=True,
            samesite="strict",
        )
        await answer(scope, request.receive, send)

    async def _use_token(self, token: str) -> str:
        """Return the cookie of a new login with a token. Raises Problem."""
        try:
            return self._logins.log_in(await self._viewers.accept_token(token.strip()))
        except PaddockError as error:
            self._refusals.note("unauthorized")
            raise Problem(FOREIGN_ORIGIN, f"{error}.") from None


def _is_form_of_link(request: Request) -> bool:
    """Return whether a request sends the form of a printed link.

    That page has no referrer, and a form of such a page has `Origin: null` (https://fetch.spec.whatwg.org/#origin-header).
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    is_login = request.method == "POST" and request.scope["path"] == LOGIN_PATH
    return is_login and site == "same-origin" and origin == "null"


def _check_site(request: Request) -> None:
    """Raise Problem for a request that another site or port has started, or whose sender is not known.

    Browsers send `Sec-Fetch-Site` to loopback and over TLS (https://www.w3.org/TR/fetch-metadata/); other clients do
    not. A page of another site may link to the login, whose form does nothing by itself.
    """
    site = request.headers.get("sec-fetch-site")
    if request.method == "POST":
        if "origin" not in request.headers or site not in {None, "same-origin"}:
            raise Problem(FOREIGN_ORIGIN, "The form was not sent by this page. Load the page again.")
    elif site not in {None, "none", "same-origin"} and request.scope["path"] != LOGIN_PATH:
        text = "Another site or another port opened this page. Open it in a new tab, or from its own links."
        raise Problem(FOREIGN_ORIGIN, text)


async def _read_form(request: Request) -> dict[str, list[str]]:
    """Return the fields of a form. Raises Problem."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM_TYPE:
        raise Problem(UNSUPPORTED_MEDIA_TYPE, f"Forms of the page are {_FORM_TYPE}.")
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _MAX_FORM_BYTES:
            raise Problem(BODY_TOO_LARGE, f"A form has at most {_MAX_FORM_BYTES} bytes.")
    form: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS
        )
    except ValueError:
        raise Problem(INVALID_REQUEST, "The form cannot be read.") from None
    for name, value in pairs:
        form.setdefault(name, []).append(value)
    return form


def _add_headers(send: Send) -> Send:
    async def send_with_headers(message: "Mapping[str, object]") -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)  # pyright: ignore[reportArgumentType] - it has `headers`
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)  # pyright: ignore[reportArgumentType]

    return send_with_headers
