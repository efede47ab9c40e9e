"""Paddock for Python programs: each method sends one request through the gate and returns its `Outcome`."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from paddock.engines.saved_scripts import read, read_saved, text
from paddock.foundation.files import below
from paddock.gate.open_paddock import OpenPaddock, Parts, open_paddock
from paddock.gate.script_tool_service import make_tool_run
from paddock.model.base import Json, Texts
from paddock.model.errors import RequestError
from paddock.model.limits import Calls, LimitOverrides
from paddock.model.network import Network
from paddock.model.outcome import CallRecord, ConsoleLine, Outcome
from paddock.model.program import Access
from paddock.model.request import ChangeSetRun, Check, GuestRun, RuntimeRun, ServerCall, Work
from paddock.model.requirements import needs_own_folder
from paddock.model.session import NEW, Kernel, OpenSessions, is_handle
from paddock.model.tool import ToolEnd
from paddock.model.work_files import InputFile
from paddock.policy.settings.schema import Settings
from paddock.surfaces.client.arguments import (
    InputData,
    choose_settings,
    find_workspace,
    make_value,
    read_input_files,
    read_limits,
    read_object,
    read_text,
    read_texts,
    read_value,
    read_whole_number,
)
from paddock.surfaces.client.found_tools import FoundTools, find_tools
from paddock.surfaces.client.function_askers import adapt_asking
from paddock.surfaces.client.local_tools import add_function, make_local_server
from paddock.surfaces.client.records import find_output, find_records
from paddock.surfaces.client.requests import (
    LibraryCaller,
    RunningPaddock,
    attach_readers,
    read_language,
    yield_events,
)
from paddock.surfaces.client.sessions import InterpreterSession, LocalSessions, SessionOwner
from paddock.surfaces.rendering.render import tool_end

if TYPE_CHECKING:
    from datetime import datetime

    from paddock.confinement.sandbox.protocol import Sandbox
    from paddock.engines.script_tools.inputs import Inputs
    from paddock.engines.script_tools.library import ScriptTool
    from paddock.engines.script_tools.prompts.service import PromptReply, PromptService
    from paddock.gate.batch.program import Program, ProgramResult
    from paddock.model.artifact import OutputFound, OutputQuery
    from paddock.model.outcome import OnConsole
    from paddock.policy.redaction.outgoing import OnCall
    from paddock.record.ledger.sink import AuditRecord, AuditSink
    from paddock.record.output.backends import ArtifactStore
    from paddock.record.output.recording import OnOutput
    from paddock.surfaces.client.function_askers import Asking

F = TypeVar("F", bound=Callable[..., Any])

OPEN_IT = "this Paddock is not open: use it as `async with Paddock() as p:`"
_NO_LIMITS = LimitOverrides()


class Paddock:
    """Runs programs for one workspace under its policy; open it with `async with Paddock() as p:`.

    Leaving the block ends every process that it started. The result of a request is an `Outcome`, also for a refusal, a
    timeout and a failing program. Exceptions are raised for an invalid request (RequestError, also a ValueError), a
    script or tool that does not exist (PaddockError), or a record that cannot be written (LedgerError): then nothing
    has run.
    """

    def __init__(
        self,
        workspace: Path | str = ".",
        *,
        settings: Settings | None = None,
        overrides: Mapping[str, Any] | None = None,
        actor: str = "local",
        asker: "Asking | None" = None,
        audit: "AuditSink | None" = None,
        sandbox: "Sandbox | None" = None,
        artifacts: "ArtifactStore | None" = None,
        tool_server: str = "local",
    ) -> None:
        """Use a workspace with `settings`, or else with those of files and environment, as the command line reads them.

        `overrides` are settings, nested or by dotted key, as values or as strings in the form of `--set`. `actor` names
        the caller in the record. `asker` asks a person about requests that a rule with the effect `ask` matches;
        without it the answer is no. `audit` keeps the record instead of the ledger, `sandbox` runs processes instead of
        Paddock's own, and `artifacts` keeps their output; the caller closes them. Programs call the functions that are
        added with `tool` as `servers.local`, or by the name `tool_server`. Raises ConfigurationError for invalid
        settings, and for a workspace that does not exist; RequestError for an argument of another type.
        """
        self._workspace = find_workspace(workspace)
        self._settings = choose_settings(settings, overrides, self._workspace)
        self._caller = LibraryCaller(read_text(actor, "actor"))
        self._asker = None if asker is None else adapt_asking(asker)
        self._local = make_local_server(tool_server)
        self._parts = Parts(audit, sandbox, artifacts, self._local)
        self._open = AsyncExitStack()
        self._running: RunningPaddock | None = None
        self._prompting: PromptService | None = None

    @staticmethod
    def connect(url: str, *, token: str | None = None, unencrypted: bool = False) -> "Paddock":
        """Return a Paddock whose programs run on a server: `async with Paddock.connect("https://...") as p:`.

        The server is `paddock serve http`; `token` is by default that of the variable PADDOCK_TOKEN. Methods that the
        HTTP API lacks raise PaddockError. Leaving the block cancels what runs; sessions stay open on the server until
        they are closed or expire. Plain http to another machine needs `unencrypted`. An `OutputFile.read()` blocks.
        Raises ConfigurationError for an invalid address, and without a token.
        """
        from paddock.surfaces.client.remote.paddock import RemotePaddock

        return RemotePaddock(url, token=token, unencrypted=unencrypted)

    async def __aenter__(self) -> Self:
        """Open the session.

        Raises LedgerError when the record cannot be written, ConfigurationError if a configured server has the
        name of the functions.
        """
        session = open_paddock(self._settings, self._workspace, asker=self._asker, parts=self._parts)
        self._running = RunningPaddock(await self._open.enter_async_context(session))
        return self

    async def __aexit__(self, *_: object) -> None:
        """End every process, and make the record durable."""
        self._running = self._prompting = None
        await self._open.aclose()

    @property
    def settings(self) -> Settings:
        """The effective settings."""
        return self._settings

    @property
    def warnings(self) -> tuple[str, ...]:
        """Faults of the files that were read so far."""
        return self._require_running().opened.warnings

    async def execute(
        self,
        code: str,
        *,
        input: Json = None,
        timeout_ms: int | None = None,
        mode: Calls = "run",
        jit: bool = False,
        check: Check | None = None,
        record: bool = False,
        session: str | None = None,
        on_console: "OnConsole | None" = None,
        on_call: "OnCall | None" = None,
    ) -> Outcome:
        """Run a JavaScript or TypeScript program, like `execute_code` for models.

        The program reads `input`; the outcome's value is its return value. `on_console` receives each console line at
        once, `on_call` each call after it has ended. `check` says what its types decide first. With `record` it is
        recorded for `paddock replay`. With `session` ("new", or the handle in `outcome.session`) it runs after the
        earlier programs of the session, and finds their top-level declarations. A finite Decimal in `input` becomes a
        number with all its digits. Raises RequestError for a value that is not JSON.
        """
        given = {"source": code, "input": read_value(input, "input"), "session": session, "check": check}
        given |= {"record": record}
        work, limits = make_value(GuestRun, given), read_limits(timeout_ms=timeout_ms)
        return await self._execute_work(
            work, limits, calls=mode, jit=jit, on_console=on_console, on_call=on_call
        )

    def events(
        self,
        code: str,
        *,
        input: Json = None,
        timeout_ms: int | None = None,
        mode: Calls = "run",
        jit: bool = False,
        check: Check | None = None,
    ) -> AsyncGenerator[ConsoleLine | CallRecord | Outcome]:
        """Run a program like `execute` and yield events: console lines, ended calls, and finally the outcome.

        Closing the generator ends the program.
        """
        run = partial(self.execute, code, input=input, timeout_ms=timeout_ms, mode=mode, jit=jit, check=check)
        return yield_events(run)

    async def run(
        self,
        script: str,
        *,
        vars: Mapping[str, str] | None = None,
        input: Json = None,
        timeout_ms: int | None = None,
        jit: bool = False,
        check: Check | None = None,
        on_console: "OnConsole | None" = None,
    ) -> Outcome:
        """Run a script by name or path, like `paddock run`. Raises ScriptNotFound, and RequestError if not JSON."""
        found = read(read_text(script, "script"), self._workspace)
        work = GuestRun(
            source=found.source,
            name=found.name,
            language=found.language,
            profile="script",
            input=read_value(input, "input"),
            vars=dict(vars or {}),
            raw_results=found.raw_results,
            check=check,
        )
        return await self._execute_work(
            work, read_limits(timeout_ms=timeout_ms), jit=jit, on_console=on_console
        )

    async def exec(
        self,
        language: str | None = None,
        code: str | None = None,
        *,
        runtime: str | None = None,
        file: Path | str | None = None,
        args: Texts = (),
        executable: str | None = None,
        stdin: bytes | str | None = None,
        cwd: str = ".",
        access: Access | None = None,
        network: Network | Texts = "none",
        files: Mapping[str, InputData] | Sequence[InputFile] | None = None,
        outputs: Texts | None = None,
        env: Mapping[str, str] | None = None,
        session: str | None = None,
        kernel: Kernel = "plain",
        background: bool = False,
        packages: Texts = (),
        combined: bool = False,
        keep: bool = True,
        timeout_ms: int | None = None,
        memory_bytes: int | None = None,
        cpu_ms: int | None = None,
        on_output: "OnOutput | None" = None,
        stop: asyncio.Event | None = None,
    ) -> Outcome:
        """Run a program in a language (or `runtime`), or the executable of its runtime with only `args`.

        The program is `code`, or it is in `file`, a path within the workspace; a file runs in place, beside the files
        that it imports. `executable` replaces the first choice of the runtime, for example `bun`. Without `access` it
        may read the workspace, if that is granted. `files` (bytes, text or a Path to copy from, by relative path) and
        `outputs` (patterns of files to store, by default images) give it a separate directory; `outcome.files` lists
        the files that it leaves there. `packages` (such as `pandas>=2`) are installed first. Policy grants the names of
        `env`. With `session` ("new", or the handle in `outcome.session`) it runs in an interpreter that stays; for
        `kernel` and `background` see `session`. Without `keep` nothing is stored. `on_output` receives the output at
        once, redacted; `combined` merges standard error into it in the order of writing. Setting `stop` ends the
        program as `cancelled`.
        Raises RequestError for an exceeded limit, and ScriptNotFound for a file that cannot be read.
        """
        name, path = self._check_language(language, runtime), self._find_program(code, file)
        names = read_texts(packages, "packages")
        beside = bool(files) or outputs is not None or needs_own_folder(name, names)
        given = {"executable": executable, "args": args, "cwd": cwd, "network": network, "outputs": outputs}
        kept = {"session": session, "kernel": kernel, "background": background, "packages": packages}
        wishes = {
            **given,
            **kept,
            "runtime": name,
            "code": code if path is None else text(str(file), read_saved(str(file), path, None)),
            "file": "" if path is None or beside else below(self._workspace, path),
            "stdin": stdin,
            "output": {"combined": combined, "persist": keep},
            "files": await asyncio.to_thread(read_input_files, files),
            "env": env or {},
        }
        work = make_value(RuntimeRun, wishes | ({"access": access} if access else {}))
        limits = read_limits(timeout_ms=timeout_ms, memory_bytes=memory_bytes, cpu_ms=cpu_ms)
        return self._attach_readers(await self._execute_work(work, limits, on_output=on_output, stop=stop))

    def map(
        self,
        programs: "Iterable[Program] | AsyncIterable[Program]",
        *,
        max_parallel: int | None = None,
        engine: Literal["local", "ray"] = "local",
    ) -> AsyncGenerator["ProgramResult"]:
        """Run many programs, and judge those that have tests; yield each result as soon as it is ready.

        At most `max_parallel` programs run at the same time, and at most `runtimes.max_jobs`, which is the default. The
        programs are read as they are needed, and no further ones start while earlier results wait. Each waits for its
        slot, however busy this Paddock is. Closing the generator ends the programs that run. With the `engine` "ray"
        they run on a Ray cluster, by default as many as it has CPUs.
        Raises RequestError for an invalid argument or effects on Ray, PaddockError without it, and errors of the input.
        """
        from paddock.surfaces.client.batches import (  # programs without a batch do not need it
            Sender,
            map_programs,
        )

        sender = Sender(self._require_running(), self._workspace, self._caller, self._settings)
        return map_programs(sender, programs, max_parallel, engine)

    def session(
        self,
        language: str | None = None,
        *,
        id: str | None = None,  # noqa: A002 - as every handle is called
        executable: str | None = None,
        access: Access | None = None,
        network: Network | Texts = "none",
        files: Mapping[str, InputData] | None = None,
        env: Mapping[str, str] | None = None,
        packages: Texts = (),
        kernel: Kernel = "plain",
        background: bool = False,
        memory_bytes: int | None = None,
    ) -> InterpreterSession:
        """Return a session: an interpreter that keeps its variables and files from one execution to the next.

        `async with p.session("python") as s: outcome = await s.run("x = 1")` opens and closes it; with `id` it is one
        that is open already. `kernel="ipython"` runs Python in IPython's shell, which `packages` or the environment
        must have. With `background`, if policy grants it, threads and processes go on between two executions, with
        the CPU limit of one. The other arguments are those of `exec`, for the whole session.
        Raises RequestError for an unknown language, and without either.
        """
        if (language is None) is (id is None):
            raise RequestError('give a language, for example "python", or the `id` of an open session')
        if id is not None and (id == NEW or not is_handle(id)):
            raise RequestError(
                "`id` is not the handle of a session; give `session.id`, or a language for a new one"
            )
        opening = {"executable": executable, "access": access, "network": network, "files": files, "env": env}
        opening |= {"packages": packages, "kernel": kernel, "background": background}
        opening |= {"memory_bytes": memory_bytes}
        name = self._check_language(language, None) if language is not None else None
        return InterpreterSession(self._find_sessions(), name, opening, NEW if id is None else id)

    def _find_sessions(self) -> SessionOwner:
        return LocalSessions(lambda: self._require_session().programs, self._caller.actor, self)

    async def sessions(self) -> OpenSessions:
        """Return the open sessions of this caller, the oldest first; `partial` names replicas that did not answer."""
        return OpenSessions(self._require_session().programs.list_sessions(self._caller.actor))

    def _find_program(self, code: str | None, file: Path | str | None) -> Path | None:
        if code is not None and file is not None:
            raise RequestError("give either `code` or `file`")
        return None if file is None else self._workspace / file

    def _check_language(self, language: str | None, alias: str | None) -> str:
        return read_language(self._settings.runtimes, language, alias)

    def _attach_readers(self, outcome: Outcome) -> Outcome:
        return attach_readers(outcome, self._require_session().output.artifacts, self._workspace)

    @overload
    def tool(
        self, name: str, inputs: Mapping[str, Json] | None = None, *, timeout_ms: int | None = None
    ) -> Coroutine[Any, Any, Outcome]: ...

    @overload
    def tool(self, name: F) -> F: ...

    @overload
    def tool(
        self,
        *,
        tool_name: str | None = None,
        description: str | None = None,
        read_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Callable[[F], F]: ...

    def tool(
        self,
        name: str | F | None = None,
        inputs: Mapping[str, Json] | None = None,
        *,
        timeout_ms: int | None = None,
        tool_name: str | None = None,
        description: str | None = None,
        read_only: bool = False,
    ) -> Coroutine[Any, Any, Outcome] | F | Callable[[F], F]:
        """Run a script tool: `await p.tool("word_count", {...})`. Or add a function as a tool: `@p.tool`.

        What a script tool gave is in `outcome.tool`. Raises ToolNotFound, ConfigurationError, and RequestError for
        inputs that are not JSON.

        A function, or coroutine function, becomes a tool that programs call as `servers.local.NAME({...})`. Its schema
        comes from its annotations, its description from its docstring, or from `description`. `@p.tool(...)` takes
        options: `tool_name` instead of the function's name, `read_only` for one that changes nothing, and `timeout_ms`.
        Functions may be added before and while the Paddock is open. Raises RequestError for a function that cannot be a
        tool, ConfigurationError where a configured server has the name of the functions.
        """
        if isinstance(name, str):
            return self._run_script_tool(name, inputs, timeout_ms)

        def add(function: F) -> F:
            timeout = read_whole_number("timeout_ms", timeout_ms)
            options = {"description": description, "read_only": read_only, "timeout_ms": timeout}
            self._add_tool(function, name=tool_name, **options)
            return function

        return add if name is None else add(name)

    def _add_tool(self, function: Callable[..., Any], **options: Any) -> None:  # noqa: ANN401 - of `add_function`
        add_function(self._local, function, **options)
        if self._running is not None:
            try:
                self._require_session().servers.take_tools()
            except BaseException:
                self._local.tools.popitem()
                raise

    async def _run_script_tool(
        self, name: str, inputs: Mapping[str, Json] | None, timeout_ms: int | None
    ) -> Outcome:
        work = self._require_session().scripts.make_work(name, read_object(inputs, "inputs"))
        return await self._execute_work(work, read_limits(timeout_ms=timeout_ms))

    async def prompt(self, name: str, arguments: Mapping[str, Json] | None = None) -> "PromptReply":
        """Run the script tools for a call of the prompt `name`, each under policy and recorded.

        A tool that needs confirmation is listed in `questions`; the same call within five minutes runs it, once.
        """
        scripts = self._require_session().scripts
        if self._prompting is None:
            from paddock.engines.script_tools.prompts.service import PromptService

            self._prompting = PromptService(scripts.library, self._end_of, time.monotonic)
        return await self._prompting.call(read_text(name, "name"), read_object(arguments, "arguments"))

    async def compute(
        self,
        source: str,
        input: str = "",
        *,
        timeout_ms: int | None = None,
        output_bytes: int | None = None,
        deterministic: bool = True,
        partial: bool = False,
        jit: bool = False,
    ) -> Outcome:
        """Compute one text from another; the outcome's value is the emitted text.

        At most `output_bytes` (64 KiB) are kept; with `partial`, also after a failure or a timeout. Raises RequestError
        for an `input` that is not a text.
        """
        given = {"source": source, "input": input, "name": "computation", "language": "javascript"}
        given |= {"profile": "compute", "deterministic": deterministic, "partial": partial}
        work = make_value(GuestRun, given)
        return await self._execute_work(
            work, read_limits(timeout_ms=timeout_ms, output_bytes=output_bytes), jit=jit
        )

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> Outcome:
        """Call one tool of an upstream server; the outcome's value is the value of its result.

        A finite Decimal in `arguments` becomes a number with all its digits. Raises RequestError for a value that
        is not JSON.
        """
        given = {"server": server, "tool": tool, "arguments": read_object(arguments, "arguments")}
        work = make_value(ServerCall, given)
        return await self._execute_work(work, read_limits(timeout_ms=timeout_ms))

    async def search_tools(
        self, queries: str | Sequence[str], *, server: str | None = None, limit: int | None = None
    ) -> FoundTools:
        """Find tools of the configured servers by their purpose; this starts the servers.

        For a task of several steps pass a list of short queries, one for each step, at most 12: their results are
        interleaved by rank. Returns at most `limit` tools, by default 8 and at least 2 for each query; with `server`,
        only its tools. Raises PaddockError for an unknown server, RequestError for no or too many queries.
        """
        max_tools = read_whole_number("limit", limit)
        if not queries:
            raise RequestError("a search needs at least one query")
        return await find_tools(self._require_session().servers, queries, server=server, limit=max_tools)

    async def accept_changes(self, id: str, *paths: str, merge: bool = False) -> Outcome:  # noqa: A002 - its name
        """Write changes of a program with the access `overlay` to the workspace, all or nothing.

        `id` is that of `outcome.changes`. `paths` are relative to the workspace, each with all below it; without any,
        all are accepted that need no naming. `merge` merges text files that were changed since. If a path is in
        conflict, nothing is written and the outcome is `failed`. Its value names the paths. Raises ChangesNotFound.
        """
        given = {"action": "accept", "id": id, "paths": paths, "merge": merge}
        return await self._settle_changes(make_value(ChangeSetRun, given))

    async def undo_changes(self, id: str, *paths: str) -> Outcome:  # noqa: A002 - as above
        """Take back accepted changes at `paths`, or all of them, all or nothing. Raises ChangesNotFound."""
        return await self._settle_changes(
            make_value(ChangeSetRun, {"action": "undo", "id": id, "paths": paths})
        )

    async def discard_changes(self, id: str) -> Outcome:  # noqa: A002 - as above
        """Delete the contents of a change set. What was accepted stays. Raises ChangesNotFound."""
        return await self._settle_changes(make_value(ChangeSetRun, {"action": "discard", "id": id}))

    async def _settle_changes(self, work: ChangeSetRun) -> Outcome:
        find_id = self._require_session().changes.find_id
        await asyncio.to_thread(find_id, work.id, self._workspace, work.action)
        return await self._execute_work(work)

    async def query(self, asked: "OutputQuery") -> "OutputFound":
        """Search stored output of programs. Raises PaddockError for a handle that cannot be read."""
        return await find_output(self._require_session().output.artifacts, asked, self._workspace)

    async def find_records(
        self,
        name: str | None = None,
        *,
        event: str | None = None,
        actor: str | None = None,
        status: str | None = None,
        server: str | None = None,
        tool: str | None = None,
        since: "datetime | None" = None,
        limit: int | None = 50,
    ) -> "list[AuditRecord]":
        """Return up to `limit` records of the audit ledger that match every given filter, newest first.

        `name` is the id of a record, of its request, or of the request that called it; the other filters are those of
        `paddock audit tail`. An `audit` sink of the caller's own is asked itself. Otherwise the index beside the ledger
        is updated first, which takes about 20 seconds for each million new records. Raises LedgerError when the record
        cannot be read, or for a `since` without a time zone; RequestError for an unknown event or status.
        """
        self._require_session()
        return await find_records(
            self._parts.audit,
            self._settings.audit.directory,
            read_whole_number("limit", limit, minimum=0),
            name=name,
            event=event,
            actor=actor,
            status=status,
            server=server,
            tool=tool,
            since=since,
        )

    async def _end_of(self, tool: "ScriptTool", inputs: "Inputs") -> ToolEnd:
        work = make_tool_run(self._require_session().scripts.library, tool.id, inputs, prompt=tool.prompt)
        return tool_end(await self._execute_work(work))

    def _require_session(self) -> OpenPaddock:
        running = self._require_running()
        running.check_caller()
        return running.opened

    def _require_running(self) -> RunningPaddock:
        if self._running is None:
            raise RuntimeError(OPEN_IT)
        return self._running

    async def _execute_work(
        self,
        work: Work,
        limits: LimitOverrides = _NO_LIMITS,
        *,
        calls: Calls = "run",
        jit: bool = False,
        on_console: "OnConsole | None" = None,
        on_output: "OnOutput | None" = None,
        on_call: "OnCall | None" = None,
        stop: asyncio.Event | None = None,
    ) -> Outcome:
        request = self._caller.make_request(self._workspace, work, limits, calls=calls, jit=jit)
        return await self._require_running().execute_request(
            request,
            asker=self._caller.asker,
            on_console=on_console,
            on_output=on_output,
            on_call=on_call,
            stop=stop or self._caller.stop,
            slot=self._caller.slot,
        )
