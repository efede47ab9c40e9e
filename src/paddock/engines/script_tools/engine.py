"""The engine of script tools: one tool's directory, one confined process, one result.

    enabled? script exists? inputs valid? runtime known? -> process -> its output, parsed as JSON if possible

It does not wait for pipes that grandchildren hold, ends every process, distinguishes a signal from success, cuts no
character, limits the output, and allows no path out of the tool's directory.
"""

import asyncio
import contextlib
import os
import re
import signal
import stat
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from paddock.confinement.sandbox.hidden_files import explain_hidden
from paddock.confinement.sandbox.protocol import GuardingSandbox, HostProxy, Sandbox, Streams, open_hosts
from paddock.engines.script_tools.inputs import check
from paddock.engines.script_tools.library import ScriptTool, ScriptToolError, inside
from paddock.model.base import Json, count
from paddock.model.limits import SCRIPT_BYTES
from paddock.model.nesting import MAX_DEPTH, is_deeper
from paddock.model.numbers import dumps, loads_finite
from paddock.model.outcome import ErrorInfo, RawResult, SandboxFacts, Status, Usage
from paddock.model.process import ProcessGrants, ProcessLimits, ProcessResult
from paddock.model.program import CapturedStream
from paddock.model.request import ToolRun
from paddock.model.tool import EXIT_REFUSED, EXIT_SIGNAL_BASE, ToolEnd, ToolTerms

if TYPE_CHECKING:
    from paddock.confinement.sandbox.protocol import OnStart
    from paddock.engines.changes.opening import OverlayRun

