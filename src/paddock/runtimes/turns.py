"""Who runs next: a bounded number of jobs at a time, a bounded queue, and turns by caller.

A caller who asks for a hundred jobs waits for his own; another one with a single job is next but one.
"""

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator


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

    @contextlib.asynccontextmanager
    async def take(self, who: str) -> AsyncGenerator[str]:
        """Hold a place for a job of `who`; what is yielded is empty, or why there is no place (S16)."""
        refusal = await self._enter(who)
        try:
            yield refusal
        finally:
            if not refusal:
                self._leave()

    async def _enter(self, who: str) -> str:
        if self._active < self._most:
            self._active += 1
            return ""
        if self.waiting >= self._room:
            return self._full()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(turn)
        try:
            await asyncio.wait_for(asyncio.shield(turn), self._wait_s)
        except TimeoutError:
            return "" if turn.done() else self._full()
        except asyncio.CancelledError:
            if turn.done():
                self._leave()
            raise
        finally:
            if not turn.done():
                self._forget(who, turn)
        return ""

    def _leave(self) -> None:
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
