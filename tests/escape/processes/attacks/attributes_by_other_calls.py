"""Set or remove an attribute of a file outside by each call that does, the youngest included, and by descriptors.

landlock: closed
landlock unsupervised: open
namespaces: closed
unconfined: open
"""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
outside = FACTS["outside"]
path = f"{outside}/mode".encode()
folder, file = os.open(outside, os.O_PATH), os.open(path, os.O_PATH)
SETXATTRAT, AT_FDCWD = 463, -100
value = ctypes.create_string_buffer(b"x")


class Argument(ctypes.Structure):
    _fields_ = (("value", ctypes.c_uint64), ("size", ctypes.c_uint32), ("flags", ctypes.c_uint32))


argument = Argument(ctypes.addressof(value), 1, 0)
for way in (
    lambda: os.setxattr(path, b"user.paddock", b"x"),
    lambda: os.setxattr(path, b"user.paddock", b"x", follow_symlinks=False),
    lambda: os.setxattr(f"/proc/self/fd/{file}", b"user.paddock", b"x"),
    lambda: libc.fsetxattr(file, b"user.paddock", b"x", 1, 0),
    lambda: libc.syscall(SETXATTRAT, AT_FDCWD, path, 0, b"user.paddock", ctypes.byref(argument), 16),
    lambda: libc.syscall(SETXATTRAT, folder, b"mode", 0, b"user.paddock", ctypes.byref(argument), 16),
):
    try:
        way()
    except OSError:
        continue
if not os.listxattr(path):
    raise OSError("all were refused")
