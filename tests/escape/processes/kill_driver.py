"""Runs hostile programs in the sandbox, in a pid namespace of its own, and prints what it saw as JSON.

unshare --pid --fork --mount-proc --kill-child python kill_driver.py PLACE TIER RUNS [PROGRAM...]
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import endless
import places

from paddock.confinement.sandbox.child import namespaces
from paddock.confinement.sandbox.io import ByteSink
from paddock.confinement.sandbox.sandbox import KernelSandbox, Streams
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessGrants, ProcessLimits, ProcessResult


def strangers(sandbox: KernelSandbox) -> list[str]:
    """Return what lives in this pid namespace and is not ours.

    Ours are this process, the zygote, its idle wardens, the shim that each of those makes ahead when it has rested, and
    the processes that keep the roots of its last jails.
    """
    zygote = sandbox.describe_state().fork_server.pid
    own = Path(f"/proc/{zygote}/cmdline").read_text().rstrip("\0").replace("\0", " ")
    seen: dict[int, tuple[int, str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        if int(folder.name) in {1, os.getpid(), zygote}:
            continue
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            name = (folder / "cmdline").read_text().rstrip("\0").replace("\0", " ") or folder.name
        except OSError:
            continue
        if state != "Z":
            seen[int(folder.name)] = int(parent), name
    wardens = {pid for pid, (parent, _) in seen.items() if parent == zygote}
    kept = dict.fromkeys(wardens, 1 + namespaces.MAX_CACHED_ROOTS)
    found: list[str] = []
    for parent, name in (seen[pid] for pid in seen if pid not in wardens):
        if name in {own, namespaces.PROCESS_TITLE.decode()} and kept.get(parent):
            kept[parent] -= 1
        else:
            found.append(name)
    return found + [seen[pid][1] for pid in wardens][len(sandbox.describe_state().idle) :]


async def settled(sandbox: KernelSandbox) -> list[str]:
    """Return what lives on although wardens have had time to clean up."""
    end = time.monotonic() + 30  # on a busy machine the kernel ends processes late
    while found := strangers(sandbox):
        if time.monotonic() > end:
            break
        await asyncio.sleep(0.002)
    return found


async def attempt(sandbox: KernelSandbox, name: str, sink: ByteSink) -> tuple[ProcessResult, float]:
    """Run one program and return its result and the time that the result took, in milliseconds."""
    program = endless.PROGRAMS[name]
    limits = ProcessLimits(**{"timeout_ms": program.timeout_ms, "processes": 200, **program.limits})
    argv = ["/usr/bin/python3", "-I", "-S", "-c", program.source]
    with tempfile.TemporaryDirectory() as folder:
        grants = ProcessGrants()
        if program.workspace:
            grants = ProcessGrants(workspace=Path(folder), access="workspace-write")
        started = time.monotonic()
        result = await sandbox.run(argv, grants, limits, Streams(stdin=b"x" * 1_000_000, stdout=sink))
        return result, (time.monotonic() - started) * 1000


async def main(tier: str, runs: int, names: list[str]) -> None:
    """Run every program `runs` times; one JSON object goes to standard output."""
    report = {}
    # Root's number, with a workspace, is what is hardest to hold: no limit on processes binds it.
    async with KernelSandbox(SandboxFacts(tier=tier), tier=tier, job_user=0) as sandbox:
        await sandbox.run(["/bin/true"])
        for name in names:
            seen = []
            for _ in range(runs):
                result, ms = await attempt(sandbox, name, lambda _: None)
                alive = await settled(sandbox)
                seen.append(
                    {
                        "as_expected": (result.status, result.limit) in endless.PROGRAMS[name].ends,
                        "status": result.status,
                        "limit": result.limit,
                        "ms": ms,
                        "late_ms": ms - endless.PROGRAMS[name].timeout_ms,
                        "survivors": result.survivors,
                        "alive": alive,
                        "reason": result.reason,
                        "stderr": result.stderr.head[-300:],
                        "stdout": result.stdout.head[:100],
                    }
                )
            report[name] = seen
    print(json.dumps(report))  # noqa: T201


if __name__ == "__main__":
    places.enter(sys.argv[1])
    asyncio.run(main(sys.argv[2], int(sys.argv[3]), sys.argv[4:] or list(endless.PROGRAMS)))
