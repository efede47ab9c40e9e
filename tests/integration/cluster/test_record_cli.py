"""`paddock audit ... --cluster` and `paddock cluster key` as processes."""

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster_record import make_record
from tests.support.command import PADDOCK, Ended, run_paddock
from tests.support.postgres import Postgres

from paddock.cluster.database import Database
from paddock.cluster.ship import Shipper
from paddock.model.ids import new_id
from paddock.record.ledger.writer import Ledger

Run = Callable[..., Ended]


@pytest.fixture
def environment(url: str, tmp_path: Path) -> Mapping[str, str]:
    return {
        **os.environ,
        "XDG_CONFIG_HOME": str(tmp_path),
        "PADDOCK_CLUSTER_URL": url,
        "PADDOCK_CLUSTER_CHECKPOINT_KEY_FILE": str(tmp_path / "key.pem"),
        "PADDOCK_AUDIT_DIRECTORY": str(tmp_path / "b"),
        "PYTHONUNBUFFERED": "1",
    }


@pytest.fixture
def paddock(tmp_path: Path, environment: Mapping[str, str]) -> Run:
    """Run `paddock`."""

    def run(*args: str, **changes: str) -> Ended:
        return run_paddock(tmp_path, *args, environment={**environment, **changes})

    return run


@pytest.fixture
def record(url: str, tmp_path: Path) -> None:
    """Make a record of three nodes."""

    async def make() -> None:
        async with Database(url) as database:
            await make_record(database, tmp_path)

    asyncio.run(make())


@pytest.mark.usefixtures("record")
def test_an_honest_record_is_ok(paddock: Run) -> None:
    shown = paddock("audit", "verify", "--cluster")
    assert (shown.returncode, shown.stderr) == (0, "")
    first, second, third = shown.stdout.splitlines()
    assert first == "ok: 15 records of 3 nodes in 3 chains, 3 checkpoints"
    assert second.startswith("last checkpoint: 3 of 2")
    assert third == "not signed yet: 1 record"
    found = json.loads(paddock("audit", "verify", "--cluster", "--json").stdout)
    assert (found["ok"], found["records"], found["unsigned"], found["problems"]) == (True, 15, 1, [])


@pytest.mark.usefixtures("record")
def test_a_changed_record_is_not(paddock: Run, postgres: Postgres, url: str) -> None:
    name = url.rpartition("/")[2]
    postgres.query(
        "delete from record where node = 'a' and seq in (2, 3); delete from checkpoint where n = 2", name
    )
    shown = paddock("audit", "verify", "--cluster")
    assert shown.returncode == 1
    assert shown.stdout.splitlines()[:3] == [
        "problem: checkpoint 2: is missing",
        "problem: node a, record 3, checkpoint 1: is missing, and was signed",
        "problem: node a, record 2: to 3 are missing",
    ]


def test_no_public_key_is_an_error(paddock: Run) -> None:
    paddock("cluster", "migrate")
    shown = paddock("audit", "verify", "--cluster", "--key", "x")
    assert (shown.returncode, "is not a verification key" in shown.stderr) == (2, True)
    shown = paddock("audit", "verify", "--cluster")
    assert (shown.returncode, "make one: paddock cluster key" in shown.stderr) == (1, True)


def test_verify_alone_takes_no_key(paddock: Run) -> None:
    shown = paddock("audit", "verify", "--key", "x")
    assert (shown.returncode, "--key and --known require --cluster." in shown.stderr) == (2, True)


def test_a_key_is_made_printed_and_never_replaced(paddock: Run, tmp_path: Path) -> None:
    file = tmp_path / "new.pem"
    made = paddock("cluster", "key", str(file))
    assert made.returncode == 0
    assert made.stdout.startswith("paddock+")
    assert "PRIVATE" not in made.stdout
    assert file.stat().st_mode & 0o777 == 0o600
    assert paddock("cluster", "key", "--show", str(file)).stdout == made.stdout
    named = paddock("cluster", "key", "--show", "--json", str(file), PADDOCK_CLUSTER_NAME="a.example.com")
    assert json.loads(named.stdout)["key"].startswith("a.example.com+")
    before = file.read_bytes()
    assert paddock("cluster", "key", str(file)).returncode == 1
    assert file.read_bytes() == before


@pytest.mark.usefixtures("record")
def test_tail_reads_the_records_of_all_nodes_in_order_of_time(paddock: Run) -> None:
    everything = json.loads(paddock("audit", "tail", "--cluster", "-n", "100", "--json").stdout)
    assert sorted((each["node"], each["seq"]) for each in everything) == [
        *(("a", number) for number in range(1, 7)),
        *(("b", number) for number in range(1, 6)),
        *(("c", number) for number in range(1, 5)),
    ]
    assert [each["ts"] for each in everything] == sorted(each["ts"] for each in everything)
    newest = json.loads(paddock("audit", "tail", "--cluster", "-n", "3", "--json").stdout)
    assert newest == everything[-3:]
    assert paddock("audit", "tail", "--cluster", "--status", "ok", "--json").stdout == "[]\n"
    rows = paddock("audit", "tail", "--cluster", "-n", "2").stdout.splitlines()
    assert [row.split("\t")[:3] for row in rows] == [
        [each["ts"], each["node"], each["event"]] for each in everything[-2:]
    ]


