"""What every `AuditSink` promises, as checks of a new one."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from paddock.model.errors import LedgerError
from paddock.model.ids import new_id
from paddock.record.ledger.sink import CLAIM_AGE_S, CLAIM_SKEW_S, AuditRecord, AuditSink
from paddock.testing.require import require_equal, require_error, require_true

_PAYLOADS: tuple[object, ...] = (
    *("x" * 513, "\ud800", 2**63, float("nan"), {"a": 1}, b"x", ["x"] * 65, ["x" * 129]),
)


def check_records_come_back(sink: AuditSink) -> None:
    """Check that records come back as they were written, in their order and in one chain."""
    request, parent = new_id(), new_id()
    facts = {
        "actor": "örjan\u2028\x00",
        "ok": True,
        "ms": 1.5,
        "bytes_out": 7,
        "tier": None,
        "tools": ["a", "b"],
    }
    ids = [sink.claim(request, {"kind": "guest"}, parent=parent), sink.append("finished", request, facts)]
    first, second = _read_all(sink)
    require_equal([first.id, second.id], ids, "`claim` and `append` return the id of their record")
    found = (first.event, first.request, first.parent, dict(first.fields))
    require_equal(found, ("started", request, parent, {"kind": "guest"}), "`claim` writes a `started` record")
    found = (second.event, second.request, second.parent, dict(second.fields))
    kept = {**facts, "tools": ("a", "b")}
    require_equal(found, ("finished", request, None, kept), "`append` keeps every field")
    kinds = [type(value) for value in second.fields.values()]
    require_equal(kinds, [str, bool, float, int, type(None), tuple], "fields keep their types")
    require_equal([first.seq, second.seq], [1, 2], "`seq` counts from 1 without gaps")
    require_equal(
        [first.prev, second.prev], ["0" * 64, first.hash], "`prev` is the hash of the record before"
    )
    require_true(first.ts <= second.ts, "`ts` is the time of the call")


def check_a_request_is_claimed_once(sink: AuditSink) -> None:
    """Check that a second claim of a request raises LedgerError and writes nothing."""
    request = new_id()
    sink.claim(request, {})
    require_error(LedgerError, lambda: sink.claim(request, {}), "a request is claimed at most once")
    require_equal(len(_read_all(sink)), 1, "a refused claim writes nothing")


def check_threads_claim_once(sink: AuditSink) -> None:
    """Check that of many threads that claim one request at a time, one succeeds."""
    requests = [new_id() for _ in range(20)]

    def claim(request: str) -> bool:
        try:
            sink.claim(request, {})
        except LedgerError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        made = sum(pool.map(claim, requests * 4))
    require_equal(made, 20, "of four claims of each request one succeeds")
    records = _read_all(sink)
    require_equal(sorted(each.request for each in records), sorted(requests), "each is written once")
    require_equal([each.seq for each in records], list(range(1, 21)), "`seq` has no gaps")


def check_claims_need_a_fresh_id(sink: AuditSink) -> None:
    """Check that only a ULID that was minted within 24 hours, or up to a minute ahead, is claimed."""
    now = time.time()
    sink.claim(new_id(now - CLAIM_AGE_S + 600), {})
    for wrong in (
        *("", "r1", "01ARZ3NDEKTSV4RRFFQ69G5FA", "é" * 26),
        *(new_id(now - CLAIM_AGE_S - 600), new_id(now + CLAIM_SKEW_S + 600)),
    ):
        require_error(LedgerError, lambda wrong=wrong: sink.claim(wrong, {}), f"{wrong!r} is not claimed")
    require_equal(len(_read_all(sink)), 1, "a refused claim writes nothing")


def check_payloads_are_refused(sink: AuditSink) -> None:
    """Check that a field that is no short fact raises LedgerError and writes nothing; the claim can then be made."""
    request = new_id()
    for value in _PAYLOADS:
        fields: Any = {"a": value}
        for write in (
            partial(sink.claim, request, fields),
            partial(sink.append, "finished", "r", fields),
            partial(sink.append_soon, "finished", "r", fields),
        ):
            require_error(LedgerError, write, f"a field is a short fact, not {value!r:.20}")
    for name in ("v", "seq", "hash", "prev", "event", "", "A", "1a", "a-b"):
        require_error(
            LedgerError, lambda name=name: sink.append("finished", "r", {name: 1}), f"{name!r} names no field"
        )
    require_equal(_read_all(sink), [], "what is refused is not written")
    sink.claim(request, {})


def check_own_events_are_refused(sink: AuditSink) -> None:
    """Check that `started`, `recovered`, `repaired` and malformed names are not appended."""
    for event in ("started", "recovered", "repaired", "Not a name", ""):
        require_error(
            LedgerError, lambda event=event: sink.append(event, "r", {}), f"{event!r} is not appended"
        )
    require_equal(_read_all(sink), [], "what is refused is not written")


def check_append_soon_keeps_its_place(sink: AuditSink) -> None:
    """Check that what is to be written soon is read in its place, by the next query at the latest."""
    one, two = new_id(), new_id()
    ids = [
        sink.claim(one, {}),
        sink.append_soon("finished", one, {"ms": 1.5}, parent=two),
        sink.append("finished", two, {}),
        sink.append_soon("finished", "last", {}),
    ]
    found = _read_all(sink)
    require_equal([each.id for each in found], ids, "records are in the order of the calls")
    require_equal(
        (found[1].parent, dict(found[1].fields)), (two, {"ms": 1.5}), "`append_soon` keeps its record"
    )


def check_queries(sink: AuditSink) -> None:
    """Check that queries filter by event, request and time, order, limit, and are lazy."""
    requests = [new_id() for _ in range(3)]
    for request in requests:
        sink.claim(request, {})
    for request in requests:
        sink.append("finished", request, {})
    now = datetime.now(UTC)

    def list_seqs(**filters: object) -> list[int]:
        return [each.seq for each in sink.query(**filters)]  # pyright: ignore[reportArgumentType]

    require_equal(list_seqs(), [6, 5, 4, 3, 2, 1], "the newest comes first")
    require_equal(list_seqs(newest_first=False), [1, 2, 3, 4, 5, 6], "or the oldest")
    require_equal(list_seqs(limit=2), [6, 5], "`limit` bounds the number")
    require_equal(list_seqs(limit=0), [], "`limit` may be 0")
    require_equal(list_seqs(event="started"), [3, 2, 1], "`event` filters by the whole name")
    require_equal(list_seqs(event="start"), [], "`event` filters by the whole name")
    require_equal(list_seqs(request=requests[1], event="finished"), [5], "filters hold together")
    require_equal(
        list_seqs(since=now - timedelta(hours=1)), [6, 5, 4, 3, 2, 1], "`since` is the earliest moment"
    )
    require_equal(list_seqs(since=now + timedelta(hours=1)), [], "`since` is the earliest moment")
    naive = now.replace(tzinfo=None)
    require_error(LedgerError, lambda: list(sink.query(since=naive)), "`since` needs a time zone")
    require_equal(next(sink.query()).seq, 6, "a query is an iterator")


def check_a_closed_sink(sink: AuditSink) -> None:
    """Check that a closed sink takes nothing; closing it again does nothing."""
    sink.append("decided", "r", {})
    sink.close()
    sink.close()
    for write in (
        lambda: sink.append("decided", "r", {}),
        lambda: sink.claim(new_id(), {}),
        lambda: sink.append_soon("decided", "r", {}),
    ):
        require_error(LedgerError, write, "a closed sink takes nothing")


AUDIT_SINK_CHECKS: tuple[Callable[[AuditSink], None], ...] = (
    check_records_come_back,
    check_a_request_is_claimed_once,
    check_threads_claim_once,
    check_claims_need_a_fresh_id,
    check_payloads_are_refused,
    check_own_events_are_refused,
    check_append_soon_keeps_its_place,
    check_queries,
    check_a_closed_sink,
)
"""What every `AuditSink` promises. Each check takes a new sink, and closes none."""


def _read_all(sink: AuditSink) -> list[AuditRecord]:
    return list(sink.query(newest_first=False))
