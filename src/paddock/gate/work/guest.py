"""JavaScript and TypeScript programs: scripts, agents' programs, computations."""

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from paddock.engines.javascript.result_hints import explain_nothing, explain_wrong_use
from paddock.engines.javascript.task import GuestTask
from paddock.foundation.large_json import run_in_slices
from paddock.gate.program_calls import ProgramCalls
from paddock.gate.type_check import ProgramCheck, make_check
from paddock.gate.watchers import Watchers
from paddock.gate.work.ends import CANCELLED
from paddock.gate.work.kind import Context, Engines, Kind, shorten_name
from paddock.model import computation
from paddock.model.base import Json
from paddock.model.errors import PaddockError
from paddock.model.outcome import ConsoleLine, Decision, OnConsole, RawResult, Status
from paddock.model.request import ExecutionRequest, GuestRun
from paddock.model.sandbox import TIERS
from paddock.model.session import NEW, name_session
from paddock.model.texts import ESCAPED_LINE_ENDS, has_escaped_line_ends
from paddock.policy.decisions.decision import hash_bytes
from paddock.policy.decisions.guests import GUEST_TIER, judge_program_or_call
from paddock.policy.decisions.kinds import FindExecutables, Judgement, Reason
from paddock.policy.redaction.outgoing import OutgoingRedaction
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import Settings
from paddock.record.ledger.sink import Field

_LONG_CHARS = 65_536
"""Longer lines are searched for secrets in slices, so that other requests do not wait."""