@pytest.mark.usefixtures("record")
def test_show_finds_a_request_or_a_record_on_any_node(paddock: Run) -> None:
    [one] = json.loads(paddock("audit", "tail", "--cluster", "-n", "1", "--json").stdout)
    for name in (one["request"], one["id"]):
        assert json.loads(paddock("audit", "show", "--cluster", name, "--json").stdout) == [one]
    absent = paddock("audit", "show", "--cluster", "01JD3W0ZV6N4YQ1R2X5T7B8C9D")
    assert (absent.returncode, absent.stderr) == (
        1,
        "No record of 01JD3W0ZV6N4YQ1R2X5T7B8C9D in the database of cluster.url; `paddock audit tail --cluster` "
        "shows the newest\n",
    )


@pytest.mark.usefixtures("record")
def test_show_limits_the_calls_of_a_request(paddock: Run, url: str, tmp_path: Path) -> None:
    request = new_id()
    with Ledger(tmp_path / "a") as ledger:
        ledger.claim(request, {"name": "program"})
        for number in range(5):
            ledger.append("decided", new_id(), {"name": f"call {number}"}, parent=request)
        ledger.append("finished", request, {"status": "ok"})

    async def ship() -> None:
        async with Database(url) as database:
            while await Shipper(database, tmp_path / "a", "a").ship_chunk():
                break

    asyncio.run(ship())
    shown = paddock("audit", "show", "--cluster", request, "-n", "2")
    assert [row.split("\t")[2:3] + row.split("\t")[4:] for row in shown.stdout.splitlines()] == [
        ["started", "name=program"],
        ["decided", f"parent={request} name=call 3"],
        ["decided", f"parent={request} name=call 4"],
        ["finished", "status=ok"],
    ]
    assert "3" in shown.stderr
    assert len(json.loads(paddock("audit", "show", "--cluster", request, "--json").stdout)) == 7


@pytest.mark.usefixtures("record")
def test_follow_prints_what_any_node_writes(url: str, tmp_path: Path, environment: Mapping[str, str]) -> None:
    command = [PADDOCK, "audit", "tail", "--cluster", "--follow", "--json", "-n", "1"]
    reading = subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert reading.stdout is not None
    lines: list[Any] = [json.loads(reading.stdout.readline())]
    for node in ("b", "c"):
        with Ledger(tmp_path / node) as ledger:
            ledger.append("decided", new_id(), {"name": f"new on {node}"})

        async def ship(name: str = node) -> None:
            async with Database(url) as database:
                while await Shipper(database, tmp_path / name, name).ship_chunk():
                    pass

        asyncio.run(ship())
        lines.append(json.loads(reading.stdout.readline()))
    reading.terminate()
    reading.wait()
    reading.stdout.close()
    assert [(each["node"], each["name"] if "name" in each else each["fields"]["name"]) for each in lines][
        1:
    ] == [
        ("b", "new on b"),
        ("c", "new on c"),
    ]


def test_without_a_database_nothing_is_read(paddock: Run) -> None:
    for command in (("tail",), ("show", "x"), ("verify", "--key", "x")):
        environment = {"PADDOCK_CLUSTER_URL": ""}
        assert paddock("audit", *command, "--cluster", **environment).returncode != 0


@pytest.mark.usefixtures("record")
def test_a_known_note_may_be_what_psql_prints(paddock: Run, url: str, tmp_path: Path) -> None:
    """It prints one more newline."""

    async def read() -> str:
        async with Database(url) as database:
            [[note]] = await database.fetch("select note from checkpoint order by n desc limit 1")
            return str(note)

    known = tmp_path / "note"
    known.write_text(asyncio.run(read()) + "\n")
    shown = paddock("audit", "verify", "--cluster", "--known", str(known))
    assert (shown.returncode, shown.stderr) == (0, "")


@pytest.mark.usefixtures("record")
def test_a_file_that_is_no_note_is_not_a_changed_record(paddock: Run, tmp_path: Path) -> None:
    known = tmp_path / "note"
    known.write_text("hello\n")
    shown = paddock("audit", "verify", "--cluster", "--known", str(known))
    assert (shown.returncode, shown.stdout, shown.stderr) == (
        1,
        "",
        f"{known} is no checkpoint: it has no signature; give --known a copy of the file checkpoint in audit.directory "
        "of a replica that signs, or the text in the column note of the table checkpoint\n",
    )
