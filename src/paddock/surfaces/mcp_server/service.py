"""An opened Paddock as an MCP server: the tools that it offers, and the transports that serve them."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from paddock.foundation.cancellation import cancel_all
from paddock.gate.open_paddock import OpenPaddock, open_paddock
from paddock.gate.questions import Questions, open_local_questions
from paddock.model.errors import ApprovalError
from paddock.policy.settings.schema import Settings
from paddock.surfaces.http_server.endpoint import Endpoint
from paddock.surfaces.http_server.readiness import Readiness
from paddock.surfaces.mcp_server.client_questions import ElicitationRounds
from paddock.surfaces.mcp_server.compat.repositories import Repositories
from paddock.surfaces.mcp_server.compat.tools import build_compat_profile
from paddock.surfaces.mcp_server.http.app import build_application, http_service
from paddock.surfaces.mcp_server.list_changes import ChangeNotifier
from paddock.surfaces.mcp_server.overflow import OverflowStore
from paddock.surfaces.mcp_server.pending_calls import FETCH_TOOLS, PendingCalls
from paddock.surfaces.mcp_server.prompts import Prompts
from paddock.surfaces.mcp_server.prompts_resources import PromptsAndResources
from paddock.surfaces.mcp_server.protocol import build_protocol_server
from paddock.surfaces.mcp_server.requests import InFlightRequests
from paddock.surfaces.mcp_server.resources import Resources, ScriptVersions
from paddock.surfaces.mcp_server.stdio import serve_client, standard_streams
from paddock.surfaces.mcp_server.tasks import Tasks
from paddock.surfaces.mcp_server.toolbox import Toolbox
from paddock.surfaces.mcp_server.tools.call_tool import build_call_tool
from paddock.surfaces.mcp_server.tools.compute import build_compute_tool
from paddock.surfaces.mcp_server.tools.discovery import build_discovery_tools
from paddock.surfaces.mcp_server.tools.execute_code import build_execute_code_tool
from paddock.surfaces.mcp_server.tools.programs import ProgramTools, build_program_tools
from paddock.surfaces.mcp_server.tools.provision import build_provision_tool
from paddock.surfaces.mcp_server.tools.script_tools import ScriptTools
from paddock.surfaces.tenants.refusals import Refusals

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcp.server.lowlevel.server import Server

    from paddock.gate.cluster import Cluster
    from paddock.record.telemetry.metrics import Metrics
    from paddock.surfaces.http_server.asgi import App
    from paddock.surfaces.mcp_server.toolbox import Admit

_log = logging.getLogger("paddock.mcp")

_ANSWERS_S = 5.0
"""Maximum time to send the answers of stopped calls, in seconds."""

ToolNames = Literal["default", "compat"]
SettingsOf = Callable[[Path], Settings]
"""Returns the settings of a workspace. Raises ConfigurationError."""


class Service:
    """The served tools and prompts, in the default or the compat profile."""

    def __init__(
        self,
        opened: OpenPaddock,
        settings: Settings,
        workspace: Path,
        tool_names: ToolNames,
        settings_of: SettingsOf,
        *,
        admit: "Admit | None" = None,
        questions: Questions | None = None,
        mark: str = "",
    ) -> None:
        """Use `settings_of` for the settings of further registered workspaces; let `admit` bound what users run.

        `questions` keeps those of clients that cannot ask; by default it is the directory of the settings. `mark` names
        this replica of a server with several.
        """
        cap = settings.mcp.answer_characters
        rest = OverflowStore(opened, workspace)
        jit = settings.grants.jit
        own = [
            build_execute_code_tool(
                opened.gate, workspace, cap, rest, jit=jit, record=settings.record.payloads == "asked"
            ),
            build_call_tool(opened.gate, workspace, cap, rest),
            *build_discovery_tools(opened.servers, cap),
        ]
        programs = ProgramTools(opened, workspace, cap, settings.runtimes)
        own += [build_provision_tool(opened, workspace, cap), *build_program_tools(programs)]
        own.append(build_compute_tool(opened.gate, workspace, cap, rest, jit=jit))
        open_programs = partial(_open_programs, settings_of, opened.metrics, tool_names == "compat")
        self._repositories = Repositories(programs, workspace, settings.mcp.repos, open_programs)
        compat = build_compat_profile(
            opened, workspace, programs, self._repositories, settings.limits.execute
        )
        self._scripts = ScriptTools(opened, settings.tools, workspace, cap, rest)
        further = self._scripts.list_tools
        if tool_names == "default":
            self._tools = Toolbox(own, compat, further=further, outgoing=opened.outgoing, admit=admit)
        else:
            self._tools = Toolbox(
                compat, own, suggests=False, further=further, shows_further=False, outgoing=opened.outgoing
            )
        resources = Resources(opened, workspace, cap)
        self._saved = resources.scripts
        self._offers = PromptsAndResources(
            Prompts(opened.servers, opened.outgoing, workspace, cap), resources
        )
        self._announcer = ChangeNotifier()
        self._metrics = opened.metrics.render_page if opened.metrics else None
        self._refusals = Refusals(opened.gate.audit, opened.metrics, "mcp")
        self._record = opened.record
        self._mark = mark
        self._changes = tool_names == "default"
        self._requests = InFlightRequests()
        self._grace_s = settings.mcp.shutdown_grace_ms / 1000
        self._questions = questions or open_local_questions(settings, None)
        fetching, note_fetch = FETCH_TOOLS[tool_names], opened.gate.note_fetch
        pending = PendingCalls(self._questions, fetching, has_users=admit is not None, note_fetch=note_fetch)
        self._rounds = ElicitationRounds(settings.approvals.wait_ms, pending)
        after_s = settings.mcp.task_after_ms / 1000
        counted = self._requests.in_flight
        self._tasks = (
            Tasks(self._rounds, lambda _tool: after_s, mark, in_flight=counted) if self._changes else None
        )

    async def serve_stdio(self, stop: asyncio.Event) -> None:
        """Serve one client over stdio until it closes its end, or `stop` is set."""
        async with self._open_server() as server, standard_streams() as (reader, writer):
            serving = asyncio.create_task(serve_client(server, reader, writer))
            try:
                await self._wait_until_ended(stop, serving)
            finally:
                await cancel_all([serving])

    async def serve_http(
        self, endpoint: Endpoint, stop: asyncio.Event, cluster: "Cluster | None" = None
    ) -> None:
        """Serve many clients over HTTP until `stop` is set, as one replica of a `cluster`."""
        async with self._open_server() as server:
            app = build_application(server, self._requests, self._grace_s)
            readiness = Readiness(lambda: self._requests.ending, self._record, cluster)
            serving = http_service(app, endpoint, readiness, self._refusals, self._metrics)
            with closing(self._refusals):
                async with serving as task:
                    await self._wait_until_ended(stop, task)

    @asynccontextmanager
    async def open_application(self) -> "AsyncGenerator[App]":
        """Yield the application that answers MCP requests of known callers, for a server that has other paths, too."""
        async with self._open_server() as server:
            app = build_application(server, self._requests, self._grace_s)
            async with server.session_manager.run():
                yield app

    async def _wait_until_ended(self, stop: asyncio.Event, serving: "asyncio.Task[None]") -> None:
        """Wait until a transport has ended, or `stop` is set and the requests in flight have ended."""
        for waiting in (stop.wait, self.drain):
            other = asyncio.create_task(waiting())
            try:
                await asyncio.wait({serving, other}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                other.cancel()
            if serving.done():
                serving.result()
                return

    def holds_run(self, run: str, actor: str) -> bool:
        """Return whether the answer of a waiting call can be fetched here."""
        return self._rounds.holds_run(run, actor)

    async def drain(self) -> None:
        """Let requests in flight end within the grace period; then stop them, and send their answers."""
        if not await self._requests.wait_until_drained(self._grace_s):
            await self._tools.stop()
            await self._requests.wait_until_drained(_ANSWERS_S)

    @asynccontextmanager
    async def _open_server(self) -> "AsyncGenerator[Server[Any]]":
        """Yield the protocol server; changes are announced during the context."""
        watching: list[asyncio.Task[None]] = []
        if self._changes:
            # Read before the first client is served: a change after that must not count as known.
            known = await self._saved.read_versions()
            looks = (self._watch_tools(), self._watch_scripts(known))
            watching = [*map(asyncio.create_task, looks)]
        announcer = self._announcer if self._changes else None
        try:
            await self._questions.remove_abandoned()
        except ApprovalError as error:
            _log.warning("questions cannot wait for `paddock approve`: %s", error)
        try:
            own = self._tools, self._offers, self._rounds
            server = build_protocol_server(*own, announcer, self._mark, tasks=self._tasks)
            server.middleware.append(self._requests.handle_message)
            yield server
        finally:
            await self._rounds.close()
            if self._tasks is not None:
                await self._tasks.close()
            await self._repositories.close()
            await cancel_all(watching)

    async def _watch_scripts(self, known: ScriptVersions) -> None:
        async for changed, others in self._saved.watch_changes(known):
            for uri in changed:
                await self._announcer.announce_resource_update(uri)
            if others:
                await self._announcer.announce_resources()

    async def _watch_tools(self) -> None:
        async for _ in self._scripts.watch_changes():
            await self._announcer.announce_tools()


@asynccontextmanager
async def _open_programs(
    settings_of: SettingsOf,
    metrics: "Metrics | None",
    compatible: bool,
    workspace: Path,
) -> "AsyncGenerator[ProgramTools]":
    """Yield the runner of programs in a workspace, with its own settings; `metrics` counts its programs, too."""
    settings = settings_of(workspace)
    async with open_paddock(settings, workspace, metrics=metrics, compatible=compatible) as opened:
        yield ProgramTools(opened, workspace, settings.mcp.answer_characters, settings.runtimes)
