"""What is known of one request while it runs, for a person who looks. The floors below the gate fill it in."""

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

from paddock.foundation.cancellation import Stop
from paddock.model.outcome import ErrorInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.model.outcome import ConsoleLine, OnConsole
    from paddock.model.process_use import MeasureUse
    from paddock.model.program import CapturedStream
    from paddock.model.request import ExecutionRequest

WITHDRAWN = ErrorInfo(
    name="Cancelled", message="It was cancelled while it waited for its turn; nothing ran.", phase="decide"
)
"""The error of a request that was stopped while it waited for a slot."""
_MAX_LINES = 1000
"""Maximum number of console lines that are kept for display."""


class LiveRun:
    """One request of a person or an agent that has not ended. Nothing is measured or rendered before it is read."""

    __slots__ = (
        *("calls", "ended", "lines", "measure", "queued"),
        *("read_streams", "request", "since", "stop", "stopped_by", "task"),
    )

    def __init__(self, request: "ExecutionRequest", task: "asyncio.Task[object] | None") -> None:
        self.request = request
        self.task = task
        """The task in which it runs."""
        self.since = time.time()
        self.stop = Stop()
        """Ends it as `cancelled` when it is set. The outcome keeps its output until then."""
        self.stopped_by = ""
        """Who ended it, if that was another one than its caller."""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.calls = 0
        """Number of calls of its programs so far."""
        self.queued = False
        """Whether it waits for a slot."""
        self.lines: deque[ConsoleLine] = deque(maxlen=_MAX_LINES)
        """The last console lines of a JavaScript program, with secrets. The engine keeps them as well."""
        self.read_streams: Callable[[], tuple[CapturedStream, ...]] | None = None
        """Returns the output of a program so far, without secrets; None for other work."""
        self.measure: MeasureUse | None = None
        """Measures its processes; None while that is not known."""

    def take_measure(self, measure: "MeasureUse") -> None:
        """Take what measures its processes."""
        self.measure = measure

    def keep_lines(self, on_console: "OnConsole | None") -> "OnConsole":
        """Return a callback that keeps console lines for display, and passes them on."""
        if on_console is None:
            return self.lines.append
        keep = self.lines.append

        def take(line: "ConsoleLine") -> None:
            keep(line)
            on_console(line)

        return take
