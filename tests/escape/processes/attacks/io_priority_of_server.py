"""Have Paddock's process wait for disks behind all other processes.

landlock: closed
namespaces: closed
unconfined: open
"""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
SET, OF_PROCESS, BEST_EFFORT = {"x86_64": 251, "aarch64": 30}[os.uname().machine], 1, 2 << 13 | 4
if libc.syscall(SET, OF_PROCESS, FACTS["server"], BEST_EFFORT) < 0:
    raise OSError(ctypes.get_errno(), "refused")
