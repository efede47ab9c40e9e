"""Send the console lines of a running program to the client: as progress of its call, and as log messages."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, get_args

from mcp_types import (
    LOG_LEVEL_META_KEY,
    LoggingLevel,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    SetLevelRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from paddock.model.artifact import Stream
from paddock.model.base import Json
from paddock.model.capture import decode_stream
from paddock.model.outcome import ConsoleLevel, ConsoleLine, OnConsole
from paddock.record.output.redraw import find_unfinished_frame, last_frame
from paddock.surfaces.mcp_server.list_changes import (
    MAX_CLIENTS,
    Context,
    call_at_session_end,
    read_session_id,
)
from paddock.surfaces.rendering import render
from paddock.surfaces.rendering.terminal import make_encodable

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

Report = Callable[[float, float | None, str | None], Awaitable[None]]
Sink = Callable[[list[ConsoleLine]], Awaitable[None]]
"""Sends console lines to a client, in order."""
Send = Callable[[LoggingLevel, str], Awaitable[None]]

LOGGER_NAME = "program"
"""The logger name that clients see."""
_LEVELS: dict[ConsoleLevel, LoggingLevel] = {
    "debug": "debug",
    "log": "info",
    "info": "info",
    "warn": "warning",
    "error": "error",
}
_ORDER: tuple[LoggingLevel, ...] = get_args(LoggingLevel)

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


class Logs:
    """The log levels that clients chose; lines of a program's console from that level on are log messages.

    2025-11-25    `logging/setLevel`, for all calls of a session; before it nothing is sent
    2026-07-28    a level in `_meta` of a call, for this call
    """

    def __init__(self) -> None:
        self._minimum_levels: dict[str, LoggingLevel] = {}

    def attach(self, server: "Server[Any]") -> None:
        """Let a server's clients choose a level."""
        server.add_request_handler("logging/setLevel", SetLevelRequestParams, self._on_set_level)

    def create_sink(self, context: Context) -> Sink | None:
        """Return a sink that sends a call's console lines to its client; None if the client wants none."""
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            minimum = (context.meta or {}).get(LOG_LEVEL_META_KEY)
        else:
            minimum = self._minimum_levels.get(read_session_id(context))
        if minimum is None:
            return None

        async def send(level: LoggingLevel, text: str) -> None:
            params = LoggingMessageNotificationParams(level=level, logger=LOGGER_NAME, data=text)
            await context.session.send_notification(
                LoggingMessageNotification(params=params), context.request_id
            )

        return create_message_sink(send, minimum)

    async def _on_set_level(self, context: Context, params: SetLevelRequestParams) -> dict[str, Json]:
        session = read_session_id(context)
        if session not in self._minimum_levels:
            call_at_session_end(context, lambda ended: self._minimum_levels.pop(ended, None))
        self._minimum_levels.pop(session, None)
        self._minimum_levels[session] = params.level
        if len(self._minimum_levels) > MAX_CLIENTS:
            del self._minimum_levels[next(iter(self._minimum_levels))]
        return {}


def create_message_sink(send: Send, minimum: LoggingLevel) -> Sink:
    """Return a sink that sends lines of a level and above; adjacent lines of one level become one message."""
    wanted = _ORDER[_ORDER.index(minimum) :]
    sent = 0

    async def send_lines(lines: list[ConsoleLine]) -> None:
        nonlocal sent
        for level, together in groupby(lines, key=lambda line: _LEVELS[line.level]):
            if level in wanted and sent < MAX_NOTIFICATIONS:
                sent += 1
                text = "\n".join(line.text for line in together)
                await send(level, make_encodable(text)[:MAX_NOTIFICATION_CHARS])

    return send_lines


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
