"""What every request passes before the application sees it, and every answer on its way out.

    public paths                health checks and the like: answered to everybody
    `Host`, `Origin`            this server's names, against DNS rebinding: 421, 403
    token                       401, 429; the application learns the caller from the scope
    the application
    the end of the server       500, because something may have run
    a client that disconnects   no error, and not logged

A request that another replica has passed on was checked and counted there: only its token is checked again.

None of them reads the body.
"""

import asyncio
import base64
import binascii
import hmac
import logging
import time
from collections.abc import Callable, Collection, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Protocol

from paddock.model.errors import DatabaseRestored, PaddockError
from paddock.surfaces.http_server.asgi import App, Receive, Scope, Send, header_values
from paddock.surfaces.http_server.endpoint import MCP_PATH
from paddock.surfaces.http_server.problems import (
    FOREIGN_ORIGIN,
    INTERNAL_ERROR,
    UNAUTHORIZED,
    UNAVAILABLE,
    WRONG_HOST,
    Problem,
    ProblemType,
    explain_rate,
)
from paddock.surfaces.tenants.errors import RateExceeded, UnknownToken
from paddock.surfaces.tenants.refusals import Refusals

if TYPE_CHECKING:
    from starlette.responses import Response

    from paddock.record.telemetry.metrics import Metrics
    from paddock.surfaces.http_server.hosts import HostNames

HOP_KEY: Final = "paddock.hop"
"""In the scope of a request: the nonce of the replica that has passed it on; empty for a request of a client."""
TENANT_KEY: Final = "paddock.tenant"
"""In the scope of a request: its caller, where a server has several."""
PIECE_BYTES = 64 * 1024
"""Size of the pieces in which answers are sent. The time to take the buffered one is limited, not that for all."""

_log = logging.getLogger("paddock.http")


class Callers(Protocol):
    """What knows the callers of a server."""

    @property
    def refusals(self) -> Refusals:
        """Notes refused requests."""
        ...

    def accept_hop(self, scope: Scope) -> AbstractContextManager[str]:
        """Handle a request in the context; yield its nonce if another replica has passed it on, else an empty text.

        Raises Problem.
        """
        ...

    async def identify(self, scope: Scope, token: str) -> Scope:
        """Return a request with its caller, who has a token.

        Raises UnknownToken, RateExceeded, and other PaddockErrors if the caller cannot be served.
        """
        ...


class OneToken:
    """The callers of a server with one token, which are all alike."""

    def __init__(self, token: str, refusals: Refusals) -> None:
        self.refusals = refusals
        self._expected = token.encode()

    def accept_hop(self, scope: Scope) -> AbstractContextManager[str]:
        """Yield an empty text: such a server has no replicas."""
        return nullcontext("")

    async def identify(self, scope: Scope, token: str) -> Scope:
        """Return the request as it is. Raises UnknownToken."""
        if not hmac.compare_digest(token.encode(), self._expected):
            raise UnknownToken
        return scope


