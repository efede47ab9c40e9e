"""Recorded programs that run again, and are compared with their recording."""

import hashlib
from typing import TYPE_CHECKING

from pydantic import ValidationError

from paddock.engines.javascript.task import GuestTask
from paddock.gate.program_calls import ProgramCalls
from paddock.gate.replay.compare import compare
from paddock.gate.watchers import Watchers
from paddock.gate.work.kind import Context, Kind, shorten_name
from paddock.model.base import Json
from paddock.model.errors import RecordingError, VaultError
from paddock.model.outcome import Decision, ErrorInfo, RawResult, Status
from paddock.model.request import ExecutionRequest, GuestRun, ReplayRun
from paddock.model.texts import explain
from paddock.policy.decisions.decision import hash_bytes
from paddock.policy.decisions.guests import judge_program_or_call
from paddock.policy.decisions.kinds import FindExecutables, Judgement, Reason
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import Settings
from paddock.record.ledger.sink import Field

if TYPE_CHECKING:
    from paddock.gate.replay.replies import RunReplies
    from paddock.record.payloads.recorded_run import RecordedRun


class Replays(Kind[ReplayRun]):
    """Runs the program of a recording in a V8 worker. Only with `against = "live"` it makes calls."""

    def label(self, work: ReplayRun) -> str:
        return "running a recorded program again"

    def identify(self, work: ReplayRun) -> dict[str, Json]:
        return {
            "run": work.run,
            "against": work.against,
            "owner": work.owner,
            "source_sha256": _hash(work.source),
            "recording_sha256": _hash(work.recording),
        }

    def matches(self, rule: Rule, request: ExecutionRequest, work: ReplayRun) -> bool:
        return True

    def judge(
        self, request: ExecutionRequest, work: ReplayRun, settings: Settings, catalogue: FindExecutables
    ) -> Judgement:
        profile, group = settings.limits.of(work.profile), f"limits.{work.profile}"
        servers = () if work.against == "recorded" else None
        terms = judge_program_or_call(request, settings, profile=profile, group=group, servers=servers)
        objections: list[Reason] = []
        if len((work.source or "").encode("utf-8", "surrogatepass")) > terms.limits.code_bytes:
            why = f"Code size exceeds limit ({terms.limits.code_bytes} bytes)"
            objections.append(("code-size", why))
        objections += terms.refused
        return Judgement({"limits": terms.limits, "grants": terms.grants}, terms.clamped, objections)

    def describe(self, request: ExecutionRequest, work: ReplayRun) -> tuple[str, dict[str, Json]]:
        what = "with its calls" if work.against == "live" else "without any call"
        given = {"run": work.run, "source": work.source, "owner": work.owner}
        return f"run a recorded program again, {what}", {k: v for k, v in given.items() if v}

    def list_facts(self, work: ReplayRun, decision: Decision) -> dict[str, Field]:
        facts: dict[str, Field] = {"profile": work.profile, "against": work.against, "repeats": work.run}
        if work.source is not None:
            facts |= {"source_sha256": _hash(work.source)}
        return facts | ({"owner": shorten_name(work.owner)} if work.owner else {})

    def list_end_facts(self, work: ReplayRun, result: RawResult) -> dict[str, Field]:
        return {"same": result.value["same"]} if result.has_value else {}

    async def refine(
        self, context: Context, request: ExecutionRequest, work: ReplayRun, decision: Decision
    ) -> ExecutionRequest | RawResult:
        """Return the request with the profile of the recorded program, whose limits it has."""
        if not decision.allowed:
            return request
        try:
            recorded = await context.recordings.load(request, work)
        except (RecordingError, VaultError) as error:
            return _refuse(error)
        known = {"profile": recorded.program.profile}
        return request.model_copy(
            update={"work": work.model_copy(update=known), "calls": recorded.program.calls}
        )

    async def run(
        self,
        context: Context,
        request: ExecutionRequest,
        work: ReplayRun,
        decision: Decision,
        watchers: Watchers,
    ) -> RawResult:
        from paddock.engines.javascript.tape import ClockStart
        from paddock.gate.replay.replies import RunReplies
        from paddock.gate.replay.transcript import transcribe

        try:
            recorded = await context.recordings.load(request, work)
            program = _read_program(recorded, work)
        except (RecordingError, VaultError) as error:
            return _refuse(error)
        inner = request.model_copy(update={"work": program})
        begun = recorded.start
        tape = context.recordings.make_tape(
            ClockStart(begun.instant, begun.seed, bytes.fromhex(begun.entropy))
        )
        replies = RunReplies(recorded, context.outgoing.json) if work.against == "recorded" else None
        task = GuestTask(
            program,
            decision.limits,
            decision.grants,
            # The program reads its path.
            type(request.workspace)(recorded.workspace) if replies else request.workspace,
            commands=context.commands,
            depth=request.depth,
            clock=context.clock_of(request),
            waits=watchers.waits,
            actor=request.actor,
            slot=watchers.slot,
            live=watchers.live,
            tape=tape,
            replies=replies,
        )
        calls = ProgramCalls(
            context.carry_out_child,
            context.make_tool_run,
            inner,
            decision.grants.calls,
            context.outgoing.calls(watchers.on_call),
            offered=context.visible_tools,
            resolve_alias=context.engines.servers.resolve_alias,
        )
        result = await context.engines.guest.run(task, calls, None, watchers.stop)
        if result.status is Status.CANCELLED and not tape.reached_end:
            return result
        if tape.is_too_large:
            return _refuse(RecordingError("the program does more than record.payload_bytes can hold"))
        replayed = await transcribe(inner, program, tape, result, context.outgoing)
        return result.model_copy(
            update=_END | {"value": _report(recorded, replayed, replies, reached_end=tape.reached_end)}
        )


