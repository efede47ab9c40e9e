"""Sort the records of one run into its calls, connections and questions, with their times since its start."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple, cast

from paddock.record.ledger.runs import Run, make_run, title_request
from paddock.record.ledger.sink import FINISHED, STARTED, AuditRecord

DECIDED, LOOKED, CONNECTED, ASKED, ANSWERED = "decided", "looked", "connected", "asked", "answered"
_MAX_DEPTH = 32
_NO_FACTS: Mapping[str, object] = {}


class PastQuestion(NamedTuple):
    """A question to a person."""

    request: str
    """Id of the request that waited for the answer."""
    what: str
    """What was asked about."""
    start_ms: float
    answer: str
    """Empty if the process ended first."""
    answered_by: str
    ms: float | None


class PastCall(NamedTuple):
    """A request below a run."""

    request: str
    parent: str
    depth: int
    """1 for a call of the run itself."""
    kind: str
    name: str
    is_listing: bool
    """Whether the program listed the tools of a server, and called none."""
    start_ms: float
    """Time since the start of the run, in milliseconds."""
    ms: float
    """Duration in milliseconds; 0 for a request that did not run."""
    status: str
    """Empty if it has not ended."""
    rule: str
    facts: Mapping[str, object]
    """The facts of its last record."""
    record: AuditRecord
    """Its first record."""

    @property
    def is_refused(self) -> bool:
        """Whether policy or a person refused it."""
        return self.status == "denied"


class PastConnection(NamedTuple):
    """A connection of the program, or of a call, to a host."""

    request: str
    """Id of the request whose program made it."""
    start_ms: float
    facts: Mapping[str, object]


class PastRun(NamedTuple):
    """One run and everything below it."""

    run: Run
    start: AuditRecord
    """Its first record: `started`, or `decided`."""
    facts: Mapping[str, object]
    """The facts of its last record."""
    wall_ms: float
    """Time from its start to its last record, in milliseconds: the length of the waterfall."""
    calls: tuple[PastCall, ...]
    """In the order in which they started."""
    connections: tuple[PastConnection, ...]
    questions: tuple[PastQuestion, ...]
    records: tuple[AuditRecord, ...]
    """In the order of the chain."""
    is_cut: bool
    """Whether there are more records."""


def describe_run(run: str, records: Sequence[AuditRecord], *, is_cut: bool = False) -> PastRun | None:
    """Return the run with an id, from its records; None if its first record is missing, such as in an archive."""
    own = [record for record in records if record.request == run and record.parent is None]
    starts = {STARTED: 0, DECIDED: 1, ASKED: 2}  # a run that waits for a person has nothing but the question
    start = min(
        (each for each in own if each.event in starts), key=lambda each: starts[each.event], default=None
    )
    if start is None:
        return None
    end = next(
        (record for record in own if record.event == FINISHED), start if start.event == DECIDED else None
    )
    calls = tuple(_list_calls(run, records, start.ts))
    last = end or records[-1]
    facts = start.fields if end is None else end.fields
    walls = [_since(last.ts, start.ts), *(call.start_ms + call.ms for call in calls)]
    refused = sum(call.is_refused for call in calls)
    return PastRun(
        make_run(start, end, refused),
        start,
        facts,
        max(*walls, read_number(facts, "ms"), 1.0),
        calls,
        tuple(_list_connections(records, start.ts)),
        tuple(_list_questions(records, start.ts)),
        tuple(records),
        is_cut,
    )


def read_number(facts: Mapping[str, object], name: str) -> float:
    """Return a number of the facts; 0 for a missing one."""
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def read_text(facts: Mapping[str, object], name: str) -> str:
    """Return a text of the facts; "" for a missing one."""
    value = facts.get(name)
    return value if isinstance(value, str) else ""


def read_texts(facts: Mapping[str, object], name: str) -> tuple[str, ...]:
    """Return a list of the facts; empty for a missing one."""
    value = facts.get(name)
    return tuple(map(str, cast("Sequence[object]", value))) if isinstance(value, list | tuple) else ()


def _list_calls(run: str, records: Iterable[AuditRecord], began: str) -> Iterator[PastCall]:
    ends = {record.request: record for record in records if record.event == FINISHED}
    parents: dict[str, str] = {}
    for record in records:
        if record.parent is None or record.event not in {STARTED, DECIDED, LOOKED}:
            continue
        parents[record.request] = record.parent
        end = ends.get(record.request) if record.event == STARTED else record
        facts = record.fields if end is None else end.fields
        yield PastCall(
            request=record.request,
            parent=record.parent,
            depth=_measure_depth(record.request, run, parents),
            kind=read_text(record.fields, "kind"),
            name=title_request(record.fields),
            is_listing=record.event == LOOKED,
            start_ms=_since(record.ts, began),
            ms=_measure_call(record, end),
            status="" if end is None else read_text(facts, "status"),
            rule=read_text(facts, "rule"),
            facts=facts,
            record=record,
        )


def _measure_call(record: AuditRecord, end: AuditRecord | None) -> float:
    if record.event != STARTED or end is None:
        return 0.0
    return read_number(end.fields, "ms") or _since(end.ts, record.ts)


def _measure_depth(request: str, run: str, parents: Mapping[str, str]) -> int:
    depth = 0
    while request != run and depth < _MAX_DEPTH and request in parents:
        request, depth = parents[request], depth + 1
    return depth


def _list_connections(records: Iterable[AuditRecord], began: str) -> Iterator[PastConnection]:
    for record in records:
        if record.event == CONNECTED:
            # The record is that of its end.
            start = max(0.0, _since(record.ts, began) - read_number(record.fields, "ms"))
            yield PastConnection(record.parent or "", start, record.fields)


def _list_questions(records: Sequence[AuditRecord], began: str) -> Iterator[PastQuestion]:
    for number, record in enumerate(records):
        if record.event != ASKED:
            continue
        answers: Iterator[Mapping[str, object]] = (
            each.fields
            for each in islice(records, number + 1, None)
            if each.event == ANSWERED and each.fields.get("question") == record.fields.get("question")
        )
        answer = next(answers, _NO_FACTS)
        yield PastQuestion(
            record.request,
            title_request(record.fields),
            _since(record.ts, began),
            read_text(answer, "answer"),
            read_text(answer, "answered_by"),
            read_number(answer, "ms") if answer else None,
        )


def _since(ts: str, began: str) -> float:
    """Return the milliseconds between two times of records, at least 0."""
    try:
        return max(0.0, (datetime.fromisoformat(ts) - datetime.fromisoformat(began)).total_seconds() * 1000)
    except (ValueError, TypeError):
        return 0.0
