"""Take a descriptor out of Paddock's process.

landlock: closed
namespaces: closed
unconfined: open
"""

import ctypes

libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


check(libc.syscall(438, check(libc.syscall(434, FACTS["server"], 0)), 0, 0))
