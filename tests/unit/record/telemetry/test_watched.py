"""The audit sink with observers: what they hear, and that they fail nothing."""

from pathlib import Path

import pytest

from paddock.model.errors import LedgerError
from paddock.model.ids import new_id
from paddock.policy.redaction.scanner import Scanner
from paddock.policy.settings.schema import ArtifactSettings, RedactionSettings
from paddock.record.output.artifacts import Artifacts
from paddock.record.telemetry.metrics import MAX_SERVERS, Metrics
from paddock.record.telemetry.observed_sink import ObservedSink, Sources, call_of
from paddock.testing.fakes import MemoryAudit

CALL = {"kind": "server", "name": "a/b", "status": "ok", "ms": 1.0}


def sources(directory, workers=1):
    """What is known of a session whose output is stored in a directory."""
    artifacts = Artifacts(ArtifactSettings(directory=directory), Scanner(RedactionSettings()))
    return Sources(
        lambda server, tool: (server, tool), lambda: 2, lambda: workers, lambda: 1, lambda: artifacts
    )


class Heard:
    def __init__(self):
        self.events = []

    def on_start(self, request, parent, facts):
        self.events.append(("started", request, parent, facts["kind"]))

    def on_end(self, request, parent, facts):
        self.events.append(("ended", request, parent, facts["kind"]))

    def on_answer(self, request, parent, facts):
        self.events.append(("answered", request, parent, facts["answer"]))


class Broken:
    def on_start(self, *_):
        raise RuntimeError("hush")

    def on_end(self, *_):
        raise RuntimeError("hush")

    def on_answer(self, *_):
        raise RuntimeError("hush")


def test_observers_hear_what_was_written_and_fail_nothing(caplog):
    heard, sink = Heard(), MemoryAudit()
    watched = ObservedSink(sink, [Broken(), heard])
    one, other = new_id(), new_id()
    watched.claim(one, {"kind": "guest"}, parent=None)
    watched.append("asked", one, {"kind": "guest"})
    watched.append("answered", one, {"answer": "once"})
    watched.append("finished", one, {"kind": "guest"})
    watched.append_soon("decided", other, {"kind": "sdk"}, parent=one)
    assert heard.events == [
        ("started", one, None, "guest"),
        ("answered", one, None, "once"),
        ("ended", one, None, "guest"),
        ("ended", other, one, "sdk"),
    ]
    assert [each.event for each in watched.query(newest_first=False)] == [
        "started",
        "asked",
        "answered",
        "finished",
        "decided",
    ]
    assert [each.getMessage() for each in caplog.records] == ["Broken failed: RuntimeError"] * 4


def test_what_could_not_be_claimed_was_not_started():
    heard = Heard()
    watched = ObservedSink(MemoryAudit(), [heard])
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
        ObservedSink(Full(), [heard]).append("finished", "r", {"kind": "guest"})
    assert heard.events == [("ended", "r", None, "guest")]


def test_the_name_of_a_server_may_hold_slashes():
    assert call_of({"name": "a/b/c"}, lambda server, tool: (server, tool)) == ("a/b", "c")


def test_even_configured_servers_have_a_bounded_number_of_labels():
    metrics = Metrics()
    counting = metrics.count_session(sources(Path("/nowhere")))
    for number in range(MAX_SERVERS + 10):
        counting.on_end("r", None, {**CALL, "name": f"s{number}/t"})
    family = next(each for each in metrics.registry.collect() if each.name == "paddock_server_calls")
    labels = {sample.labels["server"] for sample in family.samples}
    assert len(labels) == MAX_SERVERS + 1
    assert "other" in labels


def read(metrics):
    return {
        sample.name: sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if not sample.labels and sample.name.startswith("paddock_")
    }


def test_gauges_are_those_of_all_sessions_and_what_is_stored_counts_once(tmp_path):
    for name, size in (("one", 10), ("other", 5)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_bytes(b"x" * size)
    metrics = Metrics()
    assert read(metrics) == {"paddock_waiting": 0, "paddock_workers": 0, "paddock_servers": 0}
    first = metrics.count_session(sources(tmp_path / "one", workers=3))
    metrics.count_session(sources(tmp_path / "one", workers=4))
    second = metrics.count_session(sources(tmp_path / "other", workers=5))
    together = {"paddock_waiting": 6, "paddock_workers": 12, "paddock_servers": 3}
    assert read(metrics) == {**together, "paddock_artifacts_bytes": 15}
    metrics.end_session(first)
    metrics.end_session(second)
    left = {"paddock_waiting": 2, "paddock_workers": 4, "paddock_servers": 1}
    assert read(metrics) == {**left, "paddock_artifacts_bytes": 10}


def test_a_request_of_one_session_is_no_end_of_anothers():
    metrics = Metrics()
    one, other = metrics.count_session(sources(Path("/a"))), metrics.count_session(sources(Path("/b")))
    one.on_start("r", None, {"kind": "guest"})
    other.on_end("r", None, {"kind": "guest", "status": "denied"})
    assert metrics.running.labels("guest")._value.get() == 1
    one.on_end("r", None, {"kind": "guest", "status": "ok", "ms": 5.0})
    assert metrics.running.labels("guest")._value.get() == 0


def test_the_wait_for_an_answer_is_counted_by_answer():
    metrics = Metrics()
    counting = metrics.count_session(sources(Path("/nowhere")))
    for answer, ms in (("once", 500.0), ("once", 1500.0), ("expired", 300_000.0)):
        counting.on_answer("r", None, {"answer": answer, "ms": ms})
    family = next(each for each in metrics.registry.collect() if each.name == "paddock_approval_seconds")
    told = {(s.name.rpartition("_")[2], s.labels["answer"]): s.value for s in family.samples}
    assert {key: value for key, value in told.items() if key[0] in ("count", "sum")} == {
        ("count", "once"): 2,
        ("sum", "once"): 2.0,
        ("count", "expired"): 1,
        ("sum", "expired"): 300.0,
    }
