"""The one path to execution: whatever runs, ran through `Gate.execute`.

    decide --denied--> audit "decided" -> Outcome(denied)
      | allowed
    claim: audit "started" is written before anything runs
      |
    engine.run -> RawResult
      |
    redact -> audit "finished" -> Outcome

A program's call of a server is a child request through the same gate. Denials, timeouts and failing programs are
returned; an exception out of the gate is a fault of Paddock's own.
"""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from paddock.guest.engine import GuestEngine
from paddock.guest.job import GuestJob, HostReply, OnConsole
from paddock.hub.result import ToolResult, native_value
from paddock.model.base import Json
from paddock.model.canonical import canonical
from paddock.model.errors import (
    EngineError,
    LedgerError,
    PaddockError,
    ServerError,
    ServerRejected,
    ServerTimeout,
    ServerUnavailable,
    UnknownServer,
)
from paddock.model.limits import Calls
from paddock.model.outcome import (
    ConsoleLine,
    Decision,
    ErrorInfo,
    Outcome,
    PlannedCall,
    RawResult,
    Status,
    Usage,
)
from paddock.model.request import ExecutionRequest, GuestRun, RuntimeRun, ServerCall
from paddock.model.settings import Settings
from paddock.policy.redact import may_hold_secrets, redact_json, redact_text
from paddock.policy.rehearsal import Plan, stub
from paddock.policy.rules import Policy
from paddock.programs import Programs
from paddock.store.audit import AuditSink, Field

if TYPE_CHECKING:
    from paddock.store.recording import OnOutput

_NAME = 200
_TOLD = 2000


class Servers(Protocol):
    """What the gate needs of the hub."""

    async def call(
        self, server: str, tool: str, arguments: Mapping[str, Json], *, limit_ms: int
    ) -> ToolResult:
        """Return the result of a tool, within the server's own time and `limit_ms`. Raises ServerError."""
        ...

    async def is_read_only(self, server: str, tool: str) -> bool:
        """Return whether the server says that a tool only reads. Raises ServerError."""
        ...


