"""Calls of tools of upstream MCP servers."""

import json
import time
from fnmatch import fnmatchcase

from paddock.engines.servers.methods import name_method
from paddock.engines.servers.person import PERSON
from paddock.engines.servers.result import find_culprit, read_native
from paddock.gate.watchers import Watchers
from paddock.gate.work.ends import end_unless_stopped, measure_wall
from paddock.gate.work.kind import Context, Engines, Kind, shorten_name
from paddock.model.aliases import write_alias
from paddock.model.base import Json
from paddock.model.canonical import canonical
from paddock.model.errors import (
    ConfigurationError,
    InvalidArguments,
    ServerError,
    ServerRejected,
    UnknownServer,
)
from paddock.model.outcome import (
    CallProgress,
    ConsoleLine,
    Decision,
    ErrorInfo,
    OnProgress,
    PlannedCall,
    RawResult,
    Status,
    Usage,
)
from paddock.model.request import ExecutionRequest, ServerCall
from paddock.policy.decisions.decision import hash_bytes
from paddock.policy.decisions.guests import call_limits, judge_program_or_call
from paddock.policy.decisions.kinds import FindExecutables, Judgement, Reason
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import Settings
from paddock.record.ledger.sink import Field

_MAX_ERROR_CHARS = 2000
_NO_USAGE = Usage()


class ServerCalls(Kind[ServerCall]):
    """Runs calls through the hub."""

    def label(self, work: ServerCall) -> str:
        return f"{work.server}/{work.tool}"

    def identify(self, work: ServerCall) -> dict[str, Json]:
        method: dict[str, Json] = {"method": True} if work.is_method else {}
        return {"server": work.server, "tool": work.tool, **method}

    def matches(self, rule: Rule, request: ExecutionRequest, work: ServerCall) -> bool:
        # An `allow` rule matches the tool's own name only: a server could list another tool with the same alias.
        alias = write_alias(work.tool) if rule.effect != "allow" else ""
        return fnmatchcase(work.server, rule.server or "*") and any(
            _match_tool_glob(rule.tool or "*/*", work.server, name) for name in (work.tool, alias) if name
        )

    def list_circumstances(
        self, request: ExecutionRequest, work: ServerCall, settings: Settings
    ) -> tuple[object, ...]:
        return work.server, work.tool, work.read_only

    def judge(
        self, request: ExecutionRequest, work: ServerCall, settings: Settings, catalogue: FindExecutables
    ) -> Judgement:
        profile = call_limits(settings, settings.servers.call_timeout_ms)
        terms = judge_program_or_call(request, settings, profile=profile, group="servers.call_timeout_ms")
        objections: list[Reason] = [*terms.refused]
        granted = settings.grants.servers
        if "*" not in granted and work.server not in granted:
            names = ", ".join(granted) or "none"
            where = "name it in `servers` under [grants] in paddock.toml"
            why = f"server {work.server} is not granted (granted: {names}); {where}"
            objections.append(("grants.servers", why))
        if terms.grants.calls == "read_only" and work.read_only is False:
            why = f"{self.label(work)} is not marked as read-only by its server, but this run may only read"
            why += "; rehearse it with dry_run, or use a run with calls = 'run'"
            objections.append(("grants.calls", why))
        return Judgement({"limits": terms.limits, "grants": terms.grants}, terms.clamped, objections)

    def describe(self, request: ExecutionRequest, work: ServerCall) -> tuple[str, dict[str, Json]]:
        # A server may list a tool with the name of a method: the text must not be that of the other.
        what = "call the method" if work.is_method else "call"
        return f"{what} {work.server}/{work.tool}", work.arguments

    def repeatable_name(self, work: ServerCall) -> tuple[str, ...]:
        # A server may list a tool with the name of a method: an answer for one holds for the other one in no way.
        return "method" if work.is_method else "server", work.server, work.tool

    def stub_result(self, work: ServerCall) -> Json:
        """Return an object, because most programs can continue with one."""
        if not work.raw:
            return {"dryRun": True, "server": work.server, "tool": work.tool}
        text = f"{work.server}.{work.tool} was not called: this is a dry run"
        return {"content": [{"type": "text", "text": text}]}

    def is_rehearsed(self, work: ServerCall) -> bool:
        return not work.only_reads

    def make_planned_call(
        self, request: ExecutionRequest, work: ServerCall, decision: Decision
    ) -> PlannedCall:
        return PlannedCall(server=work.server, tool=work.tool, arguments=work.arguments, asks=decision.asks)

    def list_facts(self, work: ServerCall, decision: Decision) -> dict[str, Field]:
        data = canonical(work.arguments)
        name = shorten_name(f"{work.server}/{work.tool}")
        facts: dict[str, Field] = {"name": name, "bytes_in": len(data), "arguments_sha256": hash_bytes(data)}
        return {**facts, "method": work.tool} if work.is_method else facts

    def resolve(self, engines: Engines, request: ExecutionRequest, work: ServerCall) -> ExecutionRequest:
        """Return the call with the tool's own name: rules, questions and the record never use an alias."""
        if work.is_method:
            return request
        tool = engines.servers.resolve_alias(work.server, work.tool)
        if tool == work.tool:
            return request
        return request.model_copy(update={"work": work.model_copy(update={"tool": tool})})

    async def refine(
        self, context: Context, request: ExecutionRequest, work: ServerCall, decision: Decision
    ) -> ExecutionRequest | RawResult:
        """Ask the server for the facts that the decision needs: whether the tool only reads, and its own name.

        A person sees the tool's own name, so that an alias does not cause a second question.
        """
        runs = decision.grants.calls == "run"
        if work.is_method:
            return request
        if not decision.asks and (runs or not decision.allowed):
            return request
        try:
            hint = await context.engines.servers.is_read_only(work.server, work.tool)
        except (ServerError, ConfigurationError) as error:
            return _make_refusal(error)
        request = self.resolve(context.engines, request, work)  # its server has listed its tools by now
        if runs:
            return request
        return request.model_copy(update={"work": request.work.model_copy(update={"read_only": hint})})

    async def check(
        self, context: Context, request: ExecutionRequest, work: ServerCall, decision: Decision
    ) -> Decision | RawResult:
        servers = context.engines.servers
        try:
            if work.is_method:
                servers.check_request(work.server, work.tool, work.arguments)
                return decision
            if work.encoded:
                await servers.check_bytes(work.server, work.tool, work.encoded)
            await servers.check_call(work.server, work.tool, work.arguments)
        except (ServerError, ConfigurationError) as error:
            return _make_refusal(error)
        return decision

    async def run(
        self,
        context: Context,
        request: ExecutionRequest,
        work: ServerCall,
        decision: Decision,
        watchers: Watchers,
    ) -> RawResult:
        counted = watchers.on_result is None  # a program does not get the usage of a call
        limit_ms = decision.limits.timeout_ms
        if work.is_method:
            calling = _send_method(context, request, work, limit_ms, counted=counted)
        else:
            on_progress = _hide_in_progress(context, watchers.on_progress)
            calling = _call_tool(context, request, work, limit_ms, on_progress, counted=counted)
        # Programs stop their calls themselves; they may make thousands of them.
        return await (calling if watchers.stop is None else end_unless_stopped(calling, watchers.stop))


