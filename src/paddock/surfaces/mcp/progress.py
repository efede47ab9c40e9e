"""What a running program prints, line by line, as progress notifications."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

from paddock.confine.output import decoded
from paddock.guest.job import OnConsole
from paddock.model.artifact import Stream
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
        if task.done() or len(pending) > _LONGEST:
            return  # what piles up beyond one message would not be shown
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


class OutputLines:
    """Gives whole lines of a program's output to a listener; those of standard error count as errors."""

    def __init__(self, listen: OnConsole) -> None:
        self._listen = listen
        self._begun: dict[Stream, str] = {"stdout": "", "stderr": ""}
        self._sinks = {stream: decoded(partial(self._text, stream)) for stream in self._begun}

    def take(self, stream: Stream, data: bytes) -> None:
        """Take the next output of the program. Never raises."""
        self._sinks[stream](data)

    def _text(self, stream: Stream, text: str) -> None:
        *whole, begun = (self._begun[stream] + text).split("\n")
        for line in whole:
            self._listen(ConsoleLine(level="log" if stream == "stdout" else "error", text=line))
        self._begun[stream] = begun[:_LONGEST]