class Gate:
    """Decides, records, runs and reports requests."""

    def __init__(
        self,
        settings: Settings,
        audit: AuditSink,
        guest: GuestEngine,
        servers: Servers,
        programs: Programs,
    ) -> None:
        self._policy = Policy(settings, programs.executables)
        self._audit = audit
        self._guest = guest
        self._servers = servers
        self._programs = programs

    async def execute(
        self,
        request: ExecutionRequest,
        *,
        on_console: OnConsole | None = None,
        on_output: "OnOutput | None" = None,
    ) -> Outcome:
        """Return what became of a request.

        `on_console` sees each console line of a script as it comes, `on_output` the output of a program; neither
        sees a secret.
        Cancelling the task ends the work, and the record says so. Raises LedgerError when the record cannot be
        written: then nothing has run, or nothing more will.
        """
        decision = self._policy.decide(request)
        if decision.allowed and isinstance(work := request.work, RuntimeRun):
            async with self._programs.admit(request, work, decision) as admitted:
                return await self._carry_out(request, admitted, on_console, on_output)
        if decision.allowed and decision.grants.calls != "run" and isinstance(request.work, ServerCall):
            try:
                hint = await self._servers.is_read_only(request.work.server, request.work.tool)
            except ServerError as error:
                return self._settled(request, decision, _blame(error), error=_tool_error(str(error)))
            request = request.model_copy(update={"work": request.work.model_copy(update={"read_only": hint})})
            decision = self._policy.decide(request)
        return await self._carry_out(request, decision, on_console, on_output)

    async def _carry_out(
        self,
        request: ExecutionRequest,
        decision: Decision,
        on_console: OnConsole | None,
        on_output: "OnOutput | None",
    ) -> Outcome:
        if not decision.allowed:
            return self._settled(request, decision, Status.DENIED, error=_refusal(decision))
        if (
            decision.grants.calls == "dry_run"
            and isinstance(work := request.work, ServerCall)
            and not work.read_only
        ):
            planned = PlannedCall(server=work.server, tool=work.tool, arguments=work.arguments)
            return self._settled(
                request, decision, Status.OK, value=stub(work), has_value=True, planned=(planned,)
            )
        facts = _identity(request, decision)
        self._audit.claim(request.id, facts, parent=request.parent)
        started = time.perf_counter()
        result = RawResult(status=Status.CANCELLED)
        try:
            result = await self._run(request, decision, on_console, on_output)
        except EngineError as error:
            result = RawResult(status=Status.UNAVAILABLE, error=_fault(error))
        except PaddockError as error:
            result = RawResult(status=Status.ERROR, error=_fault(error))
        finally:
            ms = round((time.perf_counter() - started) * 1000, 3)
            text = json.dumps(result.value) if result.has_value else ""
            end = {**facts, **_ending(result, ms, len(text))}
            audit = self._audit.append("finished", request.id, end, parent=request.parent)
        outcome = Outcome(id=request.id, decision=decision, audit=audit, **dict(result))
        return outcome if request.parent else _redacted(outcome, text)

    def _settled(
        self, request: ExecutionRequest, decision: Decision, status: Status, **result: object
    ) -> Outcome:
        """Record and return the end of a request of which nothing ran."""
        told = "planned" if status is Status.OK else status.value
        facts = {**_identity(request, decision), "status": told}
        audit = self._audit.append("decided", request.id, facts, parent=request.parent)
        fields = {**result, "id": request.id, "status": status, "decision": decision, "audit": audit}
        return Outcome.model_validate(fields)

    async def _run(
        self,
        request: ExecutionRequest,
        decision: Decision,
        on_console: OnConsole | None,
        on_output: "OnOutput | None",
    ) -> RawResult:
        match request.work:
            case GuestRun() as work:
                job = GuestJob(work, decision.limits, decision.grants, request.workspace)
                calls = _HostCalls(self, request, decision.grants.calls)
                result = await self._guest.run(job, calls, _redacting(on_console))
                return result.model_copy(update={"planned": calls.plan.calls}) if calls.plan.calls else result
            case ServerCall() as work:
                return await self._call_server(work, decision.limits.wall_ms)
            case RuntimeRun() as work:
                return await self._programs.run(request, work, decision, on_output)

    async def _call_server(self, work: ServerCall, limit_ms: int) -> RawResult:
        started = time.perf_counter()
        try:
            result = await self._servers.call(work.server, work.tool, work.arguments, limit_ms=limit_ms)
        except ServerError as error:
            return RawResult(status=_blame(error), error=_tool_error(str(error)))
        usage = Usage(wall_ms=round((time.perf_counter() - started) * 1000, 3))
        if work.raw:
            return RawResult(status=Status.OK, value=result.raw, has_value=True, usage=usage)
        value = native_value(result)
        if result.is_error:
            error = _tool_error(value if isinstance(value, str) else json.dumps(value)[:_TOLD])
            return RawResult(status=Status.FAILED, value=value, has_value=True, error=error, usage=usage)
        return RawResult(status=Status.OK, value=value, has_value=True, usage=usage)


@dataclass(frozen=True, slots=True)
class _HostCalls:
    """The gate as a program sees it: its calls are child requests of its own request."""

    gate: Gate
    parent: ExecutionRequest
    calls: Calls
    plan: Plan = field(default_factory=Plan)

    async def call(self, server: str, tool: str, arguments: dict[str, Json], *, raw: bool) -> HostReply:
        request = ExecutionRequest(
            parent=self.parent.id,
            actor=self.parent.actor,
            surface="guest",
            workspace=self.parent.workspace,
            work=ServerCall(server=server, tool=tool, arguments=arguments, raw=raw),
            calls=self.calls,
        )
        try:
            outcome = await self.gate.execute(request)
        except LedgerError:
            # Without its record nothing may run; the program's own end will tell the person.
            error: dict[str, Json] = {
                "name": "Error",
                "message": "the call cannot be recorded, so it was not made",
            }
            return HostReply(Status.ERROR, error=error)
        for planned in outcome.planned:
            self.plan.add(planned)
        if outcome.status is Status.OK:
            return HostReply(Status.OK, value=outcome.value)
        message = outcome.error.message if outcome.error else outcome.status.value
        error = {"name": "Error" if raw else "ToolError", "message": message, "server": server, "tool": tool}
        error["retryable"] = outcome.status is Status.UNAVAILABLE
        if outcome.has_value:
            error["content"] = outcome.value
        return HostReply(outcome.status, error=error)


