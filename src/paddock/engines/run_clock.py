"""The clock of one run, which is paused while Paddock asks a person.

The pause covers all programs of the run and stops their processes. A stopped process computes nothing, so that no
program gains time while the person answers.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.confinement.sandbox.protocol import Pausable


class _Limit:
    """One limit of a clock, entered once. Not a generator, because every program and every call pays for it."""

    __slots__ = ("_clock", "_timeout", "_worker")

    def __init__(self, clock: "RunClock", seconds: float, worker: "Pausable | None") -> None:
        self._clock = clock
        self._worker = worker
        self._timeout = asyncio.timeout(seconds)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._clock.begin(self._timeout, self._worker)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        self._clock.end(self._timeout)
        return await self._timeout.__aexit__(kind, error, trace)


class RunClock:
    """The time limits of one run."""

    def __init__(self) -> None:
        self._limits: dict[asyncio.Timeout, Pausable | None] = {}
        self._left: dict[asyncio.Timeout, float] = {}
        self._processes: set[Pausable] = set()
        """Processes whose time limits are kept elsewhere."""
        self._pauses = 0

    def limit(self, seconds: float, worker: "Pausable | None" = None) -> "_Limit":
        """Return a context that raises TimeoutError after `seconds` of this clock, and pauses `worker` with it."""
        return _Limit(self, seconds, worker)

    def begin(self, limit: asyncio.Timeout, worker: "Pausable | None") -> None:
        """Add a limit that has begun."""
        self._limits[limit] = worker
        if self._pauses:
            self._pause_limit(limit)

    def end(self, limit: asyncio.Timeout) -> None:
        """Remove a limit that ends."""
        worker = self._limits.pop(limit)
        if self._left.pop(limit, None) is not None and worker is not None:
            worker.resume()

    def add(self, process: "Pausable") -> None:
        """Pause a process with this clock from now on. It keeps its own time limit."""
        self._processes.add(process)
        if self._pauses:
            process.pause()

    def remove(self, process: "Pausable") -> None:
        """Pause a process with this clock no longer. Does nothing the second time."""
        if process in self._processes:
            self._processes.remove(process)
            if self._pauses:
                process.resume()

    @contextmanager
    def pause(self) -> Generator[None]:
        """Pause the clock within the context."""
        self._pauses += 1
        if self._pauses == 1:
            for limit in self._limits:
                self._pause_limit(limit)
            for process in self._processes:
                process.pause()
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                for limit in [*self._left]:
                    self._resume_limit(limit)
                for process in self._processes:
                    process.resume()

    async def ready(self) -> None:
        """Wait, while the clock is still paused, until every paused worker may continue."""
        for worker in [self._limits[limit] for limit in self._left]:
            if worker is not None:
                await worker.ready()
        for process in tuple(self._processes):
            await process.ready()

    def _pause_limit(self, limit: asyncio.Timeout) -> None:
        when = limit.when()
        if limit.expired() or when is None:
            return
        self._left[limit] = when - asyncio.get_running_loop().time()
        limit.reschedule(None)
        if (worker := self._limits[limit]) is not None:
            worker.pause()

    def _resume_limit(self, limit: asyncio.Timeout) -> None:
        limit.reschedule(asyncio.get_running_loop().time() + self._left.pop(limit))
        if (worker := self._limits[limit]) is not None:
            worker.resume()
