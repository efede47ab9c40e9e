"""The MCP servers beside the API: one for each token, as long as the token is valid."""

import asyncio
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from paddock.surfaces.http_api.service import McpServers
from paddock.surfaces.http_server.asgi import App
from paddock.surfaces.http_server.entry import TENANT_KEY


class Services:
    """Makes stand-ins for MCP servers, of which the first ones may fail."""

    def __init__(self, failing: int = 0) -> None:
        self.made = self.ended = self.drained = 0
        self._failing = failing

    def make(self, _tenant: object) -> Any:
        self.made += 1
        return SimpleNamespace(open_application=self._open, drain=self._drain)

    async def _drain(self) -> None:
        self.drained += 1

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[App]:
        if self.made <= self._failing:
            raise OSError("no")

        async def answer(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
            await send(scope)

        try:
            yield answer
        finally:
            self.ended += 1


async def call(servers: McpServers, tenant: object) -> int:
    """Send a request, and return how many answers it got."""
    sent: list[object] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    await servers({TENANT_KEY: tenant}, receive, send)
    return len(sent)


def make_tenant() -> Any:
    token = SimpleNamespace(sha256="a" * 64)
    return SimpleNamespace(token=token, opened=object(), actor="token:alice", revoked=asyncio.Event())


def test_a_server_serves_its_token_until_that_is_revoked() -> None:
    async def main() -> tuple[int, int, int]:
        services, tenant = Services(), make_tenant()
        servers = McpServers(services.make)
        assert [await call(servers, tenant), await call(servers, tenant)] == [1, 1]
        await servers.drain()
        tenant.revoked.set()
        for _ in range(10):
            await asyncio.sleep(0)
        await servers.drain()  # there is none any more
        return services.made, services.ended, services.drained

    assert asyncio.run(main()) == (1, 1, 1)


def test_a_server_that_cannot_start_is_tried_again() -> None:
    async def main() -> tuple[int, int]:
        services, tenant = Services(failing=1), make_tenant()
        servers = McpServers(services.make)
        with pytest.raises(OSError, match="no"):
            await call(servers, tenant)
        return await call(servers, tenant), services.made

    assert asyncio.run(main()) == (1, 2)
