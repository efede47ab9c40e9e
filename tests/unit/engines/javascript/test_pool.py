"""A pool that closes takes what it began along, and begins nothing more."""

import asyncio

import pytest

from paddock.engines.javascript.launch import Launcher
from paddock.engines.javascript.pool import WorkerPool
from paddock.model.errors import EngineError


class Counting(Launcher):
    """Counts the zygotes that are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def start_fork_server(self, profile):
        self.count += 1
        return super().start_fork_server(profile)


async def asked(pool: WorkerPool, *, ahead: bool) -> None:
    """Close a pool while somebody waits for a worker, one that was begun ahead or one of its own."""
    if ahead:
        pool.prepare("guest", 1)
    taking = asyncio.create_task(pool.take("guest"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await pool.close()
    with pytest.raises(EngineError):
        await taking
    pool.prepare("guest", 1)
    with pytest.raises(EngineError, match=r"^Paddock is closing$"):
        await pool.take("guest")


@pytest.mark.parametrize("ahead", [False, True])
def test_a_pool_that_closes_begins_nothing_more(ahead):
    launcher = Counting()
    asyncio.run(asked(WorkerPool(launcher, spares=1), ahead=ahead))
    assert launcher.count == 1
