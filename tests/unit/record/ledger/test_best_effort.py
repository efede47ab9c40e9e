"""A ledger that cannot be written, where that is allowed."""

import pytest

from paddock.model.errors import LedgerError, LedgerUnusable
from paddock.model.ids import new_id
from paddock.record.ledger.sink_wrappers import BestEffortSink, UnavailableSink
from paddock.testing.fakes import MemoryAudit

FULL = LedgerUnusable("the disk is full")


def test_a_ledger_that_could_not_be_opened_says_why():
    sink = UnavailableSink(FULL)
    for use in (
        lambda: sink.claim("r", {}),
        lambda: sink.append("finished", "r", {}),
        lambda: sink.append_soon("finished", "r", {}),
        sink.query,
    ):
        with pytest.raises(LedgerUnusable, match="the disk is full"):
            use()
    sink.close()


def test_what_cannot_be_written_is_logged_and_passed_over(caplog):
    lenient = BestEffortSink(UnavailableSink(FULL))
    assert (lenient.claim("r", {}), lenient.append("finished", "r", {})) == ("", "")
    assert [record.message for record in caplog.records] == ["not recorded: the disk is full"] * 2


def test_what_can_be_written_is_written_and_claimed_once():
    sink, request = MemoryAudit(), new_id()
    lenient = BestEffortSink(sink)
    ids = [lenient.claim(request, {"a": 1}), lenient.append("finished", request, {}, parent="p")]
    assert [(record.id, record.event, record.parent) for record in sink.records] == [
        (ids[0], "started", None),
        (ids[1], "finished", "p"),
    ]
    with pytest.raises(LedgerError, match="claimed before"):
        lenient.claim(request, {})
