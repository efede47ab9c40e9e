"""Slots for the jobs of all users: a bounded number at a time, with turns by user.

A user with a hundred jobs waits for its own jobs; another user with a single job is next. A token may have a limit of
its own: while it is reached, the turn passes to the next user, and no slot stays empty for it.
"""

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass

from paddock.foundation.cancellation import unless_stopped
from paddock.surfaces.tenants.errors import TenantBusy

_SAFE = "Nothing started; it is safe to retry."


@dataclass(eq=False)
class Share:
    """What one token has of the slots."""

    actor: str
    """Whose turns it takes: tokens of one user take turns as one."""
    max_jobs: int
    max_waiting: int
    max_wait_ms: int
    active: int = 0
    waiting: int = 0

    @property
    def has_room(self) -> bool:
        """Whether another job of the token may run."""
        return self.active < self.max_jobs


@dataclass(eq=False)
class _Waiter:
    share: Share
    turn: asyncio.Future[None]


class Slots:
    """The slots of one server."""

    def __init__(self, max_jobs: int) -> None:
        self._max_jobs = max_jobs
        self._active = 0
        self._lines: OrderedDict[str, deque[_Waiter]] = OrderedDict()
        """Waiting jobs by user; the user at the front has the next turn."""

    @property
    def active(self) -> int:
        """Number of jobs that have a slot."""
        return self._active

    @property
    def waiting(self) -> int:
        """Number of jobs that wait for a slot."""
        return sum(map(len, self._lines.values()))

    def take(self, share: Share) -> bool:
        """Take a slot if one is free now, until `leave`; return whether it is taken."""
        free = share.has_room and self._active < self._max_jobs  # then no job waits that could run
        if free:
            self.take_beyond(share)
        return free

    def take_beyond(self, share: Share) -> None:
        """Take a slot also where none is free: the job runs already, and must not wait."""
        self._active += 1
        share.active += 1

    async def enter(
        self, share: Share, max_wait_ms: int | None = None, stop: asyncio.Event | None = None
    ) -> bool:
        """Wait for a slot and take it, until `leave`; return false, without a slot, if `stop` is set during the wait.

        Raises TenantBusy if too many jobs of the token wait, or after `max_wait_ms` (by default that of the token).
        """
        if self.take(share):
            return True
        if share.waiting >= share.max_waiting:
            limit = f"runtimes.max_waiting = {share.max_waiting}"
            raise TenantBusy(f"too many requests of this token wait already ({limit}). {_SAFE}")
        wait_ms = share.max_wait_ms if max_wait_ms is None else min(max_wait_ms, share.max_wait_ms)
        try:
            async with asyncio.timeout(wait_ms / 1000):
                return await self._wait_for_turn(share, stop)
        except TimeoutError:
            raise TenantBusy(f"no slot became free within {wait_ms} ms. {_SAFE}") from None

    async def enter_again(self, share: Share) -> None:
        """Wait for a slot for a job that gave its slot back. It waits as long as necessary."""
        if not self.take(share):
            await self._wait_for_turn(share)

    def leave(self, share: Share) -> None:
        """Give a slot back; the next user in turn gets it."""
        self._active -= 1
        share.active -= 1
        while self._active < self._max_jobs and (waiter := self._pop_next()) is not None:
            self.take_beyond(waiter.share)
            waiter.turn.set_result(None)

    async def _wait_for_turn(self, share: Share, stop: asyncio.Event | None = None) -> bool:
        """Wait in the task of the caller, which alone knows whether a slot that came with its cancellation is used."""
        waiter = _Waiter(share, asyncio.get_running_loop().create_future())
        self._lines.setdefault(share.actor, deque()).append(waiter)
        share.waiting += 1
        entered = False
        try:
            await unless_stopped(waiter.turn, stop)
            entered = not waiter.turn.cancelled()
        finally:
            share.waiting -= 1
            if not waiter.turn.done() or waiter.turn.cancelled():
                self._forget(waiter)
            elif not entered:  # the slot came together with the cancellation
                self.leave(share)
        return entered

    def _pop_next(self) -> _Waiter | None:
        for actor, line in self._lines.items():
            waiter = next((each for each in line if each.share.has_room and not each.turn.done()), None)
            if waiter is not None:
                self._forget(waiter)
                if actor in self._lines:
                    self._lines.move_to_end(actor)
                return waiter
        return None

    def _forget(self, waiter: _Waiter) -> None:
        line = self._lines[waiter.share.actor]
        line.remove(waiter)
        if not line:
            del self._lines[waiter.share.actor]
