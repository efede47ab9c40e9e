"""Take more memory than allowed in secret memory files that no process maps.

landlock: closed
namespaces: closed
unconfined: any
"""

import ctypes
import mmap
import os

libc = ctypes.CDLL(None, use_errno=True)
PIECE = 1 << 20
for _ in range(200):
    file = libc.syscall(447, 0)
    if file < 0:
        raise OSError(ctypes.get_errno(), "refused")
    os.ftruncate(file, PIECE)
    with mmap.mmap(file, PIECE) as memory:
        memory.write(bytes(PIECE))
