"""The history of questions on the page."""

import pytest

from paddock.record.ledger.questions import RecordedQuestion
from paddock.record.ledger.sink import AuditRecord
from paddock.surfaces.web.pages.approvals import HistoryRow


def _record(event: str, **fields: str) -> AuditRecord:
    return AuditRecord(
        seq=1,
        id="I",
        ts="2026-03-01T12:00:00.000Z",
        event=event,
        request="R",
        parent=None,
        fields={"question": "Q", **fields},
        prev="",
        hash="",
    )


ASKED = _record("asked", kind="changes", action="undo", changes="changes-1")


@pytest.mark.parametrize(
    ("waiting", "given", "answer"),
    [
        (frozenset("Q"), ("", ""), "waits"),
        (frozenset(), ("Q", "once"), "allowed once"),
        (frozenset(), ("P", "once"), "not answered"),
        (frozenset(), ("", ""), "not answered"),
    ],
)
def test_an_answer_of_the_page_is_shown_before_it_is_on_the_record(
    waiting: frozenset[str], given: tuple[str, str], answer: str
) -> None:
    row = HistoryRow.from_records(RecordedQuestion(ASKED, None), waiting, given)
    assert (row.what, row.answer) == ("undo changes-1", answer)


def test_the_record_beats_what_an_address_says() -> None:
    answered = _record("answered", answer="denied")
    row = HistoryRow.from_records(RecordedQuestion(ASKED, answered), frozenset(), ("Q", "once"))
    assert row.answer == "denied"
