import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from paddock.model.errors import LedgerError
from paddock.model.ids import new_id
from paddock.record.ledger import line_format
from paddock.record.ledger.line_format import LedgerHead, explain_failed_call, this_boot
from paddock.record.ledger.read import read
from paddock.record.ledger.verify import verify
from paddock.record.ledger.writer import Ledger

BEFORE_MIDNIGHT = datetime(2026, 3, 1, 23, 59, 59, 999_000, tzinfo=UTC).timestamp()


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def head(directory: Path) -> LedgerHead:
    found = LedgerHead.parse((directory / "head").read_bytes())
    assert found is not None
    return found


def test_directory_and_files_are_private(tmp_path: Path) -> None:
    directory = tmp_path / "state" / "ledger"
    directory.mkdir(parents=True)
    directory.chmod(0o755)
    old = os.umask(0)
    try:
        with Ledger(directory) as ledger:
            ledger.append("decided", "r", {})
    finally:
        os.umask(old)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}


def test_a_line_is_the_documented_one(directory: Path) -> None:
    with Ledger(directory, clock=lambda: BEFORE_MIDNIGHT) as ledger:
        record = ledger.append("decided", "r", {"name": "ü", "ms": 1.5})
    line = (directory / "2026-03-01.ndjson").read_text()
    body = (
        f'{{"v":1,"seq":1,"id":"{record}","ts":"2026-03-01T23:59:59.999Z","event":"decided","request":"r",'
        f'"parent":null,"name":"\\u00fc","ms":1.5,"prev":"{"0" * 64}"'
    )
    digest = subprocess.run(
        f"""sed 's/,"hash":"[0-9a-f]*"}}$/}}/' {directory}/2026-03-01.ndjson | tr -d '\\n' | sha256sum""",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    ).stdout[:64]
    assert line == f'{body},"hash":"{digest}"}}\n'
    assert head(directory) == LedgerHead(1, digest, "2026-03-01.ndjson", len(line), 1, this_boot())


def test_the_chain_goes_on_over_midnight(directory: Path) -> None:
    now = [BEFORE_MIDNIGHT]
    with Ledger(directory, clock=lambda: now[0]) as ledger:
        ledger.append("decided", "r", {})
        now[0] += 0.001
        ledger.append("decided", "r", {})
    assert names(directory) == ["2026-03-01.ndjson", "2026-03-02.ndjson", "brought", "head"]
    [one, two] = read(directory, newest_first=False)
    assert (one.ts, two.ts, two.prev) == ("2026-03-01T23:59:59.999Z", "2026-03-02T00:00:00.000Z", one.hash)
    assert verify(directory).ok


def test_a_clock_that_goes_back_keeps_to_the_newest_file(directory: Path) -> None:
    now = [BEFORE_MIDNIGHT]
    with Ledger(directory, clock=lambda: now[0]) as ledger:
        ledger.append("decided", "r", {})
        now[0] -= 86_400
        ledger.append("decided", "r", {})
    assert names(directory) == ["2026-03-01.ndjson", "brought", "head"]
    assert verify(directory).ok


def test_ledgers_of_one_directory_see_each_others_records(directory: Path) -> None:
    with Ledger(directory) as one, Ledger(directory) as two:
        for number in range(10):
            (one, two)[number % 2].append("decided", str(number), {})
    assert [record.request for record in read(directory, newest_first=False)] == [str(n) for n in range(10)]
    assert verify(directory).ok


def test_a_claim_is_found_by_other_ledgers_and_after_midnight(directory: Path) -> None:
    now = [BEFORE_MIDNIGHT]
    request, other = new_id(now[0]), new_id(now[0] + 1)
    with Ledger(directory, clock=lambda: now[0]) as one, Ledger(directory, clock=lambda: now[0]) as two:
        one.claim(other, {})
        two.claim(request, {})
        now[0] += 3600
        one.append("decided", "r", {})
        for ledger in (one, two):
            for claimed in (request, other):
                with pytest.raises(LedgerError, match="was claimed before"):
                    ledger.claim(claimed, {})
        now[0] -= 3600
        with pytest.raises(LedgerError, match="was claimed before"):
            one.claim(request, {})
    with (
        Ledger(directory, clock=lambda: now[0]) as three,
        pytest.raises(LedgerError, match="was claimed before"),
    ):
        three.claim(request, {})


def test_text_that_looks_like_a_claim_claims_nothing(directory: Path) -> None:
    request = new_id()
    with Ledger(directory) as ledger:
        ledger.append("decided", "r", {"name": f'","event":"started","request":"{request}"'})
        ledger.claim(request, {})


def test_a_claim_is_found_behind_many_records(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.record.ledger.claims._CHUNK_BYTES", 700)
    requests = [new_id() for _ in range(20)]
    with Ledger(directory) as ledger:
        for request in requests:
            ledger.claim(request, {})
    with Ledger(directory) as ledger:
        for request in requests:
            with pytest.raises(LedgerError, match="was claimed before"):
                ledger.claim(request, {})


def test_a_path_that_is_no_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError) as caught:
        Ledger(tmp_path / "file" / "ledger")
    assert str(caught.value) == (
        f"The audit ledger {tmp_path}/file/ledger cannot be written: Not a directory. "
        "Nothing runs without its record. Remove the file that is in the way of a directory, or choose another state "
        "directory: set XDG_STATE_HOME."
    )


