"""Write a ledger as a month of agents leaves it: runs of programs, their calls, refusals and failures.

A ledger accepts only ids of the last day, and looks up each one that it did not mint. Therefore the files are written
here, in its format.
"""

import random
import time
from collections.abc import Mapping
from pathlib import Path

from paddock.model.ids import new_id
from paddock.record.ledger.line_format import (
    GENESIS_HASH,
    HEAD_FILE_NAME,
    LedgerHead,
    encode_record,
    file_name,
    new_entry,
    this_boot,
)
from paddock.record.ledger.sink import Field, timestamp

_DAYS = 30
_LANGUAGES = ("python", "node", "shell", "rust", "go", "bash")
_TOOLS = tuple(
    f"{server}/{tool}" for server in ("git", "github", "time", "mail") for tool in ("read", "list", "send")
)
_ENDS = (*["ok"] * 17, "failed", "timeout", "memory_limit")


class _Month:
    """Encodes the records of a month that ends now."""

    def __init__(self) -> None:
        self.now = time.time() - _DAYS * 86400
        self.files: dict[str, list[bytes]] = {}
        self.seq, self.prev = 0, GENESIS_HASH

    def add(self, event: str, request: str, facts: Mapping[str, Field], parent: str | None = None) -> None:
        self.seq += 1
        line, self.prev = encode_record(
            new_entry(event, request, parent, facts),
            seq=self.seq,
            ts=timestamp(self.now),
            prev=self.prev,
        )
        self.files.setdefault(file_name(self.now), []).append(line)


def write_runs(directory: Path, runs: int) -> str:
    """Write so many runs with at least three records each on average; return the id of one with calls.

    Half of them are JavaScript programs with calls, the others programs in other languages and refusals.
    """
    chance, month = random.Random(7), _Month()
    pause_s, shown = _DAYS * 86400 / (runs + 1), ""
    for number in range(runs):
        began = month.now
        request = new_id(began)
        facts: dict[str, Field] = {
            "actor": f"agent-{number % 7}",
            "surface": ("mcp", "http", "cli", "library")[number % 4],
            "audit_hash": "b" * 64,
            "rule": "default",
            "bytes_in": 1200,
        }
        if number % 20 == 19:
            refused = {"kind": "runtime", "name": "python", "status": "denied", "rule": "grants.network"}
            month.add("decided", request, {**facts, **refused})
        elif number % 2:
            facts |= {"kind": "guest", "name": "program", "profile": "execute", "source_sha256": "a" * 64}
            shown = request
            month.add("started", request, facts)
            for _ in range(chance.randrange(4)):
                _add_call(month, request, chance)
            _add_end(month, request, facts, chance)
        else:
            facts |= {"kind": "runtime", "name": chance.choice(_LANGUAGES), "content_sha256": "c" * 64}
            month.add("started", request, facts)
            _add_end(month, request, facts, chance)
        month.now = max(month.now, began + pause_s * chance.uniform(0.4, 1.4))
    directory.mkdir(mode=0o700)
    for name, lines in month.files.items():
        (directory / name).write_bytes(b"".join(lines))
        (directory / name).chmod(0o600)
    name = max(month.files)
    size = (directory / name).stat().st_size
    head = LedgerHead(month.seq, month.prev, name, size, month.seq, this_boot())
    (directory / HEAD_FILE_NAME).write_bytes(head.encode())
    (directory / HEAD_FILE_NAME).chmod(0o600)
    return shown


def _add_call(month: _Month, parent: str, chance: random.Random) -> None:
    month.now += 0.01
    request = new_id(month.now)
    facts: dict[str, Field] = {
        "actor": "agent",
        "surface": "guest",
        "kind": "server",
        "name": chance.choice(_TOOLS),
        "arguments_sha256": "a" * 64,
        "audit_hash": "b" * 64,
        "rule": "default",
        "bytes_in": 120,
    }
    if chance.random() < 0.05:
        month.add("decided", request, {**facts, "status": "denied", "rule": "user rule 1"}, parent)
        return
    month.add("started", request, facts, parent)
    month.now += 0.01
    month.add("finished", request, {**facts, "status": "ok", "ms": 9.5, "bytes_out": 400}, parent)


def _add_end(month: _Month, request: str, facts: Mapping[str, Field], chance: random.Random) -> None:
    ms = min(round(chance.lognormvariate(5, 1.5), 3), 60_000.0)
    month.now += ms / 1000
    end: dict[str, Field] = {
        "status": chance.choice(_ENDS),
        "ms": ms,
        "cpu_ms": round(ms / 3, 3),
        "peak_bytes": chance.randrange(20, 200) * 1_000_000,
        "bytes_out": 4096,
        "calls": 2,
        "tier": "landlock",
        "layers": ["landlock", "seccomp", "rlimits"],
    }
    month.add("finished", request, {**facts, **end})