INHERITED = frozenset(
    {
        *("PATH", "HOME", "USER", "SHELL", "TERM", "TMPDIR", "TMP", "TEMP"),
        *("NODE_ENV", "NODE_PATH", "NODE_OPTIONS", "NODE_EXTRA_CA_CERTS", "NODE_NO_WARNINGS"),
        *("PYTHONPATH", "PYTHONHOME", "PYTHONIOENCODING", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV"),
        *("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES"),
        *("EDITOR", "VISUAL", "COLORTERM", "FORCE_COLOR", "NO_COLOR"),
        *("CI", "GITHUB_ACTIONS", "GITLAB_CI", "JENKINS_HOME"),
    }
)
"""Variables that are inherited from Paddock's environment. HOME and TMPDIR are those of the sandbox."""

_REFERENCE_PATTERN = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class VariableError(ValueError):
    """A tool uses a variable that it may not read."""


def environment(
    environ: Mapping[str, str],
    base: Mapping[str, str],
    tool: Mapping[str, str],
    request: Mapping[str, str],
    allowed: Collection[str],
) -> dict[str, str]:
    """Return the variables of a script; later ones take precedence. Raises VariableError.

    `${NAME}` in the tool's values refers to a variable of Paddock: an inherited one, or one that `allowed` names. The
    tool is untrusted; therefore any other name is rejected, not left out.
    """
    inherited = {
        name: value for name, value in environ.items() if name in INHERITED and not value.startswith("()")
    }
    seen = {name: value for name, value in environ.items() if name in INHERITED or name in allowed}

    def value(reference: re.Match[str]) -> str:
        if reference[1] in seen:
            return seen[reference[1]]
        if reference[1] in INHERITED or reference[1] in allowed:
            return ""
        raise VariableError(
            f"Variable {reference[1]} is not given to tools; name it in `environment` under [tools] in paddock.toml"
        )

    own = {name: _REFERENCE_PATTERN.sub(value, text) for name, text in tool.items()}
    return {**inherited, **base, **own, **request}


_MAX_JSON_PARTS = 1_000_000
"""Maximum number of commas and brackets in output that is parsed as JSON: parsed values take a hundred times the
memory."""


@dataclass(frozen=True, slots=True)
class ToolTask:
    """One run of one tool."""

    tool: ScriptTool
    work: ToolRun
    workspace: Path
    terms: ToolTerms
    hosts: HostProxy | None = None
    """What serves its proxy, with the network `hosts`."""
    overlay: "OverlayRun | None" = None
    """Keeps its changes, with the access `overlay`."""
    on_start: "OnStart | None" = None
    """Receives what measures its processes, when it has started."""


@dataclass(frozen=True, slots=True)
class ToolCommand:
    """How to run a script on this machine."""

    start: Callable[[Path], tuple[list[str], dict[str, str]]]
    """Returns arguments and variables for a scratch directory."""
    sha256: str
    """SHA-256 (hex) of the script that was read for this command."""
    readable: tuple[Path, ...] = ()
    """Paths that the process must read besides the tool's directory."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Files that must exist in the scratch directory."""


@dataclass(frozen=True, slots=True)
class NoCommand:
    """Why there is no command: the runtime is unknown, or not installed."""

    known: bool
    hint: str = ""


class Runtimes(Protocol):
    """The facts about languages that the engine needs."""

    def runtime_of(self, script: Path) -> str | None:
        """Return the runtime of a file's suffix; None for an unknown suffix."""
        ...

    async def make_command(
        self, runtime: str, script: Path, *, sandbox: Sandbox, grants: ProcessGrants, memory_bytes: int
    ) -> ToolCommand | NoCommand:
        """Return the command by which a runtime runs a script. Raises Unreadable."""
        ...


class Unreadable(Exception):
    """The script cannot be read; the text says why."""


class _ToolRefusedError(Exception):
    """The tool cannot be run; nothing was started."""

    def __init__(self, message: str, *, status: Status = Status.INVALID, hint: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.hint = hint


class ToolEngine:
    """Runs script tools. `sandbox` returns the session's sandbox; `environ` contains the variables for inheritance."""

    def __init__(
        self,
        sandbox: Callable[[], Awaitable[GuardingSandbox]],
        runtimes: Runtimes,
        environ: Mapping[str, str],
        *,
        strict_nulls: bool,
        max_jobs: int,
    ) -> None:
        self._sandbox = sandbox
        self._runtimes = runtimes
        self._environ = environ
        self._strict_nulls = strict_nulls
        self._turn = asyncio.Semaphore(max_jobs)

    def check(self, tool: ScriptTool, work: ToolRun) -> RawResult | None:
        """Return the result of a tool that may not run or got wrong inputs; None if it can be run."""
        try:
            self._check_run(tool, work)
        except _ToolRefusedError as refused:
            return _refuse_run(refused, 0.0)
        return None

    async def run(self, task: ToolTask) -> RawResult:
        """Run a tool and return its result. Cancelling the task ends the process first.

        Raises EngineError when Paddock's own machinery failed before the script started.
        """
        started = time.perf_counter()
        try:
            script, inputs = self._check_run(task.tool, task.work)
            async with self._turn:
                result = await self._run_process(task, script, inputs)
        except _ToolRefusedError as refused:
            return _refuse_run(refused, _measure_elapsed_ms(started))
        end = _make_end(result, task.terms, _measure_elapsed_ms(started))
        status = result.status
        if status is Status.FAILED and result.exit_code is None and result.signal is None:
            status = Status.UNAVAILABLE
        cost = result.usage
        usage = Usage(
            wall_ms=cost.wall_ms,
            cpu_ms=round(cost.cpu_user_ms + cost.cpu_system_ms, 3),
            peak_bytes=cost.peak_bytes,
        )
        return _raw_result(status, end, usage, result.sandbox)

    def _check_run(self, tool: ScriptTool, work: ToolRun) -> tuple[Path, Mapping[str, Json]]:
        """Return script and inputs. Raises if it may not run, cannot run, or has invalid inputs, in this order."""
        if not tool.manifest.enabled:
            raise _ToolRefusedError("Tool is disabled")
        try:
            script = inside(tool.directory, tool.manifest.script)
        except ScriptToolError as problem:
            raise _ToolRefusedError(f"Script not allowed: {problem}") from None
        try:
            facts = script.stat()
        except OSError:
            facts = None
        if facts is None or not stat.S_ISREG(facts.st_mode):
            raise _ToolRefusedError(f"Script not found: {tool.script}")
        if facts.st_size > SCRIPT_BYTES:
            raise _ToolRefusedError(f"Script larger than {SCRIPT_BYTES} bytes: {tool.script}")
        checked = check(work.inputs, tool.schema, strict_nulls=self._strict_nulls)
        if checked.errors:
            raise _ToolRefusedError(f"Input validation failed: {'; '.join(checked.errors)}")
        return script, checked.inputs

    async def _run_process(self, task: ToolTask, script: Path, inputs: Mapping[str, Json]) -> ProcessResult:
        tool, terms = task.tool, task.terms
        sandbox = await self._sandbox()
        runtime = self._choose_runtime(tool, script)
        # The tool's own directory for reading, and the declared needs that policy allows. Without a granted workspace,
        # the directory takes its place: a process with a workspace may run as the workspace's owner, who can also read
        # the directory.
        is_alone, own = terms.access == "none", (tool.directory,)
        grants = ProcessGrants(
            workspace=tool.directory if is_alone else task.workspace,
            access="read-only" if is_alone else terms.access,
            cwd=_find_working_directory(tool),
            network=terms.network,
            readable=() if is_alone else own,
            fixed=own,
            searched=own,
        )
        try:
            command = await self._runtimes.make_command(
                runtime, script, sandbox=sandbox, grants=grants, memory_bytes=terms.memory_bytes
            )
        except Unreadable as problem:  # it may have been removed while this run waited for a slot
            raise _ToolRefusedError(f"Script cannot be read: {problem}: {tool.script}") from None
        if isinstance(command, NoCommand):
            status = Status.UNAVAILABLE if command.known else Status.INVALID
            named = tool.manifest.runtime if tool.manifest.runtime != "auto" else runtime
            text = f"No interpreter found for runtime '{named}'"
            raise _ToolRefusedError(text, status=status, hint=command.hint)
        if command.sha256 != task.work.script_sha256:
            # A rule or a person approved another script, perhaps long ago.
            raise _ToolRefusedError("Script has changed since it was asked for; ask again")
        # UTF-8 cannot encode a lone surrogate; with a backslash it becomes the escape that JSON has for it.
        stdin = dumps(inputs, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "backslashreplace")
        grants = grants.model_copy(update={"readable": (*grants.readable, *command.readable)})
        limits = ProcessLimits(
            timeout_ms=terms.timeout_ms,
            cpu_ms=terms.timeout_ms * 2,
            memory_bytes=terms.memory_bytes,
            stdout_bytes=terms.output_bytes,
            stderr_bytes=terms.output_bytes,
            kept_bytes=terms.output_bytes,
            stdin_bytes=max(1, len(stdin)),
        )
        overlay, overlays = task.overlay, None
        if overlay is None:
            slot = await sandbox.take_slot(grants, limits)
        else:
            opened = await overlay.open(sandbox, grants, limits)
            if isinstance(opened, RawResult):
                raise _ToolRefusedError(opened.error.message if opened.error else "", status=opened.status)
            grants, slot, overlays = opened
        try:
            await asyncio.to_thread(_write_files, command.files, slot.scratch)
            argv, given = command.start(slot.scratch)
            variables = self._make_variables(task, given)
            if overlays is not None:
                variables["PADDOCK_WORKSPACE"] = str(overlays.locate(task.workspace.resolve()))
            async with open_hosts(task.hosts, slot.scratch) as (proxies, on_proxy_socket):
                grants = grants.model_copy(update={"environment": {**variables, **proxies}})
                streams = Streams(stdin, on_proxy_socket=on_proxy_socket, on_start=task.on_start)
                result = await sandbox.run(argv, grants, limits, streams, slot=slot)
            if overlay is not None and overlays is not None:
                await overlay.keep(sandbox, overlays, result)
            return result
        finally:
            slot.release()

    def _choose_runtime(self, tool: ScriptTool, script: Path) -> str:
        """Return the runtime of a tool: the one that it names, or that of its suffix, or the shell."""
        if tool.manifest.runtime != "auto":
            return tool.manifest.runtime
        return self._runtimes.runtime_of(script) or "shell"

    def _make_variables(self, task: ToolTask, base: Mapping[str, str]) -> dict[str, str]:
        """Return every variable; `base` belongs to the toolchain, whose PATH skips Paddock's own wrappers."""
        own, allowed = task.tool.manifest.env, task.terms.environment
        try:
            given = environment(self._environ, base, own, task.work.env, allowed)
        except VariableError as problem:
            raise _ToolRefusedError(str(problem)) from None
        context = {
            "SCRIPT_TOOL_ID": task.tool.manifest.id,
            "SCRIPT_PROMPT_ID": task.work.prompt,
            "SCRIPT_TOOL_DIR": str(task.tool.directory),
        }
        if task.terms.access != "none":
            context["PADDOCK_WORKSPACE"] = str(task.workspace)
        return {**given, **context}


def _refuse_run(refused: _ToolRefusedError, ms: float) -> RawResult:
    end = ToolEnd(success=False, error=str(refused), duration_ms=ms)
    return _raw_result(refused.status, end, Usage(), SandboxFacts(), refused.hint)


def _find_working_directory(tool: ScriptTool) -> Path:
    name = tool.manifest.working_dir
    if name is None:
        return tool.directory
    try:
        path = inside(tool.directory, name)
    except ScriptToolError as problem:
        raise _ToolRefusedError(f"Working directory not allowed: {problem}") from None
    if not os.path.isdir(path):  # `Path.is_dir` raises if a name is too long
        raise _ToolRefusedError(f"Working directory not found: {name}")
    return path


def _write_files(files: Mapping[str, str], scratch: Path) -> None:
    owner = scratch.stat().st_uid
    for name, text in files.items():
        path = scratch / name
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        os.chown(path, owner, -1)


def _make_end(result: ProcessResult, terms: ToolTerms, ms: float) -> ToolEnd:
    stdout, stderr = _decode_text(result.stdout), _decode_text(result.stderr)
    code, output = EXIT_REFUSED, None
    error: str | None = None
    match result.status:
        case Status.OK:
            code, output = 0, parse_output(stdout)
        case Status.FAILED if result.exit_code is not None:
            code, output = result.exit_code, parse_output(stdout)
            error = stderr or f"Process exited with code {code}"
        case Status.FAILED if result.signal is not None:
            code, output = EXIT_SIGNAL_BASE + result.signal, parse_output(stdout)
            error = stderr or f"Process was ended by {_signal_name(result.signal)}"
        case Status.TIMEOUT if result.limit == "wall":
            error = f"Script timed out after {terms.timeout_ms}ms"
        case Status.TIMEOUT:
            error = f"Script used more than {terms.timeout_ms * 2}ms of CPU time"
        case Status.MEMORY_LIMIT:
            error = f"Script used more than {terms.memory_bytes} bytes of memory"
        case Status.OUTPUT_LIMIT if result.limit in ("stdout", "stderr"):
            error = f"Script wrote more than {terms.output_bytes} bytes to {result.limit}"
        case Status.OUTPUT_LIMIT | Status.PROCESS_LIMIT:
            error = f"Script went beyond its limit: {result.limit}"
        case _:
            error = f"Spawn error: {result.reason or result.status.value}"
    if result.status is Status.FAILED and code == EXIT_REFUSED:
        error = f"Spawn error: {result.reason}"
    if error is not None and (hint := explain_hidden(result, terms.access)):
        error = f"{error.rstrip()}\nhint: {hint}"
    return ToolEnd(
        success=result.status is Status.OK,
        output=output,
        stdout=stdout,
        stderr=stderr,
        exit_code=code,
        duration_ms=ms,
        error=error,
        violations=result.violations,
    )


def parse_output(stdout: str) -> Json:
    """Return a script's output: JSON of any type, else `{"output": text}`; None for nothing.

    JSON that is nested too deeply stays text.
    """
    text = stdout.strip().strip("\ufeff").strip()
    if not text:
        return None
    if sum(map(text.count, ",[{")) <= _MAX_JSON_PARTS:
        with contextlib.suppress(ValueError, RecursionError):
            value = loads_finite(text)
            if not is_deeper(value, MAX_DEPTH):
                return value
    return {"output": text}


def _decode_text(stream: CapturedStream) -> str:
    gap = f"\n[...{count(stream.omitted_bytes, 'byte')} left out...]\n" if stream.truncated else ""
    return stream.head + gap + stream.tail


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"Signal {number}"


def _measure_elapsed_ms(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)


def _raw_result(
    status: Status, end: ToolEnd, usage: Usage, sandbox: SandboxFacts, hint: str = ""
) -> RawResult:
    error = ErrorInfo(name="ToolError", message=end.error, phase="call", hint=hint) if end.error else None
    has_value = end.output is not None
    return RawResult(
        status=status,
        value=end.output,
        has_value=has_value,
        error=error,
        tool=end,
        usage=usage,
        sandbox=sandbox,
    )