class HttpEntry:
    """The outermost application of a server."""

    def __init__(
        self,
        app: App,
        callers: Callers,
        names: "HostNames",
        *,
        public: App,
        public_paths: Collection[str],
        metrics: "Metrics | None" = None,
        respond: "Callable[[Scope, Problem], Response]" = lambda _scope, problem: problem.respond(),
    ) -> None:
        """Pass requests of `callers` for one of the `names` on to `app`, and count the answers in `metrics`.

        `public` answers `public_paths`, and the lifespan of the server. `respond` renders problems.
        """
        self._app = app
        self._callers = callers
        self._names = names
        self._public = public
        self._public_paths = public_paths
        self._metrics = metrics
        self._respond = respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._public(scope, receive, send)
            return
        exchange = _HttpExchange(scope, receive, send)
        started = time.perf_counter()
        try:
            await self._try_to_answer(scope, exchange)
        finally:
            if self._metrics is not None and exchange.begun:
                seconds = time.perf_counter() - started
                self._metrics.observe_answer(scope["method"], exchange.route, exchange.status, seconds)

    async def _try_to_answer(self, scope: Scope, exchange: "_HttpExchange") -> None:
        try:
            await self._answer(scope, exchange)
        except Problem as problem:
            await self._respond(scope, problem)(scope, exchange.receive, exchange.send)
        except asyncio.CancelledError:
            if exchange.begun:
                raise
            text = "The server ended before it had an answer. The audit record shows whether something ran."
            await Problem(INTERNAL_ERROR, text).respond()(scope, exchange.receive, exchange.send)
        except Exception:
            if not exchange.disconnected:
                raise

    async def _answer(self, scope: Scope, exchange: "_HttpExchange") -> None:
        if scope["path"] in self._public_paths:
            exchange.route = scope["path"]
            await self._public(scope, exchange.receive, exchange.send)
            return
        with self._callers.accept_hop(scope) as hop:
            if not hop:
                check_host(scope, self._names, self._callers.refusals)
                check_origin(scope, self._names, self._callers.refusals)
            known = await self._identify({**scope, HOP_KEY: hop})
            exchange.route = MCP_PATH if scope["path"] == MCP_PATH else ""
            await self._app(known, exchange.receive, exchange.send)
            exchange.route = exchange.route or getattr(known.get("route"), "path", "")

    async def _identify(self, scope: Scope) -> Scope:
        refusals = self._callers.refusals
        token = _read_token(scope)
        if token is None:
            text = "The request has no token. Send the header `Authorization: Bearer TOKEN`."
            raise refuse(refusals, UNAUTHORIZED, text)
        try:
            return await self._callers.identify(scope, token)
        except UnknownToken as error:
            raise refuse(refusals, UNAUTHORIZED, f"{error}.") from None
        except RateExceeded as error:
            raise explain_rate(error) from None
        except DatabaseRestored as error:
            raise refuse(refusals, UNAVAILABLE, str(error)) from None
        except PaddockError as error:  # its text is for the owner of the server
            _log.error("a caller cannot be served: %s", error)
            text = "The server cannot serve this caller just now. The log of the server says why."
            raise refuse(refusals, UNAVAILABLE, text) from None


def check_host(scope: Scope, names: "HostNames", refusals: Refusals) -> None:
    """Raise Problem unless `Host` names this server, against DNS rebinding."""
    hosts = header_values(scope, b"host")
    if len(hosts) != 1 or not names.allows_host(hosts[0].decode("latin-1")):
        text = (
            "The header `Host` names another server. Start this one with `--allowed-host NAME` to allow it."
        )
        raise refuse(refusals, WRONG_HOST, text)


def check_origin(scope: Scope, names: "HostNames", refusals: Refusals) -> None:
    """Raise Problem if `Origin` names another server."""
    origins = header_values(scope, b"origin")
    if origins and not (len(origins) == 1 and names.allows_origin(origins[0].decode("latin-1"))):
        text = "The header `Origin` names another server; see `--allowed-host`."
        raise refuse(refusals, FOREIGN_ORIGIN, text)


def refuse(refusals: Refusals, kind: ProblemType, detail: str, actor: str = "") -> Problem:
    """Note a refused request, and return the problem to answer with."""
    refusals.note(kind.name, actor)
    return Problem(kind, detail)


def _read_token(scope: Scope) -> str | None:
    """Return the token of a request: a bearer token, or the password of Basic (RFC 7617); None without one."""
    given = header_values(scope, b"authorization")
    kind, _, rest = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
    match kind.lower():
        case b"bearer":
            token = rest.strip()
        case b"basic":
            try:
                token = base64.b64decode(rest.strip(), validate=True).partition(b":")[2]
            except (binascii.Error, ValueError):
                return None
        case _:
            return None
    return token.decode("latin-1") or None


class _HttpExchange:
    """One request and its answer, as they pass through the entry."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun = False
        self.status = 0
        self.route = ""
        """The path of the route that answers, without values; empty for none."""
        self.disconnected = False
        self._receive = receive
        self._send = send
        lengths = header_values(scope, b"content-length")
        chunked = bool(header_values(scope, b"transfer-encoding"))
        self._body_left = chunked or any(each != b"0" for each in lengths)

    async def receive(self) -> MutableMapping[str, Any]:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.disconnected = True
        elif not message.get("more_body", False):
            self._body_left = False
        return message

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            self.status = message["status"]
            # A client that is still sending may not read an answer on this connection. One of MCP must get its 413.
            if self._body_left and self.route != MCP_PATH:
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await self._send(message)
            return
        body = message.get("body", b"")
        for at in range(0, max(len(body), 1), PIECE_BYTES):
            more = at + PIECE_BYTES < len(body) or message.get("more_body", False)
            piece = body[at : at + PIECE_BYTES]
            await self._send({"type": "http.response.body", "body": piece, "more_body": more})
