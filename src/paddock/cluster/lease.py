"""The lease of one process: while it has one, nobody takes its requests for lost.

    seconds since the last renewal was sent
       0..7   requests with effects may start and run
       7      they are cancelled (`fenced`), and no further one starts
       8.5    if one still runs, the kernel kills this process, and with it everything that it started
      10      other machines may call its requests lost

A renewal counts from the time when it was sent, and the database's lease from when it arrived, which is later. The last
step is a timer of the kernel, which also ends a process that is stopped, or whose event loop hangs. Between two
renewals their connection hears what others announce: the `pause` is `Listener.wait` (`gate/cluster.py`).
"""

import asyncio
import ctypes
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

from paddock.model.errors import StoreUnavailable

RENEW_S = 2.5
"""Time from one renewal to the next, in seconds. Later ones follow sooner if it fails: see decision 61."""
RETRY_S = 0.5
"""Time from a renewal that failed to the next, in seconds."""
FENCE_S = 7.0
"""Time without a renewal after which requests with effects are cancelled, in seconds."""
KILL_S = 8.5
"""Time without a renewal after which the kernel ends the process, in seconds, if such a request still runs."""

_LIBC = ctypes.CDLL(None, use_errno=True)
_SIGEV_SIGNAL = 0
_TIMER_ABSTIME = 1
_NS = 1_000_000_000
_log = logging.getLogger("paddock.cluster")


class _Sigevent(ctypes.Structure):
    """`struct sigevent` (sigevent(3type)), which has 64 bytes."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_char * 48),
    )


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class KillTimer:
    """Kills this process with SIGKILL at a time, unless it is disarmed before (timer_create(2)).

    SIGKILL also ends a process that is stopped. A forked child has no such timer.
    """

    def __init__(self) -> None:
        self._timer: ctypes.c_void_p | None = None

    def arm(self, at: float) -> None:
        """Kill the process at a time of CLOCK_BOOTTIME, in seconds. It replaces the time that was set before."""
        if self._timer is None:
            event, made = _Sigevent(signo=signal.SIGKILL, notify=_SIGEV_SIGNAL), ctypes.c_void_p()
            _check(_LIBC.timer_create(time.CLOCK_BOOTTIME, ctypes.byref(event), ctypes.byref(made)))
            self._timer = made
        self._set(at)

    def disarm(self) -> None:
        """Kill nothing."""
        if self._timer is not None:
            self._set(0.0)

    def _set(self, at: float) -> None:
        ns = max(0, round(at * _NS))
        when = _Itimerspec(value=_Timespec(ns // _NS, ns % _NS))
        _check(_LIBC.timer_settime(self._timer, _TIMER_ABSTIME, ctypes.byref(when), None))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the timer of the lease: {os.strerror(number)}")


class Lease:
    """The lease of this process. `renew` returns False if another process has its name."""

    def __init__(
        self,
        renew: Callable[[], Awaitable[bool]],
        clock: Callable[[], float] | None = None,
        killer: KillTimer | None = None,
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`clock` returns seconds, `killer` ends this process at a time of that clock. `pause` waits for seconds."""
        self._renew = renew
        self._pause = pause
        # It counts while the machine is suspended, too.
        self._clock = clock or (lambda: time.clock_gettime(time.CLOCK_BOOTTIME))
        self._sent_at = float("-inf")
        self._held: set[asyncio.Event] = set()
        self._killer = killer or KillTimer()
        self._timer: asyncio.TimerHandle | None = None
        self.is_replaced = False
        """Whether another process has the name of this one: it gets no further lease."""
        self._problem = "This server has not reached the database of cluster.url yet."
        self._breaks = 0
        """How often the lease was renewed too late."""

    @property
    def age_s(self) -> float:
        """Time since the last renewal was sent, in seconds."""
        return self._clock() - self._sent_at

    def check(self) -> int:
        """Return what `hold` needs for a claim that is made now. Raises StoreUnavailable if the last renewal failed."""
        if self._problem:
            raise StoreUnavailable(self._problem)
        self._check_age()
        return self._breaks

    def _check_age(self) -> None:
        if self.age_s >= FENCE_S:
            raise StoreUnavailable(self._problem or "This server was stopped for too long to keep its lease.")

    @contextmanager
    def hold(self, claimed: int) -> Generator[asyncio.Event]:
        """Yield what is set when the request that runs in the context must end at once.

        `claimed` is what `check` returned before the claim. Raises StoreUnavailable, also if there was no lease at any
        moment since then: other machines may have called the request lost.
        """
        if claimed != self._breaks:
            raise StoreUnavailable("This server lost its lease while the request waited for its start.")
        self._check_age()
        fenced = asyncio.Event()
        self._held.add(fenced)
        try:
            self._arm()
            self._check_age()  # this process may have been stopped in between
            yield fenced
        finally:
            self._held.discard(fenced)
            if not self._held:
                self._killer.disarm()

    async def renew_once(self) -> None:
        """Renew the lease now. Raises StoreUnavailable."""
        sent_at = self._clock()
        if not await self._renew():
            self.is_replaced = True
            self._fail(
                "Another process has the name of this server. "
                "Give each one a different cluster.node, and restart this one."
            )
            return
        if self._problem and self._sent_at > float("-inf"):
            _log.warning("the database of cluster.url can be used again")
        if self.age_s >= FENCE_S:
            self._breaks += 1
        self._problem = ""
        self._sent_at = sent_at
        self._arm()

    async def begin(self) -> None:
        """Renew the lease for the first time; a database that is away is logged. Raises ConfigurationError."""
        try:
            await self.renew_once()
        except StoreUnavailable as error:
            self._fail(str(error))

    async def keep(self) -> None:
        """Renew the lease forever."""
        while True:
            sent_at, wait_s = self._clock(), RENEW_S
            try:
                await self.renew_once()
            except Exception as error:  # noqa: BLE001 - whatever it was, the next one may succeed
                self._fail(str(error))
                wait_s = RETRY_S
            # A renewal that took long has used the time before the next one.
            await self._pause(max(0.0, sent_at + wait_s - self._clock()))

    def _fail(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            _log.error("the lease of this server cannot be renewed: %s", problem)

    def _arm(self) -> None:
        """Let the timers begin anew, from the last renewal."""
        if self._timer is not None:
            self._timer.cancel()
        if self._held:
            self._killer.arm(self._sent_at + KILL_S)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, FENCE_S - self.age_s), self.look)

    def look(self) -> None:
        """End what runs if the lease is too old. A timer calls this."""
        if self.age_s < FENCE_S:
            self._arm()
            return
        if self._held:
            _log.error("%d requests with effects are ended: %s", len(self._held), self._problem)
        for each in self._held:
            each.set()

    def close(self) -> None:
        """Stop the timers."""
        self._killer.disarm()
        if self._timer is not None:
            self._timer.cancel()
