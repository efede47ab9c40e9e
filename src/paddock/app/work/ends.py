"""How work ends that does not run to its end, and what a call used."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from paddock.cancellation import unless_stopped
from paddock.model.outcome import ErrorInfo, RawResult, Status, Usage

CANCELLED = RawResult(status=Status.CANCELLED)
"""The result of work that was cut off: what it used, and what confined it, nobody has told."""
_CUT_SHORT = ErrorInfo(
    name="Cancelled",
    message="The call was cancelled before its answer came.",
    hint="it may have acted already: look before you call it again",
    phase="call",
)


async def end_unless_stopped(work: Coroutine[Any, Any, RawResult], stop: asyncio.Event | None) -> RawResult:
    """Return the result of a single call, or that it was cut short when `stop` was set."""
    if stop is None:  # the calls of programs, of which there may be thousands
        return await work
    started = time.perf_counter()
    result = await unless_stopped(work, stop)
    return result or RawResult(status=Status.CANCELLED, error=_CUT_SHORT, usage=measure_wall(started))


def measure_wall(since: float) -> Usage:
    """Return the wall time since a moment of `time.perf_counter`."""
    return Usage(wall_ms=round((time.perf_counter() - since) * 1000, 3))
