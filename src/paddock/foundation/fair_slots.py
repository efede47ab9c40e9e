"""Slots for work: a bounded number runs at a time, a bounded number waits, and callers take turns.

    enter -> every bound has room ------------------------------------> Slot
          -> it waits in the line of its caller -> its turn ----------> Slot
          -> too many wait already, or it waited too long ------------> NoSlotError

Work may have several bounds, such as those of a server, of one of its tokens and of its programs. It takes a slot of
all of them at once. Therefore it waits once, and keeps no slot from others while it waits. A caller with a hundred
programs waits for its own programs; another caller with a single one is next. While the own bound of a caller is full,
its turn passes to the next caller. Work that gave its slot back for a while comes before further work of its caller.
"""

import asyncio
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Literal

from paddock.foundation.cancellation import unless_stopped


@dataclass(eq=False, slots=True)
class Bound:
    """A maximum number of slots, of all work that has this bound."""

    max_active: int
    max_waiting: int | None = None
    """Maximum number of waiting work; None for any number. Patient work is not counted."""
    max_waiting_bytes: int | None = None
    """Maximum size of all waiting work together; None for any size."""
    active: int = 0
    """Number of slots that are taken. It may exceed the maximum by work that could not wait."""
    waiting: int = 0
    """Number of waiting work, including patient work."""
    patient: int = 0
    """Number of waiting patient work."""
    waiting_bytes: int = 0
    """Size of all waiting work together."""

    @property
    def has_room(self) -> bool:
        """Whether further work may run."""
        return self.active < self.max_active


Shortage = Literal["number", "bytes", "time"]
"""Why there is no slot: the number of waiting work, its size, or the time of the wait."""


class NoSlotError(Exception):
    """Work got no slot, and nothing started."""

    def __init__(self, why: Shortage) -> None:
        super().__init__(why)
        self.why: Shortage = why


class Slot:
    """The slot of one work. The work may give it back for a while, and take it again; it ends it at last."""

    def __init__(self, slots: "FairSlots", caller: str, bounds: tuple[Bound, ...], waited_ms: float) -> None:
        self._slots = slots
        self._caller = caller
        self.bounds = bounds
        self.waited_ms = waited_ms
        """How long the work waited for it altogether, in milliseconds."""
        self._held = True
        self._ended = False

    def give_back(self) -> None:
        """Let other work run. Does nothing if it was given back already."""
        if self._held:
            self._held = False
            self._slots.leave(self.bounds)

    async def take_again(
        self, *, stop: asyncio.Event | None = None, max_wait_ms: float | None = None
    ) -> bool:
        """Wait for the slot, before further work of its caller. Does nothing if it was not given back, or has ended.

        Return false, without the slot, if `stop` is set during the wait. Raises NoSlotError after `max_wait_ms`.
        """
        if self._held or self._ended:
            return True
        began = time.perf_counter()
        try:
            async with asyncio.timeout(None if max_wait_ms is None else max_wait_ms / 1000):
                entered = await self._slots.wait(self._caller, self.bounds, stop, resumes=True)
        except TimeoutError:
            raise NoSlotError("time") from None
        finally:
            self.waited_ms = round(self.waited_ms + (time.perf_counter() - began) * 1000, 3)
        if not entered:
            return False
        if self._held or self._ended:  # in the meantime
            self._slots.leave(self.bounds)
        self._held = not self._ended
        return True

    def take_now(self) -> None:
        """Take the slot again also where none is free: the work goes on at once. Does nothing after the end."""
        if not self._held and not self._ended:
            self._held = True
            self._slots.take(self.bounds)

    def end(self) -> None:
        """Give the slot back for good."""
        self._ended = True
        self.give_back()


@dataclass(eq=False, slots=True)
class _Waiter:
    bounds: tuple[Bound, ...]
    turn: asyncio.Future[None]
    resumes: bool
    """Whether it had a slot before."""


