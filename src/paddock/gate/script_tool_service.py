"""The gate's side of script tools: their directories, the languages that run them, and their engine.

Everything here is created at the first use: most requests need none of it.
"""

import asyncio
import hashlib
import os
import shlex
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.foundation.files import read_bounded
from paddock.gate.watchers import Watchers
from paddock.model.base import Json
from paddock.model.errors import ConfigurationError, ToolNotFound
from paddock.model.limits import SCRIPT_BYTES
from paddock.model.network import NETWORKS, HostGrant
from paddock.model.outcome import Decision, ErrorInfo, RawResult, Status
from paddock.model.program import ACCESSES
from paddock.model.request import ExecutionRequest, ToolRun
from paddock.policy.settings.overlay import OverlaySettings
from paddock.policy.settings.schema import ToolSettings

if TYPE_CHECKING:
    from paddock.confinement.sandbox.protocol import GuardingSandbox, Sandbox
    from paddock.engines.programs.toolchain_cache import Toolchains
    from paddock.engines.script_tools.engine import NoCommand, ToolCommand, ToolEngine
    from paddock.engines.script_tools.library import ScriptTool, ToolLibrary
    from paddock.gate.host_access import ConnectionWatch
    from paddock.model.process import ProcessGrants
    from paddock.policy.settings.recipes import Recipe

_NODE_SUFFIXES = {".js": "node", ".mjs": "node", ".cjs": "node", ".ts": "node"}


def open_library(settings: ToolSettings, workspace: Path) -> "ToolLibrary":
    """Return the tool directories of a workspace; nothing is read yet.

    Raises ConfigurationError for a folder in the settings that is not a valid path.
    """
    from paddock.engines.script_tools.library import ToolLibrary

    return ToolLibrary(workspace, [workspace / _resolve_folder(folder) for folder in settings.folders])


def _resolve_folder(folder: str) -> Path:
    if "\0" in folder:
        raise ConfigurationError("tools.folders: a path contains a NUL character; remove it")
    try:
        return Path(folder).expanduser()
    except RuntimeError:
        home = Path(folder).parts[0]
        raise ConfigurationError(
            f"tools.folders: {home} is not the home of a user on this machine; name another folder"
        ) from None


def find_tool(library: "ToolLibrary", name: str, *, prompt: str = "") -> "ScriptTool":
    """Return the tool with an id, or `prompt/id`.

    Raises ToolNotFound, which says where Paddock searched, or ConfigurationError for a tool that cannot be used.
    """
    from paddock.engines.script_tools.library import BrokenTool

    found = library.find(name, prompt=prompt)
    if found is None:
        raise ToolNotFound(name, [str(folder) for folder in library.folders])
    if isinstance(found, BrokenTool):
        raise ConfigurationError(f"{found.directory}: {found.problem}")
    return found


def make_tool_run(
    library: "ToolLibrary",
    name: str,
    inputs: Mapping[str, Json],
    *,
    prompt: str = "",
    env: Mapping[str, str] | None = None,
) -> ToolRun:
    """Return the work of running a tool, with its declared needs. Raises the errors of `find_tool`."""
    tool = find_tool(library, name, prompt=prompt)
    return ToolRun(
        tool=tool.id,
        prompt=tool.prompt or prompt,
        inputs=dict(inputs),
        env=dict(env or {}),
        timeout_ms=tool.manifest.timeout,
        access=tool.manifest.workspace,
        network=tool.manifest.network,
        hosts=tool.manifest.hosts,
        script_sha256=tool.script_sha256,
    )


class Scripts:
    """Runs the script tools of one workspace."""

    def __init__(
        self,
        settings: ToolSettings,
        workspace: Path,
        sandbox: "Callable[[], Awaitable[GuardingSandbox]]",
        languages: "Mapping[str, Recipe] | None" = None,
        *,
        overlay: OverlaySettings,
        hide: Callable[[str], str],
    ) -> None:
        """Run tools in the `languages` that the settings add, too; `hide` removes secrets from what is shown."""
        self._overlay = overlay
        self._hide = hide
        self._settings = settings
        self._languages = languages
        self._workspace = workspace
        self._sandbox = sandbox

    @cached_property
    def library(self) -> "ToolLibrary":
        """The tool directories."""
        return open_library(self._settings, self._workspace)

    @cached_property
    def _engine(self) -> "ToolEngine":
        from paddock.engines.script_tools.engine import ToolEngine

        return ToolEngine(
            self._sandbox,
            Languages(os.environ, self._workspace, self._languages),
            os.environ,
            strict_nulls=self._settings.strict_nulls,
            max_jobs=self._settings.max_jobs,
        )

    def make_work(self, name: str, inputs: Mapping[str, Json]) -> ToolRun:
        """Return the work of running a tool. Raises the errors of `find_tool`."""
        return make_tool_run(self.library, name, inputs)

    def check_tool(self, work: ToolRun) -> RawResult | None:
        """Return the result of a tool that cannot run, or of wrong inputs; None if it can run."""
        try:
            tool = find_tool(self.library, work.tool, prompt=work.prompt)
        except (ToolNotFound, ConfigurationError) as problem:
            return _refuse_tool(problem)
        return self._engine.check(tool, work)

    async def run_tool(
        self,
        request: ExecutionRequest,
        work: ToolRun,
        decision: Decision,
        watch: "ConnectionWatch",
        watchers: Watchers,
    ) -> RawResult:
        """Run an allowed tool and return its result; `watch` asks about and records its connections.

        Raises EngineError when nothing ran.
        """
        from paddock.engines.script_tools.engine import ToolTask
        from paddock.gate.host_access import HostAccess, RequestHosts

        assert decision.tool is not None
        try:
            tool = find_tool(self.library, work.tool, prompt=work.prompt)
        except (ToolNotFound, ConfigurationError) as problem:
            return _refuse_tool(problem)
        declared, terms = tool.manifest, decision.tool
        # Policy judged what the tool declared at the time of the request. Grant no more than that, and no more than its
        # file declares now.
        narrowed: dict[str, object] = {
            "access": min(terms.access, declared.workspace, key=ACCESSES.index),
            "network": min(terms.network, declared.network, key=NETWORKS.index),
        }
        hosts, own = RequestHosts(watch), None
        if narrowed["network"] == "hosts":
            grant = terms.hosts or HostGrant()
            if declared.hosts is not None:  # None declares all that the rules allow
                known = declared.hosts if grant.hosts is None else grant.hosts
                grant = grant.replace(hosts=tuple(host for host in declared.hosts if host in known))
            own = hosts.open_for_program(HostAccess(grant))
        terms = terms.model_copy(update=narrowed)
        overlay = None
        if terms.access == "overlay":
            from paddock.gate.overlays import OverlayChanges  # most tools have no overlay

            overlay = OverlayChanges(self._overlay, request, self._hide, watchers.list_labels)
        run = overlay.make_run() if overlay else None
        on_start = None if watchers.live is None else watchers.live.take_measure
        task = ToolTask(tool, work, request.workspace.absolute(), terms, own, run, on_start)
        result = await self._engine.run(task)
        return hosts.add_connections(overlay.add_summary(result) if overlay else result)


