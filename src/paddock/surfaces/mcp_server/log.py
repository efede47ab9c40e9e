"""Send the console lines of a running program as log messages, from the level that a client chose.

2025-11-25    `logging/setLevel`, for all calls of a session; before it nothing is sent
2026-07-28    a level in `_meta` of a call, for this call
"""

from collections.abc import Awaitable, Callable
from itertools import groupby
from typing import TYPE_CHECKING, Any, get_args

from mcp.server.context import ServerRequestContext
from mcp_types import (
    LOG_LEVEL_META_KEY,
    LoggingLevel,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    SetLevelRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from paddock.model.base import Json
from paddock.model.outcome import ConsoleLevel, ConsoleLine
from paddock.surfaces.mcp_server.list_changes import MAX_CLIENTS, call_at_session_end, read_session_id
from paddock.surfaces.mcp_server.progress import MAX_NOTIFICATION_CHARS, MAX_NOTIFICATIONS, Sink
from paddock.surfaces.rendering.terminal import make_encodable

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

Context = ServerRequestContext[Any, Any]
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


class Logs:
    """The log levels that clients chose."""

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
        for level, together in groupby(lines, key=_level_of_line):
            if level in wanted and sent < MAX_NOTIFICATIONS:
                sent += 1
                text = "\n".join(line.text for line in together)
                await send(level, make_encodable(text)[:MAX_NOTIFICATION_CHARS])

    return send_lines


def _level_of_line(line: ConsoleLine) -> LoggingLevel:
    return _LEVELS[line.level]
