"""What a ledger record costs, next to the floor: a bare write of the same bytes, with and without fsync."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from paddock.model.request import new_id
from paddock.store.ledger import Ledger
from paddock.store.ledger_verify import verify

FIELDS = {
    "actor": "local",
    "surface": "mcp",
    "kind": "guest",
    "name": "program",
    "status": "ok",
    "ms": 12.5,
    "bytes_in": 1200,
    "bytes_out": 4096,
    "source_sha256": "a" * 64,
    "audit_hash": "b" * 64,
    "tier": "namespaces",
}


def timed(call: Callable[[], object], times: int) -> tuple[float, float]:
    """Return the median and the 99th percentile of a call, in microseconds."""
    spent: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        spent.append((time.perf_counter() - start) * 1e6)
    spent.sort()
    return statistics.median(spent), spent[int(len(spent) * 0.99)]


def main() -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("PADDOCK_BENCH_DIR")) as made:
        directory = Path(made)
        requests = [new_id() for _ in range(5000)]
        claims = iter(requests)
        with Ledger(directory / "batch") as ledger:
            append = timed(lambda: ledger.append("finished", requests[0], FIELDS), 5000)
            claim = timed(lambda: ledger.claim(next(claims), FIELDS), 5000)
        with Ledger(directory / "two") as one, Ledger(directory / "two") as other:
            turns = count()
            contended = timed(lambda: (one, other)[next(turns) % 2].append("finished", "r", FIELDS), 2000)
        with Ledger(directory / "always", sync="always") as ledger:
            always = timed(lambda: ledger.append("finished", requests[0], FIELDS), 200)
        line = max((directory / "batch").glob("*.ndjson")).read_bytes().partition(b"\n")[0] + b"\n"
        fd = os.open(directory / "floor", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        write = timed(lambda: os.write(fd, line), 5000)
        synced = timed(lambda: (os.write(fd, line), os.fsync(fd)), 200)
        os.close(fd)
        start = time.perf_counter()
        report = verify(directory / "batch")
        checked = report.records / (time.perf_counter() - start)
        assert report.ok
    print(f"one record: {len(line)} bytes; microseconds, median and 99th percentile")
    print(f"{'':42}{'p50':>9}{'p99':>9}{'x floor':>9}")
    for name, (p50, p99), floor in (
        ("os.write (floor)", write, write),
        ("append", append, write),
        ("claim", claim, write),
        ("append, two ledgers taking turns", contended, write),
        ("os.write + os.fsync (floor)", synced, synced),
        ('append, sync="always"', always, synced),
    ):
        print(f"{name:42}{p50:9.1f}{p99:9.1f}{p50 / floor[0]:9.1f}")
    print(f"verify: {checked:,.0f} records/s")


if __name__ == "__main__":
    main()
