"""The record of a process that ends at once: every request under way has an end, and nothing contradicts it."""

import threading
from pathlib import Path

import pytest

from paddock.model.errors import LedgerError
from paddock.model.ids import new_id
from paddock.record.ledger.read import read
from paddock.record.ledger.verify import verify
from paddock.record.ledger.writer import Ledger

Told = tuple[str, str, str | None, object]


def told(directory: Path) -> list[Told]:
    records = read(directory, newest_first=False)
    return [(each.event, each.request, each.parent, each.fields.get("status")) for each in records]


def test_every_request_under_way_is_recorded_as_cancelled(directory: Path) -> None:
    program, call, over, quick = (new_id() for _ in range(4))
    ledger = Ledger(directory)
    ledger.claim(over, {"kind": "guest"})
    ledger.append("finished", over, {"status": "ok"})
    ledger.claim(program, {"kind": "guest"})
    ledger.claim(call, {"kind": "server"}, parent=program)
    ledger.claim(quick, {"kind": "server"}, parent=program)
    ledger.append_soon("finished", quick, {"status": "ok"}, parent=program)
    ledger.append("looked", program, {"status": "ok"})
    ledger.abandon()
    assert told(directory)[-4:] == [
        ("finished", quick, program, "ok"),
        ("looked", program, None, "ok"),
        ("finished", call, program, "cancelled"),
        ("finished", program, None, "cancelled"),
    ]
    assert [each[1] for each in told(directory) if each[0] == "finished"].count(over) == 1
    kept = {each.request: each.fields for each in read(directory, event="finished")}
    assert kept[call] == {"kind": "server", "status": "cancelled"}
    assert verify(directory).ok


def test_nothing_is_written_after_it(directory: Path) -> None:
    request = new_id()
    ledger = Ledger(directory)
    ledger.claim(request, {"kind": "guest"})
    ledger.abandon()
    before = told(directory)
    late = threading.Thread(target=ledger.append, args=("finished", request, {"status": "ok"}), daemon=True)
    late.start()
    late.join(0.05)
    assert late.is_alive()
    assert (
        told(directory)
        == before
        == [("started", request, None, None), ("finished", request, None, "cancelled")]
    )


def test_it_waits_for_the_one_who_writes(directory: Path) -> None:
    """A signal may interrupt whoever holds the lock; the record is then written from another thread."""
    request = new_id()
    ledger = Ledger(directory)
    ledger.claim(request, {})
    with ledger._mutex:
        ending = threading.Thread(target=ledger.abandon)
        ending.start()
        ledger._run_locked(lambda: None)
    ending.join()
    assert told(directory) == [("started", request, None, None), ("finished", request, None, "cancelled")]


def test_a_ledger_that_is_closed_is_not_written_any_more(directory: Path) -> None:
    with Ledger(directory) as ledger:
        ledger.claim(request := new_id(), {})
    with pytest.raises(LedgerError):
        ledger.abandon()
    assert told(directory) == [("started", request, None, None)]