def _match_tool_glob(glob: str, server: str, tool: str) -> bool:
    """Return whether a `server/tool` glob matches both names. A server's name may contain slashes, too."""
    ends = [at for at, character in enumerate(glob) if character == "/"]
    return any(fnmatchcase(server, glob[:end]) and fnmatchcase(tool, glob[end + 1 :]) for end in ends)


def _hide_in_progress(context: Context, on_progress: OnProgress | None) -> OnProgress | None:
    """Return a listener that passes reports on without secrets."""
    if on_progress is None:
        return None

    def report(progress: CallProgress) -> None:
        on_progress(progress._replace(message=context.outgoing.text(progress.message)))

    return report


async def _send_method(
    context: Context, request: ExecutionRequest, work: ServerCall, limit_ms: int, *, counted: bool
) -> RawResult:
    """Read resources or prompts of a server."""
    started, caller = time.perf_counter(), request.root or request.id
    called = name_method(work.server, work.tool)
    try:
        if work.encoded:
            raise InvalidArguments(f"{called} was not called: it takes no bytes; write bytes.toBase64()")
        result = await context.engines.servers.send_method(
            work.server, work.tool, work.arguments, limit_ms=limit_ms, caller=caller
        )
    except (ServerError, ConfigurationError) as error:
        return _make_refusal(error).replace(usage=measure_wall(started) if counted else _NO_USAGE)
    usage = measure_wall(started) if counted else _NO_USAGE
    warnings = tuple(ConsoleLine(level="warn", text=f"{called}: {text}") for text in result.warnings)
    return RawResult(status=Status.OK, value=result.value, has_value=True, usage=usage, console=warnings)


async def _call_tool(
    context: Context,
    request: ExecutionRequest,
    work: ServerCall,
    limit_ms: int,
    on_progress: OnProgress | None,
    *,
    counted: bool,
) -> RawResult:
    started, servers = time.perf_counter(), context.engines.servers
    person = PERSON.set(context.person_of(request, work.server))
    try:
        if work.encoded:
            await servers.check_bytes(work.server, work.tool, work.encoded)
        result = await servers.call_tool(
            work.server,
            work.tool,
            work.arguments,
            limit_ms=limit_ms,
            caller=request.root or request.id,
            on_progress=on_progress,
        )
        value = result.raw if work.raw else await read_native(result)
    except (ServerError, ConfigurationError) as error:
        usage = measure_wall(started) if counted else _NO_USAGE
        return _make_refusal(error).replace(usage=usage)
    finally:
        PERSON.reset(person)
    usage = measure_wall(started) if counted else _NO_USAGE
    warnings: tuple[ConsoleLine, ...] = ()
    if result.unchecked:  # some arguments were sent unchecked
        warnings = (ConsoleLine(level="warn", text=f"{work.server}.{work.tool}: {result.unchecked}"),)
    if result.is_error and not work.raw:
        message = result.text or value or "the tool failed and did not say why"
        error = _make_error(message if isinstance(message, str) else json.dumps(message)[:_MAX_ERROR_CHARS])
        return RawResult(
            status=Status.FAILED, value=value, has_value=True, error=error, usage=usage, console=warnings
        )
    return RawResult(status=Status.OK, value=value, has_value=True, usage=usage, console=warnings)


def _make_refusal(error: ServerError | ConfigurationError) -> RawResult:
    # Reading or writing Paddock's own files (pins, logins) failed before the call was sent.
    status = find_culprit(error) if isinstance(error, ServerError) else Status.UNAVAILABLE
    described = _make_error(str(error))
    if isinstance(error, UnknownServer):
        described = described.model_copy(update={"hint": error.hint})
    elif isinstance(error, ServerRejected) and error.code:
        described = described.model_copy(update={"code": error.code, "data": error.data})
    return RawResult(status=status, error=described)


def _make_error(message: str) -> ErrorInfo:
    return ErrorInfo(name="ToolError", message=message, phase="call")
