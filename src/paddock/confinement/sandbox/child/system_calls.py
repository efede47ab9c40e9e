"""System calls through ctypes that several of the processes beside a job make."""

import ctypes
import os

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_DUMPABLE = 4
_PIDFD_GETFD = 438
"""System call number, the same on every architecture."""


def check_result(what: str, result: int) -> int:
    """Return the result of a system call made through ctypes. Raises OSError if it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def copy_descriptor(process: int, number: int) -> int:
    """Return a copy of a descriptor of the process behind a pidfd (pidfd_getfd(2)). Raises OSError if it is forbidden.

    `number` may be an argument of a system call, of which the kernel takes 32 bits.
    """
    number = ctypes.c_int32(number & 0xFFFFFFFF).value
    return check_result("pidfd_getfd", _LIBC.syscall(_PIDFD_GETFD, process, number, 0))


def make_dumpable() -> None:
    """Let this process be inspected as after an exec (prctl(2), PR_SET_DUMPABLE)."""
    _LIBC.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