def _refuse_tool(problem: Exception) -> RawResult:
    error = ErrorInfo(name="ToolError", message=str(problem), phase="decide")
    return RawResult(status=Status.INVALID, error=error)


class Languages:
    """Knows how this machine runs scripts of each language, for the engine of tools."""

    def __init__(
        self, environ: Mapping[str, str], workspace: Path, added: "Mapping[str, Recipe] | None" = None
    ) -> None:
        self._environ = environ
        self._workspace = workspace
        self._added = added

    @cached_property
    def _toolchains(self) -> "Toolchains":
        from paddock.engines.programs.toolchain_cache import Toolchains

        return Toolchains(self._environ)

    @cached_property
    def _recipes(self) -> "Mapping[str, Recipe]":
        from paddock.engines.programs.recipe import recipes

        return recipes(self._added)

    def runtime_of(self, script: Path) -> str | None:
        """Return the runtime of a file's suffix; None if no runtime has the suffix."""
        suffix = script.suffix.lower()
        if suffix in _NODE_SUFFIXES:
            return _NODE_SUFFIXES[suffix]
        from paddock.engines.programs.recipe import find_suffix_runtime

        return find_suffix_runtime(script, self._recipes)

    async def make_command(
        self, runtime: str, script: Path, *, sandbox: "Sandbox", grants: "ProcessGrants", memory_bytes: int
    ) -> "ToolCommand | NoCommand":
        """Return the command that runs a script. It compiles the script first if the language needs that.

        Raises Unreadable.
        """
        from paddock.engines.programs.steps import StepPaths, steps
        from paddock.engines.programs.toolchain import MissingToolchain
        from paddock.engines.script_tools.engine import NoCommand, ToolCommand, Unreadable

        name = "typescript" if (runtime, script.suffix.lower()) == ("node", ".ts") else runtime
        recipe = self._recipes.get(name)
        if recipe is None:
            return NoCommand(known=False, hint=f"the runtimes are auto and {', '.join(self._recipes)}")
        user = sandbox.user(grants)
        found = await self._toolchains.find(recipe, user=user, untrusted=(self._workspace,))
        if isinstance(found, MissingToolchain):
            stripped = " (a .ts script is run as TypeScript)" if name != runtime else ""
            return NoCommand(known=True, hint=f"{found.remedy}{stripped}")

        def read() -> str:
            return read_bounded(script, SCRIPT_BYTES, within=script).decode("utf-8", "surrogateescape")

        try:
            source = await asyncio.to_thread(read)
        except OSError as problem:
            raise Unreadable(problem.strerror) from None
        planned = steps(found, source)

        def start(scratch: Path) -> tuple[list[str], dict[str, str]]:
            # The script lies in the scratch directory, or is run in place.
            copied = scratch / planned.file_name
            paths = StepPaths(
                source=str(copied if copied.exists() else script),
                output=f"{scratch}/{planned.output_name}",
                scratch=str(scratch),
                memory_bytes=memory_bytes,
            )
            run, environment = planned.run.fill_in(paths)
            if planned.compile is None:
                return run, environment
            # One process compiles and runs. The compiler's output goes to stderr, because stdout is the tool's answer.
            compiling, variables = planned.compile.fill_in(paths)
            both = f"{shlex.join(compiling)} >&2 && exec {shlex.join(run)}"
            return ["/bin/sh", "-c", both], variables | environment

        copied = planned.source != source or planned.compile is not None
        files = {planned.file_name: planned.source, **planned.files} if copied else {}
        sha256 = hashlib.sha256(source.encode("utf-8", "surrogateescape")).hexdigest()
        return ToolCommand(start=start, sha256=sha256, files=files, readable=found.prefixes)
