"""Take more memory than allowed in pages that lie in pipes, each in its own huge page, and are mapped nowhere.

landlock: closed
namespaces: closed
unconfined: open
"""

import ctypes
import mmap
import os

libc = ctypes.CDLL(None, use_errno=True)
HUGE = 2 << 20
NUMBER = {"x86_64": 278, "aarch64": 75}[os.uname().machine]


class Piece(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("length", ctypes.c_size_t))


kept = []
for n in range(100):
    if n % 10 == 0:
        kept.append(os.pipe())
    memory = mmap.mmap(-1, 2 * HUGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    view = ctypes.c_char.from_buffer(memory)
    start = -ctypes.addressof(view) % HUGE
    memory[start] = 1
    if libc.syscall(NUMBER, kept[-1][1], ctypes.byref(Piece(ctypes.addressof(view) + start, 4096)), 1, 0) < 0:
        raise OSError(ctypes.get_errno(), "refused")
    del view
    memory.close()
