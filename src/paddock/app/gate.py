"""The one path to execution: whatever runs, ran through `Gate.execute`.

    decide --denied--> audit "decided" -> Outcome(denied)
      | allowed
    claim: audit "started" is written before anything runs
      |
    engine.run -> RawResult
      |
    redact -> audit "finished" -> Outcome

A program's call of a server is a child request through the same gate; the program goes on with its result while the end
is recorded. Denials, timeouts and failing programs are returned; an exception out of the gate is a fault of Paddock's
own.
"""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from paddock.app import visible_tools
from paddock.app.approvals import Approvals, Asker, CallContext, refusal_name
from paddock.app.audit_facts import CANCELLED, end_facts, identity_facts
from paddock.app.host_calls import HostCalls, OnResult
from paddock.app.runtime_service import Programs
from paddock.app.script_tool_service import Scripts
from paddock.audit.best_effort import BestEffortSink
from paddock.audit.sink import AuditSink
from paddock.cancellation import run_shielded, unless_stopped
from paddock.hub.person import PERSON
from paddock.hub.result import ToolResult, find_culprit, read_native
from paddock.javascript.engine import GuestEngine
from paddock.javascript.job import GuestJob, OnConsole
from paddock.large_json import run_in_slices
from paddock.model.base import Json
from paddock.model.canonical import canonical
from paddock.model.errors import (
    ConfigurationError,
    EngineError,
    PaddockError,
    SdkError,
    SdkFailed,
    ServerError,
    ServerRejected,
    UnknownServer,
)
from paddock.model.ids import mint_id, spend_id
from paddock.model.outcome import (
    ConsoleLine,
    Decision,
    ErrorInfo,
    Outcome,
    RawResult,
    Status,
    Usage,
)
from paddock.model.request import ExecutionRequest, GuestRun, Places, RuntimeRun, SdkCall, ServerCall, ToolRun
from paddock.output.large_results import Results
from paddock.policy.decision import Policy
from paddock.policy.rehearsal import make_planned_call, stub_result, would_ask
from paddock.redaction.outgoing import OnCall, OutgoingRedaction
from paddock.settings.schema import Settings

if TYPE_CHECKING:
    from paddock.output.recorder import OnOutput

_MAX_ERROR_CHARS = 2000

OnEnd = Callable[[ExecutionRequest, RawResult], None]
"""Hears of every request that has run."""


class Servers(visible_tools.Servers, Protocol):
    """What the gate needs of the hub."""

    async def call_tool(
        self, server: str, tool: str, arguments: Mapping[str, Json], *, limit_ms: int
    ) -> ToolResult:
        """Return the result of a tool, within the server's own time and `limit_ms`. Raises ServerError."""
        ...

    async def is_read_only(self, server: str, tool: str) -> bool:
        """Return whether the server says that a tool only reads. Raises ServerError."""
        ...

    def resolve_alias(self, server: str, tool: str) -> str:
        """Return the tool that a name means, as far as its server is known: a tool may have an alias."""
        ...

    def may_be_alias(self, server: str, tool: str) -> bool:
        """Tell whether a name may turn out to be an alias once its server has listed its tools."""
        ...

    async def admit_bytes(self, server: str, tool: str, places: Places) -> None:
        """Raise ServerError where a tool does not say that it reads base64 at all of these places."""
        ...


class Sdk(Protocol):
    """What the gate needs of the SDK's services."""

    async def call(self, request: ExecutionRequest, work: SdkCall) -> Json:
        """Return the value of a call. Raises SdkError for misuse, other PaddockErrors for what failed."""
        ...


class _RequestWatchers(NamedTuple):
    """Who listens to a request while it runs, and what stops it."""

    on_console: OnConsole | None = None
    on_output: "OnOutput | None" = None
    stop: asyncio.Event | None = None
    on_call: OnCall | None = None
    on_result: OnResult | None = None


class _End(NamedTuple):
    """What became of a request, and the record of it."""

    request: ExecutionRequest
    """The request as it was decided on."""
    result: RawResult
    decision: Decision
    audit: str
    written: bytes | None
    """The value as JSON; None when nothing has run."""


class Engines(NamedTuple):
    """What runs the kinds of work."""

    guest: GuestEngine
    servers: Servers
    programs: Programs
    scripts: Scripts
    sdk: Sdk
    results: Results


