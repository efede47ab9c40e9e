"""Set up io_uring, which does system calls that no filter sees.

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


check(libc.syscall(425, 1, ctypes.create_string_buffer(120)))
