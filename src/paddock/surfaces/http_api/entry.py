"""What every request passes before a route sees it, and every answer on its way out.

    health checks, the OpenAPI document         answered to everybody
    `Host`, `Origin`                            this server's names, against DNS rebinding: 421, 403
    token                                       401, 429; the caller is kept in the scope
    number of requests                          503 with a time to retry
    what another replica has in memory          that replica, in a cluster
    /mcp                                        the MCP server of the caller
    everything else                             the API

A request that another replica has passed on was checked and counted there: only its token is checked again.

None of them reads the body.
"""

import asyncio
import base64
import binascii
import logging
import time
from collections import Counter
from collections.abc import Awaitable, MutableMapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

from paddock.model.errors import PaddockError
from paddock.surfaces.http_api.context import HOP_KEY, TENANT_KEY
from paddock.surfaces.http_api.problems import (
    FOREIGN_ORIGIN,
    INTERNAL_ERROR,
    NOT_PERMITTED,
    SERVER_BUSY,
    UNAUTHORIZED,
    UNAVAILABLE,
    WRONG_HOST,
    Problem,
    ProblemType,
    explain_rate,
)
from paddock.surfaces.http_api.sandboxfusion.errors import answer_problem
from paddock.surfaces.http_api.sandboxfusion.paths import PATHS as GRADING_PATHS
from paddock.surfaces.http_api.service_routes import METRICS_PATH, OPEN_PATHS
from paddock.surfaces.mcp_server.http.abandoned import App, Receive, Scope, Send
from paddock.surfaces.mcp_server.http.answers import header_values
from paddock.surfaces.mcp_server.http.endpoint import MCP_PATH
from paddock.surfaces.mcp_server.requests import InFlightRequests
from paddock.surfaces.tenants import RateExceeded, Tenant, UnknownToken
from paddock.surfaces.tenants.refusals import Refusals

if TYPE_CHECKING:
    from paddock.record.telemetry.metrics import Metrics
    from paddock.surfaces.http_api.forwarding import Forwarding
    from paddock.surfaces.mcp_server.http.hosts import HostNames

MAX_REQUESTS = 256
"""Maximum number of requests at the same time, over all callers."""
_ALWAYS_ANSWERED = 8
"""Number of requests of one token that are answered also beyond that limit, so that no user shuts out the others."""
_GRADING_FACTOR = 16
"""How many times as many requests that grade a program there may be, beside the others. Graders send all they have at
once and wait; their bodies are bounded together."""
PIECE_BYTES = 64 * 1024
"""Size of the pieces in which answers are sent. The time to take the buffered one is limited, not that for all."""

_log = logging.getLogger("paddock.http")


class Callers(Protocol):
    """What knows the callers of a server."""

    @property
    def refusals(self) -> Refusals:
        """Notes refused requests."""
        ...

    def identify(self, token: str, *, counts: bool = True, opens: bool = True) -> Awaitable[Tenant]:
        """Return the caller that has a token, count its request, and open its session.

        Raises UnknownToken and RateExceeded.
        """
        ...


