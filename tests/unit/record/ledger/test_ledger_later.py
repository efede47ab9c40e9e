"""Records that are written with the next one: their order, their moment, and what becomes of them when nothing can be written."""

import errno
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.errors import LedgerError
from paddock.model.ids import new_id
from paddock.record.ledger import writer as ledger_module
from paddock.record.ledger.read import read
from paddock.record.ledger.verify import verify
from paddock.record.ledger.writer import Ledger

BEFORE_MIDNIGHT = datetime(2026, 3, 1, 23, 59, 59, 999_000, tzinfo=UTC).timestamp()


@pytest.fixture
def nobody_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the thread that syncs from writing anything before the ledger is closed."""
    monkeypatch.setattr(ledger_module, "SYNC_INTERVAL_S", 3600)


def requests(directory: Path) -> list[str]:
    return [record.request for record in read(directory, newest_first=False)]


@pytest.mark.usefixtures("nobody_syncs")
def test_it_is_written_with_the_next_record_and_before_it(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[bytes] = []
    write, claimed = os.write, new_id()

    def noting(fd: int, data: bytes) -> int:
        writes.append(data)
        return write(fd, data)

    with Ledger(directory) as ledger:
        monkeypatch.setattr(os, "write", noting)
        ids = [
            ledger.append_soon("finished", "one", {"n": 1}, parent="p"),
            ledger.append_soon("finished", "two", {"n": 2}),
        ]
        assert writes == []
        ids.append(ledger.claim(claimed, {"n": 3}))
        assert [data.count(b"\n") for data in writes] == [3]
        assert [record.id for record in read(directory, newest_first=False)] == ids
        assert requests(directory) == ["one", "two", claimed]
    assert verify(directory).ok


@pytest.mark.usefixtures("nobody_syncs")
@pytest.mark.parametrize("use", [Ledger.flush, lambda ledger: list(ledger.query()), Ledger.close])
def test_it_is_written_before_it_is_asked_for(directory: Path, use) -> None:
    ledger = Ledger(directory)
    ledger.append_soon("finished", "r", {})
    assert requests(directory) == []
    use(ledger)
    assert requests(directory) == ["r"]
    ledger.close()


def test_the_thread_that_syncs_writes_it_when_nothing_else_does(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, write = threading.Event(), os.write
    threads: list[str] = []

    def noting(fd: int, data: bytes) -> int:
        done = write(fd, data)
        threads.append(threading.current_thread().name)
        written.set()
        return done

    with Ledger(directory) as ledger:
        monkeypatch.setattr(os, "write", noting)
        ledger.append_soon("finished", "r", {})
        assert written.wait(20)
        assert (threads, requests(directory)) == (["paddock-ledger"], ["r"])


def test_with_every_record_synced_it_is_written_at_once(directory: Path) -> None:
    with Ledger(directory, sync="always") as ledger:
        ledger.append_soon("finished", "r", {})
        assert requests(directory) == ["r"]


@pytest.mark.usefixtures("nobody_syncs")
def test_it_tells_its_own_time_in_the_file_of_the_day_it_is_written_on(directory: Path) -> None:
    now = [BEFORE_MIDNIGHT]
    with Ledger(directory, clock=lambda: now[0]) as ledger:
        ledger.append_soon("finished", "r", {})
        now[0] += 0.001
        ledger.append("decided", "s", {})
    assert [record.ts for record in read(directory, newest_first=False)] == [
        "2026-03-01T23:59:59.999Z",
        "2026-03-02T00:00:00.000Z",
    ]
    assert (directory / "2026-03-01.ndjson").read_bytes() == b""
    assert verify(directory).ok


@pytest.mark.usefixtures("nobody_syncs")
def test_a_refused_claim_leaves_it_to_the_next_record(directory: Path) -> None:
    claimed = new_id()
    with Ledger(directory) as ledger:
        ledger.claim(claimed, {})
        ledger.append_soon("finished", "r", {})
        with pytest.raises(LedgerError, match="was claimed before"):
            ledger.claim(claimed, {})
        ledger.append("decided", "s", {})
        assert requests(directory) == [claimed, "r", "s"]


def test_a_closed_ledger_takes_none(directory: Path) -> None:
    ledger = Ledger(directory)
    ledger.close()
    with pytest.raises(LedgerError, match="is closed"):
        ledger.append_soon("finished", "r", {})


FULL = """
import resource, sys
from pathlib import Path
from paddock.model.errors import LedgerError
from paddock.model.ids import new_id
from paddock.record.ledger import writer as module
module.SYNC_INTERVAL_S = float(sys.argv[2])
ledger = module.Ledger(Path(sys.argv[1]), clock=lambda: 1_772_366_400.0)
ledger.append("decided", "before", {})
data = Path(sys.argv[1], "2026-03-01.ndjson")
size = data.stat().st_size
for room in (100, 0):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, resource.RLIM_INFINITY))
    ledger.append_soon("finished", f"room for {room}", {})
    for call in (
        lambda: ledger.claim(new_id(1_772_366_400.0), {}),
        lambda: ledger.append("finished", "parent", {}),
        ledger.query,
        ledger.flush,
    ):
        try: call()
        except LedgerError as error: print(str(error).partition(". ")[2])
        else: print("written")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
