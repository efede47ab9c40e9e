"""What a running program prints, as log messages for clients that want them from some level on.

2025-11-25    `logging/setLevel`, for all calls of a session; none are sent before
2026-07-28    a level in `_meta` of the call, for this call
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

from paddock.mcp_server.list_changes import MAX_CLIENTS, call_at_session_end, read_session_id
from paddock.mcp_server.progress import MAX_NOTIFICATION_CHARS, MAX_NOTIFICATIONS, Sink
from paddock.model.base import Json
from paddock.model.outcome import ConsoleLevel, ConsoleLine
from paddock.rendering.terminal import make_encodable

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

Context = ServerRequestContext[Any, Any]
Send = Callable[[LoggingLevel, str], Awaitable[None]]

LOGGER_NAME = "program"
"""Who speaks, as clients are told."""
_LEVELS: dict[ConsoleLevel, LoggingLevel] = {
    "debug": "debug",
    "log": "info",
    "info": "info",
    "warn": "warning",
    "error": "error",
}
_ORDER: tuple[LoggingLevel, ...] = get_args(LoggingLevel)


class Logs:
    """From which level on the clients want to be told."""

    def __init__(self) -> None:
        self._least: dict[str, LoggingLevel] = {}

    def attach(self, server: "Server[Any]") -> None:
        """Have a server let clients choose a level."""
        server.add_request_handler("logging/setLevel", SetLevelRequestParams, self._on_set_level)

    def create_sink(self, context: Context) -> Sink | None:
        """Return what tells a client of the console lines of its call; None where it wants to hear of none."""
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            least = (context.meta or {}).get(LOG_LEVEL_META_KEY)
        else:
            least = self._least.get(read_session_id(context))
        if least is None:
            return None

        async def send(level: LoggingLevel, text: str) -> None:
            params = LoggingMessageNotificationParams(level=level, logger=LOGGER_NAME, data=text)
            await context.session.send_notification(
                LoggingMessageNotification(params=params), context.request_id
            )

        return create_message_sink(send, least)

    async def _on_set_level(self, context: Context, params: SetLevelRequestParams) -> dict[str, Json]:
        session = read_session_id(context)
        if session not in self._least:
            call_at_session_end(context, lambda ended: self._least.pop(ended, None))
        self._least.pop(session, None)
        self._least[session] = params.level
        if len(self._least) > MAX_CLIENTS:
            del self._least[next(iter(self._least))]
        return {}


def create_message_sink(send: Send, least: LoggingLevel) -> Sink:
    """Return what sends console lines of a level and above, neighbours of one level as one message."""
    wanted = _ORDER[_ORDER.index(least) :]
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
