"""The engine of programs: a recipe, a toolchain, one or two confined steps, one raw result.

    find the toolchain -> compile, or take the program from the cache -> run -> RawResult

Each step has its own jail, with a scratch directory for the program's file, readable by it alone and removed after it.
The compiler sees neither workspace nor network, except that of a session's driver. Both steps share the wall time.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from paddock.confinement.network.environment import stop_retries
from paddock.confinement.sandbox import spec
from paddock.confinement.sandbox.fork_server import Jail
from paddock.confinement.sandbox.hidden_files import find_hidden_name
from paddock.confinement.sandbox.process import RunningProcess
from paddock.confinement.sandbox.protocol import GuardingSandbox, Streams
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.engines.programs import cache, safe_copy, shown_values
from paddock.engines.programs.cache import Cache
from paddock.engines.programs.closed_files import find_closed_file, find_left_file
from paddock.engines.programs.outcome_mapping import is_out_of_memory
from paddock.engines.programs.package_hints import (
    advise_on_installation,
    explain_missing_module,
    explain_missing_npm_package,
)
from paddock.engines.programs.running_task import Compiled, PreparedToolchain, RunningTask, find_in_place
from paddock.engines.programs.steps import NoProgramError, ProgramStep, StepPaths, compile_first, steps
from paddock.engines.programs.task import PROCESSORS, ProgramTask, Sinks
from paddock.engines.programs.toolchain import MissingToolchain, Toolchain
from paddock.engines.programs.toolchain_cache import Toolchains
from paddock.engines.programs.workdir import (
    VARIABLE,
    WORKDIR,
    InputFileError,
    make_folder,
    make_workdir,
    walk_files,
    write_files,
)
from paddock.model.limits import KIB
from paddock.model.outcome import ErrorInfo, RawResult, Status
from paddock.model.process import ProcessGrants, ProcessResult
from paddock.model.requirements import INSTALLERS, read_script_metadata, satisfies_python
from paddock.policy.settings.schema import RuntimeSettings

if TYPE_CHECKING:
    from paddock.confinement.sandbox.protocol import SandboxSlot
    from paddock.engines.changes.opening import OverlayRun, Overlays
    from paddock.engines.packages.service import Packages

EXHAUSTED = "Compile succeeded but execution budget exhausted."
NO_OUTPUT = (
    "Compile succeeded but output binary not found at expected path: program; the source declares nothing that "
    "could be run, so give it a `main`"
)
SURVIVED = "Compile succeeded but a process of the compiler is still alive"

_FOREIGN_SANDBOX = "sessions need Paddock's own sandbox, and this one was brought by the caller"
_OTHER_PYTHON = "name an interpreter that it can run with: --executable python3.13, or `executable` of a call"
_MAX_SMALL_SOURCE_BYTES = 64 * KIB
_SAYS_NOTHING = {Status.CANCELLED, Status.TIMEOUT}
"""Ends of a compile step after which the next one may succeed."""


class Conclude(Protocol):
    """Makes the result of one turn of a program from the end of its process, or what stands for it."""

    def __call__(self, result: ProcessResult, task: ProgramTask, *, message: str = "") -> RawResult:
        """Return the result of `task`; `message` replaces the one of the error."""
        ...


@dataclass(frozen=True, slots=True)
class HeldProgram:
    """A program that was started for many turns; `end` it."""

    process: RunningProcess
    slot: Jail
    sandbox: GuardingSandbox
    conclude: Conclude
    used: AsyncExitStack
    """Its slot and its packages."""
    overlays: "Overlays | None" = None

    async def end(self) -> None:
        """Kill its processes, and then give back what it used."""
        self.process.kill()
        await asyncio.wait({self.process.result})
        await self.used.aclose()


class RuntimeEngine:
    """Runs programs in the toolchains of this machine.

    `sandbox` returns the session's sandbox; `environ` has PATH and the allowed variables.
    """

    def __init__(
        self,
        sandbox: Callable[[], Awaitable[GuardingSandbox]],
        environ: Mapping[str, str],
        compiled: Cache,
        settings: RuntimeSettings | None = None,
        packages: "Callable[[], Packages] | None" = None,
    ) -> None:
        self._packages = packages
        self._sandbox = sandbox
        self._environ = environ
        self._compiled = compiled
        self._toolchains = Toolchains(environ, settings)
        self._driver_compiles: dict[str, int] = {}
        """How often drivers were compiled by this process, by the identity of the toolchain."""
        self._versions: dict[str, str] = {}
        """Versions of Python interpreters, by the identity of the toolchain."""

    async def run(self, task: ProgramTask, sinks: Sinks, stop: asyncio.Event | None = None) -> RawResult:
        """Run a program and return its result. Setting `stop`, or cancelling the task, ends the program first.

        Raises EngineError if Paddock's own machinery fails before the program starts.
        """
        sandbox = await self._sandbox()
        async with AsyncExitStack() as used:
            _begin_connections(task, used)
            prepared = await self._prepare_toolchain(task, sandbox, used, stop)
            if isinstance(prepared, RawResult):
                return prepared
            toolchain = prepared.toolchain
            own = None
            try:
                planned = steps(
                    toolchain, task.work.code, task.work.args, file=task.work.file, live=task.live
                )
                if task.work.file:
                    own = find_in_place(task, planned, toolchain, sandbox.user(task.grants()), sandbox.hiding)
                if own is not None:
                    planned = replace(planned, file_name="", source="")
                running = RunningTask(task, sandbox, toolchain, planned, own, sinks, stop, prepared.links)
                return prepared.add_facts(await self._carry_out(running))
            except (NoProgramError, InputFileError) as problem:
                return _refuse(Status.INVALID, str(problem))

    async def _prepare_toolchain(
        self, task: ProgramTask, sandbox: GuardingSandbox, used: AsyncExitStack, stop: asyncio.Event | None
    ) -> PreparedToolchain | RawResult:
        """Return the toolchain of a program with its packages, which stay until `used` ends; or why there is none."""
        found = await self._toolchains.for_task(task, sandbox)
        if isinstance(found, MissingToolchain):
            why = f"{found.recipe.title} cannot be run here: {found.reason}"
            return _refuse(Status.UNAVAILABLE, why, found.remedy)
        if why := await self._find_version_fault(task, sandbox, found):
            return _refuse(Status.UNAVAILABLE, why, _OTHER_PYTHON)
        if not task.work.packages or self._packages is None:
            return PreparedToolchain(found, found.links)
        from paddock.engines.packages.interface import PackagesError  # most programs have no packages
        from paddock.engines.programs.package_environment import open_environment

        opened = open_environment(task, found, self._toolchains, sandbox, self._packages(), stop=stop)
        try:
            return await used.enter_async_context(opened)
        except PackagesError as problem:
            error = ErrorInfo(name="Packages", message=str(problem), hint=problem.hint, phase="decide")
            return RawResult(status=problem.status, error=error)

    async def _find_version_fault(self, task: ProgramTask, sandbox: GuardingSandbox, found: Toolchain) -> str:
        """Return why a Python program cannot run with its interpreter, by its `requires-python` (PEP 723); or ""."""
        if task.work.runtime != "python" or not task.work.own_packages:
            return ""
        with suppress(ValueError):  # policy has reported it, unless packages are off
            required = read_script_metadata(task.work.code or "").requires_python
            if not required:
                return ""
            if found.identity not in self._versions:
                from paddock.engines.programs.inventory import version

                self._versions[found.identity] = await version(sandbox, task, found)
            have = self._versions[found.identity]
            if not satisfies_python(have, required):
                name = found.executable.name
                return f"the program requires Python {required} (requires-python), and {name} is {have or 'unknown'}"
        return ""

    async def hold(
        self,
        task: ProgramTask,
        driver: str,
        channel: socket.socket,
        *,
        launch: Sequence[str],
        compiler: Sequence[str],
        lifetime_ms: int,
        disk_bytes: int,
        stop: asyncio.Event | None = None,
        overlay: "OverlayRun | None" = None,
    ) -> "HeldProgram | RawResult":
        """Start the text of a `driver` with the grants of a program, for many turns, and return it.

        The command `launch` gets the one of the program as its arguments. The command `compiler`, if any, makes a file
        that the interpreter runs in place of the text. Standard input is `channel`, and both output streams are one.
        `lifetime_ms` and `disk_bytes` limit it as a whole. Setting `stop` ends the installation of its packages and the
        compiler. Returns a result if it cannot start. Raises EngineError if Paddock's own machinery fails.
        """
        sandbox = await self._sandbox()
        if not isinstance(sandbox, KernelSandbox):
            return _refuse(Status.UNAVAILABLE, _FOREIGN_SANDBOX)
        async with AsyncExitStack() as used:
            _begin_connections(task, used)
            prepared = await self._prepare_toolchain(task, sandbox, used, stop)
            if isinstance(prepared, RawResult):
                return prepared
            toolchain = prepared.toolchain
            planned = steps(toolchain, driver, live=True)
            sinks = Sinks(_drop, _drop)
            running = RunningTask(task, sandbox, toolchain, planned, None, sinks, stop, prepared.links)
            grants = task.grants(toolchain)
            # Its turns have limits of their own.
            limits = task.limit_run(lifetime_ms).replace(
                cpu_ms=lifetime_ms * PROCESSORS, scratch_bytes=disk_bytes
            )
            if overlay is None:
                slot = await sandbox.take_slot(grants, limits)
            else:
                opened = await overlay.open(sandbox, grants, limits)
                if isinstance(opened, RawResult):
                    return opened
                assert isinstance(opened.slot, Jail)
                grants, slot = opened.grants, opened.slot
                running = replace(running, overlays=opened.overlays)
            used.callback(slot.release)
            try:
                await asyncio.to_thread(make_workdir, task, sandbox, slot.scratch, {})
            except InputFileError as problem:
                return _refuse(Status.INVALID, str(problem))
            for name, target in running.links.items():
                (slot.scratch / name).symlink_to(target)
            name = planned.file_name
            if compiler and await self._provide_driver(running, compiler, slot):
                name = planned.output_name
            else:
                await _put_files(planned.written, slot.scratch)
            paths = replace(running.paths_in(slot), source=f"{slot.scratch}/{name}")
            command, environment = self._make_command(running, paths, has_workdir=True)
            environment |= running.list_copy_variables()
            started = grants.replace(folder=WORKDIR, environment=environment)
            streams = Streams(channel=channel, combined=True, on_proxy_socket=task.serve_proxy)
            process = await sandbox.launch([*launch, *command], started, limits, streams, slot=slot)

            def conclude(result: ProcessResult, task: ProgramTask, *, message: str = "") -> RawResult:
                turn = replace(running, task=task, held=limits)
                return prepared.add_facts(self._conclude(turn, result, started, Compiled(), message))

            if isinstance(process, ProcessResult):
                return conclude(process, task)
            return HeldProgram(process, slot, sandbox, conclude, used.pop_all(), running.overlays)

    async def _provide_driver(
        self, running: RunningTask, compiler: Sequence[str], slot: "SandboxSlot"
    ) -> bool:
        """Put the compiled driver of a session into scratch; return whether there is one.

        An environment that programs may have written compiles nothing for other sessions. The compiler runs as the
        user of the session, who reaches the toolchain. That user depends on the access to the workspace, which the
        compiler therefore may read. It imports nothing from there: Python's `-I -S` adds neither its working directory
        nor the packages and variables of a user to the search for modules.
        """
        toolchain = running.toolchain
        times = self._driver_compiles.get(toolchain.identity, 0)
        # The second time, the first one did not reach the cache: the text itself is faster.
        if toolchain.still or times > 1:
            return False
        plan = compile_first(running.plan, toolchain, compiler)
        grants = running.task.grants(toolchain).replace(network="none")
        if grants.workspace is not None:
            grants = grants.replace(access="read-only", overlaid=())
        compiled = await self._provide_files(replace(running, plan=plan), slot, grants)
        if not compiled.cached if isinstance(compiled, Compiled) else compiled.status not in _SAYS_NOTHING:
            self._driver_compiles[toolchain.identity] = times + 1
        return isinstance(compiled, Compiled)

    async def _carry_out(self, running: RunningTask) -> RawResult:
        grants = running.task.grants(running.toolchain)
        limits = running.task.limit_run(running.compute_remaining_ms(Compiled()))
        overlay = running.sinks.overlay
        if overlay is None:
            slot = await running.sandbox.take_slot(grants, limits)
        else:
            opened = await overlay.open(running.sandbox, grants, limits)
            if isinstance(opened, RawResult):
                return opened
            grants, slot = opened.grants, opened.slot
            running = replace(running, overlays=opened.overlays)
        try:
            work, before = running.task.work, dict[str, str]()
            if work.has_workdir:
                own = running.plan.program if running.source_folder else {}
                before = await asyncio.to_thread(
                    make_workdir, running.task, running.sandbox, slot.scratch, own
                )
            elif running.folder:
                make_folder(slot.scratch, running.folder)
            for name, target in running.links.items():
                (slot.scratch / name).symlink_to(target)
            compiled = await self._provide_files(running, slot)
            if isinstance(compiled, RawResult):
                return compiled
            if running.is_exhausted(compiled):
                running.tell(b"", EXHAUSTED.encode())
                exhausted = ProcessResult(status=Status.TIMEOUT, limit="wall", sandbox=running.sandbox.facts)
                return running.result(exhausted, "run", compiled, EXHAUSTED)
            paths = running.paths_in(slot)
            command, environment = self._make_command(running, paths, has_workdir=work.has_workdir)
            shows = running.toolchain.variant.shows and shown_values.may_show(work.code)
            if shows:
                shown_values.write_hook(slot.scratch)
                environment = shown_values.add_variable(environment, slot.scratch)
            environment |= running.list_copy_variables()
            folder = running.folder or running.find_copied_folder(slot.scratch)
            grants = grants.replace(folder=folder, environment=environment)
            streams = running.streams(slot.scratch / running.source_folder, os.path.basename(paths.source))
            result = await running.sandbox.run(
                command,
                grants,
                running.task.limit_run(running.compute_remaining_ms(compiled)) if compiled.ms else limits,
                streams,
                slot=slot,
                stop=running.stop,
            )
            if not result.survivors:
                # What the program left: values that it showed, and files.
                sinks, workdir = running.sinks, slot.scratch / WORKDIR
                if shows and sinks.shown is not None and (shown := shown_values.read_shown(slot.scratch)):
                    sinks.shown(shown)
                if work.has_workdir and sinks.files is not None:
                    await asyncio.to_thread(sinks.files, walk_files(workdir), before)
                if work.has_workdir and sinks.workdir is not None:
                    await asyncio.to_thread(sinks.workdir, workdir)
                if overlay is not None and running.overlays is not None:
                    await overlay.keep(running.sandbox, running.overlays, result)
            return self._conclude(running, result, grants, compiled)
        finally:
            slot.release()

    def _make_command(
        self, running: RunningTask, paths: StepPaths, *, has_workdir: bool
    ) -> tuple[list[str], dict[str, str]]:
        """Return the command that runs a program, and its environment."""
        task = running.task
        command, environment = running.plan.run.fill_in(paths)
        if task.hosts is not None:
            environment |= task.hosts.prepare(Path(paths.scratch))
        environment |= task.work.env
        if has_workdir:
            environment[VARIABLE] = f"{paths.scratch}/{WORKDIR}"
        names = (*task.terms.grants.environment, *running.toolchain.recipe.inherits)
        inherited = self._list_inherited_variables(names)
        return command, stop_retries(task.terms.grants.network, inherited | environment)

    def _conclude(
        self,
        running: RunningTask,
        result: ProcessResult,
        grants: ProcessGrants,
        compiled: Compiled,
        message: str = "",
    ) -> RawResult:
        """Return the result of a run; for one that failed with the likely reason. `message` replaces the error's."""
        if result.status is Status.OK:
            return running.result(result, "run", compiled)
        if is_out_of_memory(running.with_errors(result), running.toolchain.variant.out_of_memory):
            result = result.model_copy(update={"status": Status.MEMORY_LIMIT, "limit": "memory"})
        lacking = _find_lacking_file(running, result)
        foreign = "" if result.limit else spec.foreign(grants, running.sandbox.user(grants))
        hint = (
            lacking
            or foreign
            or self._missing_package_hint(running, result)
            or running.withheld(result, "run", grants)
        )
        return running.result(result, "run", compiled, message, hint)

    def _missing_package_hint(self, running: RunningTask, ended: ProcessResult) -> str:
        """Return how to get a package that a program failed to import or to install, or ""."""
        work = running.task.work
        if ended.status not in {Status.FAILED, Status.TIMEOUT}:
            return ""
        said, in_session = running.with_errors(ended).stderr, work.session is not None
        text = said.head + said.tail
        if advice := advise_on_installation(work.code or "", text, work.runtime, in_session=in_session):
            return advice
        installer = INSTALLERS.get(work.runtime)
        if installer is None or ended.status is not Status.FAILED:
            return ""
        if installer == "npm":
            return explain_missing_npm_package(text, work.runtime, in_session=in_session)
        passed_over = partial(self._toolchains.find_passed_over, running.task, running.sandbox)
        return explain_missing_module(text, running.task, running.toolchain, passed_over)

    def _list_inherited_variables(self, names: Iterable[str]) -> dict[str, str]:
        return {name: self._environ[name] for name in names if name in self._environ}

    async def _provide_files(
        self, running: RunningTask, slot: "SandboxSlot", grants: ProcessGrants | None = None
    ) -> "Compiled | RawResult":
        """Put everything that the run needs into scratch, or return the result of a failed compile step.

        A compile step has `grants`; by default it only reads the toolchain.
        """
        step = running.plan.compile
        if step is None:
            await _put_files(running.plan.program, slot.scratch / running.source_folder)
            await _put_files(running.plan.files, slot.scratch)
            return Compiled()
        name = cache.key(
            running.task.work.runtime,
            running.toolchain.identity,
            step.words,
            {**step.variables, **self._list_inherited_variables(running.toolchain.recipe.inherits)},
            running.plan.written,
            user=self._compiled.user,
        )
        owner = slot.scratch.stat().st_uid
        target = f"{slot.scratch}/{running.plan.output_name}"
        take = partial(self._compiled.take, name, target, owner=owner)
        if take() if self._compiled.is_quick(name) else await asyncio.to_thread(take):
            return Compiled(cached=True)
        slot.make_next()  # prepared during compilation, because this slot stays in use
        return await self._compile_program(running, step, name, target, owner, given=grants)

    async def _compile_program(
        self,
        running: RunningTask,
        step: ProgramStep,
        name: str,
        target: str,
        owner: int,
        *,
        given: ProcessGrants | None,
    ) -> "Compiled | RawResult":
        grants = given or ProcessGrants(readable=running.toolchain.prefixes)
        limits = running.task.limit_compiler()
        slot = await running.sandbox.take_slot(grants, limits)
        try:
            await _put_files(running.plan.written, slot.scratch)
            paths = running.paths_in(slot, compiling=given is None)
            inherited = self._list_inherited_variables(running.toolchain.recipe.inherits)
            command, environment = step.fill_in(paths)
            grants = grants.replace(environment=inherited | environment)
            said = (bytearray(), bytearray())
            on_start = running.sinks.on_start
            streams = Streams(stdout=said[0].extend, stderr=said[1].extend, on_start=on_start)
            result = await running.sandbox.run(command, grants, limits, streams, slot=slot, stop=running.stop)
            compiled = Compiled(ms=result.usage.wall_ms, spent=result.usage.spent)
            fault = ""
            if result.status is Status.OK:
                # A surviving process could change files while they are copied.
                collect = partial(self.collect_output, name, paths.output, target, owner)
                fault = SURVIVED if result.survivors else await asyncio.to_thread(collect)
                if not fault:
                    return compiled
                result = result.model_copy(update={"status": Status.FAILED})
                said[1].extend(f"{fault}\n".encode())
            running.tell(*map(bytes, said))
            return running.result(
                result, "compile", compiled, fault, running.withheld(result, "compile", grants)
            )
        finally:
            slot.release()

    def collect_output(self, name: str, made: str, target: str, owner: int) -> str:
        """Copy the compiler's output to the cache and the program's scratch; return what is wrong with it, or ""."""
        try:
            self._compiled.keep(name, made)
            if not self._compiled.take(name, target, owner=owner):
                safe_copy.copy(made, target, owner=owner)
        except FileNotFoundError:
            return NO_OUTPUT
        except safe_copy.SafeCopyError as error:
            return f"Compile succeeded but its output is refused: {error}"
        except OSError as error:  # not readable by its own user, or deeper than a path can reach
            return f"Compile succeeded but its output cannot be copied: {error.strerror}"
        return ""


