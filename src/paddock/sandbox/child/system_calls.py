"""System calls through ctypes that several of the processes beside a job make."""

import ctypes
import os

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_DUMPABLE = 4


def check_result(what: str, result: int) -> int:
    """Return the result of a system call made through ctypes. Raises OSError if it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def make_dumpable() -> None:
    """Let this process be inspected as after an exec (prctl(2), PR_SET_DUMPABLE)."""
    _LIBC.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
