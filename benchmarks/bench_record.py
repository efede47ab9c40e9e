"""The record at scale: starts beside a large ledger, searches among very many records, and memory for each claim.

A million records take minutes to write: PADDOCK_BENCH_RECORDS says how many there are, 100,000 by default.
"""

import os
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks.measure import Line, Scale, at_most, interleaved, milliseconds, ratio
from paddock.model.ids import mint_id
from paddock.record.ledger.search import RecordFilter, find
from paddock.record.ledger.writer import Ledger

TITLE = "The record at scale"

_LARGE = 150 * 1024 * 1024
_CLAIMS = 10_000
_START = """
import sys
from pathlib import Path
from paddock.model.ids import mint_id
from paddock.record.ledger.writer import Ledger
with Ledger(Path(sys.argv[1])) as ledger:
    ledger.claim(mint_id(), {})
"""


def measure(scale: Scale) -> list[Line]:
    count = scale.of(int(os.environ.get("PADDOCK_BENCH_RECORDS", "100000")), 2_000)
    with tempfile.TemporaryDirectory(
        prefix="paddock-bench-", dir=os.environ.get("PADDOCK_BENCH_DIR")
    ) as made:
        place = Path(made)
        lines = _starts(place, scale)
        ledger = place / "many"
        request = write(ledger, count)
        build = milliseconds(lambda: list(find(ledger, RecordFilter(status="failed"), limit=20)))
        lines.append(
            Line(f"index of {count:,} records, made anew", build / count * 1e6, "ns", note="a record")
        )
        lines += _searches(place, ledger, request, scale.of(12, 2))
        lines.append(Line("memory kept for a claim", _memory(place / "memory", scale), "bytes", at_most(1)))
    return lines


def write(directory: Path, count: int) -> str:
    """Write so many records of calls, of which one in a hundred failed; return the id of a request."""
    request = ""
    with Ledger(directory) as ledger:
        for number in range(count // 2):
            request = mint_id()
            facts = {
                "actor": f"agent-{number % 7}",
                "surface": "mcp",
                "kind": "server",
                "name": f"server-{number % 11}/tool-{number % 50}",
                "arguments_sha256": "a" * 64,
                "audit_hash": "b" * 64,
                "bytes_in": 1200,
            }
            ledger.claim(request, facts)
            end = {
                "status": "failed" if number % 100 == 0 else "ok",
                "ms": 12.5,
                "cpu_ms": 1.5,
                "bytes_out": 4096,
            }
            ledger.append("finished", request, {**facts, **end, "tier": "landlock"})
    return request


def _starts(place: Path, scale: Scale) -> list[Line]:
    """Compare a process that opens a large ledger and claims a request with one beside an empty ledger."""
    large = place / "large"
    with Ledger(large) as ledger:
        ledger.claim(mint_id(), {"name": "x" * 500})
    file = max(large.glob("*.ndjson"))
    line = file.read_bytes()
    with file.open("ab") as more:  # lines of another chain: what counts is how much there is to read
        for _ in range(scale.of(_LARGE, 1024 * 1024) // len(line) // 1000):
            more.write(line * 1000)
    with Ledger(large) as ledger:  # accounts for them
        ledger.claim(mint_id(), {})
    figures = interleaved(
        {
            "large": lambda: milliseconds(lambda: _run(sys.executable, "-c", _START, str(large))),
            "empty": lambda: milliseconds(lambda: _run(sys.executable, "-c", _START, str(place / "empty"))),
        },
        scale.of(12, 2),
    )
    size = file.stat().st_size / 1e6
    return [
        Line(f"start and first claim beside {size:.0f} MB of the day", median(figures["large"]), "ms"),
        Line(
            "  over one beside an empty ledger", ratio(figures["large"], figures["empty"]), "x", at_most(1.1)
        ),
    ]


def _searches(place: Path, ledger: Path, request: str, rounds: int) -> list[Line]:
    paddock = str(Path(sys.executable).with_name("paddock"))
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(place),
        "LANG": "C.UTF-8",
        "PADDOCK_AUDIT_DIRECTORY": str(ledger),
    }

    def command(*words: str) -> Callable[[], float]:
        return lambda: milliseconds(lambda: _run(paddock, *words, environment=environment))

    figures = interleaved(
        {
            "version": command("--version"),
            "tail": command("audit", "tail"),
            "show": command("audit", "show", request),
            "rare": command("audit", "tail", "--status", "failed", "--server", "server-3"),
            "frequent": command("audit", "tail", "--status", "ok"),
            "none": command("audit", "tail", "--actor", "nobody", "--since", "24h"),
        },
        rounds,
    )
    names = {
        "show": "paddock audit show ID",
        "rare": "paddock audit tail, failures of one server",
        "frequent": "paddock audit tail, what ended well",
        "none": "paddock audit tail, nothing found",
    }
    return [
        Line("floor: paddock --version", median(figures["version"]), "ms"),
        Line("floor: paddock audit tail, which needs no index", median(figures["tail"]), "ms"),
        *(Line(text, median(figures[name]), "ms", at_most(300)) for name, text in names.items()),
    ]


def _memory(directory: Path, scale: Scale) -> float:
    """Return how many bytes Python keeps for each claim."""
    count = scale.of(_CLAIMS, 1_000)
    with Ledger(directory) as ledger:

        def claim() -> None:
            for _ in range(count):
                request = mint_id()
                ledger.claim(request, {"kind": "server"})
                ledger.append("finished", request, {})

        claim()
        tracemalloc.start()
        try:
            claim()
            before, _ = tracemalloc.get_traced_memory()
            claim()
            return (tracemalloc.get_traced_memory()[0] - before) / count
        finally:
            tracemalloc.stop()


def _run(*command: str, environment: dict[str, str] | None = None) -> None:
    subprocess.run(command, env=environment, check=True, capture_output=True)