def test_errors_say_what_to_do() -> None:
    def text(code: int, what: str) -> str:
        return str(explain_failed_call(OSError(code, os.strerror(code)), Path("/l"), what))

    assert text(errno.ENOSPC, "written") == (
        "The audit ledger /l cannot be written: No space left on device. Nothing runs without its record. "
        "Free space on its file system or raise the quota."
    )
    assert text(errno.EFBIG, "written") == (
        "The audit ledger /l cannot be written: File too large. Nothing runs without its record. "
        "Raise the limit on the size of files (ulimit -f)."
    )
    assert text(errno.EACCES, "read") == (
        "The audit ledger /l cannot be read: Permission denied. "
        f"Make it accessible to user {os.geteuid()}, or choose another state directory: set XDG_STATE_HOME."
    )


def test_a_planted_special_file_is_refused(directory: Path, write: Callable[..., None]) -> None:
    write(1)
    os.mkfifo(directory / "2026-03-02.ndjson")
    with pytest.raises(LedgerError) as caught:
        write(1, day=1)
    assert str(caught.value) == (
        f"The audit ledger {directory} cannot be written: {directory}/2026-03-02.ndjson: it is a pipe, not a regular "
        f"file. Nothing runs without its record. To go on, move {directory}/2026-03-02.ndjson away."
    )
    assert [record.seq for record in read(directory)] == [1]


def test_a_lock_that_is_never_given_back_is_an_error(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_format, "_LOCK_WAIT_S", 0.05)
    with Ledger(directory) as ledger:
        holder = os.open(directory / "head", os.O_RDONLY)
        line_format.hold(holder, line_format.fcntl.LOCK_EX, directory)
        with pytest.raises(LedgerError) as caught:
            ledger.append("decided", "r", {})
        os.close(holder)
        assert str(caught.value) == (
            f"The audit ledger {directory} is locked: another process has held it for 0 s. "
            f"Nothing runs without its record. Find that process with `fuser -v {directory}/head`."
        )
        ledger.append("decided", "r", {})
    assert verify(directory).records == 1


def test_a_forked_ledger_is_refused(directory: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from paddock.record.ledger.writer import Ledger\n"
        "ledger = Ledger(Path(sys.argv[1]))\n"
        "if os.fork() == 0:\n"
        "    try: ledger.append('decided', 'r', {})\n"
        "    except Exception as error: print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait(); ledger.append('decided', 'r', {}); ledger.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, directory], capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        f"The audit ledger {directory} was opened before a fork, and shares its lock with the "
        "parent process. Open another one after the fork.\n"
    )
    assert verify(directory).records == 1


def test_a_full_disk_leaves_no_trace_and_no_run(directory: Path) -> None:
    program = """
import resource, sys
from pathlib import Path
from paddock.record.ledger.writer import Ledger
from paddock.model.errors import LedgerError
ledger = Ledger(Path(sys.argv[1]), clock=lambda: 1_772_366_400.0)
ledger.append("decided", "r", {})
data = Path(sys.argv[1], "2026-03-01.ndjson")
size = data.stat().st_size
for room in (100, 0):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, resource.RLIM_INFINITY))
    try: ledger.append("decided", "r", {})
    except LedgerError as error: print(error)
    assert data.stat().st_size == size
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
ledger.append("decided", "r", {})
ledger.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, directory], capture_output=True, text=True, check=True
    )
    size = (directory / "2026-03-01.ndjson").stat().st_size // 2
    stop, space = "Nothing runs without its record.", "Free space on its file system or raise the quota."
    assert done.stdout.splitlines() == [
        f"The audit ledger {directory} cannot be written: only 100 of {size} bytes fit. {stop} {space}",
        f"The audit ledger {directory} cannot be written: File too large. {stop} "
        "Raise the limit on the size of files (ulimit -f).",
    ]
    report = verify(directory)
    assert (report.ok, report.records, report.notes) == (True, 2, ())


HOLDING = """
import os, sys, threading
from pathlib import Path
from paddock.record.ledger.writer import Ledger

def held():
    return len(os.listdir("/proc/self/fd")), threading.active_count()

print(*held())
with Ledger(Path(sys.argv[1])) as one, Ledger(Path(sys.argv[1])) as two:
    for _ in range(50):
        one.append("decided", "r", {})
        two.append("decided", "r", {})
    one.flush()
    two.flush()
    print(*held())
print(*held())
"""


def test_an_open_ledger_is_one_thread_and_few_files(directory: Path, write: Callable[..., None]) -> None:
    write(1)
    command = [sys.executable, "-c", HOLDING, str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    [before, meanwhile, after] = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert before == after
    assert meanwhile[1] == before[1] + 2
    assert meanwhile[0] <= before[0] + 4