_END = {
    "status": Status.OK,
    "has_value": True,
    "error": None,
    "console": (),
    "console_truncated": False,
    "calls": (),
}
"""What a replay has in place of the end of its program."""


def _read_program(recorded: "RecordedRun", work: ReplayRun) -> GuestRun:
    program = recorded.program
    source = program.source if work.source is None else work.source
    if source is None:
        raise RecordingError("the recording has no program; give one as `source`")
    try:
        return GuestRun(
            source=source,
            name=program.name,
            language=program.language if work.source is None else work.language,
            profile=program.profile,
            input=program.input,
            vars=program.vars,
            raw_results=program.raw_results,
            check="off",
        )
    except ValidationError as problem:  # a recording that Paddock did not make
        raise RecordingError("the recording is not valid: " + "; ".join(explain(problem))) from None


def _report(
    recorded: "RecordedRun", replayed: "RecordedRun", replies: "RunReplies | None", *, reached_end: bool
) -> "dict[str, Json]":
    difference = compare(recorded, replayed, reached_end=reached_end)
    shown = None if difference is None else difference.to_json()
    if shown is not None and replies is not None and replies.unrecorded and shown["kind"] == "call":
        nearest = replies.unrecorded[0].nearest
        shown["nearest"] = None if nearest is None else nearest.number
    error = replayed.error if recorded.error is None else None
    if shown is not None and error is not None and {"status", "nearest"}.isdisjoint({*shown, shown["kind"]}):
        shown["error"] = f"{error.name}: {error.message}"  # why the program did not go on
    return {
        "run": recorded.run,
        "same": difference is None,
        **({} if recorded.status is Status.OK else {"status": recorded.status.value}),
        "difference": shown,
        "calls": len(recorded.calls),
        "lines": sum(action.line is not None for action in recorded.actions),
        "redacted": recorded.hidden,
    }


def _refuse(error: Exception) -> RawResult:
    fault = ErrorInfo(name=type(error).__name__, message=str(error), phase="decide")
    return RawResult(status=Status.INVALID, error=fault)


def _hash(text: str | None) -> str:
    return hash_bytes(text.encode("utf-8", "surrogatepass")) if text else hashlib.sha256().hexdigest()
