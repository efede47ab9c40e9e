"""Send the console lines of a running program to the client as progress of its call."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

from paddock.model.artifact import Stream
from paddock.model.capture import decode_stream
from paddock.model.outcome import ConsoleLine, OnConsole
from paddock.record.output.redraw import find_unfinished_frame, last_frame
from paddock.surfaces.rendering import render
from paddock.surfaces.rendering.terminal import make_encodable

Report = Callable[[float, float | None, str | None], Awaitable[None]]
Sink = Callable[[list[ConsoleLine]], Awaitable[None]]
"""Sends console lines to a client, in order."""

MAX_NOTIFICATION_CHARS = 4000
"""Maximum size of one notification, in characters."""
MAX_NOTIFICATIONS = 200
"""Maximum number of notifications of one call and kind; the remaining lines are only in the result."""
_SEND_TIMEOUT_S = 1.0


@asynccontextmanager
async def stream_console(*sinks: Sink) -> AsyncGenerator[OnConsole]:
    """Yield a listener that passes console lines on in order, and combines those that accumulate.

    All lines are sent before the context ends, unless the client does not read or the work was cancelled.
    """
    pending: list[ConsoleLine] = []
    arrived = asyncio.Event()
    ended = False

    def queue_line(line: ConsoleLine) -> None:
        if len(pending) > MAX_NOTIFICATION_CHARS:
            return  # lines beyond one message would not be shown
        pending.append(line.model_copy(update={"text": line.text[:MAX_NOTIFICATION_CHARS]}))
        arrived.set()

    async def send_queued() -> None:
        while not ended or pending:
            await arrived.wait()
            arrived.clear()
            lines, pending[:] = [*pending], []
            for sink in sinks if lines else ():
                await sink(lines)

    task = asyncio.create_task(send_queued())
    try:
        yield queue_line
        ended = True
        arrived.set()
        await asyncio.wait({task}, timeout=_SEND_TIMEOUT_S)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def create_progress_sink(report: Report) -> Sink:
    """Return a sink that reports console lines as progress of their call."""
    reported = 0

    async def send_progress(lines: list[ConsoleLine]) -> None:
        nonlocal reported
        if reported < MAX_NOTIFICATIONS:
            reported += 1
            text = make_encodable("\n".join(map(render.console_text, lines)))
            await report(float(reported), None, text[:MAX_NOTIFICATION_CHARS])

    return send_progress


class OutputLines:
    """Passes whole lines of a program's output to a listener; lines of stderr count as errors.

    Of a line that redraws itself, only the last frame is passed on.
    """

    def __init__(self, listen: OnConsole) -> None:
        self._listen = listen
        self._begun: dict[Stream, str] = {"stdout": "", "stderr": ""}
        self._sinks = {stream: decode_stream(partial(self._take_text, stream)) for stream in self._begun}

    def take_output(self, stream: Stream, data: bytes) -> None:
        """Process the next output of the program. Never raises."""
        self._sinks[stream](data)

    def _take_text(self, stream: Stream, text: str) -> None:
        *whole, begun = (self._begun[stream] + text).split("\n")
        for line in whole[: MAX_NOTIFICATION_CHARS + 1]:  # more lines at once are dropped
            level = "log" if stream == "stdout" else "error"
            self._listen(ConsoleLine(level=level, text=last_frame(line)))
        self._begun[stream] = (
            begun
            if len(begun) <= MAX_NOTIFICATION_CHARS
            else find_unfinished_frame(begun)[:MAX_NOTIFICATION_CHARS]
        )