def _identity(request: ExecutionRequest, decision: Decision) -> dict[str, Field]:
    """Return who asked for what: names, sizes and hashes, never a payload."""
    facts: dict[str, Field] = {
        "actor": _short(request.actor),
        "surface": _short(request.surface),
        "kind": request.work.kind,
        "audit_hash": decision.audit_hash,
        "rule": _short(decision.rule),
    }
    match request.work:
        case GuestRun(source=source) as work:
            data = source.encode("utf-8", "surrogatepass")
            facts |= {"name": _short(work.name), "profile": work.profile, "bytes_in": len(data)}
            facts |= {"source_sha256": hashlib.sha256(data).hexdigest(), "jit": decision.grants.jit}
        case ServerCall() as work:
            data = canonical(work.arguments)
            facts |= {"name": _short(f"{work.server}/{work.tool}"), "bytes_in": len(data)}
            facts |= {"arguments_sha256": hashlib.sha256(data).hexdigest()}
        case RuntimeRun() as work:
            size = len((work.code or "").encode("utf-8", "surrogatepass")) + len(work.stdin or b"")
            facts |= {"name": work.runtime, "executable": _short(work.executable or ""), "bytes_in": size}
            facts |= {
                "content_sha256": work.sha256,
                "argument_count": len(work.args),
                "cwd": _short(work.cwd),
            }
            facts |= {"access": work.access, "network": work.network}
    return facts


def _ending(result: RawResult, ms: float, size: int) -> dict[str, Field]:
    usage = result.usage
    facts: dict[str, Field] = {
        "status": result.status.value,
        "ms": ms,
        "cpu_ms": usage.cpu_ms,
        "peak_bytes": usage.peak_bytes,
        "bytes_out": size + usage.console_bytes,
        "calls": usage.host_calls,
        "tier": result.sandbox.tier,
        "layers": list(result.sandbox.layers),
    }
    if (program := result.program) is not None:
        facts |= {"phase": program.phase, "exit_code": program.exit_code, "signal": program.signal}
        facts |= {"stdout_bytes": program.stdout.total_bytes, "stderr_bytes": program.stderr.total_bytes}
        facts |= {"artifact": program.artifact, "cached": program.cached, "survivors": program.survivors}
        facts |= {"limit": program.limit, "violations": list(program.violations)}
    return facts


def _short(text: str) -> str:
    """Return a name fit for a record: no lone surrogates, bounded."""
    return text.encode("utf-8", "replace").decode()[:_NAME]


def _refusal(decision: Decision) -> ErrorInfo:
    return ErrorInfo(name="PolicyError", message="; ".join(decision.reasons), phase="decide")


def _fault(error: Exception) -> ErrorInfo:
    return ErrorInfo(name=type(error).__name__, message=str(error), phase="decide")


def _blame(error: ServerError) -> Status:
    """Return who is to blame for a call that brought no result."""
    match error:
        case UnknownServer():
            return Status.INVALID
        case ServerTimeout():
            return Status.TIMEOUT
        case ServerRejected():
            return Status.FAILED
        case ServerUnavailable() if error.sent:
            return Status.LOST
        case _:
            return Status.UNAVAILABLE


def _tool_error(message: str) -> ErrorInfo:
    return ErrorInfo(name="ToolError", message=message, phase="call")


def _redacting(on_console: OnConsole | None) -> OnConsole | None:
    if on_console is None:
        return None
    return lambda line: on_console(_clean(line))


def _clean(line: ConsoleLine) -> ConsoleLine:
    text = redact_text(line.text)
    return line if text == line.text else line.model_copy(update={"text": text})


def _redacted(outcome: Outcome, text: str) -> Outcome:
    """Return the outcome as it may leave Paddock (X36); `text` is its value as JSON."""
    changes: dict[str, object] = {"console": tuple(_clean(line) for line in outcome.console)}
    changes["planned"] = tuple(
        call.model_copy(update={"arguments": redact_json(call.arguments)}) for call in outcome.planned
    )
    if may_hold_secrets(text):
        changes["value"] = redact_json(outcome.value)
    if (error := outcome.error) is not None:
        texts = {
            key: redact_text(getattr(error, key)) for key in ("name", "message", "excerpt", "thrown", "hint")
        }
        changes["error"] = error.model_copy(update=texts)
    return outcome.model_copy(update=changes)
