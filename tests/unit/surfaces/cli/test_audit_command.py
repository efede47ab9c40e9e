"""`paddock audit` over a real ledger."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from paddock.model.ids import new_id
from paddock.record.ledger.writer import Ledger
from paddock.surfaces.cli.root import command

NEWEST = "; `paddock audit tail` shows the newest\n"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("PADDOCK_AUDIT_DIRECTORY", str(tmp_path / "audit"))
    return tmp_path / "audit"


def audit(*args: str) -> Result:
    return CliRunner().invoke(command, ["audit", *args], prog_name="paddock")


def test_tail_and_show(directory: Path) -> None:
    parent, child, other = new_id(), new_id(), new_id()
    with Ledger(directory) as ledger:
        ledger.claim(other, {"kind": "guest"})
        ledger.claim(parent, {"kind": "guest"})
        ledger.claim(child, {"kind": "server", "layers": ("a", "b"), "audit_hash": "f0"}, parent=parent)
        last = ledger.append("finished", parent, {"status": "ok", "error": None})
    rows = [line.split("\t")[1:] for line in audit("tail", "-n", "2").stdout.splitlines()]
    assert rows == [
        ["started", child, f"parent={parent} kind=server layers=a,b"],
        ["finished", parent, "status=ok"],
    ]
    shown = json.loads(audit("show", parent, "--json").stdout)
    assert [(record["event"], record["request"]) for record in shown] == [
        ("started", parent),
        ("started", child),
        ("finished", parent),
    ]
    assert [record["id"] for record in json.loads(audit("show", last, "--json").stdout)] == [last]
    events = audit("tail", "--event", "finished").stdout.splitlines()
    assert [line.split("\t")[1] for line in events] == ["finished"]
    nonsense = audit("tail", "--event", "nonsense")
    assert (nonsense.exit_code, nonsense.stdout) == (2, "")
    assert (
        "'nonsense' is not one of 'refused', 'asked', 'answered', 'decided', 'started', 'looked', 'connected', 'finished', 'approved', 'revoked', 'recovered'"
        in nonsense.stderr
    )
    unknown = audit("show", "nothing")
    assert (unknown.exit_code, unknown.stderr) == (1, f"No record of nothing in {directory}{NEWEST}")


def test_numbers_and_ids_may_be_as_large_as_they_can(directory: Path) -> None:
    with Ledger(directory) as ledger:
        record = ledger.append("decided", new_id(), {"status": "denied"})
    latest = "7" + "Z" * 25
    unknown = audit("show", latest)
    assert (unknown.exit_code, unknown.stderr) == (1, f"No record of {latest} in {directory}{NEWEST}")
    tail = audit("tail", "-n", str(2**64), "--json")
    assert [each["id"] for each in json.loads(tail.stdout)] == [record]


def test_verify_tells_whether_somebody_changed_the_ledger(directory: Path) -> None:
    with Ledger(directory) as ledger:
        ledger.claim(new_id(), {"kind": "guest"})
        ledger.append("decided", new_id(), {"status": "denied"})
    good = audit("verify")
    assert good.exit_code == 0
    assert good.stdout.splitlines()[0] == f"ok: 2 records in 1 file of {directory}"
    (file,) = directory.glob("*.ndjson")
    file.write_bytes(file.read_bytes().replace(b"denied", b"forged"))
    bad = audit("verify")
    assert bad.exit_code == 1
    assert bad.stdout.startswith(f"problem: {file.name}, line 2: ")
    report = json.loads(audit("verify", "--json").stdout)
    assert (report["ok"], report["problems"][0]["line"]) == (False, 2)


def test_an_index_that_takes_long_is_shown_to_be_on_its_way(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(directory) as ledger:
        for number in range(20):
            ledger.append("decided", new_id(), {"status": "denied", "name": f"n{number}"})
    monkeypatch.setattr("paddock.record.ledger.index._BATCH_BYTES", 500)
    quick = audit("tail", "--status", "denied", "--json")
    assert (len(json.loads(quick.stdout)), quick.stderr) == (20, "")
    (directory / "index.sqlite").unlink()
    monkeypatch.setattr("paddock.surfaces.cli.audit._SLOW_BYTES", 1000)
    slow = audit("tail", "--status", "denied", "--json")
    assert (slow.stdout, slow.stderr.strip()) == (quick.stdout, "indexing the record")


def test_a_ledger_that_is_not_there(directory: Path) -> None:
    assert audit("tail").stdout == ""
    missing = audit("verify")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert str(directory) in missing.stderr
