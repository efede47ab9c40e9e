"""Verifications in a thread: one at a time, with progress, and the last result stays."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.record.ledger import verification, verify
from paddock.record.ledger.verification import LedgerVerification, Progress, Verdict
from paddock.record.ledger.verify import Report


def wait_for_the_end() -> None:
    for thread in threading.enumerate():
        if thread.name == "paddock-verify":
            thread.join()


def test_the_last_result_stays(directory: Path, write: Callable[..., None]) -> None:
    write(3)
    checked = LedgerVerification(directory, clock=lambda: 12.0)
    assert (checked.progress, checked.last) == (None, None)
    assert checked.start()
    wait_for_the_end()
    assert checked.progress is None
    first = checked.last
    assert first == Verdict(12.0, first.seconds if first else 0, verify.verify(directory))
    write(1)
    assert checked.last is first
    assert checked.start()
    wait_for_the_end()
    assert checked.last is not None
    assert checked.last.report == verify.verify(directory)


def test_one_verification_at_a_time(
    directory: Path, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(1)
    began, may_end = threading.Event(), threading.Event()

    def check(directory: Path, on_progress: Callable[[int, int], None]) -> Report:
        on_progress(7, 9)
        began.set()
        may_end.wait()
        return verify.verify(directory, on_progress)

    monkeypatch.setattr(verification, "verify", check)
    checked = LedgerVerification(directory)
    assert checked.start()
    began.wait()
    assert not checked.start()
    assert checked.progress == Progress(7, 9)
    assert checked.last is None
    may_end.set()
    wait_for_the_end()
    assert checked.last is not None
    assert checked.last.report is not None
    assert checked.last.report.records == 1


def test_a_ledger_that_cannot_be_read_is_told(directory: Path) -> None:
    checked = LedgerVerification(directory)
    assert checked.start()
    wait_for_the_end()
    assert checked.last is not None
    assert checked.last.report is None
    assert checked.last.problem == (
        f"There is no audit ledger at {directory}: no such directory. Check the state directory (XDG_STATE_HOME)."
    )


def test_progress_is_reported_across_files(
    directory: Path, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "_PROGRESS_LINES", 2)
    write(3)
    write(4, day=1)
    first, second = sorted(directory.glob("*.ndjson"))
    sizes = [len(line) for file in (first, second) for line in file.read_bytes().splitlines(keepends=True)]
    told: list[tuple[int, int]] = []
    verify.verify(directory, lambda *each: told.append(each))
    assert told == [(sum(sizes[:count]), sum(sizes)) for count in (2, 5, 7)]
