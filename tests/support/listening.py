"""A connection that hears what is announced in the database of a test."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.support.postgres import find_listen_url

from paddock.cluster.database import Database
from paddock.cluster.listener import Listener
from paddock.foundation.cancellation import cancel_all


@asynccontextmanager
async def open_listener(url: str) -> AsyncGenerator[Listener]:
    """Yield a listener that is known to hear, and that renews nothing."""
    async with Listener(find_listen_url(url), name="listening") as listener, Database(url) as database:

        async def hear() -> None:
            while True:
                await listener.wait(3600)

        await listener.fetch("select 1")
        hearing = asyncio.create_task(hear())
        try:
            await listener.test_hearing(database)
            while not listener.hears:  # noqa: ASYNC110 - on a busy machine, later than `test_hearing` waits
                await asyncio.sleep(0.01)
            yield listener
        finally:
            await cancel_all([hearing])
