"""Where adapters meet: makes a session out of settings. The only room that knows every part."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

from paddock.gate import Engines, Gate
from paddock.guest.engine import GuestEngine
from paddock.guest.intake import Intake
from paddock.guest.launch import Launcher
from paddock.guest.pool import Pool
from paddock.hub.result import ToolInfo, ToolResult
from paddock.model.base import Json
from paddock.model.errors import LedgerUnusable
from paddock.model.settings import AuditSettings, SandboxSettings, Settings
from paddock.policy.environment import child_environment
from paddock.policy.known import KnownSecrets
from paddock.policy.outgoing import Outgoing
from paddock.programs import Programs
from paddock.scripts import Scripts
from paddock.sdk.events import Events
from paddock.sdk.service import Facts, Services
from paddock.store.ledger import Ledger
from paddock.store.unrecorded import Unopened

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.approvals import Asker
    from paddock.confine.process import Sandbox
    from paddock.flows.engine import Execute, Flows
    from paddock.flows.temporal import Temporals
    from paddock.hub.admission import Admission
    from paddock.hub.catalog import Catalog
    from paddock.hub.config import ServersConfig
    from paddock.hub.observed import Observed
    from paddock.hub.pins import Pins
    from paddock.hub.pool import Hub, ServerStatus
    from paddock.hub.provision import Provisioning
    from paddock.hub.search import CatalogTool
    from paddock.runtimes.engine import RuntimeEngine
    from paddock.sdk.commands import Commands
    from paddock.store.artifacts import Artifacts
    from paddock.telemetry.watch import Watch


class Servers:
    """The upstream servers of a session: their file is read at the first use, each starts at its first call."""

    def __init__(self, settings: Settings, workspace: Path) -> None:
        self._settings = settings.servers
        self._file = settings.servers.config or workspace / ".mcp.json"
        self._hub: Hub | None = None
        self._reading: dict[str, set[str]] = {}
        self.used = False

    @cached_property
    def config(self) -> "ServersConfig":
        """What the servers file says."""
        from paddock.hub.config import load_servers  # noqa: PLC0415 - only programs that use servers pay for it

        self.used = True
        return load_servers(self._file, os.environ)

    def configured(self) -> tuple[Sequence[str], Sequence[str]]:
        """Return the names of the servers, and what is wrong with their file. Raises ConfigurationError."""
        return tuple(self.config.servers), self.config.warnings

    async def call(
        self, server: str, tool: str, arguments: Mapping[str, Json], *, limit_ms: int
    ) -> ToolResult:
        """Call a tool, within the server's own time and `limit_ms`. Raises ServerError."""
        hub = self._live()
        own = self.config.servers[server].timeout_ms if server in self.config.servers else limit_ms
        result = await hub.call(server, tool, arguments, timeout_ms=min(own, limit_ms))
        if (definition := self.admission.definition(server, tool)) is not None:
            self.observed.learn(self.config.servers[server], definition, result)
        return result

    async def is_read_only(self, server: str, tool: str) -> bool:
        """Return whether a server says that a tool only reads; it is asked once. Raises ServerError."""
        if server not in self._reading:
            tools = await self.tools(server)
            self._reading[server] = {
                each.name for each in tools if each.annotations.get("readOnlyHint") is True
            }
        return tool in self._reading[server]

    async def tools(self, server: str) -> list[ToolInfo]:
        """Ask a server for its tools, as they are now. Raises ServerError."""
        return await self._live().tools(server)

    @cached_property
    def pins(self) -> "Pins":
        """The definitions of tools that are pinned."""
        from paddock.hub.pins import Pins  # noqa: PLC0415 - only programs that use servers pay for it

        return Pins(self._settings.state, self._file)

    @cached_property
    def admission(self) -> "Admission":
        """What calls must satisfy."""
        from paddock.hub.admission import Admission  # noqa: PLC0415 - only programs that use servers pay for it

        return Admission(self.config.servers, self.pins)

    @cached_property
    def observed(self) -> "Observed":
        """The types of results so far."""
        from paddock.hub.observed import Observed  # noqa: PLC0415 - only programs that use servers pay for it

        return Observed(self._settings.state, self._file)

    @cached_property
    def catalog(self) -> "Catalog":
        """All tools of all servers, to be searched and described; servers start when it is first asked."""
        from paddock.hub.catalog import Catalog  # noqa: PLC0415 - only those who search pay for it

        hub = self._live()

        async def ask(server: str) -> "Sequence[CatalogTool]":
            await hub.tools(server)
            return self.admission.shown(server)

        return Catalog(tuple(self.config.servers), ask, version=hub.changes, observed=self.observed.type_of)

    @cached_property
    def provisioning(self) -> "Provisioning":
        """What further servers can be had, and which are enabled."""
        from paddock.hub.provision import Provisioning  # noqa: PLC0415 - only those who want more servers pay for it

        return Provisioning(self._file, self._settings.registry, self._settings.trust)

    async def refresh(self) -> int:
        """Fetch the registry's list anew and return how many servers it offers. Raises ConfigurationError."""
        from paddock.hub.registry import refresh  # noqa: PLC0415 - its HTTP client takes a while to load

        return await refresh(self._settings.registry_source, self._settings.registry)

    def told(self, server: str, tool: str) -> tuple[str, str]:
        """Return the names of a call that may be told; empty where no file and no listing has them."""
        if "config" not in vars(self) or server not in self.config.servers:
            return "", ""
        return server, tool if self.admission.definition(server, tool) is not None else ""

    @property
    def live(self) -> int:
        """How many servers run."""
        return sum(each.live for each in self._hub.status().values()) if self._hub is not None else 0

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
                admission=self.admission,
                max_live=self._settings.max_live,
                idle_timeout_ms=self._settings.idle_timeout_ms,
            )
        return self._hub