if sys.argv[3] == "append":
    ledger.append("finished", "parent", {})
ledger.close()
"""


@pytest.mark.parametrize("interval", ["3600", "0.001"])
@pytest.mark.parametrize("last", ["append", "close"])
def test_on_a_full_disk_it_stays_first_in_line_and_nothing_else_is_written(
    directory: Path, interval: str, last: str
) -> None:
    """Half of it may fit. That the thread which syncs tries as well changes nothing."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, directory, interval, last], capture_output=True, text=True, check=True
    )
    stop = "Nothing runs without its record."
    space = f"{stop} Free space on its file system or raise the quota."
    limit = f"{stop} Raise the limit on the size of files (ulimit -f)."
    assert done.stdout.splitlines() == [space] * 4 + [limit] * 4
    kept = ["before", "room for 100", "room for 0"]
    assert requests(directory) == (kept if last == "close" else [*kept, "parent"])
    report = verify(directory)
    assert (report.ok, report.notes) == (True, ())


@pytest.mark.usefixtures("nobody_syncs")
def test_a_ledger_that_cannot_write_it_says_so_when_it_is_closed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int, __: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    ledger = Ledger(directory)
    ledger.append_soon("finished", "r", {})
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(LedgerError, match="No space left on device"):
        ledger.close()
    assert list(ledger.query()) == []


class Disk:
    """Writes of this process, which fail while it is full."""

    def __init__(self) -> None:
        self.full = False
        self._write = os.write

    def write(self, fd: int, data: bytes) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._write(fd, data)


class Writer:
    """A ledger, and the ids of the records that it has taken."""

    def __init__(self, directory: Path) -> None:
        self.ledger = Ledger(directory)
        self.taken: list[str] = []
        self.waits = False

    def soon(self) -> None:
        self.taken.append(self.ledger.append_soon("finished", new_id(), {}))
        self.waits = True

    def use(self, what: str, *, full: bool) -> None:
        """Write, read or flush; that must fail on a full disk if there is anything to write."""
        if full and (self.waits or what in ("claim", "append")):
            with pytest.raises(LedgerError, match="No space left on device"):
                self._use(what)
        else:
            self._use(what)
            self.waits = False

    def _use(self, what: str) -> None:
        match what:
            case "claim":
                self.taken.append(self.ledger.claim(new_id(), {}))
            case "append":
                self.taken.append(self.ledger.append("decided", "r", {}))
            case "query":
                assert {record.id for record in self.ledger.query()} >= set(self.taken)
            case _:
                self.ledger.flush()


STEPS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["claim", "append", "soon", "query", "flush", "full"])),
    max_size=40,
)


@given(steps=STEPS)
def test_whatever_happens_each_record_stands_once_and_in_its_order(steps: list[tuple[int, str]]) -> None:
    """Two ledgers of one directory, on a disk that is full now and then."""
    with TemporaryDirectory() as made, pytest.MonkeyPatch.context() as patched:
        patched.setattr(ledger_module, "SYNC_INTERVAL_S", 3600)
        disk, writers = Disk(), (Writer(Path(made)), Writer(Path(made)))
        patched.setattr(os, "write", disk.write)
        for who, what in steps:
            if what == "full":
                disk.full = not disk.full
            elif what == "soon":
                writers[who].soon()
            else:
                writers[who].use(what, full=disk.full)
        disk.full = False
        for writer in writers:
            writer.ledger.close()
        ids = [record.id for record in read(Path(made), newest_first=False)]
        assert sorted(ids) == sorted(writers[0].taken + writers[1].taken)
        for writer in writers:
            assert [record for record in ids if record in writer.taken] == writer.taken
        report = verify(Path(made))
        assert (report.ok, report.notes) == (True, ())