class HttpEndpoint:
    """The outermost application of a server."""

    def __init__(
        self,
        api: App,
        mcp: App,
        *,
        names: "HostNames",
        callers: Callers,
        requests: InFlightRequests,
        forwarding: "Forwarding | None" = None,
        metrics: "Metrics | None" = None,
        max_requests: int = MAX_REQUESTS,
    ) -> None:
        """Answer the requests of `callers`, and count the answers in `metrics`."""
        self._metrics = metrics
        self._open = api
        self._api = api if forwarding is None else forwarding.wrap(api)
        self._mcp = mcp if forwarding is None else forwarding.wrap(mcp)
        self._forwarding = forwarding
        self._names = names
        self._callers = callers
        self._requests = requests
        self._max_requests = max_requests
        self._active = {grades: Counter[str]() for grades in (False, True)}
        """Number of requests that are being answered, by the hash of their token; those that grade separately."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._open(scope, receive, send)
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
            answer = answer_problem(problem) if scope["path"] in GRADING_PATHS else problem.respond()
            await answer(scope, exchange.receive, exchange.send)
        except asyncio.CancelledError:
            if exchange.begun:
                raise
            text = "The server ended before it had an answer. The audit record shows whether something ran."
            await Problem(INTERNAL_ERROR, text).respond()(scope, exchange.receive, exchange.send)
        except Exception:
            if not exchange.disconnected:
                raise

    async def _answer(self, scope: Scope, exchange: "_HttpExchange") -> None:
        if scope["path"] in OPEN_PATHS:
            exchange.route = scope["path"]
            await self._open(scope, exchange.receive, exchange.send)
            return
        hop = self._forwarding is not None and self._forwarding.accept_hop(scope)
        if not hop:
            self._check_names(scope)
        # Whether something is here is known without a session, which would take seconds to open on a busy machine.
        asks = hop and self._forwarding is not None and self._forwarding.is_question(scope)
        tenant = await self._identify(scope, counts=not hop, opens=not asks)
        if tenant.token.scope == "metrics" and scope["path"] != METRICS_PATH:
            raise self._refuse(NOT_PERMITTED, "This token reads metrics, and nothing else.", tenant.actor)
        token = tenant.token.sha256
        grades = scope["path"] in GRADING_PATHS
        max_requests = self._max_requests * (_GRADING_FACTOR if grades else 1)
        active = self._active[grades]
        if active.total() >= max_requests and active[token] >= _ALWAYS_ANSWERED:
            raise self._refuse(
                SERVER_BUSY,
                f"{max_requests} requests are being answered, which is the limit. Try again later.",
                tenant.actor,
            )
        active[token] += 1
        try:
            known = {**scope, TENANT_KEY: tenant, HOP_KEY: hop}
            with tenant.in_use(), ExitStack() as flight:
                exchange.route = MCP_PATH if scope["path"] == MCP_PATH else ""
                if exchange.route:  # it counts its requests itself, and some never end
                    await self._mcp(known, exchange.receive, exchange.send)
                    return
                flight.enter_context(self._requests.in_flight(object()))
                await self._api(known, exchange.receive, exchange.send)
                exchange.route = getattr(known.get("route"), "path", "")
        finally:
            active[token] -= 1
            if not active[token]:
                del active[token]

    def _check_names(self, scope: Scope) -> None:
        hosts, origins = header_values(scope, b"host"), header_values(scope, b"origin")
        if len(hosts) != 1 or not self._names.allows_host(hosts[0].decode("latin-1")):
            text = "The header `Host` names another server. Start this one with `--allowed-host NAME` to allow it."
            raise self._refuse(WRONG_HOST, text)
        if origins and not (len(origins) == 1 and self._names.allows_origin(origins[0].decode("latin-1"))):
            text = "The header `Origin` names another server; see `--allowed-host`."
            raise self._refuse(FOREIGN_ORIGIN, text)

    def _refuse(self, kind: ProblemType, detail: str, actor: str = "") -> Problem:
        """Note a refused request, and return the problem to answer with."""
        self._callers.refusals.note(kind.name, actor)
        return Problem(kind, detail)

    async def _identify(self, scope: Scope, *, counts: bool, opens: bool) -> Tenant:
        token = read_token(scope)
        if token is None:
            raise self._refuse(
                UNAUTHORIZED, "The request has no token. Send the header `Authorization: Bearer TOKEN`."
            )
        try:
            return await self._callers.identify(token, counts=counts, opens=opens)
        except UnknownToken as error:
            raise self._refuse(UNAUTHORIZED, f"{error}.") from None
        except RateExceeded as error:
            raise explain_rate(error) from None
        except PaddockError as error:  # its text is for the owner of the server
            _log.error("a caller cannot be served: %s", error)
            text = "The server cannot serve this caller just now. The log of the server says why."
            raise self._refuse(UNAVAILABLE, text) from None


def read_token(scope: Scope) -> str | None:
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
            if self._body_left:  # a client that is still sending may not read an answer on this connection
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await self._send(message)
            return
        body = message.get("body", b"")
        for at in range(0, max(len(body), 1), PIECE_BYTES):
            more = at + PIECE_BYTES < len(body) or message.get("more_body", False)
            piece = body[at : at + PIECE_BYTES]
            await self._send({"type": "http.response.body", "body": piece, "more_body": more})
