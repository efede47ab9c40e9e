"""The one path to execution: everything that runs goes through `Gate.execute`.

    defaults, alias of a tool                                           `_carry_out`
      |
    decide (`policy/decisions/decision.py`: grants, rules); refine (may ask the server for its list
      |  of tools), and decide again                                     `_decide_and_run`
      |--denied--> record "decided" -> Outcome(denied)                     `_end_without_run`
      |
    add what flow rules say of it after what its run has read (`flow/tracker.py`), if there are any
      |
    where a rule says so: check name, definition and arguments (`kind.check`), then ask a person (`approvals`)
      |
    admit: wait for a slot           a rehearsal (dry_run) ends here: record "decided" -> a stub
      |
    claim among the machines of a cluster, if the request may have effects (`cluster_claims.py`); others use the slot
      |                              while the database is slow
      |--ran before--> record "decided" -> the stored Outcome
    claim: record "started" is written before anything runs              `_run_decided`
      |
    run -> RawResult                 may still refuse: a program by its types (`type_check.py`); in `engines/`, a tool
      |                              by `servers/calls/call_checks.py` (listed, pinned, schema), a script tool by
      |                              `script_tools/inputs.py`, an SDK method by `sdk/service.py`; a process by
      |                              `confinement/sandbox/spec.py`. Removes secrets from streams
      |                              (`record/output/recording.py`)
    redact the other texts (only of the outermost request) -> record "finished" -> Outcome

A program's call of a server is a child request through the same gate. The program continues with the result while the
gate records the end. "decided" is written only for what does not run: the other decisions are in "started". The gate
returns denials, timeouts and failing programs as outcomes; it raises an exception only for a fault of Paddock itself.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Unpack

from paddock.engines.live_run import WITHDRAWN, LiveRun
from paddock.engines.run_clock import RunClock
from paddock.foundation.cancellation import call_when_set, run_shielded
from paddock.foundation.large_json import run_in_slices
from paddock.gate import visible_tools
from paddock.gate.approvals import Approvals, Asker, CallContext
from paddock.gate.audit_facts import (
    connection_facts,
    end_facts,
    identity_facts,
    server_connection_facts,
    wait_facts,
)
from paddock.gate.replay.recordings import Recordings
from paddock.gate.watchers import Listeners, Watchers
from paddock.gate.work import KINDS, kind_of
from paddock.gate.work.ends import CANCELLED
from paddock.gate.work.kind import Context, Engines
from paddock.model.approval import ERROR_NAMES
from paddock.model.base import Json
from paddock.model.canonical import canonical
from paddock.model.errors import EngineError, PaddockError
from paddock.model.host_names import Authority
from paddock.model.ids import mint_id, new_id, spend_id
from paddock.model.network import Connection, HostDecision
from paddock.model.outcome import Decision, ErrorInfo, Outcome, RawResult, Status
from paddock.model.request import ExecutionRequest
from paddock.policy.decisions.decision import Policy
from paddock.policy.redaction.outgoing import OutgoingRedaction
from paddock.policy.settings.schema import Settings
from paddock.record.ledger.sink import AuditSink, Field
from paddock.record.ledger.sink_wrappers import BestEffortSink, RedactedSink

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.engines.servers.person import Person
    from paddock.gate.cluster_claims import PaddockClaims
    from paddock.gate.flow.tracker import FlowMemory, FlowTracker
    from paddock.gate.host_access import ConnectionWatch
    from paddock.gate.program_calls import OnResult
    from paddock.model.change_set import ChangeSet
    from paddock.model.outcome import OnProgress

_NO_CLUSTER = RawResult(
    status=Status.INVALID,
    error=ErrorInfo(
        name="NoCluster",
        message="the request has a key, and this Paddock shares no database in which keys are claimed",
        hint="leave the key out, or set cluster.url",
        phase="decide",
    ),
)
OnEnd = Callable[[ExecutionRequest, RawResult], None]
"""Called with every request that has run."""


class _RequestEnd(NamedTuple):
    """The result of a request and its record."""

    request: ExecutionRequest
    """The request that was decided."""
    result: RawResult
    """An Outcome if a request with its key ran before."""
    decision: Decision
    audit: str
    written: bytes | None
    """The value as JSON; empty for none, None when nothing ran."""


class Gate:
    """Decides, records and runs requests, and returns their outcomes."""

    def __init__(
        self,
        settings: Settings,
        audit: AuditSink,
        engines: Engines,
        outgoing: OutgoingRedaction,
        asker: Asker | None = None,
        *,
        claims: "PaddockClaims | None" = None,
    ) -> None:
        """Use `asker` for requests that bring no asker. `claims` are those of a cluster."""
        self._claims = claims
        self._policy = Policy(settings, KINDS, engines.programs.executables)
        self._network = settings.network
        self.audit = RedactedSink(audit, outgoing.facts)
        self._audit_of_computations = (
            self.audit if settings.audit.required == "all" else BestEffortSink(self.audit)
        )
        self._outgoing = outgoing
        self.approvals = Approvals(settings.approvals, self._policy, self.audit, outgoing, asker)
        self._flow = self._make_flow(settings, engines) if settings.flow.rule else None
        self.make_tool_run = engines.scripts.make_work
        self._context = Context(
            engines=engines,
            policy=self._policy,
            outgoing=outgoing,
            visible_tools=visible_tools.VisibleTools.for_policy(
                settings, self._policy, engines.servers, self._record_lookup
            ),
            commands=tuple(command.name for command in settings.sdk.commands),
            make_tool_run=self.make_tool_run,
            clock_of=self.approvals.clock_of,
            person_of=self._make_person,
            watch_connections=self._watch_connections,
            recordings=Recordings(settings, outgoing, self.audit),
            carry_out_child=self._carry_out_child,
        )
        self.on_end: OnEnd | None = None
        self._runs: dict[str, LiveRun] = {}
        self._ended = False

    def _make_flow(self, settings: Settings, engines: Engines) -> "FlowTracker":
        from paddock.gate.flow.tracker import FlowTracker  # most settings have no flow rules
        from paddock.policy.decisions.flow import FlowPolicy

        rules, artifacts = FlowPolicy(settings, KINDS), engines.results.artifacts
        known = rules, self._policy, engines.servers, self._outgoing, artifacts
        return FlowTracker(*known, find_changes=engines.changes.find)

    @property
    def engines(self) -> Engines:
        """The engines that run what was allowed."""
        return self._context.engines

    @property
    def recordings(self) -> Recordings:
        """The recordings of programs."""
        return self._context.recordings

    @property
    def flow_memory(self) -> "FlowMemory | None":
        """What runs, sessions and clients have read, as flow rules know it; None without a flow rule."""
        return None if self._flow is None else self._flow.memory

    def restore_flow(self, memory: "FlowMemory | None") -> None:
        """Continue with the memory of an earlier gate with these settings, before the first request."""
        if self._flow is not None and memory is not None:
            self._flow.restore(memory)

    async def note_output(self, client: str, handle: str, workspace: "Path", shown: Json) -> None:
        """Note that a client reads stored output, for flow rules. `client` is that of `execute`."""
        if self._flow is not None and client:
            await self._flow.note_output(client, handle, workspace, shown)

    def note_changes(self, client: str, found: "ChangeSet", shown: Json) -> None:
        """Note that a client reads a change set, for flow rules. `client` is that of `execute`."""
        if self._flow is not None and client:
            self._flow.note_changes(client, found, shown)

    def note_fetch(self, client: str, run: str) -> None:
        """Note that a client gets the result of a run that another client may have sent, for flow rules."""
        if self._flow is not None and client:
            self._flow.note_fetch(client, run)

    def replace_engines(self, **engines: object) -> None:
        """Let other engines run requests from now on, given by their names in `Engines`. For benchmarks and tests."""
        # This gate may be a copy: calls of its programs must come back to it.
        self._context = self._context._replace(
            engines=self.engines._replace(**engines), carry_out_child=self._carry_out_child
        )

    async def execute(
        self,
        request: ExecutionRequest,
        *,
        asker: Asker | None = None,
        client: str = "",
        **listeners: Unpack[Listeners],
    ) -> Outcome:
        """Run a request and return its outcome.

        `asker` asks a person about the request and its children where a rule wants that. `client` names the
        conversation that sees its result, for flow rules; empty if that is not known. The `listeners` are fields of
        `Watchers`. Cancelling the task ends any work, and this is recorded.

        Raises LedgerError when the record cannot be written: then nothing has run, or nothing more runs. Raises
        PaddockError after `aclose`.
        """
        slot = listeners.get("slot")
        watchers = Watchers(**listeners, waits=None if slot is None else {"queue_ms": slot.waited_ms})
        if request.parent is not None:
            return self._make_outcome(request, await self._carry_out(request, watchers))
        if self._ended:
            raise PaddockError("this Paddock is closed; open another one")
        run = self._runs[request.id] = LiveRun(request, asyncio.current_task())
        self.approvals.begin_run(request, asker)
        if self._flow is not None:
            self._flow.begin_run(request, client)
        try:
            if watchers.stop is not None and watchers.stop.is_set():
                run.stop.set()  # at once: nothing of it may start
            with call_when_set(watchers.stop, run.stop.set):
                return await self._execute_run(request, watchers._replace(live=run, stop=run.stop))
        finally:
            self.approvals.end_run(request)
            if self._flow is not None:
                self._flow.end_run(request)
            del self._runs[request.id]
            run.ended.set_result(None)

    async def _execute_run(self, request: ExecutionRequest, watchers: Watchers) -> Outcome:
        """Run a request of a person or an agent, claimed among the machines of a cluster if there is one."""
        if self._claims is None:
            return self._make_outcome(request, await self._carry_out(request, watchers))
        async with self._claims.begin(request) as claim:
            try:
                end = await self._carry_out(request, watchers._replace(claim=claim))
            finally:
                if watchers.slot is not None:
                    watchers.slot.give_back()  # what follows waits for the database
            outcome = await claim.end(self._make_outcome(request, end))
            await self._claims.confirm_record()  # what has run cannot be taken back
            return outcome

    @property
    def runs(self) -> Mapping[str, LiveRun]:
        """The requests of people and agents that have not ended, by their ids, oldest first."""
        return self._runs

    async def aclose(self) -> None:
        """Cancel the tasks of all top-level requests; return when they have ended and are recorded."""
        self._ended = True
        own = asyncio.current_task()
        others = [run for run in self._runs.values() if run.task is not None and run.task is not own]
        for run in others:
            if run.task is not None:
                run.task.cancel("Paddock is closed")
        if others:
            await run_shielded(asyncio.wait([run.ended for run in others]))

    def _make_outcome(self, request: ExecutionRequest, end: _RequestEnd) -> Outcome:
        if isinstance(end.result, Outcome):
            if self._flow is not None:
                self._flow.note_outcome(request, end.result)
            return end.result
        labels = () if self._flow is None else self._flow.list_labels(request)
        outcome = Outcome(
            id=request.id, decision=end.decision, audit=end.audit, labels=labels, **vars(end.result)
        )
        if end.written is None:
            return outcome if request.parent else self._outgoing.refusal(outcome)
        if self.on_end is not None:
            self.on_end(request, outcome)
        return outcome

    async def _carry_out_child(
        self, request: ExecutionRequest, on_result: "OnResult", on_progress: "OnProgress | None" = None
    ) -> RawResult:
        """Return the result of a program's call. It needs no outcome: there may be thousands of calls."""
        if (run := self._runs.get(request.root or "")) is not None:
            run.calls += 1
        end = await self._carry_out(request, Watchers(on_result=on_result, on_progress=on_progress))
        if end.written is not None and self.on_end is not None:
            self.on_end(request, end.result)
        return end.result

    async def _carry_out(self, request: ExecutionRequest, watchers: Watchers) -> _RequestEnd:
        """Run a request and return its end.

        A program may call a tool by an alias before its server has listed its tools. Such a call ends as invalid and
        nothing is sent. The gate then makes the call again by the tool's own name, as a new request: policy decides on
        that name, and the record contains it.
        """
        end = await self._decide_and_run(self._resolve(self._policy.add_defaults(request)), watchers)
        if isinstance(end.result, Outcome) or not self._is_renamed(end.request, end.result):
            return end
        own = {"id": mint_id(), "parent": request.parent or request.id, "root": request.root or request.id}
        return await self._decide_and_run(self._resolve(end.request).model_copy(update=own), watchers)

    async def _decide_and_run(self, request: ExecutionRequest, watchers: Watchers) -> _RequestEnd:
        kind, decision = kind_of(request), self._policy.decide(request)
        if decision.asks and is_listed_instead_of_asked(request, decision):
            return self._rehearse_request(request, decision)
        refined = await kind.refine(self._context, request, request.work, decision)
        if isinstance(refined, RawResult):
            return self._end_without_run(request, decision, refined)
        if refined is not request:
            request = refined
            decision = self._policy.decide(request)
        if self._flow is not None:
            decision = await self._flow.judge(request, decision)
            if decision.asks and is_listed_instead_of_asked(request, decision):
                return self._rehearse_request(request, decision)
        if decision.asks:
            checked = await kind.check(self._context, request, request.work, decision)
            if isinstance(checked, RawResult):
                return self._end_without_run(request, decision, checked)
            decision = checked
        if decision.asks:
            shown = await kind.add_shown(self._context, request, request.work)
            if isinstance(shown, RawResult):
                return self._end_without_run(request, decision, shown)
            request = shown
            decision = await self.approvals.settle(request, decision, watchers.stop)
        admission = (
            kind.admit(self._context, request, request.work, decision, watchers) if decision.allowed else None
        )
        if admission is None:
            return await self._run_decided(request, decision, watchers)
        queued = time.perf_counter()
        if watchers.live is not None:
            watchers.live.queued = True
        async with admission as admitted:
            if watchers.live is not None:
                watchers.live.queued = False
            waits = dict(watchers.waits or {})
            waits["queue_ms"] = round(waits.get("queue_ms", 0) + _count_ms(queued), 3)
            if isinstance(admitted, RawResult):
                return self._end_without_run(request, decision, admitted, waits)
            admitted_watchers = watchers._replace(waits=waits, slot=admitted.slot or watchers.slot)
            return await self._run_decided(request, admitted.decision, admitted_watchers)

    def _resolve(self, request: ExecutionRequest) -> ExecutionRequest:
        """Replace an alias by the tool's own name, which rules, questions and the record use."""
        return kind_of(request).resolve(self._context.engines, request, request.work)

    def _is_renamed(self, request: ExecutionRequest, result: RawResult) -> bool:
        """Return whether a call was refused because of an alias that can be resolved now."""
        return result.status is Status.INVALID and self._resolve(request) is not request

    def _make_person(self, request: ExecutionRequest, server: str) -> "Person":
        """Return what answers the questions that a server asks during a call."""
        return partial(self.approvals.pass_on_question, CallContext.from_request(request), server)

    def _watch_connections(self, request: ExecutionRequest) -> "ConnectionWatch":
        """Return what asks about and records the connections of a program to hosts."""
        from paddock.gate.host_access import ConnectionWatch

        def record(connection: Connection) -> Connection:
            shown = self._hide_secrets(connection)
            self.audit.append_soon("connected", new_id(), connection_facts(request, shown), parent=request.id)
            return shown

        ask = partial(self.approvals.ask_about_host, CallContext.from_request(request))
        clock = self.approvals.clock_of(request)
        return ConnectionWatch(clock, ask, record, self._network, self.engines.sdk.find_secret)

    def watch_server(self, server: str) -> "ConnectionWatch":
        """Return what records the connections of a confined server. They belong to no request: no question is asked."""
        from paddock.gate.host_access import ConnectionWatch

        def record(connection: Connection) -> Connection:
            shown = self._hide_secrets(connection)
            self.audit.append_soon("connected", new_id(), server_connection_facts(server, shown))
            return shown

        async def refuse(_authority: Authority, _decision: HostDecision) -> bool:
            return False

        return ConnectionWatch(RunClock(), refuse, record, self._network, self.engines.sdk.find_secret)

    def _hide_secrets(self, connection: Connection) -> Connection:
        hidden = {name: self._outgoing.text(getattr(connection, name)) for name in ("host", "reason")}
        return connection.model_copy(update=hidden)

    async def _run_decided(
        self, request: ExecutionRequest, decision: Decision, watchers: Watchers
    ) -> _RequestEnd:
        kind = kind_of(request)
        if not decision.allowed:
            error = ErrorInfo(
                name=ERROR_NAMES.get(decision.answer, "PolicyError"),
                message="; ".join(decision.reasons),
                hint=self._policy.suggest_remedy(request, decision),
                phase="decide",
            )
            return self._end_without_run(request, decision, RawResult(status=Status.DENIED, error=error))
        if watchers.stop is not None and watchers.stop.is_set():
            withdrawn = RawResult(status=Status.CANCELLED, error=WITHDRAWN)
            return self._end_without_run(request, decision, withdrawn, watchers.waits)
        if decision.grants.calls == "dry_run" and kind.is_rehearsed(request.work):
            return self._rehearse_request(request, decision)
        if request.key is not None and self._claims is None:
            return self._end_without_run(request, decision, _NO_CLUSTER)
        if self._flow is None or decision.flow is None:
            return await self._run_allowed(request, decision, watchers)
        if (rule := self._flow.enter(request, decision.flow)) is not None:
            why = self._flow.explain(request, rule)
            refused = self._policy.refuse_allowed(request, decision, rule.name, why)
            return await self._run_decided(request, refused, watchers)
        try:
            return await self._run_allowed(request, decision, watchers)
        finally:
            self._flow.leave(request, None)

    async def _run_allowed(
        self, request: ExecutionRequest, decision: Decision, watchers: Watchers
    ) -> _RequestEnd:
        kind, facts = kind_of(request), identity_facts(request, decision)
        sink = self._audit_sink_of(request)
        kind.prepare(self._context.engines, decision)  # it is loaded while the record is written
        waits: dict[str, float] = {} if watchers.waits is None else watchers.waits
        watchers = watchers._replace(waits=waits)
        if self._flow is not None:
            watchers = watchers._replace(list_labels=partial(self._flow.list_labels, request))
        if watchers.claim is not None:
            claiming, queued_ms = time.perf_counter(), waits.get("queue_ms", 0)
            known = await watchers.claim.take(request, decision, watchers)
            waits["claim_ms"] = round(_count_ms(claiming) - waits.get("queue_ms", 0) + queued_ms, 3)
            if known is not None:
                return self._end_without_run(request, decision, known, waits)
            facts |= watchers.claim.list_facts(request)
        sink.claim(request.id, facts, parent=request.parent)
        queued_before_ms, started = waits.get("queue_ms", 0), time.perf_counter()
        result = shown = CANCELLED
        written = b""
        try:
            running = self._run_safely(request, decision, watchers)
            result = shown = await (running if watchers.claim is None else watchers.claim.run(running))
            if self._flow is not None:
                self._flow.note_result(request, result)  # before the program can send it on
            if watchers.on_result is not None and not self._is_renamed(request, result):
                watchers.on_result(result)
            written = canonical(result.value) if result.has_value else b""
            if not request.parent:
                shown = await run_in_slices(self._outgoing.result_in_slices(result, written))
        finally:
            queued_ms = waits.get("queue_ms", 0) - queued_before_ms  # an engine may have a queue, too
            ms = round(_count_ms(started) - queued_ms, 3)
            end = {**facts, **end_facts(request, result, ms, len(written)), **wait_facts(waits)}
            if self._flow is not None and not request.parent:
                end |= self._flow.list_facts(request)
            if shown.redactions:
                end["redactions"] = shown.redactions
            end |= self._list_stop_facts(request)
            # An end needs no separate flush. The next record writes it, or the end of its parent.
            append = sink.append_soon if request.parent else sink.append
            audit = append("finished", request.id, end, parent=request.parent)
        return _RequestEnd(request, shown, decision, audit, written)

    def _rehearse_request(self, request: ExecutionRequest, decision: Decision) -> _RequestEnd:
        """Return the result of a rehearsed request: a stub, or a refusal if the kind has no stub."""
        kind, work = kind_of(request), request.work
        planned = (kind.make_planned_call(request, work, decision),)
        stub = kind.stub_result(work)
        if stub is not None:
            result = RawResult(status=Status.OK, value=stub, has_value=True, planned=planned)
            return self._end_without_run(request, decision, result)
        text = f"{'; '.join(decision.asks)}: a rehearsal asks no person"
        error = ErrorInfo(name="PolicyError", message=text, phase="decide")
        denied = RawResult(status=Status.DENIED, error=error, planned=planned)
        return self._end_without_run(request, decision, denied)

    def _record_lookup(self, request: ExecutionRequest, allowed: bool) -> None:
        """Record that a program lists a server's tools: the server may be started for it."""
        facts = identity_facts(request, self._policy.decide(request))
        status = Status.OK if allowed else Status.DENIED
        self.audit.append("looked", request.id, {**facts, "status": status.value}, parent=request.parent)

    def _list_stop_facts(self, request: ExecutionRequest) -> dict[str, Field]:
        """Return who ended a run, for its record; nothing if it was its caller, or if it ended by itself."""
        run = self._runs.get(request.id)
        return {"stopped_by": run.stopped_by} if run is not None and run.stopped_by else {}

    def _audit_sink_of(self, request: ExecutionRequest) -> AuditSink:
        computes = kind_of(request).is_computation(request.work)
        return self._audit_of_computations if computes else self.audit

    def _end_without_run(
        self,
        request: ExecutionRequest,
        decision: Decision,
        result: RawResult,
        waits: Mapping[str, float] | None = None,
    ) -> _RequestEnd:
        """Record and return the end of a request that did not run: an Outcome if one with its key ran before."""
        if isinstance(result, Outcome):
            end: dict[str, Field] = {"status": "replayed", "replays": result.id}
        else:
            end = {"status": "planned" if result.status is Status.OK else result.status.value}
        end |= self._list_stop_facts(request)
        facts = {**identity_facts(request, decision), **end, **wait_facts(waits or {})}
        audit = self._audit_sink_of(request).append("decided", request.id, facts, parent=request.parent)
        spend_id(request.id)
        return _RequestEnd(request, result, decision, audit, None)

    async def _run_safely(
        self, request: ExecutionRequest, decision: Decision, watchers: Watchers
    ) -> RawResult:
        try:
            unrecorded = None if self._claims is None else await self._claims.confirm_record(watchers)
            if unrecorded is not None:
                return unrecorded
            return await kind_of(request).run(self._context, request, request.work, decision, watchers)
        except EngineError as error:
            return RawResult(status=Status.UNAVAILABLE, error=_fault_error(error))
        except PaddockError as error:  # the work had started
            return RawResult(status=Status.ERROR, error=_fault_error(error).replace(phase="run"))


def is_listed_instead_of_asked(request: ExecutionRequest, decision: Decision) -> bool:
    """Return whether a request that a person would be asked about is part of a rehearsal, which only lists it."""
    rehearses = "dry_run" in (request.calls, decision.grants.calls)
    is_call = request.parent is not None or kind_of(request).stub_result(request.work) is not None
    return rehearses and is_call


def _count_ms(since: float) -> float:
    return round((time.perf_counter() - since) * 1000, 3)


def _fault_error(error: Exception) -> ErrorInfo:
    return ErrorInfo(name=type(error).__name__, message=str(error), phase="decide")
