"""Make a user namespace by clone3, whose flags no filter sees.

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


pid = check(libc.syscall(435, (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, 17), 64))
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