class Gate:
    """Decides, records, runs and reports requests."""

    def __init__(
        self,
        settings: Settings,
        audit: AuditSink,
        engines: Engines,
        outgoing: OutgoingRedaction,
        asker: Asker | None = None,
    ) -> None:
        """Ask `asker` where a request brings nobody along."""
        self._policy = Policy(settings, engines.programs.executables)
        self._offered = visible_tools.VisibleTools.for_policy(
            settings, self._policy, engines.servers, self._record_lookup
        )
        self._audit = audit
        self._audit_of_computations = audit if settings.audit.required == "all" else BestEffortSink(audit)
        self._engines = engines
        self._outgoing = outgoing
        self._commands = tuple(command.name for command in settings.sdk.commands)
        self.approvals = Approvals(settings.approvals, audit, outgoing, asker)
        self.find_tool = engines.scripts.make_work
        self.on_end: OnEnd | None = None
        self._under_way: dict[asyncio.Task[Any] | None, asyncio.Future[None]] = {}
        self._ended = False

    async def execute(
        self,
        request: ExecutionRequest,
        *,
        on_console: OnConsole | None = None,
        on_output: "OnOutput | None" = None,
        on_call: OnCall | None = None,
        asker: Asker | None = None,
        stop: asyncio.Event | None = None,
    ) -> Outcome:
        """Return what became of a request.

        `on_console` sees each console line of a script as it comes, `on_call` each of its calls when that has ended,
        `on_output` the output of a program; none sees a secret. `asker` asks a person about it
        and its children where a rule wants that.
        When `stop` is set, a program ends as `cancelled`, with what it wrote until then; so does a single call.
        Cancelling the task ends any work, and the record says so. Raises LedgerError when the record cannot be
        written: then nothing has run, or nothing more will. Raises PaddockError after `aclose`.
        """
        beside = _RequestWatchers(on_console, on_output, stop, on_call)
        if request.parent is not None:
            return await self._make_outcome(request, beside)
        if self._ended:
            raise PaddockError("this session has ended; open another one")
        task = asyncio.current_task()
        over = self._under_way[task] = asyncio.get_running_loop().create_future()
        self.approvals.begin_run(request, asker)
        try:
            return await self._make_outcome(request, beside)
        finally:
            self.approvals.end_run(request)
            del self._under_way[task]
            over.set_result(None)

    async def aclose(self) -> None:
        """Cancel the tasks of all requests but children; return when the requests are over and on the record."""
        self._ended = True
        own = asyncio.current_task()
        others = {
            task: over for task, over in self._under_way.items() if task is not None and task is not own
        }
        for task in others:
            task.cancel("the session ends")
        if others:
            await run_shielded(asyncio.wait(others.values()))

    async def _make_outcome(self, request: ExecutionRequest, beside: _RequestWatchers) -> Outcome:
        end = await self._carry_out(request, beside)
        outcome = Outcome(id=request.id, decision=end.decision, audit=end.audit, **vars(end.result))
        if end.written is None:
            return outcome if request.parent else self._outgoing.refusal(outcome)
        if self.on_end is not None:
            self.on_end(request, outcome)
        return outcome

    async def _carry_out_child(self, request: ExecutionRequest, on_result: OnResult) -> RawResult:
        """Return what became of a call of a program, which needs no outcome of its own: there may be thousands."""
        end = await self._carry_out(request, _RequestWatchers(on_result=on_result))
        if end.written is not None and self.on_end is not None:
            self.on_end(request, end.result)
        return end.result

    async def _carry_out(self, request: ExecutionRequest, beside: _RequestWatchers) -> "_End":
        """Return the end of a request.

        A call whose alias was not known before its server listed its tools ends as invalid, with nothing sent. It is
        made once more by the tool's own name, as a request of its own: policy decides on the tool, and the record
        names it.
        """
        end = await self._decide_and_run(self._resolve_alias(self._policy.with_defaults(request)), beside)
        if not self._is_renamed(end.request, end.result):
            return end
        own = {"id": mint_id(), "parent": request.parent or request.id, "root": request.root or request.id}
        return await self._decide_and_run(self._resolve_alias(end.request).model_copy(update=own), beside)

    async def _decide_and_run(self, request: ExecutionRequest, beside: _RequestWatchers) -> "_End":
        decision = self._policy.decide(request)
        if decision.asks and would_ask(request, decision):
            return self._rehearse_request(request, decision)
        runs = decision.grants.calls == "run"
        if (
            isinstance(work := request.work, ServerCall)
            and (decision.allowed or decision.asks)
            # A person is asked about a tool by its own name, and so only once.
            and (not runs or (decision.asks and self._engines.servers.may_be_alias(work.server, work.tool)))
        ):
            try:
                hint = await self._engines.servers.is_read_only(work.server, work.tool)
            except ServerError as error:
                return self._end_without_run(
                    request, decision, find_culprit(error), error=_server_error(error)
                )
            request = self._resolve_alias(request)  # its server has told its tools by now
            if not runs:
                marked = request.work.model_copy(update={"read_only": hint})
                request = request.model_copy(update={"work": marked})
            decision = self._policy.decide(request)
        if decision.asks:
            decision = await self.approvals.settle(request, decision, beside.stop)
        if decision.allowed and isinstance(work := request.work, RuntimeRun):
            async with self._engines.programs.admit(request, work, decision, beside.stop) as admitted:
                if isinstance(admitted, RawResult):
                    return self._end_without_run(request, decision, admitted.status, error=admitted.error)
                return await self._run_decided(request, admitted, beside)
        return await self._run_decided(request, decision, beside)

    def _resolve_alias(self, request: ExecutionRequest) -> ExecutionRequest:
        """Return a call of a tool by its own name: rules, questions and the record know no alias."""
        if not isinstance(work := request.work, ServerCall):
            return request
        tool = self._engines.servers.resolve_alias(work.server, work.tool)
        if tool == work.tool:
            return request
        return request.model_copy(update={"work": work.model_copy(update={"tool": tool})})

    def _is_renamed(self, request: ExecutionRequest, result: RawResult) -> bool:
        """Tell whether a call was refused by an alias that its server's listing has told meanwhile."""
        return result.status is Status.INVALID and self._resolve_alias(request) is not request

    def _refusal_error(self, request: ExecutionRequest, decision: Decision) -> ErrorInfo:
        reasons, hint = "; ".join(decision.reasons), self._policy.suggest_remedy(request, decision)
        return ErrorInfo(name=refusal_name(decision), message=reasons, hint=hint, phase="decide")

    async def _run_decided(
        self, request: ExecutionRequest, decision: Decision, beside: _RequestWatchers
    ) -> "_End":
        if not decision.allowed:
            return self._end_without_run(
                request, decision, Status.DENIED, error=self._refusal_error(request, decision)
            )
        if (
            decision.grants.calls == "dry_run"
            and isinstance(work := request.work, ServerCall)
            and not work.read_only
        ):
            return self._rehearse_request(request, decision)
        facts = self._outgoing.facts(identity_facts(request, decision))
        book = self._audit_sink_of(request)
        if isinstance(request.work, GuestRun):
            self._engines.guest.expect(jit=decision.grants.jit)  # it gets ready beside the next line
        book.claim(request.id, facts, parent=request.parent)
        started = time.perf_counter()
        result = shown = CANCELLED
        written = b""
        try:
            result = shown = await self._run_safely(request, decision, beside)
            if beside.on_result is not None and not self._is_renamed(request, result):
                beside.on_result(result)
            written = canonical(result.value) if result.has_value else b""
            if not request.parent:
                shown = await run_in_slices(self._outgoing.result_in_slices(result, written))
        finally:
            ms = round((time.perf_counter() - started) * 1000, 3)
            end = {**facts, **end_facts(request, result, ms, len(written))}
            if shown.redactions:
                end["redactions"] = shown.redactions
            # A child's end announces nothing: it goes with the next record, its parent's end at the latest.
            append = book.append_soon if request.parent else book.append
            audit = append("finished", request.id, end, parent=request.parent)
        return _End(request, shown, decision, audit, written)

    def _rehearse_request(self, request: ExecutionRequest, decision: Decision) -> "_End":
        """Return what a rehearsal answers instead of doing it: a stub, or a refusal where nothing can stand for it."""
        planned = (make_planned_call(request, decision),)
        if isinstance(work := request.work, ServerCall):
            return self._end_without_run(
                request, decision, Status.OK, value=stub_result(work), has_value=True, planned=planned
            )
        text = f"{'; '.join(decision.asks)}: a rehearsal asks nobody"
        error = ErrorInfo(name="PolicyError", message=text, phase="decide")
        return self._end_without_run(request, decision, Status.DENIED, error=error, planned=planned)

    def _record_lookup(self, request: ExecutionRequest, allowed: bool) -> None:
        """Record that a program looks into a server, which may be started for it."""
        facts = self._outgoing.facts(identity_facts(request, self._policy.decide(request)))
        status = Status.OK if allowed else Status.DENIED
        self._audit.append("looked", request.id, {**facts, "status": status.value}, parent=request.parent)

    def _audit_sink_of(self, request: ExecutionRequest) -> AuditSink | BestEffortSink:
        """Return where a request is recorded."""
        computes = isinstance(request.work, GuestRun) and request.work.computes
        return self._audit_of_computations if computes else self._audit

    def _end_without_run(
        self, request: ExecutionRequest, decision: Decision, status: Status, **result: object
    ) -> "_End":
        """Record and return the end of a request of which nothing ran."""
        told = "planned" if status is Status.OK else status.value
        facts = {**self._outgoing.facts(identity_facts(request, decision)), "status": told}
        audit = self._audit_sink_of(request).append("decided", request.id, facts, parent=request.parent)
        spend_id(request.id)
        settled = RawResult.model_validate({**result, "status": status})
        return _End(request, settled, decision, audit, None)

    async def _run_safely(
        self, request: ExecutionRequest, decision: Decision, beside: _RequestWatchers
    ) -> RawResult:
        try:
            return await self._run_work(request, decision, beside)
        except EngineError as error:
            return RawResult(status=Status.UNAVAILABLE, error=_fault_error(error))
        except PaddockError as error:
            return RawResult(status=Status.ERROR, error=_fault_error(error))

    async def _run_work(
        self, request: ExecutionRequest, decision: Decision, beside: _RequestWatchers
    ) -> RawResult:
        match request.work:
            case GuestRun() as work:
                sink = None if work.computes or work.raw_results else self._engines.results.sink()
                job = GuestJob(
                    work,
                    decision.limits,
                    decision.grants,
                    request.workspace,
                    commands=self._commands,
                    depth=request.depth,
                    clock=self.approvals.clock_of(request),
                    sink=sink,
                )
                heard = self._outgoing.calls(beside.on_call)
                calls = HostCalls(
                    self._carry_out_child,
                    self.find_tool,
                    request,
                    decision.grants.calls,
                    heard,
                    offered=self._offered,
                    resolve_alias=self._engines.servers.resolve_alias,
                )
                console = self._outgoing.console(beside.on_console)
                try:
                    result = await self._engines.guest.run(job, calls, console, beside.stop)
                    if sink is not None and result.status is Status.OUTPUT_LIMIT:
                        result = await sink.finish(request, decision, result)
                finally:
                    if sink is not None:
                        await sink.discard()
                if result.status is Status.FAILED and not work.raw_results:
                    result = await _with_hint(result, work, calls)
                return result.model_copy(update={"planned": calls.plan.calls}) if calls.plan.calls else result
            case ServerCall() as work:
                counted = beside.on_result is None  # a program never hears what a call used
                calling = self._call_server(request, work, decision.limits.timeout_ms, counted=counted)
                # Programs, which may call thousands of times, stop their calls themselves.
                return await (calling if beside.stop is None else _unless_stopped(calling, beside.stop))
            case RuntimeRun() as work:
                return await self._engines.programs.run(
                    request, work, decision, beside.on_output, beside.stop
                )
            case ToolRun() as work:
                return await _unless_stopped(
                    self._engines.scripts.run_tool(request, work, decision), beside.stop
                )
            case SdkCall() as work:
                return await self._answer(request, work, decision.limits.timeout_ms)

    async def _answer(self, request: ExecutionRequest, work: SdkCall, limit_ms: int) -> RawResult:
        try:
            async with self.approvals.clock_of(request).limit(limit_ms / 1000):
                value = await self._engines.sdk.call(request, work)
        except TimeoutError:
            text = f"paddock.{work.method} did not end within {limit_ms} ms"
            return RawResult(
                status=Status.TIMEOUT, error=ErrorInfo(name="Timeout", message=text, phase="call")
            )
        except SdkError as error:
            fault = ErrorInfo(name="TypeError", message=str(error), phase="call")
            return RawResult(status=Status.INVALID, error=fault)
        except SdkFailed as error:
            fault = ErrorInfo(name=error.name, message=str(error), phase="call")
            return RawResult(status=error.status, error=fault)
        return RawResult(status=Status.OK, value=value, has_value=value is not None)

    async def _call_server(
        self, request: ExecutionRequest, work: ServerCall, limit_ms: int, *, counted: bool
    ) -> RawResult:
        started = time.perf_counter()
        person = PERSON.set(partial(self.approvals.pass_on, CallContext.from_request(request), work.server))
        try:
            if work.encoded:
                await self._engines.servers.admit_bytes(work.server, work.tool, work.encoded)
            result = await self._engines.servers.call_tool(
                work.server, work.tool, work.arguments, limit_ms=limit_ms
            )
            value = result.raw if work.raw else await read_native(result)
        except (ServerError, ConfigurationError) as error:
            usage = _wall_usage(started) if counted else _NOTHING_USED
            # Files of ours are read and written before a call is sent: the pins, the logins.
            status = find_culprit(error) if isinstance(error, ServerError) else Status.UNAVAILABLE
            return RawResult(status=status, error=_server_error(error), usage=usage)
        finally:
            PERSON.reset(person)
        usage = _wall_usage(started) if counted else _NOTHING_USED
        said = _warn_unchecked(work, result) if result.unchecked else ()
        if result.is_error and not work.raw:
            told = result.said or value or "the tool failed and did not say why"
            error = _tool_error(told if isinstance(told, str) else json.dumps(told)[:_MAX_ERROR_CHARS])
            return RawResult(
                status=Status.FAILED, value=value, has_value=True, error=error, usage=usage, console=said
            )
        return RawResult(status=Status.OK, value=value, has_value=True, usage=usage, console=said)


