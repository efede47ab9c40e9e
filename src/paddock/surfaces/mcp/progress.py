"""Console lines of a running program as progress notifications."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from paddock.guest.job import OnConsole
from paddock.model.outcome import ConsoleLine
from paddock.surfaces import render

Report = Callable[[float, float | None, str | None], Awaitable[None]]

_LONGEST = 4000
_MOST = 200
"""Notifications of one call; a program that prints more shows its last lines in its result only."""


@asynccontextmanager
async def streamed(report: Report) -> AsyncGenerator[OnConsole]:
    """Give a listener to console lines that reports them in order, those that pile up together in one message."""
    pending: list[str] = []
    arrived = asyncio.Event()

    def listen(line: ConsoleLine) -> None:
        pending.append(render.encodable(render.console_text(line))[:_LONGEST])
        arrived.set()

    async def pump() -> None:
        for number in range(1, _MOST + 1):
            await arrived.wait()
            arrived.clear()
            lines, pending[:] = "\n".join(pending), []
            await report(float(number), None, lines[:_LONGEST])

    task = asyncio.create_task(pump())
    try:
        yield listen
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
