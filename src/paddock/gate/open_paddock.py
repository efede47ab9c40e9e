"""Open Paddock from settings: create the gate and connect it with engines and mechanisms.

The result is an `OpenPaddock`. An interpreter session stays open between programs (`engines/sessions`).
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, asynccontextmanager, closing, contextmanager, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from platformdirs import user_cache_path

from paddock.confinement.sandbox.child.landlock import read_abi_version
from paddock.engines.sdk.events import Events
from paddock.engines.sdk.service import Services, SessionFacts
from paddock.foundation.cancellation import run_shielded
from paddock.foundation.fair_slots import FairSlots
from paddock.foundation.forced_exit import do_before
from paddock.gate.change_sets import ChangeSets
from paddock.gate.gate import Engines, Gate
from paddock.gate.guest_service import GuestService
from paddock.gate.live_runs.endpoint import Entry, show_paddock
from paddock.gate.processes import Processes, own_directories, own_files
from paddock.gate.program_service import ProgramService
from paddock.gate.script_tool_service import Scripts
from paddock.gate.sequence_service import SequenceServices
from paddock.gate.servers import ServerService
from paddock.gate.stored_output import OutputStore
from paddock.model.errors import ConfigurationError, LedgerUnusable
from paddock.policy.redaction.known import KnownSecrets
from paddock.policy.redaction.outgoing import OutgoingRedaction
from paddock.policy.settings.schema import AuditSettings, Settings
from paddock.record.ledger.record_watch import RecordWatch
from paddock.record.ledger.sink import AuditSink
from paddock.record.ledger.sink_wrappers import CheckedSink, UnavailableSink
from paddock.record.ledger.writer import Ledger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from paddock.confinement.sandbox.protocol import GuardingSandbox, Sandbox
    from paddock.confinement.sandbox.state_paths import StateFile
    from paddock.engines.javascript.launch import Launcher
    from paddock.engines.packages.service import Packages
    from paddock.engines.programs.engine import RuntimeEngine
    from paddock.engines.sdk.commands import Commands
    from paddock.engines.servers.local_server import LocalServer
    from paddock.engines.sessions.programs import ProgramSessions
    from paddock.gate.approvals import Asker
    from paddock.gate.cluster import Cluster
    from paddock.gate.confined_servers import ConfinedServers
    from paddock.gate.host_access import ConnectionWatch
    from paddock.record.output.backends import ArtifactStore
    from paddock.record.telemetry.instrument import Instrumentation
    from paddock.record.telemetry.metrics import Metrics


class OpenPaddock:
    """A gate with its engines and services, for one workspace; not an interpreter session (`engines/sessions`)."""

    def __init__(  # noqa: PLR0917 - its parts
        self,
        gate: Gate,
        servers: ServerService,
        processes: Processes,
        output: OutputStore,
        scripts: Scripts,
        programs: ProgramService,
        *,
        events: Events,
        outgoing: OutgoingRedaction,
        flowing: SequenceServices,
        record: RecordWatch,
        changes: ChangeSets,
        metrics: "Metrics | None" = None,
    ) -> None:
        self.gate = gate
        self.changes = changes
        self.events = events
        self.outgoing = outgoing
        self.servers = servers
        self.processes = processes
        self.output = output
        self.scripts = scripts
        self.programs = programs
        self.flowing = flowing
        self.record = record
        self.metrics = metrics
        """Counts requests; None unless the settings enable metrics."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Faults that were found so far in files, in redaction patterns and in webhook deliveries."""
        of_files = self.servers.config.warnings if self.servers.used else ()
        return (*of_files, *self.outgoing.warnings, *self.events.warnings)


def _make_engine(settings: Settings, processes: Processes, user: str) -> "RuntimeEngine":
    from paddock.engines.programs.cache import Cache
    from paddock.engines.programs.engine import RuntimeEngine

    compiled = Cache(user_cache_path("paddock") / "programs", settings.runtimes.cache_bytes, user)
    return RuntimeEngine(
        processes.open_sandbox, os.environ, compiled, settings.runtimes, partial(_make_packages, settings)
    )


def _make_packages(settings: Settings) -> "Packages":
    from paddock.engines.packages.service import Packages

    return Packages(settings.packages, os.environ, settings.network.rule)


