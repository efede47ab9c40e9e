"""The gate's side of programs in language runtimes: admission, the engine, and removal of secrets.

admit    checks that the working directory exists within the workspace; waits for a slot
run      runs the engine and returns its RawResult; secrets are removed from the streams
"""

import asyncio
import hashlib
import mimetypes
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from paddock.engines.live_run import WITHDRAWN
from paddock.foundation.fair_slots import Bound, FairSlots, NoSlotError, Slot
from paddock.model.canonical import in_order
from paddock.model.errors import ArtifactError, ArtifactStoreError
from paddock.model.limits import KIB, MIB
from paddock.model.outcome import Decision, ErrorInfo, RawResult, Status
from paddock.model.program import Executables, ProgramEnd, signal_name
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.model.session import Result, SessionInfo
from paddock.model.work_files import InputFile, OutputFile
from paddock.policy.decisions.workdir import resolve_cwd
from paddock.policy.settings.overlay import OverlaySettings
from paddock.policy.settings.schema import RuntimeSettings

if TYPE_CHECKING:
    from paddock.confinement.sandbox.protocol import ByteSink
    from paddock.engines.programs.engine import RuntimeEngine
    from paddock.engines.programs.task import ProgramTask
    from paddock.engines.sessions.programs import ProgramSession, ProgramSessions
    from paddock.gate.host_access import ConnectionWatch, HostAccess, RequestHosts
    from paddock.gate.watchers import Watchers
    from paddock.model.artifact import RunFacts
    from paddock.record.output.artifacts import Artifacts
    from paddock.record.output.work_files import FileCollector


BUSY_ERROR_NAME = "Busy"
"""Error of a program that got no slot."""
MAX_WAITING_BYTES = 256 * MIB
"""Maximum size of all waiting programs together, with their arguments and standard input, in bytes."""

_MAX_QUICK_BYTES = 64 * KIB
"""Maximum size of a result that is compressed faster than a thread starts."""
_UNSTORED = frozenset({"text/plain", "application/json"})


