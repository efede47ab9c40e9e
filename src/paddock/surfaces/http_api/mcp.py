"""MCP over HTTP beside the API: each caller has its own MCP server, on its own session."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paddock.foundation.cancellation import cancel_all
from paddock.surfaces.http_server.asgi import App, Receive, Scope, Send
from paddock.surfaces.http_server.entry import TENANT_KEY
from paddock.surfaces.mcp_server.elicitation import ACTOR_KEY

if TYPE_CHECKING:
    from paddock.gate.open_paddock import OpenPaddock
    from paddock.surfaces.mcp_server.service import Service
    from paddock.surfaces.tenants import Tenant

MakeService = Callable[["Tenant"], "Service"]


@dataclass
class _Running:
    """The MCP server of one session. Its task enters and leaves its contexts, as their library requires."""

    tenant: "Tenant"
    opened: "OpenPaddock"
    service: "Service"
    app: "asyncio.Future[App]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    task: "asyncio.Task[None] | None" = None

    async def run(self) -> None:
        try:
            async with self.service.open_application() as app:
                self.app.set_result(app)
                await self.tenant.revoked.wait()
        except Exception as error:
            if self.app.done():
                raise
            self.app.set_exception(error)


class McpServers:
    """An ASGI application that passes a request on to the MCP server of its caller."""

    def __init__(self, make_service: MakeService) -> None:
        self._make_service = make_service
        self._running: dict[str, _Running] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of MCP. Each token has its own server, as it has its own session."""
        tenant: Tenant = scope[TENANT_KEY]
        app = await asyncio.shield(self._find(tenant).app)
        await app({**scope, ACTOR_KEY: tenant.actor}, receive, send)

    def _find(self, tenant: "Tenant") -> _Running:
        token = tenant.token.sha256
        found = self._running.get(token)
        if found is not None and found.opened is tenant.opened:
            return found
        if found is not None and found.task is not None:
            found.task.cancel()
        running = _Running(tenant, tenant.opened, self._make_service(tenant))
        running.task = asyncio.create_task(running.run())
        self._running[token] = running
        running.task.add_done_callback(lambda _: self._forget(token, running))
        return running

    def holds_run(self, tenant: "Tenant", run: str) -> bool:
        """Return whether a call of this caller waits here."""
        found = self._running.get(tenant.token.sha256)
        return found is not None and found.service.holds_run(run, tenant.actor)

    def _forget(self, token: str, running: _Running) -> None:
        """Forget a server that has ended: its token was revoked, or it could not start."""
        if self._running.get(token) is running:
            del self._running[token]

    async def drain(self) -> None:
        """Reject new requests of MCP, and let those in flight end."""
        await asyncio.gather(*(each.service.drain() for each in self._running.values()))

    async def close(self) -> None:
        """End all MCP servers."""
        await cancel_all([each.task for each in self._running.values() if each.task is not None])
