"""Catch page faults, the tool of kernel exploits.

landlock: closed
namespaces: closed
unconfined: open
"""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


check(libc.syscall({"x86_64": 323, "aarch64": 282}[os.uname().machine], 1))
