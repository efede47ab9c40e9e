"""System calls, also through ctypes, that several of the processes beside a job make."""

import ctypes
import os

LIBC = ctypes.CDLL(None, use_errno=True)
for _name in ("mount", "prctl", "setns", "syscall"):
    getattr(LIBC, _name)  # a forked process that looks up a function copies many pages of memory
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
    return check_result("pidfd_getfd", LIBC.syscall(_PIDFD_GETFD, process, number, 0))


def make_dumpable() -> None:
    """Let this process be inspected as after an exec (prctl(2), PR_SET_DUMPABLE)."""
    LIBC.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


def read_file(path: str) -> bytes:
    """Return the content of a file, at half the cost of a file object. Raises OSError."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts: list[bytes] = []
        while part := os.read(file, 65536):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)


def read_if_there(path: str) -> bytes:
    """Return the content of a file below /proc; nothing if its process has ended or it is closed to this one."""
    try:
        return read_file(path)
    except OSError:
        return b""


def write_file(path: str, data: bytes) -> None:
    """Write to an existing file, such as a setting of the kernel, in one call. Raises OSError."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, data)
    finally:
        os.close(file)
