"""Admit jobs: a bounded number at a time, a bounded queue, and turns by caller.

A caller with a hundred jobs waits for its own jobs; another caller with a single job is next but one. The queue is
bounded in number, time and bytes, because each waiting job keeps its program in memory.
"""

import asyncio
from collections import OrderedDict, deque

from paddock.model.limits import MIB

QUEUE_BYTES = 256 * MIB
"""Maximum size of all waiting jobs together: programs, arguments and standard input."""


class QueueFullError(Exception):
    """The job was not admitted; nothing started. The text has the reason; `hint` names the settings to change."""

    def __init__(self, why: str, hint: str) -> None:
        super().__init__(why)
        self.hint = hint


class AdmissionQueue:
    """Admits at most `max_jobs` at a time; `waiting` more may wait, each for `wait_ms`."""

    def __init__(self, max_jobs: int, *, waiting: int, wait_ms: int) -> None:
        self._most = max_jobs
        self._room = waiting
        self._wait_ms = wait_ms
        self._active = 0
        self._bytes = 0
        self._patient = 0
        """Number of waiting jobs that take no room in the queue."""
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def active(self) -> int:
        """Number of admitted jobs that have not left."""
        return self._active

    @property
    def waiting_bytes(self) -> int:
        """Size of all waiting jobs together."""
        return self._bytes

    @property
    def callers(self) -> tuple[str, ...]:
        """The callers of waiting jobs, the next in turn first."""
        return tuple(self._waiting)

    @property
    def waiting(self) -> int:
        """Number of waiting jobs."""
        return sum(map(len, tuple(self._waiting.values())))

    async def enter(
        self,
        who: str,
        stop: asyncio.Event | None = None,
        *,
        size: int = 0,
        patient: bool = False,
        max_wait_ms: int | None = None,
    ) -> bool:
        """Admit a job of the caller `who`; it uses `size` bytes while it waits.

        A `patient` job is never refused, and takes no room: its caller bounds how many of them wait.
        `max_wait_ms` shortens the wait of any other job.
        Returns True if the job was admitted and must call `leave`, and False if `stop` was set during the wait.
        Raises QueueFullError if too many jobs wait, or after too long a wait.
        """
        if self._active < self._most:
            self._active += 1
            return True
        if patient:
            self._patient += 1
            try:
                return await self._wait_for_turn(who, stop, None)
            finally:
                self._patient -= 1
        if self.waiting - self._patient >= self._room:
            raise self._full_error(
                f"the queue is full (runtimes.max_waiting = {self._room})", "runtimes.max_waiting"
            )
        if self._bytes + size > QUEUE_BYTES:
            raise self._full_error(f"the waiting programs already use {QUEUE_BYTES // MIB} MiB")
        self._bytes += size
        try:
            wait_ms = self._wait_ms if max_wait_ms is None else min(max_wait_ms, self._wait_ms)
            return await self._wait_for_turn(who, stop, wait_ms)
        finally:
            self._bytes -= size

    async def _wait_for_turn(self, who: str, stop: asyncio.Event | None, wait_ms: int | None) -> bool:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(turn)
        stopped = None if stop is None else asyncio.ensure_future(stop.wait())
        events = [turn] if stopped is None else [turn, stopped]
        mine = False
        try:
            timeout = None if wait_ms is None else wait_ms / 1000
            await asyncio.wait(events, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            mine = turn.done()
        finally:
            if stopped is not None:
                stopped.cancel()
            if not turn.done():
                self._forget_waiter(who, turn)
            elif not mine:  # cancelled right after the slot had been passed to this job
                self.leave()
        if mine or (stop is not None and stop.is_set()):
            return mine
        setting = "runtimes.max_wait_ms"
        limit = f"{setting} = {wait_ms}" if wait_ms == self._wait_ms else f"{wait_ms} ms"
        raise self._full_error(f"the job waited too long ({limit})", setting)

    def leave(self) -> None:
        """Pass the slot to the next caller in turn, or free it."""
        if not self._waiting:
            self._active -= 1
            return
        who, turns = next(iter(self._waiting.items()))
        turns.popleft().set_result(None)
        self._waiting.move_to_end(who)
        if not turns:
            del self._waiting[who]

    def _forget_waiter(self, who: str, turn: asyncio.Future[None]) -> None:
        turn.cancel()
        turns = self._waiting[who]
        turns.remove(turn)
        if not turns:
            del self._waiting[who]

    def _full_error(self, why: str, setting: str = "") -> QueueFullError:
        """Return the error. The compat tool reports its text up to the colon."""
        return QueueFullError(
            f"Concurrency limit reached ({self._active}/{self._most} active jobs): {why}. Nothing started; it is safe "
            "to retry.",
            f"raise {setting} or runtimes.max_jobs" if setting else "raise runtimes.max_jobs",
        )
