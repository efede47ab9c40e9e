"""A timer of the kernel that ends this process, whatever state it is in."""

import ctypes
import os
import signal
import time

_LIBC = ctypes.CDLL(None, use_errno=True)
_SIGEV_SIGNAL = 0
_TIMER_ABSTIME = 1
_NS = 1_000_000_000


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
