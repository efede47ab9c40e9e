"""What requests of known callers pass before a route sees them.

a wrong clock, the number of requests       503 with a time to retry
what another replica asks about             answered here
/mcp                                        the MCP server of the caller
everything else                             the API
"""

from collections import Counter
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING

from paddock.surfaces.http_api.sandboxfusion.errors import answer_problem
from paddock.surfaces.http_api.sandboxfusion.models import PATHS as GRADING_PATHS
from paddock.surfaces.http_api.service_routes import METRICS_PATH
from paddock.surfaces.http_server.asgi import App, Receive, Scope, Send
from paddock.surfaces.http_server.endpoint import MCP_PATH
from paddock.surfaces.http_server.entry import HOP_KEY, TENANT_KEY, refuse
from paddock.surfaces.http_server.problems import NOT_PERMITTED, SERVER_BUSY, UNAVAILABLE, Problem
from paddock.surfaces.http_server.readiness import Readiness
from paddock.surfaces.mcp_server.requests import InFlightRequests
from paddock.surfaces.tenants.refusals import Refusals

if TYPE_CHECKING:
    from starlette.responses import Response

    from paddock.surfaces.http_api.forwarding import Forwarding
    from paddock.surfaces.tenants import Tenant, Tenants

MAX_REQUESTS = 256
"""Maximum number of requests at the same time, over all callers."""
_ALWAYS_ANSWERED = 8
"""Number of requests of one token that are answered also beyond that limit, so that no user shuts out the others."""
_GRADING_FACTOR = 16
"""How many times as many requests that grade a program there may be, beside the others. Graders send all they have at
once and wait; their bodies are bounded together."""


class ApiEntry:
    """The application behind `HttpEntry`, and the callers that it knows."""

    def __init__(
        self,
        api: App,
        mcp: App,
        tenants: "Tenants",
        requests: InFlightRequests,
        forwarding: "Forwarding | None",
        *,
        readiness: Readiness,
    ) -> None:
        """Answer the requests of `tenants`, as long as the clock of this machine is right."""
        self._api = api
        self._mcp = mcp if forwarding is None else forwarding.wrap_mcp(mcp)
        self._forwarding = forwarding
        self._readiness = readiness
        self._tenants = tenants
        self._requests = requests
        self._active = {grades: Counter[str]() for grades in (False, True)}
        """Number of requests that are being answered, by the hash of their token; those that grade separately."""

    @property
    def refusals(self) -> Refusals:
        """Notes refused requests."""
        return self._tenants.refusals

    def accept_hop(self, scope: Scope) -> AbstractContextManager[str]:
        """Handle a request in the context; yield its nonce if another replica has passed it on. Raises Problem."""
        return nullcontext("") if self._forwarding is None else self._forwarding.accept_hop(scope)

    async def identify(self, scope: Scope, token: str) -> Scope:
        """Return a request with its caller. Raises what `Tenants.identify` raises."""
        # Whether something is here is known without a session, which would take seconds to open on a busy machine.
        opens = self._forwarding is None or not self._forwarding.is_query(scope)
        tenant = await self._tenants.identify(token, counts=not scope[HOP_KEY], opens=opens)
        return {**scope, TENANT_KEY: tenant}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of a caller. Raises Problem."""
        tenant: Tenant = scope[TENANT_KEY]
        if tenant.token.scope == "metrics" and scope["path"] != METRICS_PATH:
            text = "This token reads metrics, and nothing else."
            raise refuse(self.refusals, NOT_PERMITTED, text, tenant.actor)
        if scope["path"] != METRICS_PATH and (text := self._readiness.explain_wrong_clock()):
            raise refuse(self.refusals, UNAVAILABLE, text, tenant.actor)
        token = tenant.token.sha256
        grades = scope["path"] in GRADING_PATHS
        max_requests = MAX_REQUESTS * (_GRADING_FACTOR if grades else 1)
        active = self._active[grades]
        if active.total() >= max_requests and active[token] >= _ALWAYS_ANSWERED:
            text = f"{max_requests} requests are being answered, which is the limit. Try again later."
            raise refuse(self.refusals, SERVER_BUSY, text, tenant.actor)
        active[token] += 1
        try:
            with tenant.in_use(), ExitStack() as flight:
                if scope["path"] == MCP_PATH:  # it counts its requests itself, and some never end
                    await self._mcp(scope, receive, send)
                    return
                flight.enter_context(self._requests.in_flight(object()))
                if self._forwarding is not None and self._forwarding.is_query(scope):
                    await self._forwarding.answer_query(scope, send)
                    return
                await self._api(scope, receive, send)
        finally:
            active[token] -= 1
            if not active[token]:
                del active[token]


def respond(scope: Scope, problem: Problem) -> "Response":
    """Return the answer for a problem, in the form that the clients of its path know."""
    return answer_problem(problem) if scope["path"] in GRADING_PATHS else problem.respond()
