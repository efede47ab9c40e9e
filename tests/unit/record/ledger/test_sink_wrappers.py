"""Sinks on top of another sink."""

from paddock.model.ids import new_id
from paddock.policy.redaction.known import KnownSecrets
from paddock.policy.redaction.outgoing import OutgoingRedaction
from paddock.policy.settings.schema import RedactionSettings
from paddock.record.ledger.sink_wrappers import ForwardingSink, RedactedSink
from paddock.testing.fakes import MemoryAudit

SECRET = "s3cr3t-v4lue"


def test_every_call_reaches_the_sink_below():
    below, request = MemoryAudit(), new_id()
    sink = ForwardingSink(below)
    ids = [
        sink.claim(request, {"a": 1}, parent="p"),
        sink.append("decided", request, {"b": 2}),
        sink.append_soon("finished", request, {"c": 3}, parent="p"),
    ]
    assert [(each.id, each.event, each.parent, each.fields) for each in below.records] == [
        (ids[0], "started", "p", {"a": 1}),
        (ids[1], "decided", None, {"b": 2}),
        (ids[2], "finished", "p", {"c": 3}),
    ]
    assert [each.id for each in sink.query(event="decided", newest_first=False, limit=1)] == [ids[1]]
    sink.close()


def test_no_record_keeps_a_secret_whoever_writes_it():
    known, below = KnownSecrets(), MemoryAudit()
    known.learn(SECRET)
    sink = RedactedSink(below, OutgoingRedaction(RedactionSettings(), known).facts)
    facts = {
        "name": SECRET,
        "answered_by": f"by {SECRET}",
        "violations": [SECRET],
        "ms": 1,
    }
    sink.claim(new_id(), facts)
    sink.append("answered", new_id(), facts)
    sink.append_soon("finished", new_id(), facts)
    mark = "[REDACTED:vault]"
    hidden = {"name": mark, "answered_by": f"by {mark}", "violations": (mark,), "ms": 1}
    assert [each.fields for each in below.records] == [hidden] * 3
