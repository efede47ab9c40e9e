"""The audit sink with observers: what they hear, and that they fail nothing."""

import pytest

from paddock.model.errors import LedgerError
from paddock.model.ids import new_id
from paddock.store.memory import MemoryAudit
from paddock.telemetry.metrics import SERVERS, Metrics
from paddock.telemetry.watched import Watched

CALL = {"kind": "server", "name": "a/b", "status": "ok", "ms": 1.0}


class Heard:
    def __init__(self):
        self.events = []

    def started(self, request, parent, facts):
        self.events.append(("started", request, parent, facts["kind"]))

    def ended(self, request, parent, facts):
        self.events.append(("ended", request, parent, facts["kind"]))


class Broken:
    def started(self, *_):
        raise RuntimeError("hush")

    def ended(self, *_):
        raise RuntimeError("hush")


def test_observers_hear_what_was_written_and_fail_nothing(caplog):
    heard, sink = Heard(), MemoryAudit()
    watched = Watched(sink, [Broken(), heard])
    one, other = new_id(), new_id()
    watched.claim(one, {"kind": "guest"}, parent=None)
    watched.append("asked", one, {"kind": "guest"})
    watched.append("finished", one, {"kind": "guest"})
    watched.append("decided", other, {"kind": "sdk"}, parent=one)
    assert heard.events == [
        ("started", one, None, "guest"),
        ("ended", one, None, "guest"),
        ("ended", other, one, "sdk"),
    ]
    assert [each.event for each in watched.query(newest_first=False)] == [
        "started",
        "asked",
        "finished",
        "decided",
    ]
    assert [each.getMessage() for each in caplog.records] == ["Broken failed: RuntimeError"] * 3


def test_what_could_not_be_claimed_was_not_started():
    heard = Heard()
    watched = Watched(MemoryAudit(), [heard])
    request = new_id()
    watched.claim(request, {"kind": "guest"})
    with pytest.raises(LedgerError):
        watched.claim(request, {"kind": "guest"})
    assert heard.events == [("started", request, None, "guest")]


def test_an_end_that_cannot_be_written_is_one_all_the_same():
    class Full(MemoryAudit):
        def append(self, *_, **__):
            raise LedgerError("full")

    heard = Heard()
    with pytest.raises(LedgerError, match="full"):
        Watched(Full(), [heard]).append("finished", "r", {"kind": "guest"})
    assert heard.events == [("ended", "r", None, "guest")]


def test_even_configured_servers_have_a_bounded_number_of_labels():
    metrics = Metrics(lambda server, tool: (server, tool), lambda: ())
    for number in range(SERVERS + 10):
        metrics.ended("r", None, {**CALL, "name": f"s{number}/t"})
    family = next(each for each in metrics._registry.collect() if each.name == "paddock_server_calls")
    labels = {sample.labels["server"] for sample in family.samples}
    assert len(labels) == SERVERS + 1
    assert "other" in labels