class Processes:
    """The process sandbox of a session: its tier is chosen and proved at the first use, which takes 0.2 s."""

    def __init__(self, settings: SandboxSettings) -> None:
        self._settings = settings
        self._sandbox: Sandbox | None = None
        self._choosing = asyncio.Lock()

    async def sandbox(self) -> "Sandbox":
        """Return the one sandbox of the session.

        Raises EngineError, with the fix, when this machine gives less than the minimum, and ConfigurationError when
        the configured user is not there. The next call tries again.
        """
        from paddock.confine import ladder, plan  # noqa: PLC0415 - only processes pay for it

        async with self._choosing:
            if self._sandbox is None:
                self._sandbox = await ladder.choose(
                    self._settings.minimum_tier,
                    job_user=plan.configured_user(self._settings.job_user),
                    spares=self._settings.spares,
                    protected_paths=self._settings.protected_paths,
                )
        return self._sandbox

    async def tier(self) -> str:
        """Return the proved tier of the session. Raises what `sandbox` raises."""
        return (await self.sandbox()).tier

    async def close(self) -> None:
        """End every process that was started."""
        async with self._choosing:
            if self._sandbox is not None:
                await self._sandbox.close()
                self._sandbox = None


def open_artifacts(settings: Settings, secrets: KnownSecrets | None = None) -> "Artifacts":
    """Return the place where output is kept, with the redaction in force; nothing is created before it is used."""
    from paddock.policy.redaction import Redactor  # noqa: PLC0415 - only programs with stored output pay for it
    from paddock.store.artifacts import Artifacts  # noqa: PLC0415

    return Artifacts(settings.artifacts, Redactor(settings.redaction, secrets))


class Output:
    """The stored output of a session; what it takes is loaded at the first use."""

    def __init__(self, settings: Settings, secrets: KnownSecrets) -> None:
        self._settings = settings
        self._secrets = secrets
        self._artifacts: Artifacts | None = None

    def artifacts(self) -> "Artifacts":
        """Return the one place of the session."""
        if self._artifacts is None:
            self._artifacts = open_artifacts(self._settings, self._secrets)
        return self._artifacts


class Flowing:
    """Sequences and schedules of a session, each made at the first use."""

    execute: "Execute"
    """The gate's one path, which is there once the gate is."""

    def __init__(self, settings: Settings, scripts: Scripts, outgoing: Outgoing) -> None:
        self._settings = settings
        self._scripts = scripts
        self._outgoing = outgoing

    @cached_property
    def flows(self) -> "Flows":
        """What runs sequences."""
        from paddock.flows import engine  # noqa: PLC0415 - only sequences pay for it

        return engine.Flows(self.execute, self._scripts.work, self._outgoing)

    @cached_property
    def temporals(self) -> "Temporals":
        """What fires schedules."""
        from paddock.flows import temporal  # noqa: PLC0415 - only schedules pay for it

        return temporal.Temporals(self.execute, self._settings.sdk.temporals)


