"""The ledger under real processes: several writers at once, and writers that are killed."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from paddock.model.ids import new_id
from paddock.record.ledger.read import read
from paddock.record.ledger.verify import verify

OWN_PIDS = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
if os.geteuid() != 0:
    OWN_PIDS.append("--map-current-user")

WRITER = """
import sys
from pathlib import Path
from paddock.model.errors import LedgerError
from paddock.record.ledger.writer import Ledger
who, requests = sys.argv[2], sys.argv[3:]
with Ledger(Path(sys.argv[1])) as ledger:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(300):
        append = ledger.append_soon if number % 3 else ledger.append
        append("decided", f"{who}-{number}", {"name": "x" * (number % 97)})
        if number < len(requests):
            try:
                ledger.claim(requests[number], {"actor": who})
                print(requests[number])
            except LedgerError as error:
                assert "was claimed before" in str(error), error
"""

# Process 1 of its own PID namespace cannot be killed from within, so it keeps a child that can.
KEEPER = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", *sys.argv[2:]], stdout=subprocess.PIPE, text=True)
said = []
while (line := child.stdout.readline()) and len(said) < int(sys.argv[1]):
    said.append(line)
child.kill()
rest = child.stdout.read()
whole = rest[: rest.rfind("\\n") + 1]
print("".join(said) + line + whole, end="")
sys.exit(0 if child.wait() == -9 else 1)
"""

ENDLESS = """
import itertools, sys
from pathlib import Path
from paddock.record.ledger.writer import Ledger
ledger = Ledger(Path(sys.argv[1]))
for number in itertools.count():
    print(ledger.append("decided", str(number), {"name": "x" * 400}), flush=True)
"""

DIES_IN_WRITE = """
import os, signal, sys
from pathlib import Path
from paddock.model.ids import new_id
from paddock.record.ledger.writer import Ledger
ledger = Ledger(Path(sys.argv[1]))
ledger.append("decided", "before", {})
call, share = getattr(os, sys.argv[2]), float(sys.argv[3])
def dying(fd, data, *rest):
    call(fd, data[: int(len(data) * share)], *rest)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(os, sys.argv[2], dying)
ledger.append_soon("finished", "waiting", {})
ledger.claim(new_id(), {"name": "during"})
"""

DIES_BEFORE_WRITE = """
import os, signal, sys
from pathlib import Path
from paddock.model.ids import new_id
from paddock.record.ledger import writer as module
module.SYNC_INTERVAL_S = 3600
ledger, request = module.Ledger(Path(sys.argv[1])), new_id()
ledger.claim(request, {})
ledger.append_soon("finished", request, {})
print("taken", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_processes_that_write_at_once_keep_one_chain(tmp_path: Path) -> None:
    directory = tmp_path / "ledger"
    requests = [new_id() for _ in range(100)]
    command = [sys.executable, "-c", WRITER, str(directory)]
    writers = [
        subprocess.Popen(
            [*command, f"w{n}", *requests], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for n in range(4)
    ]
    for writer in writers:
        assert writer.stdout
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin
        writer.stdin.write("go\n")
        writer.stdin.flush()
    claimed = [line for writer in writers for line in writer.communicate()[0].split()]
    assert [writer.returncode for writer in writers] == [0] * 4
    assert sorted(claimed) == sorted(requests)
    report = verify(directory)
    assert (report.problems, report.notes, report.records, report.last_seq) == ((), (), 1300, 1300)
    written = Counter(record.request for record in read(directory))
    assert written == Counter([*requests, *(f"w{n}-{number}" for n in range(4) for number in range(300))])
    for who in range(4):
        mine = [
            r.request
            for r in read(directory, event="decided", newest_first=False)
            if r.request[:2] == f"w{who}"
        ]
        assert mine == [f"w{who}-{number}" for number in range(300)]


@pytest.mark.parametrize("lines", [0, 1, 7, 50, 200])
def test_a_killed_writer_loses_nothing_it_has_acknowledged(tmp_path: Path, lines: int) -> None:
    directory = tmp_path / "ledger"
    acknowledged: list[str] = []
    for _ in range(3):
        done = subprocess.run(
            [*OWN_PIDS, sys.executable, "-c", KEEPER, str(lines), ENDLESS, directory],
            capture_output=True,
            text=True,
            check=True,
        )
        acknowledged += done.stdout.split()
    assert len(acknowledged) > 3 * lines
    report = verify(directory)
    assert report.problems == ()
    written = {record.id for record in read(directory, event="decided")}
    assert written >= set(acknowledged)
    assert len(written) <= len(acknowledged) + 3


@pytest.mark.parametrize(
    ("call", "share", "events"),
    [
        ("write", 0.0, []),
        ("write", 0.25, ["recovered"]),
        ("write", 0.75, ["finished", "recovered"]),
        ("write", 0.999, ["finished", "started"]),
        ("write", 1.0, ["finished", "started"]),
        ("pwrite", 0.0, ["finished", "started"]),
        ("pwrite", 1.0, ["finished", "started"]),
    ],
)
def test_a_writer_killed_in_mid_write_is_repaired(
    tmp_path: Path, call: str, share: float, events: list[str]
) -> None:
    """The write holds two records: of a torn one, the first may stand whole and the second not."""
    directory = tmp_path / "ledger"
    keeper = [*OWN_PIDS, sys.executable, "-c", KEEPER, "1", DIES_IN_WRITE, directory, call, str(share)]
    subprocess.run(keeper, check=True)
    assert verify(directory).problems == ()
    subprocess.run([sys.executable, "-c", WRITER, directory, "next"], input="go\n", text=True, check=True)
    report = verify(directory)
    assert report.problems == ()
    assert len(report.notes) == events.count("recovered")
    found = [record.event for record in read(directory, newest_first=False)]
    assert found == ["decided", *events, *["decided"] * 300]


def test_a_death_before_the_write_loses_an_end_and_never_a_claim(tmp_path: Path) -> None:
    directory = tmp_path / "ledger"
    keeper = [*OWN_PIDS, sys.executable, "-c", KEEPER, "1", DIES_BEFORE_WRITE, directory]
    subprocess.run(keeper, check=True)
    assert [record.event for record in read(directory)] == ["started"]
    subprocess.run([sys.executable, "-c", WRITER, directory, "next"], input="go\n", text=True, check=True)
    report = verify(directory)
    assert (report.problems, report.notes, report.records) == ((), (), 301)


def test_readers_and_verify_work_beside_a_writer(tmp_path: Path) -> None:
    directory = tmp_path / "ledger"
    command = [sys.executable, "-c", WRITER, str(directory), "w"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin
        assert writer.stdout
        assert writer.stdout.readline() == "ready\n"
        writer.stdin.write("go\n")
        writer.stdin.flush()
        seen: list[int] = []
        while not seen or seen[-1] < 300:
            report = verify(directory)
            assert (report.problems, report.notes) == ((), ())
            assert report.last_seq == report.records
            assert len(list(read(directory))) >= report.records
            seen.append(report.records)
        assert seen == sorted(seen)
        assert writer.wait() == 0