class FairSlots:
    """The lines of all work that shares bounds."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[_Waiter]] = OrderedDict()
        """Waiting work by caller; the caller at the front has the next turn."""

    async def enter(
        self,
        caller: str,
        *bounds: Bound,
        stop: asyncio.Event | None = None,
        size: int = 0,
        patient: bool = False,
        max_wait_ms: int | None = None,
    ) -> Slot | None:
        """Wait for a slot for work of `caller` that uses `size` bytes while it waits; return it, until `Slot.end`.

        Return None, without a slot, if `stop` is set during the wait. `patient` work is never refused: its caller
        bounds how much of it waits. Raises NoSlotError if too much work waits, or after `max_wait_ms`.
        """
        if all(bound.has_room for bound in bounds):  # then no work waits that could run
            self.take(bounds)
            return Slot(self, caller, bounds, 0.0)
        for bound in () if patient else bounds:
            if bound.max_waiting is not None and bound.waiting - bound.patient >= bound.max_waiting:
                raise NoSlotError("number")
            if bound.max_waiting_bytes is not None and bound.waiting_bytes + size > bound.max_waiting_bytes:
                raise NoSlotError("bytes")
        began = time.perf_counter()
        try:
            async with asyncio.timeout(None if patient or max_wait_ms is None else max_wait_ms / 1000):
                entered = await self.wait(caller, bounds, stop, size=size, patient=patient)
        except TimeoutError:
            raise NoSlotError("time") from None
        waited_ms = round((time.perf_counter() - began) * 1000, 3)
        return Slot(self, caller, bounds, waited_ms) if entered else None

    def take(self, bounds: tuple[Bound, ...]) -> None:
        """Take a slot of each bound, also where none is free."""
        for bound in bounds:
            bound.active += 1

    async def wait(
        self,
        caller: str,
        bounds: tuple[Bound, ...],
        stop: asyncio.Event | None = None,
        *,
        size: int = 0,
        patient: bool = True,
        resumes: bool = False,
    ) -> bool:
        """Wait for a slot of each bound and take it, until `leave`; return false, without it, if `stop` is set.

        Work that `resumes` had a slot before: it comes before further work of `caller`.
        """
        if all(bound.has_room for bound in bounds):
            self.take(bounds)
            return True
        waiter = _Waiter(bounds, asyncio.get_running_loop().create_future(), resumes)
        line = self._lines.setdefault(caller, deque())
        line.insert(sum(each.resumes for each in line) if resumes else len(line), waiter)
        counted = 0 if patient else size
        for bound in bounds:
            bound.waiting += 1
            bound.patient += patient
            bound.waiting_bytes += counted
        entered = False
        try:
            await unless_stopped(waiter.turn, stop)
            entered = not waiter.turn.cancelled()
        finally:
            for bound in bounds:
                bound.waiting -= 1
                bound.patient -= patient
                bound.waiting_bytes -= counted
            if not waiter.turn.done() or waiter.turn.cancelled():
                self._forget(caller, waiter)
            elif not entered:  # the slot came together with the cancellation
                self.leave(bounds)
        return entered

    def leave(self, bounds: tuple[Bound, ...]) -> None:
        """Give back a slot of each bound; the next callers in turn get them."""
        for bound in bounds:
            bound.active -= 1
        while any(bound.has_room for bound in bounds) and (waiter := self._pop_next()) is not None:
            self.take(waiter.bounds)
            waiter.turn.set_result(None)

    def _pop_next(self) -> _Waiter | None:
        """Remove the first waiter that can run from the lines, and return it."""
        for caller, line in self._lines.items():
            for waiter in line:
                if not waiter.turn.done() and all(bound.has_room for bound in waiter.bounds):
                    self._forget(caller, waiter)
                    if caller in self._lines:
                        self._lines.move_to_end(caller)
                    return waiter
        return None

    def _forget(self, caller: str, waiter: _Waiter) -> None:
        line = self._lines[caller]
        line.remove(waiter)
        if not line:
            del self._lines[caller]
