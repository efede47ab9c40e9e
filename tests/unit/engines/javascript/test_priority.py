"""A program that has run for long makes way for one that begins, and nothing else does."""

import asyncio
import os
import subprocess
from types import SimpleNamespace
from typing import cast

import pytest

from paddock.engines.javascript import worker_client
from paddock.engines.javascript.worker_client import (
    NICENESS,
    SHORT_S,
    Worker,
    WorkerExit,
    WorkerListener,
    WorkerUsage,
)
from paddock.model.limits import GuestLimits


@pytest.mark.parametrize(
    ("age", "dies", "nicer"),
    [(2 * SHORT_S, False, NICENESS), (SHORT_S / 2, False, 0), (2 * SHORT_S, True, 0), (None, False, 0)],
    ids=["long", "short", "dead", "without a program"],
)
def test_a_program_that_has_run_for_long_makes_way(monkeypatch, age, dies, nicer):
    async def make_way(pid: int) -> None:
        now = 1000.0
        monkeypatch.setattr(worker_client, "time", SimpleNamespace(perf_counter=lambda: now))
        worker = Worker(-1)
        worker.on_started(pid, os.pidfd_open(pid))
        if age is not None:
            worker.serve(cast("WorkerListener", None), GuestLimits())
            now += age
        if dies:
            worker.on_exit(WorkerExit(0, WorkerUsage(0, 0)))
        worker.make_way()
        worker.on_exit(WorkerExit(0, WorkerUsage(0, 0)))

    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as process:
        asyncio.run(make_way(process.pid))
        found = os.getpriority(os.PRIO_PROCESS, process.pid)
    assert found - os.getpriority(os.PRIO_PROCESS, 0) == nicer
