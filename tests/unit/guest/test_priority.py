"""A program that is no short one runs at a lower priority, and nothing else does."""

import asyncio
import os
import subprocess
from typing import cast

import pytest

from paddock.guest.worker_handle import NICENESS, SHORT_S, Cost, Death, Listener, Worker
from paddock.model.limits import GuestLimits

DEATH = Death(0, Cost(0, 0))


async def grow_old(pid: int, end: str) -> None:
    """Have a worker with this process serve a program that is long by the clock of the loop, unless it ends before."""
    loop = asyncio.get_running_loop()
    worker = Worker(-1)
    worker.born(pid, os.pidfd_open(pid))
    worker.serve(cast("Listener", None), GuestLimits())
    if end == "dispose":
        worker.dispose()
    if end == "died":
        worker.died(DEATH)
    clock = loop.time
    loop.time = lambda: clock() + 2 * SHORT_S
    for _ in range(3):
        await asyncio.sleep(0)
    if end != "died":
        worker.died(DEATH)
    worker.dispose()


@pytest.mark.parametrize(("end", "nicer"), [("", NICENESS), ("dispose", 0), ("died", 0)])
def test_a_long_program_makes_way_for_short_ones(end, nicer):
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as process:
        asyncio.run(grow_old(process.pid, end))
        found = os.getpriority(os.PRIO_PROCESS, process.pid)
    assert found - os.getpriority(os.PRIO_PROCESS, 0) == nicer
