"""Waiting awake for a program that is about to say something.

A processor with nothing to do sleeps, and where it is a virtual one, to sleep and to be woken again costs more than the
call of an in-process function: two such turns were half the time of a host call. So after an answer to a program that
calls on quickly, the event loop asks the kernel again and again instead of sleeping, for a moment. It serves everything
else meanwhile, as always.
"""

import asyncio
import os
from collections.abc import Callable
from time import perf_counter

SOON_S = 0.001
"""Seconds: what is not said so soon after an answer is not waited for awake, neither then nor after the next one."""


class BusyPoll:
    """Keeps the event loop of an engine awake for its only program, where that has a processor of its own."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self.programs = 0
        """How many programs run. Of several, each would take from the others what it waits with."""
        self._clock = clock
        self._able = len(os.sched_getaffinity(0)) > 1
        self._until = 0.0
        self.awake = False
        """Whether the loop is kept awake now."""

    def begin(self) -> None:
        """Wait awake from now on, for `SOON_S` at most."""
        if not self._able or self.programs != 1:
            return
        self._until = self._clock() + SOON_S
        if not self.awake:
            self.awake = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def end(self) -> None:
        """Wait no more: it has come."""
        self._until = 0.0

    def _go_on(self) -> None:
        self.awake = self._clock() < self._until
        if self.awake:
            # What is ready to be called lets the loop look for events without waiting for them.
            asyncio.get_running_loop().call_soon(self._go_on)
