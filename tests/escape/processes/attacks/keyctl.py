"""Read the session keyring.

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


check(libc.syscall({"x86_64": 250, "aarch64": 219}[os.uname().machine], 0, -3, 0))