class GuestPrograms(Kind[GuestRun]):
    """Runs programs in a V8 worker."""

    def label(self, work: GuestRun) -> str:
        return "running a program"

    def identify(self, work: GuestRun) -> dict[str, Json]:
        facts: dict[str, Json] = {
            "name": work.name,
            "profile": work.profile,
            "source_sha256": hash_bytes(_encode(work.source)),
        }
        return facts | ({"session": name_session(work.session)} if work.session else {})

    def matches(self, rule: Rule, request: ExecutionRequest, work: GuestRun) -> bool:
        return rule.jit is None or request.jit

    def list_circumstances(
        self, request: ExecutionRequest, work: GuestRun, settings: Settings
    ) -> tuple[object, ...]:
        # A character has at most four bytes in UTF-8, so that most sources need no exact count.
        small = 4 * len(work.source) <= settings.limits.of(work.profile).code_bytes
        measured = not small or request.limits.code_bytes is not None
        return work.profile, len(_encode(work.source)) if measured else 0, work.record

    def judge(
        self, request: ExecutionRequest, work: GuestRun, settings: Settings, catalogue: FindExecutables
    ) -> Judgement:
        profile, group = settings.limits.of(work.profile), f"limits.{work.profile}"
        servers = () if work.computes else None
        terms = judge_program_or_call(request, settings, profile=profile, group=group, servers=servers)
        objections: list[Reason] = []
        max_bytes = terms.limits.code_bytes
        # Exactly 51,200 bytes pass, one more does not.
        if len(work.source) > max_bytes or len(_encode(work.source)) > max_bytes:
            objections.append(("code-size", f"Code size exceeds limit ({max_bytes} bytes)"))
        if work.session is not None and not settings.sessions.enabled:
            why = "sessions are turned off; run the program without `session`"
            objections.append(("sessions.enabled", why))
        minimum = settings.sandbox.minimum_tier
        if TIERS.index(GUEST_TIER) < TIERS.index(minimum):
            why = f"guest workers run in the tier {GUEST_TIER}, but sandbox.minimum_tier requires {minimum}"
            why += f"; set it to {GUEST_TIER} in the paddock.toml that requires more"
            objections.append(("sandbox.minimum_tier", why))
        if work.record and settings.record.payloads == "off":
            why = 'programs are not recorded; leave out `record`, or set `payloads = "asked"` under [record]'
            objections.append(("record.payloads", why + " in the paddock.toml of the user or the system"))
        objections += terms.refused
        return Judgement({"limits": terms.limits, "grants": terms.grants}, terms.clamped, objections)

    def suggest_remedy(
        self, work: GuestRun, rule: str, settings: Settings, catalogue: FindExecutables
    ) -> str:
        if rule != "code-size" or work.raw_results:
            return ""
        key = f"limits.{work.profile}.code_bytes"
        return (
            f"the program has {len(_encode(work.source))} bytes; shorten it, or raise `{key}` in paddock.toml"
        )

    def describe(self, request: ExecutionRequest, work: GuestRun) -> tuple[str, dict[str, Json]]:
        jit = ", with just-in-time compilation" if request.jit else ""
        given: dict[str, Json] = {"source": work.source, "input": work.input, "vars": work.vars}
        given["session"] = name_session(work.session) if work.session else ""
        return f"run the JavaScript program {work.name}{jit}", {k: v for k, v in given.items() if v}

    def list_facts(self, work: GuestRun, decision: Decision) -> dict[str, Field]:
        data = _encode(work.source)
        facts: dict[str, Field] = {
            "name": shorten_name(work.name),
            "profile": work.profile,
            "bytes_in": len(data),
            "source_sha256": hashlib.sha256(data).hexdigest(),
            "jit": decision.grants.jit,
        }
        if work.session is not None:
            facts["session"] = name_session(work.session)
        return (
            facts | {"tool": computation.COMPUTE_TOOL, "span": computation.COMPUTE_SPAN}
            if work.computes
            else facts
        )

    def list_end_facts(self, work: GuestRun, result: RawResult) -> dict[str, Field]:
        if result.session is not None:
            return {"session": name_session(result.session.id), "session_state": result.session.state}
        if not work.computes:
            return {} if result.recording is None else {"recording_sha256": result.recording}
        code: dict[str, Field] = {"code": computation.code(result.status)}
        return code if result is CANCELLED else {"bytes_out": result.usage.emitted_bytes, **code}

    def is_computation(self, work: GuestRun) -> bool:
        return work.computes

    def resolve(self, engines: Engines, request: ExecutionRequest, work: GuestRun) -> ExecutionRequest:
        """Return the request with what its session was opened with, so that policy decides about that."""
        if work.session in {None, NEW}:
            return request
        from paddock.engines.sessions.guests import find_grants

        grants = find_grants(engines.programs.sessions, request.actor, work.session or "")
        if grants is None or grants.jit == request.jit:
            return request
        return request.model_copy(update={"jit": grants.jit})

    def prepare(self, engines: Engines, decision: Decision) -> None:
        engines.guest.expect(jit=decision.grants.jit)

    async def check(
        self, context: Context, request: ExecutionRequest, work: GuestRun, decision: Decision
    ) -> Decision | RawResult:
        if work.session is None:
            return decision
        from paddock.engines.sessions.guests import check_session  # most programs have no session

        return check_session(context.engines.programs.sessions, request.actor, work.session) or decision

    async def run(
        self,
        context: Context,
        request: ExecutionRequest,
        work: GuestRun,
        decision: Decision,
        watchers: Watchers,
    ) -> RawResult:
        sink = None if work.computes or work.raw_results else context.engines.results.sink()
        calls = ProgramCalls(
            partial(context.carry_out_child, on_progress=watchers.on_progress),
            context.make_tool_run,
            request,
            decision.grants.calls,
            context.outgoing.calls(watchers.on_call),
            offered=context.visible_tools,
            resolve_alias=context.engines.servers.resolve_alias,
        )
        check = make_check(context, calls, work, watchers.stop)
        tape = context.recordings.begin(request, work)
        task = GuestTask(
            work,
            decision.limits,
            decision.grants,
            request.workspace,
            commands=context.commands,
            depth=request.depth,
            clock=context.clock_of(request),
            sink=sink,
            waits=watchers.waits,
            actor=request.actor,
            slot=watchers.slot,
            live=watchers.live,
            check=None if check is None else check.decide,
            tape=tape,
        )
        unrecorded = ""
        try:
            async with relay_console(context.outgoing, watchers.on_console) as relayed:
                console = relayed if watchers.live is None else watchers.live.keep_lines(relayed)
                if work.session is None:
                    result = await context.engines.guest.run(task, calls, console, watchers.stop)
                else:
                    from paddock.engines.sessions.guests import run_guest  # most programs have no session

                    table, stop = context.engines.programs.sessions, watchers.stop
                    result = await run_guest(
                        table, context.engines.guest, task, host=calls, on_console=console, stop=stop
                    )
                if tape is not None:
                    result, unrecorded = await context.recordings.keep(request, work, tape, result)
                notes = await _list_notes(result, work, calls, check)
                result = _add_notes(result, [*filter(None, [unrecorded]), *notes], console)
            if sink is not None and result.status is Status.OUTPUT_LIMIT:
                result = await sink.finish(request, decision, result, watchers.list_labels())
        finally:
            if check is not None:
                check.cancel()
            if sink is not None:
                await sink.discard()
        if result.status is Status.FAILED and not work.raw_results:
            result = await _add_hint(result, work, calls)
        return result.model_copy(update={"planned": calls.plan.calls}) if calls.plan.calls else result


