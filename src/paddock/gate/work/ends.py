"""Results of work that is cut short, and the measured use of a call."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from paddock.foundation.cancellation import unless_stopped
from paddock.model.outcome import ErrorInfo, RawResult, Status, Usage

CANCELLED = RawResult(status=Status.CANCELLED)
"""The result of work that was cut off: its usage and confinement are unknown."""
_CUT_SHORT = ErrorInfo(
    name="Cancelled",
    message="The call was cancelled before its answer came.",
    hint="it may have acted already: check before you call it again",
    phase="call",
)


async def end_unless_stopped(work: Coroutine[Any, Any, RawResult], stop: asyncio.Event | None) -> RawResult:
    """Return the result of a single call, or `cancelled` as soon as `stop` is set."""
    if stop is None:  # true for calls of programs: there may be thousands
        return await work
    started = time.perf_counter()
    result = await unless_stopped(work, stop)
    return result or RawResult(status=Status.CANCELLED, error=_CUT_SHORT, usage=measure_wall(started))


def measure_wall(since: float) -> Usage:
    """Return the wall time since `since`, a value of `time.perf_counter`."""
    return Usage(wall_ms=round((time.perf_counter() - since) * 1000, 3))
