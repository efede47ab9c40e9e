"""Make a BPF map.

landlock: closed
namespaces: closed
unconfined: any
"""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


check(
    libc.syscall(
        {"x86_64": 321, "aarch64": 280}[os.uname().machine], 0, (ctypes.c_uint32 * 32)(2, 4, 4, 1), 128
    )
)