def _make_sessions(
    settings: Settings, outgoing: OutgoingRedaction, mark: str, engine: "Callable[[], RuntimeEngine]"
) -> "ProgramSessions":
    from paddock.engines.sessions.bundles import read_result
    from paddock.engines.sessions.programs import ProgramSessions

    read = partial(read_result, hide=outgoing.text, hide_json=outgoing.json)
    return ProgramSessions(settings.sessions, engine, read, mark)


def _make_commands(
    settings: Settings, processes: Processes, secret: "Callable[[str], str | None]"
) -> "Commands":
    from paddock.engines.sdk.commands import Commands

    return Commands(settings.sdk.commands, os.environ, processes.open_sandbox, secret)


def _make_confined(
    settings: Settings,
    workspace: Path,
    sandbox: "Callable[[], Awaitable[GuardingSandbox]]",
    watch: "Callable[[str], ConnectionWatch]",
) -> "ConfinedServers":
    from paddock.gate.confined_servers import ConfinedServers

    return ConfinedServers(settings, workspace, sandbox, watch)


def _watch_paddock(
    settings: Settings,
    servers: ServerService,
    guests: GuestService,
    programs: ProgramService,
    output: OutputStore,
    *,
    metrics: "Metrics | None",
) -> "Instrumentation | None":
    watched = settings.telemetry.metrics or settings.telemetry.traces != "none"
    if not watched and not logging.getLogger("paddock.requests").isEnabledFor(logging.INFO):
        return None
    from paddock.record.telemetry.instrument import Instrumentation
    from paddock.record.telemetry.observed_sink import Sources

    def waiting() -> int:
        return guests.waiting + programs.waiting

    sources = Sources(
        servers.tellable_names,
        waiting,
        lambda: guests.workers,
        lambda: servers.running_count,
        output.artifacts,
    )
    return Instrumentation(settings, sources, metrics)


class Parts(NamedTuple):
    """Parts that the caller of the library provides instead of Paddock's own. The caller closes them."""

    audit: AuditSink | None = None
    sandbox: "Sandbox | None" = None
    artifacts: "ArtifactStore | None" = None
    local: "LocalServer | None" = None
    """Functions that programs may call as tools."""

    @property
    def audit_name(self) -> str:
        """Name of the audit sink; empty for the ledger."""
        return "" if self.audit is None else type(self.audit).__name__


_OWN_PARTS = Parts()


class Server(NamedTuple):
    """The server that opens a Paddock for each of several users."""

    settings: Settings
    """Its own settings. No program may reach the directories and files that they name, for any user."""
    audit: AuditSink
    """Records the requests of all users. The server closes it."""
    user: str
    """Who uses it: an actor."""
    slots: FairSlots
    """In which the requests of all users wait."""


@contextmanager
def open_audit(settings: AuditSettings, given: AuditSink | None = None) -> Generator[AuditSink]:
    """Yield what records the requests of a process: the ledger, or the caller's own sink. Raises LedgerError."""
    if given is not None:
        yield CheckedSink(given)
        return
    try:
        ledger = Ledger(settings.directory, sync=settings.sync)
    except LedgerUnusable as why:
        if settings.required == "all":
            raise
        ledger = UnavailableSink(why)
    with closing(ledger), do_before(ledger.abandon):
        yield ledger


def _check_start(settings: Settings, workspace: Path) -> None:
    """Raise ConfigurationError if no Paddock with these settings can be opened in this workspace, on this machine."""
    try:
        str(workspace).encode()
    except UnicodeEncodeError:
        message = (
            f"{workspace}: the path of the workspace is not UTF-8; rename the directory, or use another one"
        )
        raise ConfigurationError(message) from None
    if "landlock" in settings.sandbox.require and not read_abi_version():
        raise ConfigurationError(
            "sandbox.require names landlock, which this kernel does not offer; run Linux 5.13 or later with Landlock, "
            "or remove it from `require` under [sandbox]"
        )


async def _close_all(
    closing: "Iterable[Callable[[], Awaitable[None]]]", watch: "Instrumentation | None"
) -> None:
    await asyncio.gather(*(close() for close in closing))
    if watch is not None:
        await watch.close()


