"""What every request for a page passes before a page sees it, and every answer on its way out.

    Host, Origin          this server's names, against DNS rebinding (`http_server/hosts.py`)
    Sec-Fetch-Site        requests that another site or another port starts are refused; such pages share our cookies
    cookie                who is logged in; without a login there is only /login and the static files
    CSRF token            every POST has it, beside the right Origin
    headers               nothing from elsewhere, no inline script or style, no frame, no cache
    end of the login      ends what is still being sent: live pages last for hours

The name of the cookie has the port, because servers on other ports of one host share cookies
(https://www.rfc-editor.org/rfc/rfc6265#section-8.5).
"""

import asyncio
import hmac
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse

from paddock.foundation.cancellation import cancel_all
from paddock.model.errors import PaddockError
from paddock.surfaces.http_server.asgi import App, Receive, Scope, Send, header_values
from paddock.surfaces.http_server.entry import check_host, check_origin
from paddock.surfaces.http_server.problems import (
    BODY_TOO_LARGE,
    FOREIGN_ORIGIN,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    MALFORMED_BODY,
    METHOD_NOT_ALLOWED,
    SERVER_BUSY,
    UNAVAILABLE,
    UNSUPPORTED_MEDIA_TYPE,
    Problem,
    explain_rate,
)
from paddock.surfaces.tenants.errors import RateExceeded, UnknownToken
from paddock.surfaces.web.login import LOGIN_S, Login, Logins
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
from paddock.surfaces.web.viewer import NoViewer, Viewer, Viewers

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from paddock.surfaces.http_server.hosts import HostNames
    from paddock.surfaces.tenants.refusals import Refusals

