"""How many records writers can ship to one PostgreSQL while each stays at most two seconds behind.

Every writer is a process with its own ledger and shipper, as a replica has them. All of them, and the database, share
this machine's processors. Each writer stands for a machine with its own disk, so that their ledgers are in
memory; the database is on the disk. The rate grows until a writer falls behind.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

from benchmarks.measure import Line, Scale, at_least
from paddock.cluster.database import Database
from paddock.cluster.migrate import migrate
from paddock.cluster.ship import Shipper
from paddock.cluster.signed_note import SigningKey
from paddock.cluster.verify import verify_record
from paddock.model.ids import new_id
from paddock.record.ledger.writer import Ledger

TITLE = "The ledgers of many writers"

_MAX_BEHIND_S = 2.0
_FIRST_RATE = 1000
_GROWTH = 1.5
_PAUSE_S = 0.02
_FIELDS = {
    "actor": "local",
    "surface": "http",
    "kind": "guest",
    "name": "program",
    "status": "ok",
    "ms": 12.5,
    "bytes_in": 1200,
    "bytes_out": 4096,
    "source_sha256": "a" * 64,
    "audit_hash": "b" * 64,
    "tier": "landlock",
}


def measure(scale: Scale) -> list[Line]:
    from tests.support.postgres import Postgres

    count, seconds = scale.of(30, 3), scale.of(6, 2)
    most = scale.of(100_000, 2_000)
    with (
        tempfile.TemporaryDirectory(prefix="paddock-bench-", dir="/dev/shm") as made,
        Postgres() as server,
    ):
        asyncio.run(_prepare(server.url))
        writers = [_start(server.url, Path(made) / f"n{number}", f"n{number}") for number in range(count)]
        try:
            best, behind = _find_rate(writers, seconds, most)
        finally:
            for writer in writers:
                writer.kill()
                writer.wait()
        checked, records = asyncio.run(_verify(server.url, Path(made)))
    return [
        Line(
            f"{count} writers, all at most {_MAX_BEHIND_S:.0f} s behind",
            best,
            "records/s",
            at_least(3000) if not scale.quick else None,
            note=f"longest wait {behind:.2f} s",
        ),
        Line(f"verify --cluster, {records} records", checked, "records/s"),
    ]


def _find_rate(writers: list[subprocess.Popen[str]], seconds: float, most: int) -> tuple[float, float]:
    """Return the highest rate of all writers together, and how long a record of it waited at most."""
    _run_all(writers, 10, 0.5)  # connections and chains are made
    best, waited = 0.0, 0.0
    rate = float(_FIRST_RATE)
    while rate <= most:
        results = _run_all(writers, rate / len(writers), seconds)
        behind = max(result["behind"] for result in results)
        reached = sum(result["shipped"] for result in results) / seconds
        if behind > _MAX_BEHIND_S or reached < 0.9 * rate:
            break
        best, waited = reached, behind
        rate *= _GROWTH
    return best, waited


def _run_all(writers: list[subprocess.Popen[str]], rate: float, seconds: float) -> list[dict[str, Any]]:
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(f"{rate} {seconds}\n")
        writer.stdin.flush()
    return [json.loads(writer.stdout.readline()) for writer in writers if writer.stdout is not None]


def _start(url: str, directory: Path, node: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.bench_shipping", url, str(directory), node]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def _prepare(url: str) -> None:
    async with Database(url) as database:
        await migrate(database)


async def _verify(url: str, folder: Path) -> tuple[float, int]:
    key = SigningKey.make(folder / "key.pem", "paddock")
    async with Database(url) as database:
        started = time.perf_counter()
        report = await verify_record(database, [key.public])
        took = time.perf_counter() - started
    assert {problem.message for problem in report.problems} == {
        "the record has no checkpoint: nothing is signed"
    }, report
    return report.records / took, report.records


async def _write(url: str, directory: Path, node: str) -> None:
    """Write and ship at the rates that come on standard input, and print how it went."""
    async with Database(url) as database:
        with Ledger(directory) as ledger:
            shipper = Shipper(database, directory, node)
            shipping = asyncio.create_task(shipper.run())
            written = 0
            while line := await asyncio.to_thread(sys.stdin.readline):
                rate, seconds = map(float, line.split())
                before = written
                written, behind = await _write_at(ledger, shipper, written, rate, seconds)
                print(json.dumps({"behind": behind, "shipped": written - before}), flush=True)
            shipping.cancel()


async def _write_at(
    ledger: Ledger, shipper: Shipper, written: int, rate: float, seconds: float
) -> tuple[int, float]:
    """Return the number of records written, and how long one waited at most, in seconds."""
    begin = time.perf_counter()
    target, behind = written, 0.0
    waiting: deque[tuple[int, float]] = deque()
    while (now := time.perf_counter()) - begin < seconds or waiting:
        due = written + int(rate * min(now - begin, seconds))
        if due > target:
            for _ in range(due - target):
                ledger.append("finished", new_id(), _FIELDS)
            target = due
            waiting.append((target, now))
        while waiting and waiting[0][0] <= shipper.shipped:
            behind = max(behind, now - waiting.popleft()[1])
        if waiting and now - waiting[0][1] > 10 * _MAX_BEHIND_S:
            return target, now - waiting[0][1]
        await asyncio.sleep(_PAUSE_S)
    return target, behind


if __name__ == "__main__":
    asyncio.run(_write(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