class ProgramService:
    """Admits and runs programs. Engine and artifacts are created at the first use: most requests need neither."""

    def __init__(
        self,
        settings: RuntimeSettings,
        engine: "Callable[[], RuntimeEngine]",
        artifacts: "Callable[[], Artifacts]",
        hide: Callable[[str], str],
        sessions: "Callable[[Callable[[], RuntimeEngine]], ProgramSessions]",
        *,
        slots: FairSlots,
        overlay: OverlaySettings,
    ) -> None:
        """Use `hide` to remove secrets from texts of requests; `sessions` makes what keeps interpreters.

        Programs wait in `slots`.
        """
        self._session_hosts: dict[str, HostAccess] = {}
        """The access of open sessions to hosts, by handle."""
        self._added = settings.recipes
        self._names = settings.languages
        self._make_engine = engine
        self._artifacts = artifacts
        self._hide = hide
        self._make_sessions = sessions
        self._sessions: ProgramSessions | None = None
        self._slots = slots
        self._overlay = overlay
        self._max_wait_ms = settings.max_wait_ms
        self.bound = Bound(settings.max_jobs, settings.max_waiting, MAX_WAITING_BYTES)
        """Bounds the programs that run and wait."""

    @cached_property
    def _engine(self) -> "RuntimeEngine":
        return self._make_engine()

    @property
    def sessions(self) -> "ProgramSessions":
        """The interpreters that live across requests."""
        if self._sessions is None:
            self._sessions = self._make_sessions(lambda: self._engine)
        return self._sessions

    def find_session(self, actor: str, handle: str) -> "ProgramSession | None":
        """Return an open session of an actor; None without one."""
        return None if self._sessions is None else self._sessions.find(actor, handle)

    async def close(self) -> None:
        """Close every session."""
        if self._sessions is not None:
            await self._sessions.close()

    @property
    def waiting(self) -> int:
        """Number of programs that wait for a slot."""
        return self.bound.waiting

    def executables(self, runtime: str) -> Executables:
        """Return the executables that can run programs of a runtime."""
        from paddock.engines.programs.recipe import executables  # most requests are of another kind

        return executables(runtime, self._added)

    def explain_unknown(self, runtime: str) -> str:
        """Return the error for an unknown runtime, with the known ones; empty if the runtime is known."""
        if runtime in self._names:
            return ""
        from paddock.engines.programs.recipe import no_runtime

        return no_runtime(runtime, self._added)

    @asynccontextmanager
    async def admit(
        self, actor: str, work: RuntimeRun, watchers: "Watchers"
    ) -> AsyncGenerator[Slot | RawResult]:
        """Wait for a slot for a program, unless its caller waited for one already; yield the slot.

        Enters with the result of the program if it was stopped or got no slot.
        """
        if watchers.slot is not None and self.bound in watchers.slot.bounds:
            yield watchers.slot
            return
        asked_ms = watchers.max_wait_ms
        wait_ms = self._max_wait_ms if asked_ms is None else min(asked_ms, self._max_wait_ms)
        # The maximum number of bytes that it keeps in memory while it waits.
        size = sys.getsizeof(work.code) + sum(map(sys.getsizeof, work.args))
        size += len(work.stdin or b"") + sum(file.size for file in work.files)
        try:
            slot = await self._slots.enter(
                actor,
                self.bound,
                stop=watchers.stop,
                size=size,
                patient=watchers.patient,
                max_wait_ms=wait_ms,
            )
        except NoSlotError as error:
            yield RawResult(status=Status.UNAVAILABLE, error=self._explain_busy(error, wait_ms))
            return
        if slot is None:
            yield RawResult(status=Status.CANCELLED, error=WITHDRAWN)
            return
        try:
            yield slot
        finally:
            slot.end()

    def _explain_busy(self, error: NoSlotError, wait_ms: int) -> ErrorInfo:
        bound, setting = self.bound, ""
        match error.why:
            case "number":
                setting = "runtimes.max_waiting"
                why = f"the queue is full ({setting} = {bound.max_waiting})"
            case "bytes":
                why = f"the waiting programs already use {MAX_WAITING_BYTES // MIB} MiB"
            case "time":
                setting = "runtimes.max_wait_ms"
                limit = f"{setting} = {wait_ms}" if wait_ms == self._max_wait_ms else f"{wait_ms} ms"
                why = f"the job waited too long ({limit})"
        return ErrorInfo(
            name=BUSY_ERROR_NAME,
            message=f"Concurrency limit reached ({bound.active}/{bound.max_active} active jobs): {why}. Nothing "
            "started; it is safe to retry.",
            hint=f"raise {setting} or runtimes.max_jobs" if setting else "raise runtimes.max_jobs",
            phase="decide",
        )

    async def check(self, request: ExecutionRequest, work: RuntimeRun) -> RawResult | None:
        """Return why a program cannot run, for what is known before it starts; None if it may."""
        try:
            await self._read_input_files(request, work)
        except (ArtifactError, ValueError) as error:
            return _refuse_program(error)
        return None if work.session is None else self.sessions.check(request.actor, work)

    async def run(
        self,
        request: ExecutionRequest,
        work: RuntimeRun,
        decision: Decision,
        watchers: "Watchers",
        watch: "ConnectionWatch",
    ) -> RawResult:
        """Run an admitted program and return its result; `watch` asks about and records its connections.

        Secrets are removed from everything that it returns or reports, except for `on_raw_stdout`. Raises EngineError
        when nothing ran.
        """
        from paddock.engines.programs.task import Sinks  # most requests run no program
        from paddock.gate.host_access import HostTurn, RequestHosts

        hosts = RequestHosts(watch)
        try:
            task = await self._prepare_task(
                request, work, decision, hosts, has_listener=watchers.on_output is not None
            )
        except (ArtifactError, ValueError) as error:  # also if the directory went after it was admitted
            return _refuse_program(error)
        work, terms = task.work, task.terms
        recording = self._artifacts().record(
            persist=work.output.persist,
            kept_bytes=min(terms.limits.stdout_bytes, work.output.kept_bytes or terms.limits.stdout_bytes),
            kept_stderr_bytes=min(
                terms.limits.stderr_bytes, work.output.kept_bytes or terms.limits.stderr_bytes
            ),
            on_output=watchers.on_output,
        )
        if (live := watchers.live) is not None:
            live.read_streams = recording.read_streams
        collector: FileCollector | None = None
        if work.has_workdir and not watchers.on_workdir:
            from paddock.record.output import work_files  # most programs leave no files

            collector = work_files.FileCollector(
                self._artifacts, work.outputs, self._hide, persist=work.output.persist
            )
        # The callback runs as soon as this task waits for the program.
        asyncio.get_running_loop().call_soon(recording.prepare, request.workspace)
        try:
            files = collector.read if collector else None
            stdout = _tee(recording.stdout, watchers.on_raw_stdout)
            shown: list[bytes] = []
            overlay = None
            session = self.find_session(request.actor, work.session or "")
            if (terms if session is None else session).grants.has_overlay:
                from paddock.gate.overlays import OverlayChanges  # most programs have no overlay

                overlay = OverlayChanges(self._overlay, request, self._hide, watchers.list_labels)
            sinks = Sinks(
                *(stdout, recording.stderr, files, shown.append, watchers.on_workdir),
                overlay=overlay.make_run() if overlay else None,
                on_start=None if live is None else live.take_measure,
            )
            in_session, stop = work.session is not None, watchers.stop
            running = self.sessions.run(request.actor, task, sinks, stop) if in_session else None
            result = await (running or self._engine.run(task, sinks, stop))
            result = hosts.add_connections(overlay.add_summary(result) if overlay else result)
            if isinstance(task.hosts, HostTurn) and result.session is not None:
                # Remember the access of an open session for its next execution.
                kept = {name: each for name, each in self._session_hosts.items() if not each.is_closed}
                self._session_hosts = {**kept, result.session.id: task.hosts.access}
            if shown:
                result = result.replace(results=await asyncio.to_thread(self.sessions.read_shown, shown[0]))
            if (program := result.program) is None:
                return result
            facts = self._make_run_facts(request, work, decision, result, program)
            facts = facts.replace(flow_labels=watchers.list_labels())
            handle = await recording.finish(facts)
            if result.results and work.output.persist:
                numbered = enumerate(result.results, 1)
                stored = [await self._store_forms(facts, number, each) for number, each in numbered]
                result = result.replace(results=tuple(stored))
            if collector is not None:
                program = program.replace(files=await collector.keep(facts))
        finally:
            await recording.discard()
            if collector is not None:
                await collector.discard()
        streams = {"stdout": recording.make_captured("stdout"), "stderr": recording.make_captured("stderr")}
        stored_as = {"artifact": handle, "not_kept": recording.refusal if work.output.persist else ""}
        program = program.replace(**streams, **stored_as)
        return result.replace(program=program, redactions=recording.redactions)

    async def _prepare_task(
        self,
        request: ExecutionRequest,
        work: RuntimeRun,
        decision: Decision,
        hosts: "RequestHosts",
        *,
        has_listener: bool,
    ) -> "ProgramTask":
        """Return the task of a program. Raises ArtifactError, ValueError, and WorkdirError for its directory."""
        from paddock.engines.programs.recipe import recipes
        from paddock.engines.programs.task import ProgramTask
        from paddock.gate.host_access import HostAccess

        terms = decision.program
        assert terms is not None
        work = await self._read_input_files(request, work)
        own = None
        if terms.grants.hosts is not None:
            access = self._session_hosts.get(work.session or "")
            own = hosts.open_for_program(access or HostAccess(terms.grants.hosts))
        return ProgramTask(
            work,
            terms,
            request.workspace,
            resolve_cwd(request.workspace, work.cwd),
            recipes(self._added)[work.runtime],
            request.actor,
            own,
            hosts.open_for_installation,
            work.output.combined or (work.output.live and has_listener),
        )

    async def _read_input_files(self, request: ExecutionRequest, work: RuntimeRun) -> RuntimeRun:
        """Return the program with the content of the artifacts among its files. Raises ArtifactError, ValueError."""
        if not any(file.artifact for file in work.files):
            return work

        def read(file: InputFile) -> InputFile:
            if not file.artifact:
                return file
            return InputFile(path=file.path, data=self._artifacts().read(file.artifact, request.workspace))

        return await asyncio.to_thread(lambda: work.replace(files=tuple(map(read, work.files))))

    async def _store_forms(self, facts: "RunFacts", number: int, result: Result) -> Result:
        """Store what a program shows in other forms than text, as files; return it with their handles."""
        handles: dict[str, str] = {}
        for kind, form in result.data.items():
            if kind in _UNSTORED or not isinstance(form, str):
                continue
            data = result.read(kind) or b""
            # Texts were searched for secrets when they arrived.
            recording = self._artifacts().record_file(redacts=False)
            if len(data) <= _MAX_QUICK_BYTES:
                recording.stdout(data)
            else:
                await asyncio.to_thread(recording.stdout, data)
            name = f"result-{number}{mimetypes.guess_extension(kind) or ''}"
            if handle := await recording.finish(facts.replace(file_path=name, media_type=kind)):
                handles[kind] = handle
        return result.replace(handles=handles)

    def list_sessions(self, actor: str) -> tuple[SessionInfo, ...]:
        """Return the open sessions of an actor."""
        return () if self._sessions is None else self._sessions.describe_open(actor)

    @property
    def open_sessions(self) -> "ProgramSessions | None":
        """The table of sessions; None before the first one was opened."""
        return self._sessions

    async def list_session_files(self, actor: str, handle: str) -> tuple[OutputFile, ...]:
        """Return all files of a session. Raises PaddockError for one that has ended."""
        from paddock.record.output.work_files import FileCollector

        collector = FileCollector(self._artifacts, (), self._hide, persist=False)
        await self.sessions.read_files(actor, handle, collector.read)
        return await collector.list_all()

    def _make_run_facts(
        self,
        request: ExecutionRequest,
        work: RuntimeRun,
        decision: Decision,
        result: RawResult,
        program: ProgramEnd,
    ) -> "RunFacts":
        """Return the facts for the manifest of stored output: names and numbers, no contents."""
        from paddock.model.artifact import RunFacts  # its models take 7 ms to build, for programs alone

        code, stdin = ("yes" if given is not None else "no" for given in (work.code, work.stdin))
        args = in_order({"runtime": work.runtime, "args": work.args, "phase": program.phase})
        return RunFacts(
            workspace=str(request.workspace),
            runtime=work.runtime,
            request=request.id,
            status=result.status.value,
            phase=program.phase,
            args_hash=hashlib.sha256(args).hexdigest(),
            exit_code=program.exit_code,
            signal=None if program.signal is None else signal_name(program.signal),
            duration_ms=result.usage.wall_ms,
            policy_audit_hash=decision.audit_hash,
            relative_cwd=self._hide(work.cwd),
            output_mode=work.output.mode,
            command_summary=f"executable={program.executable} argCount={len(work.args)} code={code} stdin={stdin}",
        )


def _refuse_program(error: Exception) -> RawResult:
    if isinstance(error, ArtifactStoreError):  # the same request may run later
        name, status = "StoreUnavailable", Status.UNAVAILABLE
    else:
        name, status = "Invalid", Status.INVALID
    return RawResult(status=status, error=ErrorInfo(name=name, message=str(error), phase="decide"))


def _tee(record: "ByteSink", also: "ByteSink | None") -> "ByteSink":
    """Return a sink that passes output to both sinks."""
    if also is None:
        return record

    def take(data: bytes) -> None:
        also(data)
        record(data)

    return take