def _begin_connections(task: ProgramTask, used: AsyncExitStack) -> None:
    """Take the connections of a program until `used` ends, after its processes."""
    if task.hosts is not None:
        task.hosts.begin()
        used.push_async_callback(task.hosts.close)


def _refuse(status: Status, why: str, hint: str = "") -> RawResult:
    name = "Invalid" if status is Status.INVALID else "Unavailable"
    return RawResult(status=status, error=ErrorInfo(name=name, message=why, hint=hint, phase="decide"))


def _drop(_data: bytes) -> None:
    """Take output that nobody reads."""


def _find_lacking_file(running: RunningTask, ended: ProcessResult) -> str:
    """Return the hint on the file of the workspace that a failed program may not use, or was not given; or ""."""
    if ended.status is not Status.FAILED:
        return ""
    ended = running.with_errors(ended)
    if find_hidden_name(ended):  # whatever its mode is, it would stay hidden
        return ""
    text, user = f"{ended.stderr.head}\n{ended.stderr.tail}", running.sandbox.user(running.task.grants())
    return find_closed_file(text, running.task, user) or find_left_file(
        text, running.task, user, running.sandbox.hiding
    )


async def _put_files(texts: Mapping[str, str], folder: Path) -> None:
    """Write the program's files; small ones without a thread, which would take longer to start."""
    files = {name: text.encode("utf-8", "surrogatepass") for name, text in texts.items()}
    if sum(map(len, files.values())) <= _MAX_SMALL_SOURCE_BYTES:
        write_files(files, folder)
    else:
        await asyncio.to_thread(write_files, files, folder)
