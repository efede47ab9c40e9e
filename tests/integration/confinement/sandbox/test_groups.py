"""Control groups: what the kernel keeps where a part of its tree is ours, and what is told where none is."""

import asyncio
import json
import subprocess
import sys

import pytest
from tests.support.processes import PATIENCE_S

from paddock.confinement.sandbox import tiers
from paddock.model.process import ProcessLimits

MIB = 1 << 20
TAKE = "import os, time\nif os.fork() == 0:\n os.setsid()\n taken = b'x' * (150 << 20)\ntime.sleep(60)"
SAMPLED = (
    "memory, CPU time, process count and scratch are sampled: a burst between two samples is noticed late"
)
# As root of a machine with a tree of its own, in which no process but this one's own is touched.
LEFT_BEHIND = """
import fcntl, json, os, subprocess, tempfile
from pathlib import Path
from paddock.confinement.sandbox.child import cgroup

with tempfile.TemporaryDirectory() as top:
    subprocess.run(["mount", "-t", "cgroup2", "none", top], check=True)
    folder = Path(top, f"test-{os.getpid()}")
    folder.mkdir()
    dead, alive, other = folder / "paddock-dead", folder / "paddock-alive", folder / "unit"
    for path in (dead / "job", alive / "job", other):
        path.mkdir(parents=True)
    lock = os.open(alive, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)

    def sleeper(group):
        leaf = cgroup.JobCgroup(str(group), "leaf")
        child = subprocess.Popen(["sleep", "60"], preexec_fn=lambda: os.write(leaf.procs_file, b"0"))
        return leaf, child

    leaf, left = sleeper(dead)
    own, kept = sleeper(alive)
    cgroup._remove_stale_groups(str(folder))
    print(json.dumps({
        "dead": dead.exists(), "alive": alive.exists(), "other": other.exists(),
        "left": left.wait(10), "kept": kept.poll(),
    }))
    own.kill()
    ended = kept.wait(10)
    own.remove()
    print(json.dumps({"ended": ended, "removed": not (alive / "leaf").exists()}))
    os.close(lock)
    for path in (alive / "job", alive, other, folder):
        path.rmdir()
    subprocess.run(["umount", "--lazy", top], check=True)
"""


def test_memory_is_limited_by_the_kernel_or_it_is_told_that_it_is_not():
    async def go():
        limits = ProcessLimits(memory_bytes=96 * MIB, timeout_ms=20_000)
        async with await tiers.choose("landlock") as sandbox:
            result = await sandbox.run(["/usr/bin/python3", "-I", "-S", "-c", TAKE], limits=limits)
            return sandbox, result

    sandbox, result = asyncio.run(go())
    assert (result.status, result.limit) == ("memory_limit", "memory")
    if sandbox.group is None:
        assert SAMPLED in sandbox.facts.residual
        assert result.reason == ""
    else:
        assert SAMPLED not in sandbox.facts.residual
        assert "control group (memory, processes)" in sandbox.facts.layers
        assert result.reason == "the kernel ended it at the limit of its control group"


@pytest.mark.usefixtures("as_root")
def test_what_a_killed_server_left_is_ended_and_removed_and_nothing_else():
    """Controllers aside, the groups are real."""
    command = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", sys.executable, "-c", LEFT_BEHIND]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.stderr == ""
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"dead": False, "alive": True, "other": True, "left": -9, "kept": None},
        {"ended": -9, "removed": True},
    ]
