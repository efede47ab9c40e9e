"""`paddock audit` as a process: filters, an index that several readers bring up to date, and following."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.command import PADDOCK, Ended, run_paddock

from paddock.model.ids import new_id
from paddock.model.outcome import Status
from paddock.record.ledger.writer import Ledger

INTERRUPTED, UNREAD = 130, 141


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "audit"


@pytest.fixture
def environment(tmp_path: Path, directory: Path) -> Mapping[str, str]:
    return {
        **os.environ,
        "XDG_CONFIG_HOME": str(tmp_path),
        "PADDOCK_AUDIT_DIRECTORY": str(directory),
        "PYTHONUNBUFFERED": "1",
    }


@pytest.fixture
def audit(tmp_path: Path, environment: Mapping[str, str]) -> Callable[..., Ended]:
    """Run `paddock audit`."""

    def run(*args: str) -> Ended:
        return run_paddock(tmp_path, "audit", *args, environment=environment)

    return run


@pytest.fixture
def follow(tmp_path: Path, environment: Mapping[str, str]) -> Callable[..., subprocess.Popen[str]]:
    """Start `paddock audit tail --follow --json`."""

    def start(*args: str, **how: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PADDOCK, "audit", "tail", "--follow", "--json", *args],
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **how,
        )

    return start


def call(ledger: Ledger, server: str, status: str, *, actor: str = "ada", at: float | None = None) -> str:
    request = new_id(at)
    facts = {"actor": actor, "kind": "server", "name": f"{server}/now"}
    ledger.claim(request, facts)
    ledger.append("finished", request, {**facts, "status": status})
    return request


def requests(done: Ended) -> list[str]:
    assert (done.returncode, done.stderr) == (0, "")
    return [record["request"] for record in json.loads(done.stdout)]


def test_tail_filters_by_what_records_say(directory: Path, audit: Callable[..., Ended]) -> None:
    now = [datetime.now(UTC).timestamp() - 3600]
    with Ledger(directory, clock=lambda: now[0]) as ledger:
        ends = [("git", "ok"), ("git", "failed"), ("time", "failed")]
        old = [call(ledger, server, status, at=now[0]) for server, status in ends]
        now[0] += 3500
        new = [call(ledger, "git", "failed", actor="bob", at=now[0]), call(ledger, "time", "ok", at=now[0])]
    assert requests(audit("tail", "--status", "failed", "--json")) == [old[1], old[2], new[0]]
    assert requests(audit("tail", "--server", "git", "--status", "failed", "--json")) == [old[1], new[0]]
    assert requests(audit("tail", "--tool", "now", "--event", "started", "--json")) == [*old, *new]
    assert requests(audit("tail", "--actor", "bob", "--json")) == [new[0]] * 2
    assert requests(audit("tail", "--since", "30m", "--event", "finished", "--json")) == new
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert requests(audit("tail", "--since", tomorrow, "--json")) == []
    assert requests(audit("tail", "--until", "30m", "--event", "finished", "--json")) == old
    today = datetime.now(UTC).date().isoformat()
    assert requests(audit("tail", "--until", today, "--event", "finished", "--json")) == [*old, *new]
    follow = audit("tail", "--until", "30m", "--follow")
    told = "Error: --follow shows new records, and --until ends before them; use one of the two\n"
    assert (follow.returncode, follow.stderr.endswith(f"\n\n{told}")) == (2, True)
    assert requests(audit("tail", "--limit", "2", "--status", "failed", "--json")) == [old[2], new[0]]
    tool = requests(audit("tail", "--server", "git", "--json"))
    assert requests(audit("tail", "--tool", "git/now", "--json")) == tool != []
    assert requests(audit("tail", "--tool", "git.now", "--json")) == tool
    assert requests(audit("show", old[1], "--json")) == [old[1]] * 2
    nonsense = audit("tail", "--status", "nonsense")
    assert nonsense.returncode == 2
    statuses = ", ".join(f"'{status}'" for status in (*Status, "planned"))
    told = f"Error: Invalid value for '--status': 'nonsense' is not one of {statuses}.\n"
    assert nonsense.stderr.endswith(f"\n\n{told}")
    wrong = audit("tail", "--since", "yesterday")
    assert wrong.returncode == 2
    assert "'yesterday' is neither an age like `24h` or `7d` nor a date in ISO 8601" in wrong.stderr


def test_readers_at_once_make_one_index(
    directory: Path, tmp_path: Path, environment: Mapping[str, str]
) -> None:
    with Ledger(directory) as ledger:
        wanted = [call(ledger, f"s{number % 5}", "ok") for number in range(200)][3::5]
        command = [PADDOCK, "audit", "tail", "--server", "s3", "--event", "finished", "-n", "99", "--json"]
        readers = [
            subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
            for _ in range(4)
        ]
        found = [reader.communicate()[0] for reader in readers]
    assert [reader.returncode for reader in readers] == [0] * 4
    assert [[record["request"] for record in json.loads(text)] for text in found] == [wanted] * 4


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_in_the_place_of_a_file_is_named(
    audit: Callable[..., Ended], directory: Path, make: Callable[[Path], None]
) -> None:
    with Ledger(directory) as ledger:
        request = new_id()
        ledger.claim(request, {})
    day = directory / "2020-01-01.ndjson"
    make(day)
    warning = f"warning: {day} is not a regular file, so its records are not shown: move it away\n"
    for args in (("tail",), ("show", request)):
        shown = audit(*args)
        assert (shown.returncode, request in shown.stdout, shown.stderr) == (0, True, warning)


def test_follow_gives_what_is_wanted_as_it_is_written_and_over_the_change_of_the_day(
    directory: Path, follow: Callable[..., subprocess.Popen[str]]
) -> None:
    now = [datetime.now(UTC).timestamp()]
    with Ledger(directory, clock=lambda: now[0]) as ledger:
        first = call(ledger, "git", "failed")
        with follow("--status", "failed") as reader:
            assert reader.stdout
            assert json.loads(reader.stdout.readline())["request"] == first
            call(ledger, "git", "ok")
            second = call(ledger, "git", "failed")
            assert json.loads(reader.stdout.readline())["request"] == second
            now[0] += 86_400
            third = call(ledger, "git", "failed", at=now[0])
            assert json.loads(reader.stdout.readline())["request"] == third
            reader.send_signal(signal.SIGINT)
            rest, errors = reader.communicate()
    assert (reader.returncode, rest, errors) == (INTERRUPTED, "", "Interrupted\n")


def test_follow_ends_when_nobody_reads_although_nothing_is_written(
    directory: Path, follow: Callable[..., subprocess.Popen[str]]
) -> None:
    with Ledger(directory) as ledger:
        call(ledger, "git", "ok")
    with follow() as reader:
        assert reader.stdout
        assert reader.stderr
        reader.stdout.readline()
        reader.stdout.close()
        assert reader.stderr.read() == ""
        assert reader.wait() == UNREAD


def test_follow_waits_for_a_ledger_that_is_not_there_yet(
    directory: Path, follow: Callable[..., subprocess.Popen[str]], environment: Mapping[str, str]
) -> None:
    with follow("--event", "started") as reader, Ledger(directory) as ledger:
        assert reader.stdout
        # It may begin after some of them; from then on none is lost.
        found = ""
        while not found:
            call(ledger, "git", "ok")
            os.set_blocking(reader.stdout.fileno(), False)
            found = reader.stdout.readline()
        reader.send_signal(signal.SIGINT)
        os.set_blocking(reader.stdout.fileno(), True)
        reader.communicate()
    assert json.loads(found)["event"] == "started"
    assert environment["PADDOCK_AUDIT_DIRECTORY"] == str(directory)


def test_show_bounds_the_calls_of_a_request_and_says_how_to_see_all(
    directory: Path, audit: Callable[..., Ended]
) -> None:
    parent, facts = new_id(), {"kind": "guest"}
    with Ledger(directory) as ledger:
        ledger.claim(parent, facts)
        calls = [new_id() for _ in range(40)]
        for request in calls:
            ledger.claim(request, facts, parent=parent)
            ledger.append("finished", request, facts, parent=parent)
        ledger.append("finished", parent, {**facts, "status": "ok"})
    records = [(request, event) for request in calls for event in ("started", "finished")]

    def shown(*args: str) -> tuple[list[tuple[str, str]], str]:
        done = audit("show", parent, *args)
        assert done.returncode == 0
        rows = [line.split("\t") for line in done.stdout.splitlines()]
        assert [rows[0][1:3], rows[-1][1:3]] == [["started", parent], ["finished", parent]]
        return [(request, event) for _, event, request, _ in rows[1:-1]], done.stderr

    for args, count in (
        ((), 50),
        (("--limit", "3"), 3),
        (("-n", "80"), 80),
        (("--all",), 80),
        (("--all", "-n", "2"), 2),
    ):
        told = f"{80 - count} older entries not shown; --limit 80 shows them\n" if count < 80 else ""
        assert shown(*args) == (records[-count:], told)
    assert requests(audit("show", parent, "--json")) == [parent, *(request for request, _ in records), parent]
    bounded = audit("show", parent, "--json", "--limit", "1")
    assert [record["request"] for record in json.loads(bounded.stdout)] == [parent, calls[-1], parent]
    assert bounded.stderr == "79 older entries not shown; --limit 80 shows them\n"
    # One of its records by its own id, and a request that called nothing, are shown whole.
    assert requests(audit("show", calls[0], "--json")) == [calls[0]] * 2


def test_days_are_archived_and_verified(directory: Path, tmp_path: Path, audit: Callable[..., Ended]) -> None:
    now = datetime.now(UTC).timestamp()
    for age in (9, 8, 1):
        at = now - age * 86_400
        with Ledger(directory, clock=lambda: at) as ledger:  # noqa: B023 (used at once)
            ledger.append("decided", "", {"status": "denied"})
    folder = tmp_path / "archive"
    first, second = sorted(path.name for path in directory.glob("*.ndjson"))[:2]
    move = ("archive", str(folder), "--older-than", "5d")
    missing = audit("archive", str(folder))
    assert (missing.returncode, "Missing option '--older-than'" in missing.stderr) == (2, True)
    planned = audit(*move, "--dry-run")
    days = f"{first}, up to record 1\nwould archive: {second}, up to record 2\n"
    assert planned == Ended(0, f"would archive: {days}", "")
    assert not folder.exists()
    moved = audit(*move, "--json")
    assert (moved.returncode, moved.stderr) == (0, "")
    told = json.loads(moved.stdout)
    assert [sorted(day) for day in told.pop("days")] == [["file", "last_hash", "last_seq", "sha256"]] * 2
    assert told == {"directory": str(directory), "folder": str(folder), "dry_run": False}
    assert audit(*move) == Ended(0, f"nothing to archive: no closed day of {directory} is that old\n", "")
    verified = audit("verify")
    assert (verified.returncode, verified.stderr) == (0, "")
    assert verified.stdout.splitlines()[:3] == [
        f"archived: {first} in {folder}, up to record 1",
        f"archived: {second} in {folder}, up to record 2",
        f"ok: 3 records in 2 files of {directory}",
    ]
    proved = audit("verify", "--archive", str(folder))
    assert (proved.returncode, proved.stdout.splitlines()[0]) == (0, f"ok: 2 records in 2 files of {folder}")
    (folder / first).write_bytes(b"")
    changed = audit("verify", "--archive", str(folder))
    assert changed.returncode == 1
    assert f"problem: {first}: is not the file that was archived: its SHA-256 differs\n" in changed.stdout


def test_a_ledger_of_a_cluster_is_not_archived(
    directory: Path, tmp_path: Path, audit: Callable[..., Ended]
) -> None:
    Ledger(directory).close()
    url = "cluster.url=postgresql://127.0.0.1:1/paddock"
    refused = audit("archive", str(tmp_path / "archive"), "--older-than", "5d", "--set", url)
    assert refused == Ended(
        1,
        "",
        "This ledger belongs to a cluster, which reads it from its first record on (cluster.url). Nothing was archived. "
        f"Back up the directory instead: {directory}\n",
    )
