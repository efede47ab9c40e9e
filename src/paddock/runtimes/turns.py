"""Who runs next: a bounded number of jobs at a time, a bounded queue, and turns by caller.

A caller who asks for a hundred jobs waits for his own; another one with a single job is next but one.
"""

import asyncio
from collections import OrderedDict, deque


class Turns:
    """Gives places to callers, at most `most` at a time; `waiting` more may wait, each for `wait_ms`."""

    def __init__(self, most: int, *, waiting: int, wait_ms: int) -> None:
        self._most = most
        self._room = waiting
        self._wait_s = wait_ms / 1000
        self._active = 0
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(map(len, tuple(self._waiting.values())))

    async def enter(self, who: str, stop: asyncio.Event | None = None) -> str | None:
        """Take a place for a job of `who`, and return nothing, or why there is no place (S16).

        None is returned when `stop` was set while the job waited (S23). Who has a place leaves it.
        """
        if self._active < self._most:
            self._active += 1
            return ""
        if self.waiting >= self._room:
            return self._full()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(turn)
        stopped = None if stop is None else asyncio.ensure_future(stop.wait())
        events = [turn] if stopped is None else [turn, stopped]
        mine = False
        try:
            await asyncio.wait(events, timeout=self._wait_s, return_when=asyncio.FIRST_COMPLETED)
            mine = turn.done()
        finally:
            if stopped is not None:
                stopped.cancel()
            if not turn.done():
                self._forget(who, turn)
            elif not mine:  # who waits was cancelled when it had just been handed on
                self.leave()
        if mine:
            return ""
        return None if stop is not None and stop.is_set() else self._full()

    def leave(self) -> None:
        """Hand the place to the next caller in turn, or free it."""
        if not self._waiting:
            self._active -= 1
            return
        who, turns = next(iter(self._waiting.items()))
        turns.popleft().set_result(None)
        self._waiting.move_to_end(who)
        if not turns:
            del self._waiting[who]

    def _forget(self, who: str, turn: asyncio.Future[None]) -> None:
        turn.cancel()
        turns = self._waiting[who]
        turns.remove(turn)
        if not turns:
            del self._waiting[who]

    def _full(self) -> str:
        return f"Concurrency limit reached ({self._active}/{self._most} active jobs)"
