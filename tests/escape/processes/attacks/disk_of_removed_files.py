"""Take more of the disk than allowed in files that are removed, and stay open or mapped.

landlock: closed
namespaces: closed
unconfined: closed
"""

import ctypes
import os
import time

libc = ctypes.CDLL(None)
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
for number in range(4):
    path = f"{os.environ['TMPDIR']}/{number}"
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.unlink(path)
    for _ in range(32):
        os.write(file, bytes(1 << 20))
    if number % 2:
        libc.mmap(None, 32 << 20, 1, 1, file, 0)
        os.close(file)
time.sleep(4)
