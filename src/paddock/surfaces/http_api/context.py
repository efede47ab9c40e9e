"""What the routes of one server share, and how they find it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from fastapi import Depends, Request

from paddock.surfaces.http_api.bodies import BodyBuffer
from paddock.surfaces.http_api.downloads import Downloads
from paddock.surfaces.http_api.running import Executions
from paddock.surfaces.http_server.entry import TENANT_KEY
from paddock.surfaces.http_server.readiness import Readiness
from paddock.surfaces.mcp_server.requests import InFlightRequests

if TYPE_CHECKING:
    from paddock.gate.cluster import Cluster
    from paddock.record.telemetry.metrics import Metrics
    from paddock.surfaces.http_api.forwarding import Forwarding
    from paddock.surfaces.tenants import Tenant


@dataclass(frozen=True)
class ServerContext:
    """One server."""

    workspace: Path
    requests: InFlightRequests
    executions: Executions
    bodies: BodyBuffer
    downloads: Downloads
    readiness: Readiness
    metrics: "Metrics | None"
    """Those of all callers; None if they are off."""
    cluster: "Cluster | None" = None
    """What it shares with other replicas."""
    forwarding: "Forwarding | None" = None
    """Passes requests on to other replicas; None if they cannot be reached."""


class HttpCall(NamedTuple):
    """One request of a caller, for the routes."""

    request: Request
    server: ServerContext
    tenant: "Tenant"


def find_call(request: Request) -> HttpCall:
    """Return a request with its server and its caller."""
    return HttpCall(request, request.app.state.paddock, request.scope[TENANT_KEY])


def find_server(request: Request) -> ServerContext:
    """Return the server that a request belongs to, which may have no caller."""
    return request.app.state.paddock


ThisCall = Annotated[HttpCall, Depends(find_call)]
ThisServer = Annotated[ServerContext, Depends(find_server)]


async def await_disconnect(request: Request) -> None:
    """Wait until the client of a request has gone; its body must have been read."""
    while (message := await request.receive())["type"] != "http.disconnect":
        del message
