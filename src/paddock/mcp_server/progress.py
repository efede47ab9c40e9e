"""What a running program prints, line by line, on its way to the client; as progress of its call."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

from paddock.javascript.job import OnConsole
from paddock.model.artifact import Stream
from paddock.model.outcome import ConsoleLine
from paddock.output.redraw import last_frame, unfinished_frame
from paddock.rendering import render
from paddock.rendering.terminal import encodable
from paddock.sandbox.io import decoded

Report = Callable[[float, float | None, str | None], Awaitable[None]]
Sink = Callable[[list[ConsoleLine]], Awaitable[None]]
"""Tells a client of console lines, in order."""

LONGEST = 4000
"""Characters of one notification."""
MOST = 200
"""Notifications of one call and kind; a program that prints more shows its last lines in its result only."""
_SEND_TIMEOUT_S = 1.0


@asynccontextmanager
async def streamed(*sinks: Sink) -> AsyncGenerator[OnConsole]:
    """Give a listener to console lines that passes them on in order, those that pile up together.

    What was heard is told before this ends, unless the client does not read or the work was cancelled.
    """
    pending: list[ConsoleLine] = []
    arrived = asyncio.Event()
    ended = False

    def listen(line: ConsoleLine) -> None:
        if len(pending) > LONGEST:
            return  # what piles up beyond one message would not be shown
        pending.append(line.model_copy(update={"text": line.text[:LONGEST]}))
        arrived.set()

    async def pump() -> None:
        while not ended or pending:
            await arrived.wait()
            arrived.clear()
            lines, pending[:] = [*pending], []
            for sink in sinks if lines else ():
                await sink(lines)

    task = asyncio.create_task(pump())
    try:
        yield listen
        ended = True
        arrived.set()
        await asyncio.wait({task}, timeout=_SEND_TIMEOUT_S)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def as_progress(report: Report) -> Sink:
    """Return what reports console lines as progress of their call."""
    reported = 0

    async def take(lines: list[ConsoleLine]) -> None:
        nonlocal reported
        if reported < MOST:
            reported += 1
            text = encodable("\n".join(map(render.console_text, lines)))
            await report(float(reported), None, text[:LONGEST])

    return take


class OutputLines:
    """Gives whole lines of a program's output to a listener; those of standard error count as errors.

    Of a line that redraws itself it gives the last frame.
    """

    def __init__(self, listen: OnConsole) -> None:
        self._listen = listen
        self._begun: dict[Stream, str] = {"stdout": "", "stderr": ""}
        self._sinks = {stream: decoded(partial(self._take_text, stream)) for stream in self._begun}

    def take(self, stream: Stream, data: bytes) -> None:
        """Take the next output of the program. Never raises."""
        self._sinks[stream](data)

    def _take_text(self, stream: Stream, text: str) -> None:
        *whole, begun = (self._begun[stream] + text).split("\n")
        for line in whole[: LONGEST + 1]:  # no more of those that come at once is heard
            level = "log" if stream == "stdout" else "error"
            self._listen(ConsoleLine(level=level, text=last_frame(line)))
        self._begun[stream] = begun if len(begun) <= LONGEST else unfinished_frame(begun)[:LONGEST]
