"""When records are on the disk: at once, or soon and by a thread of its own, that ends with the ledger."""

import errno
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from paddock.model.errors import LedgerError
from paddock.record.ledger import writer as ledgers
from paddock.record.ledger.line_format import LedgerHead
from paddock.record.ledger.verify import verify
from paddock.record.ledger.writer import Ledger

BEFORE_MIDNIGHT = datetime(2026, 3, 1, 23, 59, 59, 999_000, tzinfo=UTC).timestamp()


def head(directory: Path) -> LedgerHead:
    found = LedgerHead.parse((directory / "head").read_bytes())
    assert found is not None
    return found


def test_sync_always_syncs_before_it_returns(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noting(fd: int) -> None:
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        fsync(fd)

    with Ledger(directory, sync="always", clock=lambda: BEFORE_MIDNIGHT) as ledger:
        monkeypatch.setattr(os, "fsync", noting)
        ledger.append("decided", "r", {})
        assert sorted(synced) == ["2026-03-01.ndjson", "ledger"]
        assert head(directory).synced == 1
        ledger.append("decided", "r", {})
        assert synced[2:] == ["2026-03-01.ndjson"]
        assert head(directory).synced == 2


def test_batches_are_synced_in_the_background(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    fsync = os.fsync
    threads: list[str] = []

    def noting(fd: int) -> None:
        fsync(fd)
        threads.append(threading.current_thread().name)
        done.set()

    with Ledger(directory, clock=lambda: BEFORE_MIDNIGHT) as ledger:
        monkeypatch.setattr(os, "fsync", noting)
        ledger.append("decided", "r", {})
        assert done.wait(10)
        assert set(threads) == {"paddock-ledger"}


def test_where_no_thread_can_be_started_every_record_is_synced(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with Ledger(directory) as ledger:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refused)
            for seq in (1, 2):
                ledger.append("decided", "r", {})
                assert head(directory).synced == seq
        ledger.append("decided", "r", {})
    assert head(directory).synced == 3


def test_close_syncs(directory: Path) -> None:
    with Ledger(directory) as ledger:
        ledger.append("decided", "r", {})
    assert head(directory).synced == 1


def test_a_failed_sync_stops_the_ledger(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    ledger = Ledger(directory, sync="always")
    ledger.append("decided", "r", {})
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", broken)
        with pytest.raises(LedgerError):
            ledger.append("decided", "r", {})
    for call in (lambda: ledger.append("decided", "r", {}), ledger.close):
        with pytest.raises(LedgerError) as caught:
            call()
        assert str(caught.value) == (
            f"The audit ledger {directory} cannot be synced: Input/output error. "
            "Nothing runs without its record. Repair its file system, or choose another state directory: set XDG_STATE_HOME."
        )
    ledger.close()


def test_the_thread_that_syncs_sleeps_when_nothing_is_written_and_wakes_for_the_next_record(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asleep, synced = threading.Semaphore(0), threading.Semaphore(0)
    fsync = os.fsync

    class Awake(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            asleep.release()
            return super().wait(timeout)

    def noting(fd: int) -> None:
        fsync(fd)
        synced.release()

    monkeypatch.setattr(ledgers, "SYNC_INTERVAL_S", 0.001)
    monkeypatch.setattr(os, "fsync", noting)
    with Ledger(directory) as ledger:
        ledger._awake = Awake()
        for _ in range(3):
            ledger.append("decided", "r", {})
            assert synced.acquire(timeout=20)
            assert asleep.acquire(timeout=20)
        assert not ledger._awake.is_set()
    assert ledger._syncer is not None
    assert not ledger._syncer.is_alive()
    assert verify(directory).ok


def test_closing_at_the_worst_moment_ends_the_thread_that_syncs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`close` may come when the thread has just seen that it has not, and is about to forget what was written."""
    monkeypatch.setattr(ledgers, "_QUIET_INTERVALS", 1)
    ledger = Ledger(tmp_path)

    class Late(threading.Event):
        def clear(self) -> None:
            ledger._closing.set()  # what `close` does, before it joins the thread
            self.set()
            super().clear()

    ledger._awake = Late()
    ledger.append("decided", "r", {})
    syncer = ledger._syncer
    assert syncer is not None
    syncer.join(20)
    assert not syncer.is_alive()
    ledger.close()
    assert verify(tmp_path).ok
