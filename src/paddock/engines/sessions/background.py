"""What runs in a session between two executions, where policy grants it.

A turn in the background is a turn without a text: the supervisor measures and limits it as every turn. It ends with the
next execution, or at its first limit of CPU time or output, and then the session is paused as any other. Other limits
kill.
"""

import asyncio
from typing import TYPE_CHECKING

from paddock.confinement.sandbox.process import RunningProcess
from paddock.engines.programs.limits import compute_cpu_ms
from paddock.model.program import ProgramLimits

if TYPE_CHECKING:
    from paddock.model.process import ProcessUsage

_MAX_OUTPUT_CHARS = 64 * 1024
"""Maximum length of the output that the next execution reports."""


class Background:
    """The turns in the background of one process, which is paused now and whenever `pause` has returned."""

    def __init__(self, process: RunningProcess, limits: ProgramLimits, lifetime_ms: int) -> None:
        """Limit each turn as one execution with `limits`, but for its wall time."""
        self._process = process
        self._lifetime_ms = lifetime_ms
        self.memory_bytes = limits.memory_bytes
        """Memory that the process may take."""
        self._cpu_ms = compute_cpu_ms(limits, limits.timeout_ms)
        self._running = False
        self._pausing: asyncio.Future[ProcessUsage | None] | None = None
        self._output = ""

    def resume(self) -> None:
        """Let the process run on. Does nothing while it does, and after its end."""
        if self._running or self._process.result.done():
            return
        self._running = True
        self._process.begin_output(None, self._on_limit)
        self._process.begin_turn(self._lifetime_ms, self._cpu_ms)

    async def pause(self) -> None:
        """Stop the process. Does nothing while it is paused, and after its end."""
        if not self._running:
            return
        usage = await asyncio.shield(self._begin_pause())
        self._running, self._pausing = False, None
        if usage is not None:
            self._output = (self._output + self._process.end_output().text)[-_MAX_OUTPUT_CHARS:]

    def take_output(self) -> bytes:
        """Return what was written since the last call, or its end."""
        output, self._output = self._output, ""
        return output.encode()

    def _on_limit(self, _limit: str) -> None:
        self._begin_pause()

    def _begin_pause(self) -> "asyncio.Future[ProcessUsage | None]":
        if self._pausing is None:
            self._pausing = asyncio.ensure_future(self._process.end_turn())
        return self._pausing
