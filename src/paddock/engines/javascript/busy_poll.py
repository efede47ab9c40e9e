"""Busy-poll for the next message of a program that makes host calls in quick succession.

An idle processor sleeps. On a virtual machine, sleeping and waking up takes longer than a call of an in-process
function: two such cycles were half the time of a host call. Therefore, after a reply to a program that calls quickly,
the event loop polls the kernel for a moment instead of sleeping. It continues to serve everything else.
"""

import asyncio
import os
from collections.abc import Callable
from time import perf_counter

SOON_S = 0.001
"""Maximum busy-poll time, in seconds. After a miss, the next reply is not followed by busy-polling."""


class BusyPoll:
    """Keeps the event loop of an engine awake for its only program, if the program runs on another processor."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self.programs = 0
        """Number of running programs. With several, polling would take processor time from the other programs."""
        self._clock = clock
        self._able = len(os.sched_getaffinity(0)) > 1
        self._until = 0.0
        self.awake = False
        """Whether the loop is polling now."""

    def begin(self) -> None:
        """Busy-poll from now on, for `SOON_S` at most."""
        if not self._able or self.programs != 1:
            return
        self._until = self._clock() + SOON_S
        if not self.awake:
            self.awake = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def end(self) -> None:
        """Stop polling, because a message has arrived."""
        self._until = 0.0

    def _go_on(self) -> None:
        self.awake = self._clock() < self._until
        if self.awake:
            # With a callback ready, the loop checks for events without waiting for them.
            asyncio.get_running_loop().call_soon(self._go_on)
