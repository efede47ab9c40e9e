"""What writers of one chain keep from each other: one at a time, and nobody forgets what another has found."""

import errno
import fcntl
import os
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from paddock.model.errors import LedgerError
from paddock.record.ledger.chain import Chain
from paddock.record.ledger.line_format import new_entry
from paddock.record.ledger.writer import Ledger

DAY_ONE = datetime(2026, 3, 1, 12, 0, tzinfo=UTC).timestamp()
DAY_S = 86_400
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_nobody_else_has_the_lock_while_a_record_is_written(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    write = os.write

    def noting(fd: int, data: bytes) -> int:
        with (directory / "head").open("rb") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                tried.append("locked")
        return write(fd, data)

    with Ledger(directory) as ledger:
        monkeypatch.setattr(os, "write", noting)
        ledger.append("decided", "r", {})
        monkeypatch.undo()
        with (directory / "head").open("rb") as other:
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
    assert tried == ["locked"]


def test_what_is_synced_stays_so_for_every_writer(directory: Path) -> None:
    first, second = Chain(directory, time.time), Chain(directory, time.time)
    first.lock()
    first.put([new_entry("decided", "r", None, {}), new_entry("decided", "r", None, {})])
    first.unlock()
    second.lock()
    second.mark_synced(2)
    second.mark_synced(1)
    assert (second.head.seq, second.head.synced) == (2, 2)
    second.mark_synced(3)
    assert (second.head.seq, second.head.synced) == (2, 2)
    second.unlock()
    first.lock()
    assert first.head == second.head
    first.put([new_entry("decided", "r", None, {})])
    assert (first.head.seq, first.head.synced) == (3, 2)
    first.unlock()
    for chain in (first, second):
        chain.close()


def test_a_file_of_a_day_that_is_yet_to_come_is_left_alone(directory: Path) -> None:
    now = [DAY_ONE]
    with Ledger(directory, clock=lambda: now[0]) as ledger:
        ledger.append("decided", "first", {})
        (directory / "2099-01-01.ndjson").touch()
        now[0] += DAY_S
        ledger.append("decided", "second", {})
        found = [record.request for record in ledger.query(newest_first=False)]
    assert found == ["first", "second"]
    sizes = {path.name: path.stat().st_size > 0 for path in directory.glob("*.ndjson")}
    assert sizes == {"2026-03-01.ndjson": True, "2026-03-02.ndjson": True, "2099-01-01.ndjson": False}


def test_what_waits_to_be_written_does_not_keep_the_rest_from_being_synced(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def noting(fd: int) -> None:
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)

    def refuse(_fd: int, _data: bytes) -> int:
        raise FULL

    ledger = Ledger(directory, clock=lambda: DAY_ONE)
    monkeypatch.setattr(ledger, "_sync_soon", lambda: None)  # nobody syncs but this test
    ledger.append("decided", "r", {})
    ledger.append_soon("finished", "r", {})
    monkeypatch.setattr(os, "write", refuse)
    monkeypatch.setattr(os, "fsync", noting)
    with pytest.raises(LedgerError) as caught:
        ledger.flush()
    assert str(caught.value) == (
        f"The audit ledger {directory} cannot be written: No space left on device. Nothing runs without its record. "
        "Free space on its file system or raise the quota."
    )
    assert sorted(synced) == ["2026-03-01.ndjson", "ledger"]
    monkeypatch.undo()
    ledger.close()


def test_what_could_not_be_written_in_the_background_is_tried_again(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[int] = []
    written = threading.Event()
    write = os.write

    def refuse_once(fd: int, data: bytes) -> int:
        if not refused:
            refused.append(len(data))
            raise FULL
        done = write(fd, data)
        written.set()
        return done

    with Ledger(directory) as ledger:
        ledger.append("decided", "r", {})
        ledger.flush()
        monkeypatch.setattr(os, "write", refuse_once)
        ledger.append_soon("finished", "r", {})
        assert written.wait(60)
        monkeypatch.undo()
        assert [record.event for record in ledger.query()] == ["finished", "decided"]
