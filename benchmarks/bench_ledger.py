"""What a ledger record costs, next to the floor: a bare write of the same bytes, with and without fsync."""

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from statistics import median

from benchmarks.measure import Line, Scale, interleaved, ratio
from paddock.model.ids import mint_id, new_id
from paddock.record.ledger.verify import verify
from paddock.record.ledger.writer import Ledger

TITLE = "The ledger"

_FIELDS = {
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
    "tier": "landlock",
}


def measure(scale: Scale) -> list[Line]:
    with tempfile.TemporaryDirectory(
        prefix="paddock-bench-", dir=os.environ.get("PADDOCK_BENCH_DIR")
    ) as made:
        directory = Path(made)
        figures, length = _records(directory, scale)
        started = time.perf_counter()
        report = verify(directory / "batch")
        checked = report.records / (time.perf_counter() - started)
        assert report.ok, report
    write, synced = figures["write"], figures["synced"]
    lines = [
        Line(name, median(figures[name]), "us", note=f"{ratio(figures[name], floor):.1f} x the floor")
        for name, floor in (
            ("append", write),
            ("claim", write),
            ("claim of an id that a caller brought", write),
            ("append, two ledgers taking turns", write),
            ('append, sync="always"', synced),
        )
    ]
    return [
        *lines,
        Line(f"floor: os.write of {length} bytes", median(write), "us"),
        Line("floor: os.write and os.fsync", median(synced), "us"),
        Line("verify", checked, "records/s"),
    ]


def _records(directory: Path, scale: Scale) -> tuple[dict[str, list[float]], int]:
    """Return the median microseconds per contender and round, and the length of a record."""
    times, syncs, rounds = scale.of(500, 100), scale.of(20, 5), scale.of(10, 2)
    request = new_id()
    with ExitStack() as stack:
        batch = stack.enter_context(Ledger(directory / "batch"))
        batch.append("finished", request, _FIELDS)
        line = max((directory / "batch").glob("*.ndjson")).read_bytes()
        two = cycle([stack.enter_context(Ledger(directory / "two")) for _ in range(2)])
        always = stack.enter_context(Ledger(directory / "always", sync="always"))
        floor = os.open(directory / "floor", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        stack.callback(os.close, floor)
        contenders = {
            "write": lambda: _p50_us(lambda: os.write(floor, line), times),
            "append": lambda: _p50_us(lambda: batch.append("finished", request, _FIELDS), times),
            "claim": lambda: _p50_us(lambda: batch.claim(mint_id(), _FIELDS), times),
            "claim of an id that a caller brought": lambda: _p50_us(
                lambda: batch.claim(new_id(), _FIELDS), times
            ),
            "append, two ledgers taking turns": lambda: _p50_us(
                lambda: next(two).append("finished", request, _FIELDS), times
            ),
            "synced": lambda: _p50_us(lambda: (os.write(floor, line), os.fsync(floor)), syncs),
            'append, sync="always"': lambda: _p50_us(
                lambda: always.append("finished", request, _FIELDS), syncs
            ),
        }
        return interleaved(contenders, rounds), len(line)


def _p50_us(call: Callable[[], object], times: int) -> float:
    spent: list[float] = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        spent.append((time.perf_counter() - started) * 1e6)
    return median(spent)
