"""Mount a file system.

landlock: closed
namespaces: closed
unconfined: closed
"""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


check(libc.mount(b"none", os.environb[b"TMPDIR"], b"tmpfs", 0, None))
