"""Pass on console lines while the program runs."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from paddock.foundation.large_json import run_in_slices
from paddock.model.errors import PaddockError
from paddock.model.outcome import ConsoleLine, OnConsole
from paddock.policy.redaction.outgoing import OutgoingRedaction

_LONG_CHARS = 65_536
"""Longer lines are searched for secrets in slices, so that other requests do not wait."""


@asynccontextmanager
async def relay_console(
    outgoing: OutgoingRedaction, on_console: OnConsole | None
) -> AsyncGenerator[OnConsole | None]:
    """Yield a callback that passes on console lines in order and without secrets. Leaving the context sends the rest.

    Raises PaddockError if the listener failed at a long line or a later one. At other lines its own error is raised.
    """
    if on_console is None:
        yield None
        return
    relay = _ConsoleRelay(outgoing, on_console)
    try:
        yield relay.take
        await relay.wait()
    finally:
        relay.stop()


class _ConsoleRelay:
    def __init__(self, outgoing: OutgoingRedaction, on_console: OnConsole) -> None:
        self._outgoing = outgoing
        self._on_console = on_console
        self._waiting: deque[ConsoleLine] = deque()
        self._task: asyncio.Task[None] | None = None

    def take(self, line: ConsoleLine) -> None:
        if self._task is not None:
            self._waiting.append(line)
        elif len(line.text) > _LONG_CHARS:
            self._waiting.append(line)
            self._task = asyncio.create_task(self._send_waiting())
        else:
            self._on_console(self._outgoing.line(line))

    async def _send_waiting(self) -> None:
        while self._waiting:
            line = self._waiting.popleft()
            self._on_console(await run_in_slices(self._outgoing.line_in_slices(line)))
        self._task = None

    async def wait(self) -> None:
        if self._task is None:
            return
        try:
            await self._task
        except Exception as error:
            what = type(error).__name__
            raise PaddockError(f"the listener for console lines failed ({what})") from error

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
