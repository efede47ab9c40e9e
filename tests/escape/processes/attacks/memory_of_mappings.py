"""Take memory of the kernel's own with mappings, of which each process may have 65530, as small as they like; a control group counts it.

landlock: open
namespaces: open
unconfined: open
"""

import ctypes
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
start = libc.mmap(None, 1 << 28, 1, 0x4022, -1, 0)
for page in range(0, 65000, 2):
    libc.mprotect(ctypes.c_void_p(start + page * 4096), ctypes.c_size_t(4096), 0)
time.sleep(0.5)
