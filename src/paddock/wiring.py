"""Where adapters meet: makes a session out of settings. The only room that knows every part."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.gate import Gate
from paddock.guest.engine import GuestEngine
from paddock.guest.intake import Intake
from paddock.guest.launch import Launcher
from paddock.guest.pool import Pool
from paddock.hub.result import ToolInfo, ToolResult
from paddock.model.base import Json
from paddock.model.settings import Settings
from paddock.policy.environment import child_environment
from paddock.store.ledger import Ledger

if TYPE_CHECKING:
    from paddock.hub.config import ServersConfig
    from paddock.hub.pool import Hub, ServerStatus


class Servers:
    """The upstream servers of a session: their file is read at the first use, each starts at its first call."""

    def __init__(self, settings: Settings, workspace: Path) -> None:
        self._settings = settings.servers
        self._file = settings.servers.config or workspace / ".mcp.json"
        self._hub: Hub | None = None
        self.used = False

    @cached_property
    def config(self) -> "ServersConfig":
        """What the servers file says."""
        from paddock.hub.config import load_servers  # noqa: PLC0415 - only programs that use servers pay for it

        self.used = True
        return load_servers(self._file, os.environ)

    async def call(
        self, server: str, tool: str, arguments: Mapping[str, Json], *, limit_ms: int
    ) -> ToolResult:
        """Call a tool, within the server's own time and `limit_ms`. Raises ServerError."""
        hub = self._live()
        own = self.config.servers[server].timeout_ms if server in self.config.servers else limit_ms
        return await hub.call(server, tool, arguments, timeout_ms=min(own, limit_ms))

    async def tools(self, server: str) -> list[ToolInfo]:
        """Ask a server for its tools. Raises ServerError."""
        return await self._live().tools(server)

    def status(self) -> dict[str, "ServerStatus"]:
        """Return the facts of every configured server; starts nothing."""
        return self._live().status()

    async def close(self) -> None:
        """End every server that was started."""
        if self._hub is not None:
            await self._hub.close()

    def _live(self) -> "Hub":
        if self._hub is None:
            from paddock.hub.pool import Hub  # noqa: PLC0415 - only programs that use servers pay for it

            self._hub = Hub(
                self.config.servers,
                environment=child_environment(os.environ),
                max_live=self._settings.max_live,
                idle_timeout_ms=self._settings.idle_timeout_ms,
            )
        return self._hub


class Session:
    """One gate with everything behind it, for one workspace."""

    def __init__(self, gate: Gate, hub: Servers) -> None:
        self.gate = gate
        self.hub = hub

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was wrong with files that were read so far."""
        return self.hub.config.warnings if self.hub.used else ()


@asynccontextmanager
async def open_session(
    settings: Settings, workspace: Path, *, launcher: Launcher | None = None
) -> AsyncGenerator[Session]:
    """Open a session; leaving it ends every process it started and makes the record durable.

    `launcher` may have begun processes that the session will need; the caller closes it.
    Raises LedgerError when the ledger cannot be opened: without a record nothing runs.
    """
    with Ledger(settings.audit.directory, sync=settings.audit.sync) as ledger:
        launcher = launcher or Launcher()
        frame_bytes = settings.limits.execute.frame_bytes
        pool = Pool(launcher, spares=settings.guest.spare_workers, frame_bytes=frame_bytes)
        intake = Intake(launcher)
        servers = Servers(settings, workspace)
        try:
            guest = GuestEngine(pool, intake, settings.guest.max_workers)
            yield Session(Gate(settings, ledger, guest, servers), servers)
        finally:
            await servers.close()
            await pool.close()
            await intake.close()
