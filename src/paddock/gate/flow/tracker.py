"""What runs, sessions and clients have read, and what flow rules do with their next call.

A run has the labels of everything that one of these has read: the run itself, the interpreter session in which it runs,
and the client that sent it, whose model has seen earlier results. Runs, sessions and clients that meet share one state
from then on, so that labels only grow. A call counts as read when it is sent, whether or not it succeeds.

What is stored of a run has the labels of the run: output in its manifest, the outcome of a request with a key in the
outcome. A run or a client that reads it gets them.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from paddock.gate.flow.evidence import Evidence, Match
from paddock.gate.servers import ServerService
from paddock.gate.work import kind_of
from paddock.model.base import Json
from paddock.model.errors import (
    ArtifactError,
    ChangesError,
    ConfigurationError,
    InvalidHandle,
    ServerError,
    UnknownArtifact,
)
from paddock.model.flow import MAX_REFERENCES, FlowFinding
from paddock.model.outcome import Decision, Outcome, RawResult, Status
from paddock.model.request import ChangeSetRun, ExecutionRequest, GuestRun, RuntimeRun, SdkCall, ServerCall
from paddock.model.session import NEW
from paddock.model.texts import cut_middle
from paddock.policy.decisions.decision import Policy
from paddock.policy.decisions.flow import FlowPolicy, NamedRule, ToolHints, is_program
from paddock.policy.redaction.outgoing import OutgoingRedaction
from paddock.record.ledger.sink import Field

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.model.change_set import ChangeSet
    from paddock.record.changes.store import StoredChanges
    from paddock.record.output.artifacts import Artifacts

Key = tuple[str, ...]
"""Names a run, a session or a client."""
_MAX_STATES = 10_000
"""Maximum number of sessions and clients whose labels are kept. The one not used for longest is forgotten."""
_MAX_ENDED = 1000
"""Maximum number of ended runs whose labels are kept, for messages to webhooks that they caused."""
_MAX_NAMES = 4
"""Maximum number of earlier calls that an error names for one label."""
_MAX_SHOWN_CHARS = 60
_NOT_SENT = frozenset({Status.INVALID, Status.DENIED, Status.UNAVAILABLE})
"""Statuses of a call of which nothing was sent, and of a program that did not start or got too little CPU."""
_TITLES = {"private": "private data", "untrusted": "untrusted content"}
_STORED_OUTPUT, _STORED_OUTCOME, _CHANGES = "stored output", "a stored outcome", "stored changes"


class Read(NamedTuple):
    """A call whose result has labels."""

    request: str
    run: str
    name: str
    labels: tuple[str, ...]


@dataclass(eq=False, slots=True)
class FlowState:
    """What the runs, sessions and clients have read that share it."""

    keys: set[Key]
    reads: dict[str, list[Read]] = field(default_factory=dict[str, list[Read]])
    """The first calls that set each label."""
    in_flight: dict[str, Read] = field(default_factory=dict[str, Read])
    """Calls that were sent and have not ended, by the id of the request."""
    senders: dict[str, tuple[str, frozenset[str]]] = field(
        default_factory=dict[str, tuple[str, frozenset[str]]]
    )
    """Programs that run and can send what they get meanwhile, by the id of the request: name and sinks."""

    successor: "FlowState | None" = None
    """The state with which it was united."""

    def list_reads(self, label: str) -> list[Read]:
        """Return the calls that set a label, those in flight last."""
        return [
            *self.reads.get(label, ()),
            *(each for each in self.in_flight.values() if label in each.labels),
        ]

    def add(self, read: Read) -> None:
        """Keep a call that was sent."""
        for label in read.labels:
            listed = self.reads.setdefault(label, [])
            if len(listed) < MAX_REFERENCES:
                listed.append(read)

    def mark_unknown(self) -> None:
        """Count everything as read."""
        for label in _TITLES:
            self.reads.setdefault(label, [])

    @property
    def labels(self) -> frozenset[str]:
        """Everything that was read, and what is being read."""
        # A change set is made in a thread, while the run may begin further calls: copies are atomic, loops are not.
        flying = [label for each in tuple(self.in_flight.values()) for label in each.labels]
        return frozenset((*self.reads, *flying))


class FlowMemory(NamedTuple):
    """What a tracker remembers, for one that continues its work."""

    states: OrderedDict[Key, FlowState]
    """Those of runs, sessions and clients; the one not used for longest comes first."""
    ended: OrderedDict[Key, FlowState]
    """Those of the last runs that have ended."""
    evidence: Evidence


class FlowTracker:
    """Keeps labels and decides with them. A gate with flow rules has one."""

    def __init__(
        self,
        rules: FlowPolicy,
        policy: Policy,
        servers: ServerService,
        outgoing: OutgoingRedaction,
        artifacts: "Callable[[], Artifacts]",
        *,
        find_changes: "Callable[[str, Path], StoredChanges]",
    ) -> None:
        """Use `artifacts` to find the labels of stored output, and `find_changes` to find those of a change set."""
        self._find_changes = find_changes
        self._artifacts = artifacts
        self._rules = rules
        self._policy = policy
        self._servers = servers
        self._outgoing = outgoing
        self._states: OrderedDict[Key, FlowState] = OrderedDict()
        self._ended: OrderedDict[Key, FlowState] = OrderedDict()
        """The states of the last runs that have ended."""
        self._entered: dict[str, FlowState] = {}
        """The states of calls that were sent and have not ended, by the id of the request."""
        self._evidence = Evidence()

    @property
    def memory(self) -> FlowMemory:
        """What it remembers."""
        return FlowMemory(self._states, self._ended, self._evidence)

    def restore(self, memory: FlowMemory) -> None:
        """Continue with what another tracker remembers, before the first request."""
        self._states, self._ended, self._evidence = memory

    def begin_run(self, request: ExecutionRequest, client: str) -> None:
        """Register a top-level request until `end_run`. `client` is who gets its result; empty if unknown."""
        keys = [_run_key(request)]
        if client:
            keys.append(("client", client))
        if (session := _find_session(request)) is not None:
            keys.append(session)
        self._join(keys)

    def end_run(self, request: ExecutionRequest) -> None:
        """Remove a request from the register. Its session and its client keep the labels."""
        key = _run_key(request)
        state = self._ended[key] = self._states.pop(key)
        if len(self._ended) > _MAX_ENDED:
            self._ended.popitem(last=False)
        state.keys.discard(key)
        if not state.keys:
            self._evidence.forget(state)

    async def judge(self, request: ExecutionRequest, decision: Decision) -> Decision:
        """Return the decision on a request that policy allows or asks about, with what flow rules add to it.

        Asks the server of a tool for its annotations if a label depends on them.
        """
        if not decision.allowed and not decision.asks:
            return decision
        labels = self._rules.find_labels(request, decision, await self._find_hints(request))
        inputs = await self._find_labels_of_inputs(request)
        sources = labels.sources | inputs
        if not sources and not labels.sinks:
            return decision
        finding = FlowFinding(reads=tuple(sorted(sources)), sinks=tuple(sorted(labels.sinks)))
        state = self._find_state(request)
        if inputs and labels.sinks:  # a program that can send them has them from its start
            run = request.root or request.id
            name = _CHANGES if isinstance(request.work, ChangeSetRun) else _STORED_OUTPUT
            state.add(Read(request.id, run, name, tuple(sorted(inputs))))
        rule = self._rules.find_rule(state.labels, finding.sinks)
        if rule is None:
            return decision.replace(flow=finding)
        return self._apply_rule(request, decision, finding, state, rule)

    def enter(self, request: ExecutionRequest, finding: FlowFinding) -> NamedRule | None:
        """Note that a call is sent now, until `leave`. Return the rule that forbids it after all.

        The arguments of a call are fixed when it is decided. A program is different: it can send what another call
        reads while it runs, or while it waits for its slot. Whichever of both starts last is refused.
        """
        state, name = self._find_state(request), _name_call(request)
        if is_program(request) and finding.sinks:
            rule = self._rules.find_rule(state.labels, finding.sinks)
            if rule is not None and rule.rule.effect != "mark" and rule.name != finding.rule:
                return rule
            state.senders[request.id] = name, frozenset(finding.sinks)
        if finding.reads:
            sinks = {sink for id_, each in state.senders.items() if id_ != request.id for sink in each[1]}
            rule = self._rules.find_rule({*state.labels, *finding.reads}, sinks) if sinks else None
            if rule is not None and rule.rule.effect != "mark":
                state.senders.pop(request.id, None)
                return rule
            run = request.root or request.id
            state.in_flight[request.id] = Read(request.id, run, name, finding.reads)
        self._entered[request.id] = state
        return None

    def leave(self, request: ExecutionRequest, result: RawResult | None) -> None:
        """Note the end of a call; None if it was cut short. Labels stay, unless nothing of it was sent.

        Does nothing the second time.
        """
        if (state := self._entered.pop(request.id, None)) is None:
            return
        state = _follow(state)  # its run may have ended before the call
        state.senders.pop(request.id, None)
        read = state.in_flight.pop(request.id, None)
        if read is None or (result is not None and _is_unsent(result)):
            return
        state.add(read)
        if result is not None:
            self._evidence.keep(read.request, read.name, state, *_list_values(result))

    def note_result(self, request: ExecutionRequest, result: RawResult) -> None:
        """Note the result of a request that has run, before its caller sees it."""
        self.leave(request, result)
        if result.session is not None and _run_key(request) in self._states:
            self._join([_run_key(request), ("session", request.actor, result.session.id)])

    def note_outcome(self, request: ExecutionRequest, outcome: Outcome) -> None:
        """Note that a request gets the stored outcome of an earlier one."""
        self._find_state(request).add(Read(outcome.id, outcome.id, _STORED_OUTCOME, outcome.labels))

    async def note_output(self, client: str, handle: str, workspace: Path, shown: Json) -> None:
        """Note that a client reads stored output, which shows `shown`."""
        run, labels = await self._find_labels_of_output(handle, workspace)
        self._note_read(client, Read(run, run, _STORED_OUTPUT, labels), shown)

    def note_changes(self, client: str, found: "ChangeSet", shown: Json) -> None:
        """Note that a client reads a change set, of which it sees `shown`."""
        self._note_read(client, Read(found.request, found.request, _CHANGES, found.flow_labels), shown)

    def _note_read(self, client: str, read: Read, shown: Json) -> None:
        if read.labels:
            state = self._join([("client", client)])
            state.add(read)
            self._evidence.keep(read.run, read.name, state, shown)

    def note_fetch(self, client: str, run: str) -> None:
        """Note that a client gets the result of a run that another client may have sent."""
        own, key = self._join([("client", client)]), ("run", run)
        state = self._states.get(key)
        if state is None and key in self._ended:
            state = _follow(self._ended[key])
        if state is None:
            own.mark_unknown()
        elif state is not own:
            self._unite(own, state)

    def list_labels(self, request: ExecutionRequest) -> tuple[str, ...]:
        """Return what a run has read so far."""
        return tuple(sorted(self._find_state(request).labels))

    def list_facts(self, request: ExecutionRequest) -> dict[str, Field]:
        """Return what a run has read, for the record of its end."""
        labels = self.list_labels(request)
        return {"labels": [*labels]} if labels else {}

    def explain(self, request: ExecutionRequest, rule: NamedRule) -> str:
        """Return why a rule that `enter` found refuses a call."""
        state = self._find_state(request)
        senders = [name for name, _ in state.senders.values()]
        what = f"{_name_call(request)} is denied by {rule.name}"
        if senders:
            return (
                f"{what}: {senders[0]} runs at the same time and can send what this call reads; "
                "call it after the program has ended"
            )
        return f"{what}: {self._describe_reads(request, state, rule)} meanwhile; {_remedy(rule)}"

    def _apply_rule(
        self,
        request: ExecutionRequest,
        decision: Decision,
        finding: FlowFinding,
        state: FlowState,
        rule: NamedRule,
    ) -> Decision:
        reads = [read for label in rule.rule.source for read in state.list_reads(label)]
        arguments = kind_of(request).describe(request, request.work)[1]
        matches = self._evidence.find(state, arguments)
        finding = finding._replace(
            effect=rule.rule.effect,
            rule=rule.name,
            sources=tuple(dict.fromkeys(read.request for read in reads))[:MAX_REFERENCES],
            evidence=tuple(f"{each.request} {each.encoding or 'plain'} {len(each.text)}" for each in matches),
            shown=self._show_matches(matches),
        )
        label, why = _name_call(request), self._describe_reads(request, state, rule)
        given = f": {rule.rule.reason}" if rule.rule.reason else ""
        if rule.rule.effect == "deny":
            text = f"{label} is denied by {rule.name}{given}: {why}; {_remedy(rule)}"
        else:
            text = f"{label} needs a person's approval, says {rule.name}{given}: {why}"
        return self._policy.apply_flow(request, decision, finding, text)

    def _describe_reads(self, request: ExecutionRequest, state: FlowState, rule: NamedRule) -> str:
        """Return who has read what, such as `this run has read private data (mail/read)`."""
        run, parts = request.root or request.id, list[str]()
        where = "this run"
        for label in rule.rule.source:
            reads = state.list_reads(label)
            if any(read.run != run for read in reads):
                sessions = any(key[0] == "session" for key in state.keys)
                where = "this session" if sessions else "this client"
            names = [*dict.fromkeys(read.name for read in reads)]
            more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
            by = f" ({', '.join(names[:_MAX_NAMES])}{more})" if names else ""
            parts.append(f"{_TITLES[label]}{by}")
        return f"{where} has read {' and '.join(parts)}"

    def _show_matches(self, matches: Iterable[Match]) -> tuple[str, ...]:
        """Return lines about common texts, without secrets, for the person who is asked."""
        lines: list[str] = []
        for each in matches:
            is_secret = each.text not in self._outgoing.text(each.around)
            text = "[REDACTED]" if is_secret else cut_middle(each.text, _MAX_SHOWN_CHARS)
            encoding = f" in {each.encoding}" if each.encoding else ""
            size = f"{len(each.text)} characters of {each.name}"
            quoted = text if is_secret else json.dumps(text, ensure_ascii=False)
            lines.append(f"{each.place} has {quoted}{encoding} ({size})")
        return tuple(lines) or ("no text of an earlier result was found in the arguments as it is",)

    async def _find_hints(self, request: ExecutionRequest) -> ToolHints:
        work = request.work
        if not self._rules.needs_hints or not isinstance(work, ServerCall):
            return ToolHints()
        if work.is_method:  # it has no annotations: it reads, and what it reaches is unknown
            return ToolHints(read_only=True)
        try:
            return ToolHints(*await self._servers.find_hints(work.server, work.tool))
        except (ServerError, ConfigurationError):  # the call itself reports it
            return ToolHints()

    async def _find_labels_of_inputs(self, request: ExecutionRequest) -> frozenset[str]:
        """Return the labels of the stored output, or of the change set, that a request reads."""
        work, handles = request.work, list[Json]()
        if isinstance(work, ChangeSetRun):
            return await self._find_labels_of_changes(work, request.workspace)
        if isinstance(work, RuntimeRun):
            handles = [file.artifact for file in work.files]
        elif isinstance(work, SdkCall) and work.method == "output.query":
            handles = [*work.arguments[:1]]
        labels = set[str]()
        for handle in handles:
            if isinstance(handle, str):
                labels.update((await self._find_labels_of_output(handle, request.workspace))[1])
        return frozenset(labels)

    async def _find_labels_of_changes(self, work: ChangeSetRun, workspace: Path) -> frozenset[str]:
        """Return the labels of a change set that is accepted or undone: the result names its paths."""
        if work.action == "discard":
            return frozenset()
        try:
            found = await asyncio.to_thread(self._find_changes, work.id, workspace)
        except ChangesError:  # the request fails, too
            return frozenset()
        return frozenset(found.change_set.flow_labels)

    async def _find_labels_of_output(self, handle: str, workspace: Path) -> tuple[str, tuple[str, ...]]:
        """Return the request that stored output, and its labels: all of them if its manifest cannot be read."""
        try:
            found = await asyncio.to_thread(self._artifacts().find, handle, workspace)
        except (InvalidHandle, UnknownArtifact):  # nothing can be read
            return "", ()
        except ArtifactError:
            return "", (*_TITLES,)
        return (
            ("", (*_TITLES,))
            if found.manifest is None
            else (found.manifest.request, found.manifest.flow_labels)
        )

    def _find_state(self, request: ExecutionRequest) -> FlowState:
        """Return the state of a request's run. A call of a forgotten run counts as one that has read everything."""
        key = _run_key(request)
        state = self._states.get(key)
        if state is None and key in self._ended:
            state = _follow(self._ended[key])
        if state is None:
            state = FlowState(set())
            if request.root is not None:
                state.mark_unknown()
        return state

    def _join(self, keys: list[Key]) -> FlowState:
        """Return the one state of all keys, to which those of all of them are united."""
        found = [state for key in keys if (state := self._states.get(key)) is not None]
        state = found[0] if found else FlowState(set())
        for other in found:
            if other is not state:
                self._unite(state, other)
        for key in keys:
            state.keys.add(key)
            self._states[key] = state
            self._states.move_to_end(key)
        self._forget_oldest()
        return state

    def _unite(self, state: FlowState, other: FlowState) -> None:
        for listed in other.reads.values():
            for read in listed:
                state.add(read)
        state.in_flight.update(other.in_flight)
        state.senders.update(other.senders)
        state.keys |= other.keys
        other.successor = state
        for key in other.keys:
            self._states[key] = state
        self._evidence.move(other, state)

    def _forget_oldest(self) -> None:
        while len(self._states) > _MAX_STATES:
            key = next((each for each in self._states if each[0] != "run"), None)
            if key is None:
                return
            state = self._states.pop(key)
            state.keys.discard(key)
            if not state.keys:
                self._evidence.forget(state)