LOGIN_PATH, STATIC_PATH = "/login", "/static/"
FORM_S = 20.0
"""Maximum time for the form of a request, in seconds."""
WATCH_S = 1.0
"""Time between two looks whether the login of an answer that is still being sent has ended, in seconds."""
MAX_REQUESTS = 32
"""Maximum number of requests of one person at the same time. Live pages are requests that last."""
_MAX_FORM_BYTES = 256 * 1024
_MAX_LOGIN_FORM_BYTES = 4096
"""Maximum size of the form of a login, in bytes. Everybody may send one."""
_MAX_FIELDS = 10_000
_NOT_LOGGED_IN = "You are not logged in"
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
_log = logging.getLogger("paddock.web")


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
        link_command: str,
    ) -> None:
        """`is_secure`: browsers reach this server only over TLS, and send the cookie only there.

        `link_command` prints a link to log in with.
        """
        self._link_command = link_command
        self._pages = pages
        self._names = names
        self._logins = logins
        self._viewers = viewers
        self._refusals = refusals
        self._cookie_name = cookie_name
        self._is_secure = is_secure
        self._active = Counter[str]()
        """Number of requests that are being answered, by who is logged in."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for a page."""
        if scope["type"] == "lifespan":
            await self._pages(scope, receive, send)
            return
        answer = _Answer(scope, send)
        try:
            await self._answer(Request(scope, receive), answer.send)
        except Problem as problem:
            if answer.begun:
                raise ClientDisconnect from None  # a complete answer would hide that it was cut
            await respond_problem(scope, problem)(scope, receive, answer.send)
        except PaddockError as error:  # its text is for the owner of the server
            _log.error("a page cannot be served: %s", error)
            text = "The server cannot serve its pages just now. The log of the server says why."
            await respond_problem(scope, Problem(UNAVAILABLE, text))(scope, receive, answer.send)
        except Exception as error:
            if not answer.begun and not isinstance(error, ClientDisconnect):
                text = f"Paddock failed ({type(error).__name__}). The log of the server has the details."
                await respond_problem(scope, Problem(INTERNAL_ERROR, text))(scope, receive, answer.send)
            raise

    async def _answer(self, request: Request, send: Send) -> None:
        scope, path = request.scope, request.scope["path"]
        check_host(scope, self._names, self._refusals)
        if not _is_form_of_link(request):
            check_origin(scope, self._names, self._refusals)
        if scope["method"] not in {"GET", "HEAD", "POST"}:
            text = "Pages are read with GET, and their forms are sent with POST."
            raise Problem(METHOD_NOT_ALLOWED, text, headers={"Allow": "GET, HEAD, POST"})
        _check_site(request)
        login = self._logins.find(request.cookies.get(self._cookie_name, ""))
        scope[LOGIN_KEY] = login
        if path.startswith(STATIC_PATH):
            await self._pages(scope, request.receive, send)
        elif path == LOGIN_PATH:
            await self._log_in(request, send)
        elif login is None:
            await go_to(request, LOGIN_PATH)(scope, request.receive, send)
        else:
            if self._active[login.who] >= MAX_REQUESTS:
                text = (
                    f"{MAX_REQUESTS} requests of yours are being answered. Close other tabs, and try again."
                )
                raise Problem(SERVER_BUSY, text)
            self._active[login.who] += 1
            try:
                await self._answer_login(request, login, send)
            finally:
                self._active[login.who] -= 1
                self._active += Counter()  # forgets who has none

    async def _answer_login(self, request: Request, login: Login, send: Send) -> None:
        """Answer a request of a person who is logged in."""
        scope = request.scope
        if scope["method"] == "POST":
            await _read_form(request, _MAX_FORM_BYTES)
            given = scope[FORM_KEY].get("csrf", "")
            if not hmac.compare_digest(given.encode(), login.csrf_token.encode()):
                raise Problem(FOREIGN_ORIGIN, "The form is not one of this login. Load the page again.")
        if scope["path"] == "/logout" and scope["method"] == "POST":
            self._logins.log_out(login.cookie)
            answer = go_to(request, LOGIN_PATH)
            answer.delete_cookie(
                self._cookie_name, path="/", secure=self._is_secure, httponly=True, samesite="strict"
            )
            await answer(scope, request.receive, send)
            return
        try:
            async with self._viewers.view(login) as viewer:
                scope[VIEWER_KEY] = viewer
                if not is_part(request):
                    scope[WAITING_KEY] = await viewer.count_waiting()
                await self._show_page(request, login, viewer, send)
        except RateExceeded as error:
            raise explain_rate(error) from None
        except NoViewer as error:
            self._logins.log_out(login.cookie)
            raise Problem(FOREIGN_ORIGIN, f"{error}. Log in again.", title=_NOT_LOGGED_IN) from None

    async def _show_page(self, request: Request, login: Login, viewer: Viewer, send: Send) -> None:
        """Answer with a page. End a page that is still being sent when the login ends, or its token is revoked."""
        scope = request.scope
        showing = asyncio.ensure_future(self._pages(scope, request.receive, send))
        try:
            while not (await asyncio.wait({showing}, timeout=WATCH_S))[0]:
                if scope["method"] != "POST" and (
                    viewer.has_ended or self._logins.find(login.cookie) is None
                ):
                    raise Problem(FOREIGN_ORIGIN, "This login has ended. Log in again.", title=_NOT_LOGGED_IN)
            await showing
        finally:
            await cancel_all([showing])

    async def _log_in(self, request: Request, send: Send) -> None:
        """Show the form of a link, or carry it out."""
        scope = request.scope
        if scope["method"] != "POST":
            await self._pages(scope, request.receive, send)
            return
        await _read_form(request, _MAX_LOGIN_FORM_BYTES)
        form = scope[FORM_KEY]
        cookie = (
            self._logins.use_code(form["code"])
            if "code" in form
            else await self._use_token(form.get("token", ""))
        )
        if cookie is None:
            self._refusals.note("unauthorized")
            text = (
                "The link was used already, or is older than a minute. Print another one: "
                f"{self._link_command}"
            )
            raise Problem(FOREIGN_ORIGIN, text, title=_NOT_LOGGED_IN)
        if (before := scope[LOGIN_KEY]) is not None:
            self._logins.log_out(before.cookie)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            self._cookie_name,
            cookie,
            max_age=LOGIN_S,
            path="/",
            secure=self._is_secure,
            httponly=True,
            samesite="strict",
        )
        await answer(scope, request.receive, send)

    async def _use_token(self, token: str) -> str:
        """Return the cookie of a new login with a token. Raises Problem."""
        try:
            who = await self._viewers.accept_token(token.strip())
        except RateExceeded as error:
            raise explain_rate(error) from None
        except (UnknownToken, NoViewer) as error:
            self._refusals.note("unauthorized")
            raise Problem(FOREIGN_ORIGIN, f"{error}.", title=_NOT_LOGGED_IN) from None
        return self._logins.log_in(who)


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


async def _read_form(request: Request, max_bytes: int) -> None:
    """Put the fields of a form into the scope of its request. Raises Problem."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM_TYPE:
        raise Problem(UNSUPPORTED_MEDIA_TYPE, f"Forms of the page are {_FORM_TYPE}.")
    body = bytearray()
    try:
        async with asyncio.timeout(FORM_S):
            async for piece in request.stream():
                body += piece
                if len(body) > max_bytes:
                    raise Problem(BODY_TOO_LARGE, f"This form has at most {max_bytes} bytes.")
    except TimeoutError:
        raise Problem(MALFORMED_BODY, f"The form was not complete after {FORM_S:.0f} seconds.") from None
    form: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS
        )
    except ValueError:
        raise Problem(INVALID_REQUEST, "The form cannot be read.") from None
    for name, value in pairs:
        form.setdefault(name, []).append(value)
    request.scope[LISTS_KEY] = form
    request.scope[FORM_KEY] = {name: values[-1] for name, values in form.items()}


class _Answer:
    """An answer on its way out."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self.begun = False

    async def send(self, message: "MutableMapping[str, Any]") -> None:
        """Add the headers of every answer, and send it."""
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            if self._has_unread_body():
                headers["Connection"] = "close"  # or the client could go on sending it for ever
        await self._send(message)

    def _has_unread_body(self) -> bool:
        length = header_values(self._scope, b"content-length")
        has_body = bool(header_values(self._scope, b"transfer-encoding")) or length not in ([], [b"0"])
        return has_body and FORM_KEY not in self._scope
