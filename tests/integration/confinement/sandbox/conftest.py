"""What tests of confinement share: jobs that have begun, ends of processes, and a folder that every user can get into."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from tests.support.processes import PATIENCE_S

from paddock.confinement.sandbox.sandbox import Streams

ROOT = 0
"""Value of `job_user` with which programs that get a workspace stay root in every tier, as the workspaces of tests are."""


@pytest.fixture
def open_path():
    """Make a folder for all: pytest's own are closed to others, and it closes them again and again."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder).resolve()


def patiently(work):
    """Return what a coroutine returns; one that hangs is cancelled, and told by where it was."""
    return asyncio.run(asyncio.wait_for(work, 2 * PATIENCE_S))


async def started(sandbox, script, *given, **options):
    """Return the task of a job that has said something and goes on; fail when it ends without a word."""
    said = asyncio.Event()
    streams = Streams(stdout=lambda _: said.set())
    task = asyncio.create_task(sandbox.run(["sh", "-c", script], *given, streams=streams, **options))
    task.add_done_callback(lambda _: said.set())
    await asyncio.wait_for(said.wait(), PATIENCE_S)
    assert not task.done(), task.result()
    return task


def wardens(sandbox):
    """Return the wardens of a sandbox, which its zygote has forked."""
    zygote = sandbox.describe_state().fork_server.pid
    return [int(pid) for pid in Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()]
