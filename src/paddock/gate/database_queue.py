"""Requests that wait for the database of a cluster. They keep no slot from requests that do not need it.

    quick database    the slot is kept: the answer is there after milliseconds, and the request starts at once
    slow database     the slot is lent to other requests after `PROMPT_S`; the next time at once
    after the wait    the slot again, before further requests of the same caller

A request that was claimed and has no slot yet looks started when its server dies. Therefore a slot is not lent without
need, and few requests are in that state at a time: each has one of `MAX_CLAIMS` places.
"""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

from paddock.foundation.fair_slots import Bound, FairSlots, Slot

PROMPT_S = 0.05
"""Time for which a request keeps its slot while it waits for the database, in seconds."""
MAX_CLAIMS = 4
"""Maximum number of requests that are being claimed, or were claimed and have not started: so many are lost without a
start if the server dies."""


class DatabaseQueue:
    """The requests of one server that wait for the database."""

    def __init__(self) -> None:
        self._places = FairSlots()
        self._everybody = Bound(MAX_CLAIMS)
        self._is_slow = False
        """Whether the last answer took longer than `PROMPT_S`."""

    async def enter(
        self, caller: str, own: Bound, *, stop: asyncio.Event | None, max_wait_ms: int | None
    ) -> Slot | None:
        """Wait for a place, and return it until `Slot.end`. `own` bounds how many requests of the caller wait.

        Return None if `stop` is set during the wait. Raises NoSlotError, after `max_wait_ms` at the latest.
        """
        return await self._places.enter(caller, own, self._everybody, stop=stop, max_wait_ms=max_wait_ms)

    @contextmanager
    def lend(self, slot: Slot | None) -> Generator[Callable[[], None]]:
        """Lend a slot if the database, which the context waits for, is slow. The caller takes it again afterwards.

        Yields a function that lends it at once, for a wait that is not the database's.
        """
        if slot is None:
            yield lambda: None
            return
        if self._is_slow:
            slot.give_back()
        loop = asyncio.get_running_loop()
        timer = loop.call_later(PROMPT_S, self._note_slow, slot)

        def lend_now() -> None:
            timer.cancel()
            slot.give_back()

        try:
            yield lend_now
            if loop.time() < timer.when() and not timer.cancelled():
                self._is_slow = False
        finally:
            timer.cancel()

    def _note_slow(self, slot: Slot) -> None:
        self._is_slow = True
        slot.give_back()
