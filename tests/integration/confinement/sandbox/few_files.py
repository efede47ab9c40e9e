"""Run programs while this process may open few more files, from none to enough; print as JSON what became of them.

python few_files.py PLACE
"""

import asyncio
import itertools
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from paddock.gate.gate import Gate
from paddock.gate.open_paddock import open_paddock
from paddock.model.errors import LedgerError
from paddock.model.limits import LimitOverrides
from paddock.model.request import ExecutionRequest, GuestRun, RuntimeRun
from paddock.policy.settings.schema import (
    ArtifactSettings,
    AuditSettings,
    GuestSettings,
    RuntimeSettings,
    SandboxSettings,
    Settings,
)

MOST = 30
"""More than a program needs."""
PATIENCE_S = 20
_, HARD = resource.getrlimit(resource.RLIMIT_NOFILE)


def opened() -> set[int]:
    """Return the files that are open, but for the one that looks."""
    return {int(file.name) for file in Path("/proc/self/fd").iterdir() if os.path.lexists(file)}


def allow(more: int) -> None:
    """Let so many more files be opened."""
    taken = opened()
    free = (number for number in itertools.count() if number not in taken)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next(itertools.islice(free, more, None)), HARD))


async def end_of(gate: Gate, request: ExecutionRequest) -> tuple[str, str, str]:
    """Return what became of a request: its kind, its status, and why."""
    try:
        outcome = await gate.execute(request)
    except LedgerError as error:
        return request.work.kind, "not recorded", str(error)
    return request.work.kind, outcome.status.value, outcome.error.message if outcome.error else ""


async def main(place: Path) -> dict[str, object]:
    settings = Settings(
        audit=AuditSettings(directory=place / "audit"),
        artifacts=ArtifactSettings(directory=place / "artifacts"),
        guest=GuestSettings(spare_workers=0),
        sandbox=SandboxSettings(spares=0),
        runtimes=RuntimeSettings(timeout_ms=60_000),
    )
    works = (
        GuestRun(source="return 1"),
        RuntimeRun.model_validate({"runtime": "shell", "code": "echo 1", "stdin": "in"}),
    )
    ends: set[tuple[str, str, str]] = set()
    async with open_paddock(settings, place / "workspace") as session:

        async def carry_out() -> list[tuple[str, str, str]]:
            requests = [
                ExecutionRequest(
                    workspace=place / "workspace", work=work, limits=LimitOverrides(timeout_ms=60_000)
                )
                for work in works
            ]
            return [await end_of(session.gate, request) for request in requests]

        before = await carry_out()
        first = opened()
        for more in range(MOST):
            allow(more)
            try:
                ends.update(await carry_out())
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (HARD, HARD))
        after = await carry_out()
        left = await more_open(len(first))
    return {"before": before, "ends": sorted(ends), "after": after, "more open": left}


async def more_open(than: int) -> int:
    """Return how many files stay open beyond so many; what syncs the ledger or reaps a worker closes its own soon."""
    until = time.monotonic() + PATIENCE_S
    while (more := len(opened()) - than) > 0 and time.monotonic() < until:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.01)
    return max(more, 0)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    tempfile.tempdir = str(place / "scratch")
    sys.stdout.write(json.dumps(asyncio.run(main(place))))
