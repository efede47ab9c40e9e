"""Install the seccomp filters that ship as data (seccomp(2)); `scripts/seccomp_filters.py` generates them."""

import ctypes
import functools
import os

from paddock.confinement.sandbox.child.system_calls import LIBC

_SYSCALL = {"x86_64": 317, "aarch64": 277}
_MACHINE = os.uname().machine
_SET_MODE_FILTER = 1
_TSYNC = 1
_NEW_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5
_INSTRUCTION_BYTES = 8

FILTERS_FOLDER = f"{os.path.dirname(__file__)}/filters"  # pathlib would be copied by every fork


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


@functools.cache
def read_filter(profile: str) -> bytes:
    """Return the BPF program of `profile` for this machine. Raises FileNotFoundError if none is shipped."""
    with open(f"{FILTERS_FOLDER}/{profile}.{_MACHINE}.bpf", "rb") as file:
        return file.read()


def install_filter(program: bytes) -> None:
    """Apply `program` to every thread of this process, permanently.

    `no_new_privs` must be set. Raises OSError if the kernel refuses, or if a thread has another filter.
    """
    argument = _FilterProgram(len(program) // _INSTRUCTION_BYTES, program)
    failed = LIBC.syscall(_SYSCALL[_MACHINE], _SET_MODE_FILTER, _TSYNC, ctypes.byref(argument))
    if failed:
        raise OSError(ctypes.get_errno(), "seccomp(SECCOMP_SET_MODE_FILTER)")


def install_listener(program: bytes) -> int:
    """Apply `program`, which notifies, to this process of one thread; return the listener (seccomp_unotify(2)).

    Where the kernel can (Linux 5.19), a received call is interrupted only by a fatal signal, so that it is not done
    twice. Raises OSError if the kernel refuses, such as for a second listener.
    """
    argument = _FilterProgram(len(program) // _INSTRUCTION_BYTES, program)
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        listener = int(LIBC.syscall(_SYSCALL[_MACHINE], _SET_MODE_FILTER, flags, ctypes.byref(argument)))
        if listener >= 0:
            return listener
    raise OSError(ctypes.get_errno(), "seccomp(SECCOMP_FILTER_FLAG_NEW_LISTENER)")
