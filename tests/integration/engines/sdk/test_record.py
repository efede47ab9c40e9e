"""What the ledger holds of a program's calls: claims before they are made, their ends before that of the program."""

import pytest

from paddock.model.errors import LedgerError
from paddock.model.outcome import Status
from paddock.record.ledger import chain
from paddock.record.ledger import writer as ledger_module


@pytest.fixture(autouse=True)
def _nobody_syncs(monkeypatch):
    """Keep the thread that syncs from writing what waits for the next record."""
    monkeypatch.setattr(ledger_module, "SYNC_INTERVAL_S", 3600)


def test_the_end_of_a_call_is_written_with_what_comes_next(desk):
    seen = []

    def heard(line):
        seen.append([record.event for record in desk.records()])

    outcome = desk.open().run(
        "paddock.vault.list(); console.log(1); paddock.vault.list(); console.log(2);", lines=heard
    )
    assert outcome.status is Status.OK
    assert seen == [["started", "started"], ["started", "started", "finished", "started"]]
    records = desk.records()
    assert [record.event for record in records] == [
        *("started", "started", "finished", "started", "finished", "finished")
    ]
    [parent, one, one_ended, two, two_ended, ended] = records
    assert (one_ended.request, two_ended.request) == (one.request, two.request)
    assert {one.parent, one_ended.parent, two.parent, two_ended.parent} == {parent.request}
    assert (parent.request, parent.parent, ended.parent) == (outcome.id, None, None)
    assert ended.id == outcome.audit


def test_a_disk_that_fills_during_a_call_ends_the_calls_and_then_the_run(desk, monkeypatch):
    """The call whose end waits was made, and its program hears so; nothing is made after it."""
    lines = []

    def heard(line):
        lines.append(line.text)
        if line.text == "full":
            monkeypatch.setattr(chain.Chain, "put", full)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    source = """
    console.log("full");
    try { await paddock.vault.list(); } catch (error) { console.log(error.message); }
    """
    with pytest.raises(LedgerError, match="No space left on device"):
        desk.open().run(f"paddock.vault.list();{source}", lines=heard)
    assert lines == ["full", "the call cannot be recorded, so it was not made"]
    assert [record.event for record in desk.records()] == ["started", "started"]
    monkeypatch.undo()
    assert desk.run("return 1").value == 1
    assert [record.event for record in desk.records()] == [
        "started",
        "started",
        "finished",
        "started",
        "finished",
    ]
