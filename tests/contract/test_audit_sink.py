"""One contract for every audit sink."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from paddock.model.errors import LedgerError
from paddock.model.ids import new_id
from paddock.record.ledger.sink import AuditRecord, AuditSink
from paddock.record.ledger.writer import Ledger
from paddock.testing.fakes import MemoryAudit

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Clock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now.timestamp()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["ledger", "memory"])
def sink(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[AuditSink]:
    made: AuditSink = (
        Ledger(tmp_path / "ledger", clock=clock) if request.param == "ledger" else MemoryAudit(clock=clock)
    )
    yield made
    made.close()


def minted(at: datetime = NOON) -> str:
    return new_id(at.timestamp())


def failure(call: Callable[[], object]) -> str:
    with pytest.raises(LedgerError) as caught:
        call()
    return str(caught.value)


def test_records_come_back_as_they_were_written(sink: AuditSink) -> None:
    request, parent = minted(), minted()
    facts = {
        "actor": "örjan\u2028\x00",
        "ok": True,
        "ms": 1.5,
        "bytes_out": 7,
        "tier": None,
        "tools": ["a", "b"],
    }
    first = sink.claim(request, {"kind": "guest"}, parent=parent)
    second = sink.append("finished", request, facts)
    [one, two] = sink.query(newest_first=False)
    assert one == AuditRecord(
        seq=1,
        id=first,
        ts="2026-03-01T12:00:00.000Z",
        event="started",
        request=request,
        parent=parent,
        fields={"kind": "guest"},
        prev="0" * 64,
        hash=one.hash,
    )
    assert two == AuditRecord(
        seq=2,
        id=second,
        ts="2026-03-01T12:00:00.000Z",
        event="finished",
        request=request,
        parent=None,
        fields={**facts, "tools": ("a", "b")},
        prev=one.hash,
        hash=two.hash,
    )
    assert [type(value) for value in two.fields.values()] == [str, bool, float, int, type(None), tuple]
    assert len({one.hash, two.hash, one.prev}) == 3


def test_what_is_taken_to_be_written_soon_is_read_in_its_place(sink: AuditSink, clock: Clock) -> None:
    one, two = minted(), minted()
    ids = [
        sink.claim(one, {}),
        sink.append_soon("finished", one, {"ms": 1.5}, parent=two),
        sink.append("finished", two, {}),
        sink.append_soon("finished", "last", {}),
    ]
    clock.now += timedelta(seconds=1)
    found = list(sink.query(newest_first=False))
    assert [(record.seq, record.id) for record in found] == list(enumerate(ids, 1))
    assert (found[1].event, found[1].request, found[1].parent) == ("finished", one, two)
    assert dict(found[1].fields) == {"ms": 1.5}
    assert {record.ts for record in found} == {"2026-03-01T12:00:00.000Z"}


def test_query_filters_limits_and_orders(sink: AuditSink, clock: Clock) -> None:
    requests = [minted() for _ in range(3)]
    for request in requests:
        sink.claim(request, {})
    clock.now = NOON + timedelta(days=1)
    for request in requests:
        sink.append("finished", request, {})

    def seqs(**filters: object) -> list[int]:
        return [record.seq for record in sink.query(**filters)]

    assert seqs() == [6, 5, 4, 3, 2, 1]
    assert seqs(newest_first=False) == [1, 2, 3, 4, 5, 6]
    assert seqs(limit=2) == [6, 5]
    assert seqs(limit=0) == []
    assert seqs(event="started") == [3, 2, 1]
    assert seqs(event="start") == []
    assert seqs(request=requests[1]) == [5, 2]
    assert seqs(request=requests[1], event="finished") == [5]
    assert seqs(since=NOON) == [6, 5, 4, 3, 2, 1]
    assert seqs(since=NOON + timedelta(milliseconds=1)) == [6, 5, 4]
    assert seqs(since=NOON + timedelta(days=1), newest_first=False, limit=1) == [4]
    assert failure(lambda: sink.query(since=datetime(2026, 3, 1))) == (  # noqa: DTZ001
        "`since` has no time zone, so that its time is not known. Pass an aware datetime."
    )


def test_query_is_lazy(sink: AuditSink) -> None:
    sink.append("decided", "r", {})
    found = sink.query(newest_first=False)
    assert next(found).seq == 1
    assert next(found, None) is None


def test_a_request_is_claimed_once(sink: AuditSink) -> None:
    request = minted()
    sink.claim(request, {})
    assert failure(lambda: sink.claim(request, {})) == (
        f"The request {request} was claimed before and runs at most once. "
        "Look up what became of it in the audit ledger; to run it again, send it with a new id."
    )
    assert len(list(sink.query())) == 1


def test_a_claim_that_failed_can_be_made(sink: AuditSink) -> None:
    request = minted()
    failure(lambda: sink.claim(request, {"payload": "x" * 513}))
    sink.claim(request, {})
    assert [record.seq for record in sink.query()] == [1]


def test_threads_that_claim_one_request_make_one_claim(sink: AuditSink) -> None:
    requests = [minted() for _ in range(20)]

    def claim(request: str) -> bool:
        try:
            sink.claim(request, {})
        except LedgerError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(claim, requests * 4)) == 20
    assert sorted(record.request for record in sink.query()) == sorted(requests)
    assert [record.seq for record in sink.query()] == list(range(20, 0, -1))


@pytest.mark.parametrize(
    "request_id", ["", "r1", "01ARZ3NDEKTSV4RRFFQ69G5FA", "01arz3ndektsv4rrffq69g5fav", "é" * 26]
)
def test_only_ulids_are_claimed(sink: AuditSink, request_id: str) -> None:
    assert failure(lambda: sink.claim(request_id, {})) == (
        "The request cannot be claimed: its id is not a ULID. Mint one with new_id()."
    )


@pytest.mark.parametrize(
    ("age", "taken"),
    [
        (timedelta(hours=24), True),
        (timedelta(hours=24, milliseconds=1), False),
        (timedelta(seconds=-60), True),
        (timedelta(seconds=-60, milliseconds=-1), False),
        (timedelta(days=-365 * 1000), False),
    ],
)
def test_claims_need_a_fresh_id(sink: AuditSink, age: timedelta, *, taken: bool) -> None:
    request = minted(NOON - age)
    if taken:
        sink.claim(request, {})
    else:
        assert failure(lambda: sink.claim(request, {})) == (
            f"The request {request} cannot be claimed: its id was minted over 24 h ago or in the future. "
            "Mint a new id with new_id(); if this one is new, set the clock right."
        )
    assert len(list(sink.query())) == taken


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"a": "x" * 513}, "`a` is over 512 characters; log its hash or length"),
        ({"a": "\ud800"}, "`a` is not valid Unicode; replace the lone surrogates"),
        ({"a": 2**63}, "`a` does not fit 64 bits; log it as text"),
        ({"a": float("nan")}, "`a` is not a finite number; log None"),
        ({"a": float("inf")}, "`a` is not a finite number; log None"),
        ({"a": {"secret": 1}}, "`a` is not a scalar or a list of short strings; log facts about it"),
        ({"a": b"secret"}, "`a` is not a scalar or a list of short strings; log facts about it"),
        ({"a": ["x"] * 65}, "`a` has over 64 items; log their number"),
        ({"a": ["x" * 129]}, "`a` has an item that is not Unicode text of at most 128 characters; log names"),
        ({"a": [["x"]]}, "`a` has an item that is not Unicode text of at most 128 characters; log names"),
    ],
)
def test_payloads_are_refused(sink: AuditSink, fields: dict[str, object], text: str) -> None:
    expected = f"The audit field {text}. The ledger stores facts, never payloads."
    assert failure(lambda: sink.append("finished", "r", fields)) == expected
    assert failure(lambda: sink.claim(minted(), fields)) == expected
    assert failure(lambda: sink.append_soon("finished", "r", fields)) == expected
    assert list(sink.query()) == []


@pytest.mark.parametrize(
    "fields",
    [{"a": "x" * 512}, {"a": -(2**63)}, {"a": ["é" * 128] * 64}, {f"f{n}": "\x01" * 512 for n in range(20)}],
)
def test_the_largest_fields_are_kept(sink: AuditSink, fields: dict[str, object]) -> None:
    sink.append("finished", "r", fields)
    [record] = sink.query()
    assert {name: list(v) if isinstance(v, tuple) else v for name, v in record.fields.items()} == fields


@pytest.mark.parametrize("name", ["v", "seq", "hash", "prev", "event", "", "A", "1a", "a-b", "x" * 65, "a\n"])
def test_field_names_are_checked(sink: AuditSink, name: str) -> None:
    assert failure(lambda: sink.append("finished", "r", {name: 1})) == (
        f"The audit field {name[:64]!r} has a reserved or malformed name. Use 1 to 64 of a-z, 0-9 and _, "
        "and none of event, hash, id, parent, prev, request, seq, ts, v."
    )


def test_too_many_or_too_long_fields_are_refused(sink: AuditSink) -> None:
    assert failure(lambda: sink.append("finished", "r", {f"f{n}": 1 for n in range(49)})) == (
        "An audit record has 49 fields, over the limit of 48. Log fewer facts."
    )
    assert failure(lambda: sink.append("finished", "r", {f"f{n}": "\x01" * 512 for n in range(48)})) == (
        "An audit record is over 65536 bytes. The ledger stores facts: log fewer of them."
    )
    assert failure(lambda: sink.append_soon("finished", "r", {f"f{n}": "\x01" * 512 for n in range(48)})) == (
        "An audit record is over 65536 bytes. The ledger stores facts: log fewer of them."
    )
    assert failure(lambda: sink.append("finished", "r" * 513, {})) == (
        "An audit record's request or parent id is over 512 characters; log its hash or length. Use a ULID."
    )
    assert list(sink.query()) == []


def test_the_sink_keeps_its_own_events(sink: AuditSink) -> None:
    assert failure(lambda: sink.append("started", "r", {})) == (
        "The audit event `started` cannot be appended: claim() writes it. Use another event."
    )
    assert failure(lambda: sink.append("recovered", "r", {})) == (
        "The audit event `recovered` cannot be appended: only the sink itself writes it. Use another event."
    )
    assert failure(lambda: sink.append("Not a name", "r", {})) == (
        "An audit event's name is not 1 to 64 of a-z, 0-9 and _. Use a name like `finished`."
    )


def test_a_closed_sink_takes_nothing_and_can_be_read(sink: AuditSink) -> None:
    sink.append("decided", "r", {})
    sink.close()
    sink.close()
    assert "is closed. Open " in failure(lambda: sink.append("decided", "r", {}))
    assert "is closed. Open " in failure(lambda: sink.claim(minted(), {}))
    assert "is closed. Open " in failure(lambda: sink.append_soon("decided", "r", {}))
    assert [record.seq for record in sink.query()] == [1]