class Session:
    """One gate with everything behind it, for one workspace."""

    def __init__(
        self,
        gate: Gate,
        hub: Servers,
        processes: Processes,
        output: Output,
        scripts: Scripts,
        *,
        events: Events,
        outgoing: Outgoing,
        flowing: Flowing,
        metrics: "Callable[[], Awaitable[bytes]] | None" = None,
    ) -> None:
        self.gate = gate
        self.events = events
        self.outgoing = outgoing
        self.hub = hub
        self.processes = processes
        self.output = output
        self.scripts = scripts
        self.flowing = flowing
        self.metrics = metrics
        """Returns the metrics of this moment; None unless the settings want them."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was wrong with files that were read so far, with patterns that were used, and with telling webhooks."""
        of_files = self.hub.config.warnings if self.hub.used else ()
        return (*of_files, *self.outgoing.warnings, *self.events.warnings)


def _engine(settings: Settings, processes: Processes) -> "RuntimeEngine":
    from paddock.runtimes.cache import Cache  # noqa: PLC0415 - only programs in other languages pay for it
    from paddock.runtimes.engine import RuntimeEngine  # noqa: PLC0415

    compiled = Cache(user_cache_path("paddock") / "programs", settings.runtimes.cache_bytes)
    return RuntimeEngine(processes.sandbox, os.environ, compiled)


def _commands(settings: Settings, processes: Processes, secret: "Callable[[str], str | None]") -> "Commands":
    from paddock.sdk.commands import Commands  # noqa: PLC0415 - only who calls one pays for it

    return Commands(settings.sdk.commands, os.environ, processes.sandbox, secret)


def _watch(
    settings: Settings, servers: Servers, guest: GuestEngine, programs: Programs, output: Output
) -> "Watch | None":
    watched = settings.telemetry.metrics or settings.telemetry.traces != "none"
    if not watched and not logging.getLogger("paddock.requests").isEnabledFor(logging.INFO):
        return None
    from paddock.telemetry.watch import Sources, Watch  # noqa: PLC0415 - only who wants it pays for it

    def waiting() -> int:
        return guest.waiting + programs.waiting

    return Watch(
        settings,
        Sources(servers.told, waiting, lambda: guest.workers, lambda: servers.live, output.artifacts),
    )


def _open_ledger(settings: AuditSettings) -> Ledger | Unopened:
    try:
        return Ledger(settings.directory, sync=settings.sync)
    except LedgerUnusable as why:
        if settings.required == "all":
            raise
        return Unopened(why)


@asynccontextmanager
async def open_session(
    settings: Settings, workspace: Path, *, launcher: Launcher | None = None, asker: "Asker | None" = None
) -> AsyncGenerator[Session]:
    """Open a session; leaving it ends every process it started and makes the record durable.

    `launcher` may have begun processes that the session will need; the caller closes it. `asker` asks a person where
    a request brings nobody along who does.
    Raises LedgerError when the ledger cannot be opened: without a record nothing runs, but for what `audit.required`
    lets run.
    """
    with closing(_open_ledger(settings.audit)) as ledger:
        launcher = launcher or Launcher()
        frame_bytes = settings.limits.execute.frame_bytes
        pool = Pool(launcher, spares=settings.guest.spare_workers, frame_bytes=frame_bytes)
        intake = Intake(launcher)
        servers = Servers(settings, workspace)
        processes = Processes(settings.sandbox)
        secrets = KnownSecrets()
        outgoing = Outgoing(settings.redaction, secrets)
        watch: Watch | None = None
        try:
            guest = GuestEngine(pool, intake, settings.guest.max_workers)
            output = Output(settings, secrets)
            programs = Programs(settings.runtimes, partial(_engine, settings, processes), output.artifacts)

            scripts = Scripts(settings.tools, workspace, processes.sandbox)
            flowing = Flowing(settings, scripts, outgoing)
            facts = Facts(
                output.artifacts,
                servers.configured,
                processes.tier,
                lambda: flowing.flows,
                lambda: flowing.temporals,
                partial(_commands, settings, processes),
                outgoing.json,
            )
            services = Services(settings, secrets, facts)
            engines = Engines(guest, servers, programs, scripts, services)
            watch = _watch(settings, servers, guest, programs, output)
            gate = Gate(settings, watch.around(ledger) if watch else ledger, engines, outgoing, asker)
            flowing.execute = gate.execute
            async with Events(gate.execute, services.webhooks_of) as events:
                gate.on_end = events.ended
                parts = (gate, servers, processes, output, scripts)
                metrics = watch.metrics if watch else None
                yield Session(
                    *parts,
                    events=events,
                    outgoing=outgoing,
                    flowing=flowing,
                    metrics=metrics,
                )
        finally:
            await asyncio.gather(processes.close(), servers.close(), pool.close(), intake.close())
            if watch is not None:
                await watch.close()