def _encode(source: str) -> bytes:
    return source.encode("utf-8", "surrogatepass")


async def _list_notes(
    result: RawResult, work: GuestRun, calls: ProgramCalls, check: ProgramCheck | None
) -> list[str]:
    """Return what to tell of a program on its console."""
    has_run = result.error is None or result.error.phase == "run"
    notes = await check.list_warnings() if check is not None and has_run else []
    if result.ok and not result.has_value and not work.raw_results:
        notes += filter(None, [explain_nothing(work.source, calls.shapes)])
    return notes


def _add_notes(result: RawResult, notes: Sequence[str], on_console: OnConsole | None) -> RawResult:
    """Return a result with warnings at the end of its console."""
    lines = [ConsoleLine(level="warn", text=note) for note in notes]
    if on_console is not None:
        for line in lines:
            on_console(line)
    return result.replace(console=(*result.console, *lines)) if lines else result


async def _add_hint(result: RawResult, work: GuestRun, calls: ProgramCalls) -> RawResult:
    """Return a result. If the program failed at a wrong tool name, its hint shows the right one."""
    from paddock.engines.javascript.hints import calls_missing_tool, find_called_names

    error = result.error
    if (
        error is not None
        and error.name == "SyntaxError"
        and not error.hint
        and has_escaped_line_ends(work.source)
    ):
        return result.replace(error=error.replace(hint=ESCAPED_LINE_ENDS))
    if error is None or work.computes:
        return result
    if not error.hint and (hint := explain_wrong_use(error, work.source, calls.shapes)):
        return result.replace(error=error.replace(hint=hint))
    call = await calls.suggest_call(find_called_names(error, work.source))
    hint = f"tools are in `servers`: await {call}" if call else ""
    if not hint and not error.hint and calls_missing_tool(error, work.source):
        hint = calls.list_servers()
    return result.replace(error=error.replace(hint=hint)) if hint else result


@asynccontextmanager
async def relay_console(
    outgoing: OutgoingRedaction, on_console: OnConsole | None
) -> AsyncGenerator[OnConsole | None]:
    """Yield a callback that passes on console lines in order and without secrets. Leaving the context sends the rest.

    Raises PaddockError if the listener failed at a long line or a later one. At other lines its own error is raised.
    """
    if on_console is None:
        yield None
        return
    relay = _ConsoleRelay(outgoing, on_console)
    try:
        yield relay.take
        await relay.wait()
    finally:
        relay.stop()


class _ConsoleRelay:
    def __init__(self, outgoing: OutgoingRedaction, on_console: OnConsole) -> None:
        self._outgoing = outgoing
        self._on_console = on_console
        self._waiting: deque[ConsoleLine] = deque()
        self._task: asyncio.Task[None] | None = None

    def take(self, line: ConsoleLine) -> None:
        if self._task is not None:
            self._waiting.append(line)
        elif len(line.text) > _LONG_CHARS:
            self._waiting.append(line)
            self._task = asyncio.create_task(self._send_waiting())
        else:
            self._on_console(self._outgoing.line(line))

    async def _send_waiting(self) -> None:
        while self._waiting:
            line = self._waiting.popleft()
            self._on_console(await run_in_slices(self._outgoing.line_in_slices(line)))
        self._task = None

    async def wait(self) -> None:
        if self._task is None:
            return
        try:
            await self._task
        except Exception as error:
            what = type(error).__name__
            raise PaddockError(f"the listener for console lines failed ({what})") from error

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