_NOTHING_USED = Usage()
_CUT_SHORT = ErrorInfo(
    name="Cancelled",
    message="The call was cancelled before its answer came.",
    hint="it may have acted already: look before you call it again",
    phase="call",
)


async def _unless_stopped(work: Coroutine[Any, Any, RawResult], stop: asyncio.Event | None) -> RawResult:
    """Return the result of a single call, or that it was cut short when `stop` was set."""
    if stop is None:  # the calls of programs, of which there may be thousands
        return await work
    started = time.perf_counter()
    result = await unless_stopped(work, stop)
    return result or RawResult(status=Status.CANCELLED, error=_CUT_SHORT, usage=_wall_usage(started))


def _warn_unchecked(work: ServerCall, result: ToolResult) -> tuple[ConsoleLine, ...]:
    """Return the warning that arguments went to a tool unchecked."""
    return (ConsoleLine(level="warn", text=f"{work.server}.{work.tool}: {result.unchecked}"),)


def _wall_usage(since: float) -> Usage:
    return Usage(wall_ms=round((time.perf_counter() - since) * 1000, 3))


async def _with_hint(result: RawResult, work: GuestRun, calls: HostCalls) -> RawResult:
    """Return the result of a program that failed; where it reached for a tool by a wrong name, with the right one."""
    from paddock.javascript.hints import find_called_names

    error = result.error
    if (
        error is None
        or work.computes
        or not (call := await calls.suggest_call(find_called_names(error, work.source)))
    ):
        return result
    return result.replace(error=error.replace(hint=f"tools are in `servers`: await {call}"))


def _fault_error(error: Exception) -> ErrorInfo:
    return ErrorInfo(name=type(error).__name__, message=str(error), phase="decide")


def _server_error(error: ServerError | ConfigurationError) -> ErrorInfo:
    """Return an error of the hub; what a server answered with keeps its code and data."""
    told = _tool_error(str(error))
    if isinstance(error, UnknownServer):
        return told.model_copy(update={"hint": error.hint})
    if not isinstance(error, ServerRejected) or not error.code:
        return told
    return told.model_copy(update={"code": error.code, "data": error.data})


def _tool_error(message: str) -> ErrorInfo:
    return ErrorInfo(name="ToolError", message=message, phase="call")
