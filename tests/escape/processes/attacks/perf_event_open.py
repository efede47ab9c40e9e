"""Count events of the machine.

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
        {"x86_64": 298, "aarch64": 241}[os.uname().machine], (ctypes.c_uint32 * 32)(1, 128), 0, -1, -1, 0
    )
)