@asynccontextmanager
async def open_paddock(
    settings: Settings,
    workspace: Path,
    *,
    launcher: "Launcher | None" = None,
    asker: "Asker | None" = None,
    metrics: "Metrics | None" = None,
    compatible: bool = False,
    parts: Parts = _OWN_PARTS,
    server: "Server | None" = None,
    cluster: "Cluster | None" = None,
) -> AsyncGenerator[OpenPaddock]:
    """Open Paddock. At its end every process that it started is ended and the record is made durable.

    `launcher` may have started processes for it; the caller closes it. `asker` answers for requests that bring
    no asker. `metrics` of another Paddock count this one too. `compatible` keeps the older redaction marks. `parts` are
    used instead of Paddock's own. `server` runs it for one of its users. Requests with effects are claimed in
    `cluster`, which the caller closes afterwards. Raises ConfigurationError for a workspace whose path is not UTF-8,
    and LedgerError without a ledger: nothing runs then, except what `audit.required` allows.
    """
    _check_start(settings, workspace)
    with nullcontext(server.audit) if server else open_audit(settings.audit, parts.audit) as ledger:
        slots = FairSlots() if server is None else server.slots
        secrets = KnownSecrets()
        servers = ServerService(settings, workspace, secrets.learn, parts.local)
        kept_by = [settings] if server is None else [settings, server.settings]

        def list_files() -> "tuple[StateFile, ...]":
            return tuple(dict.fromkeys(chain.from_iterable(map(own_files, kept_by))))

        own = [*chain.from_iterable(map(own_directories, kept_by))]
        processes = Processes(settings, own, list_files, servers.keep_config, parts.sandbox)
        guests = GuestService(settings.guest, slots, processes.open_sandbox, launcher)
        outgoing = OutgoingRedaction(settings.redaction, secrets, compatible=compatible)
        watch: Instrumentation | None = None
        closing = [processes.close, servers.close, guests.close]
        try:
            output = OutputStore(settings, outgoing.output, parts.artifacts)
            engine = partial(_make_engine, settings, processes, "" if server is None else server.user)
            mark = "" if cluster is None else cluster.node.mark
            sessions = partial(_make_sessions, settings, outgoing, mark)
            programs = ProgramService(
                *(settings.runtimes, engine, output.artifacts, outgoing.text, sessions),
                slots=slots,
                overlay=settings.overlay,
            )
            closing.append(programs.close)
            scripts = Scripts(
                *(settings.tools, workspace, processes.open_sandbox, settings.runtimes.recipes),
                overlay=settings.overlay,
                hide=outgoing.text,
            )
            flowing = SequenceServices(settings, scripts, outgoing, output.results)
            commands = partial(_make_commands, settings, processes)
            facts = SessionFacts(
                *(output.artifacts, servers.list_configured, processes.prove_tier),
                *(lambda: flowing.flows, lambda: flowing.temporals),
                *(commands, outgoing.json, None if server is None else server.settings.sdk, parts.audit_name),
            )
            services = Services(settings, secrets, facts)
            changes = ChangeSets(
                settings, outgoing.text, lambda: nullcontext(ledger), processes.open_sandbox, own
            )
            engines = Engines(guests, servers, programs, scripts, services, output.results, changes)
            watch = _watch_paddock(settings, servers, guests, programs, output, metrics=metrics)
            sink = watch.wrap_sink(ledger) if watch else ledger
            claims = None
            if cluster is not None:
                from paddock.gate.cluster_claims import PaddockClaims

                claims = PaddockClaims(cluster, settings)
            gate = Gate(settings, sink, engines, outgoing, asker, claims=claims)
            flowing.execute = gate.execute
            servers.make_confined = partial(
                _make_confined, settings, workspace, processes.open_sandbox, gate.watch_server
            )
            servers.take_tools(outgoing.text)
            notifies = bool(settings.approvals.notify)
            async with (
                Events(gate.execute, services.webhooks_of, notifies=notifies) as events,
                aclosing(gate),
            ):
                gate.on_end = events.on_end
                gate.approvals.on_waiting = events.on_waiting
                told = watch.metrics if watch else None
                own_parts = gate, servers, processes, output, scripts, programs
                record = RecordWatch(ledger, settings.audit)
                opened = OpenPaddock(
                    *own_parts,
                    events=events,
                    outgoing=outgoing,
                    flowing=flowing,
                    record=record,
                    changes=changes,
                    metrics=told,
                )
                with show_paddock(Entry(opened, workspace, "" if server is None else server.user)):
                    yield opened
        finally:
            await run_shielded(_close_all(closing, watch))
