"""Do system calls by the 32-bit gate, where numbers mean something else (x86).

landlock: closed
namespaces: closed
unconfined: any
"""

import ctypes
import mmap
import os

libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3" if os.uname().machine == "x86_64" else b"")
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
if ctypes.CFUNCTYPE(ctypes.c_long)(address)() < 0:
    raise OSError("refused")
