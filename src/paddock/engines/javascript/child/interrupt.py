"""End JavaScript from outside: a signal makes V8 unwind all of its frames, past every `catch` and `finally`.

A worker has one thread, which is inside of V8 while a program computes. Python's handlers would wait until V8 returns,
and a handler that enters Python could interrupt Python itself. Therefore the kernel calls V8's function directly, which
may be called at any moment (v8-isolate.h, TerminateExecution). Only its argument must be put in place: three
instructions do that. The fork server makes them, before workers lock themselves down, in a page that is never writable
again.
"""

import ctypes
import mmap
import os
import signal
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SIGNAL = signal.SIGUSR1
"""Ends the running JavaScript. It kills a process on a machine for which there are no instructions here."""

_PROT_READ_EXEC = 5
_LOAD_AND_BRANCH = 0x58000080, 0x580000B0, 0xD61F0200, 0xD503201F
_CODE: "dict[str, tuple[str, Callable[[int, int], tuple[int | bytes, ...]]]]" = {
    # mov rdi, ARGUMENT; mov rax, FUNCTION; jmp rax
    "x86_64": ("<2sQ2sQ2s", lambda function, argument: (b"\x48\xbf", argument, b"\x48\xb8", function, b"\xff\xe0")),
    # ldr x0, ARGUMENT; ldr x16, FUNCTION; br x16; nop
    "aarch64": ("<4I2Q", lambda function, argument: (*_LOAD_AND_BRANCH, argument, function)),
}  # fmt: skip
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
_LIBC.signal.restype = ctypes.c_void_p
_LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def call_on_signal(function: int, argument: int) -> mmap.mmap | None:
    """Have the kernel call the function at an address with one argument at each `SIGNAL`.

    Returns the memory of the handler, which must outlive it; None where there can be no handler.
    """
    if (code := _CODE.get(os.uname().machine)) is None:
        return None
    form, order = code
    page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    page.write(struct.pack(form, *order(function, argument)))
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    if _LIBC.mprotect(address, mmap.PAGESIZE, _PROT_READ_EXEC) != 0:
        return None
    _LIBC.signal(SIGNAL, address)
    return page
