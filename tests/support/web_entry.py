"""The entry of the page in memory: requests, and what came back for them."""

import asyncio
from collections.abc import AsyncGenerator, Callable, MutableMapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from paddock.surfaces.http_server.asgi import App, Receive, Scope, Send, send_text
from paddock.surfaces.http_server.hosts import HostNames
from paddock.surfaces.tenants.errors import RateExceeded, UnknownToken
from paddock.surfaces.tenants.refusals import Refusals
from paddock.surfaces.web.entry import WebEntry
from paddock.surfaces.web.login import OWNER, Login, Logins
from paddock.surfaces.web.request import FORM_KEY
from paddock.surfaces.web.viewer import Viewer
from paddock.testing.fakes import MemoryAudit

HOST, ORIGIN = "127.0.0.1:8710", "http://127.0.0.1:8710"
OWN = {"host": HOST, "origin": ORIGIN, "sec-fetch-site": "same-origin"}
FORM = "application/x-www-form-urlencoded"
COOKIE = "paddock_8710"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SAFE_HEADERS = {
    "content-security-policy": CSP,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class People:
    """The owner, and users with the tokens `good` and `quick`, whose rate is reached."""

    def __init__(self) -> None:
        self.revoked = asyncio.Event()
        self.problem: Exception | None = None

    @asynccontextmanager
    async def view(self, login: Login) -> AsyncGenerator[Viewer]:
        if self.problem is not None:
            raise self.problem
        unused: Any = None
        actor = "" if login.who == OWNER else login.who
        yield Viewer(actor or "olga", actor, unused, Path(), unused, None, None, self.revoked)

    async def accept_token(self, token: str) -> str:
        if token == "quick":
            raise RateExceeded(5, 12.3)
        if token != "good":
            raise UnknownToken
        return "ann"


class Page:
    """Pages and what they saw; `entry` is in front of them."""

    def __init__(self, root: Path, pages: App | None = None, *, is_secure: bool = False) -> None:
        self.logins = Logins(root / "ui")
        self.people = People()
        self.audit = MemoryAudit()
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self._refusals = Refusals(self.audit, None, "web")
        self._entry = WebEntry(
            pages or self._note,
            HostNames.of(["127.0.0.1", "localhost"], 8710),
            self.logins,
            self.people,
            self._refusals,
            cookie_name=COOKIE,
            is_secure=is_secure,
            link_command="paddock ui --link",
        )

    async def _note(self, scope: Scope, _receive: Receive, send: Send) -> None:
        self.seen.append((scope["method"], scope["path"], scope.get(FORM_KEY, {})))
        await send_text(send, 200, b"page")

    def log_in(self, who: str = OWNER) -> Login:
        login = self.logins.find(self.logins.log_in(who))
        assert login is not None
        return login

    def ask(self, path: str = "/", method: str = "GET", **options: Any) -> "Answer":
        return asyncio.run(self.exchange(path, method, **options))

    def post(self, path: str, login: Login | None = None, **form: str) -> "Answer":
        fields = form if login is None else {"csrf": login.csrf_token, **form}
        return self.ask(path, "POST", login=login, body=urlencode(fields).encode())

    async def exchange(
        self,
        path: str,
        method: str,
        *,
        login: Login | None = None,
        headers: Sequence[tuple[str, str]] | None = None,
        extra: Sequence[tuple[str, str]] = (),
        body: bytes | None = None,
        receive: Receive | None = None,
        on_message: Callable[[MutableMapping[str, Any]], None] = lambda _message: None,
    ) -> "Answer":
        sent = [*(OWN.items() if headers is None else headers), *extra]
        if login is not None:
            sent.append(("cookie", f"{COOKIE}={login.cookie}"))
        if body is not None:
            names = {name for name, _ in sent}
            sent += [] if "content-type" in names else [("content-type", FORM)]
            sent.append(("content-length", str(len(body))))
        messages: list[MutableMapping[str, Any]] = []

        async def send(message: MutableMapping[str, Any]) -> None:
            messages.append(message)
            on_message(message)

        async def receive_body() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": body or b"", "more_body": False}

        entry = self._entry
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent],
        }
        answer = Answer(messages)
        try:
            await entry(scope, receive or receive_body, send)
        except Exception as error:  # noqa: BLE001 - tests look at it
            answer.error = error
        finally:
            self._refusals.close()
        return answer


class Answer:
    error: Exception | None = None

    def __init__(self, messages: list[MutableMapping[str, Any]]) -> None:
        self.messages = messages

    @property
    def status(self) -> int:
        return self.messages[0]["status"]

    @property
    def header_pairs(self) -> list[tuple[str, str]]:
        return [
            (name.decode().lower(), value.decode("latin-1")) for name, value in self.messages[0]["headers"]
        ]

    @property
    def headers(self) -> dict[str, str]:
        return dict(self.header_pairs)

    @property
    def text(self) -> str:
        return b"".join(each.get("body", b"") for each in self.messages[1:]).decode()

    def is_framed_safely(self) -> bool:
        return SAFE_HEADERS.items() <= self.headers.items()
