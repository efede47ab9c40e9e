"""A program that is no short one runs at a lower priority, and nothing else does."""

import asyncio
import os
import subprocess
from typing import cast

import pytest

from paddock.guest.worker_handle import NICENESS, SHORT_S, Cost, Death, Listener, Worker
from paddock.model.limits import GuestLimits


async def niceness(end: str) -> int:
    """Return that of a worker's process, long after its program began by the clock of the loop."""
    loop = asyncio.get_running_loop()
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as process:
        worker = Worker(-1)
        worker.born(process.pid, os.pidfd_open(process.pid))
        worker.serve(cast("Listener", None), GuestLimits())
        if end == "dispose":
            worker.dispose()
        if end == "died":
            worker.died(Death(0, Cost(0, 0)))
        clock = loop.time
        loop.time = lambda: clock() + 2 * SHORT_S
        for _ in range(3):
            await asyncio.sleep(0)
        found = os.getpriority(os.PRIO_PROCESS, process.pid)
        if end != "died":
            worker.died(Death(0, Cost(0, 0)))
        worker.dispose()
    return found - os.getpriority(os.PRIO_PROCESS, 0)


@pytest.mark.parametrize(("end", "nicer"), [("", NICENESS), ("dispose", 0), ("died", 0)])
def test_a_long_program_makes_way_for_short_ones(end, nicer):
    assert asyncio.run(niceness(end)) == nicer
