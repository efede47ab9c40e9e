"""Serve the API, and MCP beside it, until a signal: executions that run then may end within a grace period."""

import asyncio
import resource
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.foundation.cancellation import cancel_all
from paddock.model.ids import mark_ids
from paddock.policy.settings.schema import Settings
from paddock.surfaces.http_api.app import build_api
from paddock.surfaces.http_api.bodies import BodyBuffer
from paddock.surfaces.http_api.context import ServerContext
from paddock.surfaces.http_api.downloads import Downloads
from paddock.surfaces.http_api.entry import ApiEntry, respond
from paddock.surfaces.http_api.running import Executions
from paddock.surfaces.http_api.service_routes import OPEN_PATHS
from paddock.surfaces.http_server.entry import TENANT_KEY, HttpEntry
from paddock.surfaces.http_server.idle_connections import IdleConnections
from paddock.surfaces.http_server.readiness import Readiness
from paddock.surfaces.http_server.serving import serve_application
from paddock.surfaces.mcp_server.client_questions import ACTOR_KEY
from paddock.surfaces.mcp_server.requests import InFlightRequests
from paddock.surfaces.mcp_server.service import Service, SettingsOf

if TYPE_CHECKING:
    from paddock.gate.cluster import Cluster
    from paddock.gate.open_paddock import OpenPaddock
    from paddock.record.telemetry.metrics import Metrics
    from paddock.surfaces.http_api.forwarding import Forwarding
    from paddock.surfaces.http_server.asgi import App, Receive, Scope, Send
    from paddock.surfaces.http_server.endpoint import Endpoint
    from paddock.surfaces.tenants import Tenant, Tenants

KEEP_ALIVE_S = 75.0
"""Time for which a connection is kept open after an answer, in seconds: longer than proxies keep theirs."""
MAX_IDLE_CONNECTIONS = 512
"""Maximum number of connections that wait for a request. A further one closes the oldest of them."""
_SPARED_S = 1.0
"""Time for which a connection may wait for its request, whatever the number of others, in seconds."""
_OPEN_FILES = 16_384
"""Open files that a server asks for, if the hard limit allows as many: enough for all connections and programs. A shell
usually starts it with 1024, and without a free one it can neither accept connections nor start programs."""
_ANSWERS_S = 15.0
"""Maximum time in which cancelled executions end and are answered, in seconds."""


MakeService = Callable[["Tenant"], Service]


class HttpService:
    """The API, and MCP at `/mcp`, for the callers of one workspace."""

    def __init__(
        self,
        settings: Settings,
        workspace: Path,
        tenants: "Tenants",
        settings_of: SettingsOf,
        metrics: "Metrics | None" = None,
        *,
        cluster: "Cluster | None" = None,
    ) -> None:
        """Use `settings_of` for the settings of further workspaces that MCP clients register.

        With a `cluster`, keys are claimed among all of its replicas, and requests for what another one has in memory
        are passed on to it.
        """
        self._tenants = tenants
        self._grace_s = settings.mcp.shutdown_grace_ms / 1000
        self._requests = InFlightRequests()
        self._executions = Executions(workspace, self._requests, shared=cluster is not None)
        own = workspace, self._requests, self._executions
        forwarding = self._make_forwarding(settings, cluster)
        self._readiness = Readiness(lambda: self._requests.leaving, tenants.record, cluster)
        shared = self._readiness, metrics, cluster, forwarding
        self._server = ServerContext(*own, BodyBuffer(), Downloads(), *shared)
        for each in (cluster, forwarding):
            if metrics is not None and each is not None:
                metrics.watch(each.read_metrics)
        mark = "" if cluster is None else cluster.node.mark

        def make_service(tenant: "Tenant") -> Service:
            own = tenant.opened, tenant.settings, workspace
            return Service(
                *own, "default", settings_of, admit=tenant.admit, questions=tenant.questions, mark=mark
            )

        self._mcp = McpServers(make_service)
        self._drain_s = settings.serve.drain_ms / 1000

    async def serve(
        self, endpoint: "Endpoint", stop: asyncio.Event, wrap: "Callable[[App], App] | None" = None
    ) -> None:
        """Serve at an endpoint until `stop` is set, and let executions that run then end.

        `wrap` puts another application before this one.
        """
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        api: App = build_api(self._server)  # pyright: ignore[reportAssignmentType] - the same protocol, other names
        own = self._tenants, self._requests, self._server.forwarding
        api_entry = ApiEntry(api, self._mcp, *own, readiness=self._readiness)
        entry: App = HttpEntry(
            api_entry,
            api_entry,
            endpoint.names,
            public=api,
            public_paths=OPEN_PATHS,
            metrics=self._server.metrics,
            respond=respond,
        )
        entry = entry if wrap is None else wrap(entry)
        idle = IdleConnections(MAX_IDLE_CONNECTIONS, KEEP_ALIVE_S, counts_reused=True, spared_s=_SPARED_S)
        async with serve_application(entry, endpoint, idle, None) as serving:
            stopping = asyncio.create_task(stop.wait())
            try:
                await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if not serving.done():
                    self._requests.leaving = True
                    await asyncio.wait({serving}, timeout=self._drain_s)
                    await asyncio.gather(self._drain(), self._mcp.drain())
            finally:
                stopping.cancel()
                await self._executions.close()
                await self._mcp.close()
                if self._server.forwarding is not None:
                    await self._server.forwarding.close()
        serving.result()

    def _make_forwarding(self, settings: Settings, cluster: "Cluster | None") -> "Forwarding | None":
        if cluster is None or settings.cluster.node_url is None:
            return None
        from paddock.cluster.listener import NODES
        from paddock.cluster.peers import find_peers
        from paddock.surfaces.http_api.forwarding import Forwarding

        peers = find_peers(settings.cluster, cluster.database, cluster.node.mark)
        changes = cluster.listener.follow(NODES)
        cluster.repeat("the leases of other replicas are not read", partial(peers.replicas.follow, changes))
        mark_ids(cluster.node.mark)
        return Forwarding(peers, self._requests, self._holds)

    def _holds(self, tenant: "Tenant", id_: str) -> bool:
        """Return whether an execution of a caller is here, or a call of it waits here."""
        return self._executions.has(tenant.actor, id_) or self._mcp.holds_run(tenant, id_)

    async def _drain(self) -> None:
        """Let requests in flight end within the grace period; then cancel executions, and send their outcomes."""
        if not await self._requests.wait_until_drained(self._grace_s):
            self._executions.cancel_running()
            await self._requests.wait_until_drained(_ANSWERS_S)


@dataclass
class _Running:
    """The MCP server of one session. Its task enters and leaves its contexts, as their library requires."""

    tenant: "Tenant"
    opened: "OpenPaddock"
    service: Service
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

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
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