def _follow(state: FlowState) -> FlowState:
    """Return the state that a state has become part of."""
    while state.successor is not None:
        state = state.successor
    return state


def _run_key(request: ExecutionRequest) -> Key:
    return "run", request.root or request.id


def _find_session(request: ExecutionRequest) -> Key | None:
    work = request.work
    if not isinstance(work, GuestRun | RuntimeRun) or work.session in {None, NEW}:
        return None
    return "session", request.actor, work.session or ""


def _name_call(request: ExecutionRequest) -> str:
    return kind_of(request).label(request.work)


def _remedy(rule: NamedRule) -> str:
    where = f" of the {rule.rule.origin}" if rule.rule.origin else ""
    return (
        "call it in a run that has read none of this, in a new session, "
        f"or let a person change [[flow.rule]] in the settings{where}"
    )


def _is_unsent(result: RawResult) -> bool:
    """Return whether nothing of a call was sent. A program that got too little CPU may have read and printed."""
    return result.status in _NOT_SENT and result.program is None and result.tool is None


def _list_values(result: RawResult) -> list[object]:
    """Return everything of a result that its caller may read."""
    values: list[object] = [result.value, *(each.data for each in result.results)]
    if result.error is not None:
        values += [result.error.message, result.error.data]
    if (program := result.program) is not None:
        values += [program.stdout.head, program.stdout.tail, program.stderr.head, program.stderr.tail]
    if (tool := result.tool) is not None:
        values += [tool.stdout, tool.stderr]
    values += [each.diff for each in (result.changes, *result.directory_changes) if each is not None]
    return values
