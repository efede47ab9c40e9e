"""Which replica answers a request: routes declare it, and each one that declares it is passed on."""

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fastapi.routing import APIRoute

from paddock.surfaces.http_api.app import ROUTERS, build_api
from paddock.surfaces.http_api.bodies import BodyBuffer
from paddock.surfaces.http_api.context import ServerContext
from paddock.surfaces.http_api.downloads import Downloads
from paddock.surfaces.http_api.elsewhere import EveryReplicaRoute, OneReplicaRoute
from paddock.surfaces.http_api.running import Executions
from paddock.surfaces.http_server.asgi import Receive, Scope, Send, send_text
from paddock.surfaces.http_server.entry import HOP_KEY, TENANT_KEY
from paddock.surfaces.mcp_server.requests import InFlightRequests

NAMED = [
    route
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute) and route.param_convertors
]
ELSEWHERE = [
    (method, route.path) for route in NAMED if isinstance(route, OneReplicaRoute) for method in route.methods
]


@pytest.mark.parametrize("route", NAMED, ids=lambda route: f"{route.name} {route.path}")
def test_each_route_with_a_name_in_its_path_declares_its_owner(route: APIRoute) -> None:
    assert isinstance(route, OneReplicaRoute | EveryReplicaRoute), "give its router a `route_class`"
    assert isinstance(route, EveryReplicaRoute) or "id" in route.param_convertors


class OtherReplica:
    """Has everything, and answers with the name that it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def find_owner(self, _scope: Scope, name: str) -> str:
        self.asked.append(name)
        return "r2"

    async def pass_on(self, owner: str, _scope: Scope, _receive: Receive, send: Send, _body: None) -> None:
        await send_text(send, 299, owner.encode())


async def ask(other: OtherReplica, method: str, path: str, *, hop: bool) -> int:
    """Return the status of a request whose body never comes."""
    requests = InFlightRequests()
    executions = Executions(Path("/"), requests)
    own = Path("/"), requests, executions, BodyBuffer(), Downloads(), None, None
    api = build_api(ServerContext(*own, forwarding=cast("Any", other)))
    statuses: list[int] = []

    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("the body is for the other replica")

    async def send(message: MutableMapping[str, Any]) -> None:
        statuses.append(message.get("status", 0))

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [],
        HOP_KEY: hop,
        TENANT_KEY: SimpleNamespace(actor="token:alice"),
    }
    await api(scope, receive, send)
    return statuses[0]


@pytest.mark.parametrize(("method", "path"), ELSEWHERE)
def test_what_is_on_another_replica_is_answered_there(method: str, path: str) -> None:
    other = OtherReplica()
    at = path.replace("{id}", "a-name").replace("{path:path}", "a/file")
    assert asyncio.run(ask(other, method, at, hop=False)) == 299
    assert other.asked == ["a-name"]


def test_what_was_passed_on_is_not_passed_on_again() -> None:
    other = OtherReplica()
    assert asyncio.run(ask(other, "GET", "/v1/executions/a-name", hop=True)) == 404
    assert other.asked == []
