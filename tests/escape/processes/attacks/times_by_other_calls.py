"""Change the times of a file outside by each call that does, and by descriptors.

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
EMPTY_PATH = 0x1000
pairs, four = (ctypes.c_long * 2)(1, 1), (ctypes.c_long * 4)(1, 0, 1, 0)
for way in (
    lambda: os.utime(path, (1, 1)),
    lambda: os.utime(path, (1, 1), follow_symlinks=False),
    lambda: os.utime("mode", (1, 1), dir_fd=folder),
    lambda: os.utime(f"/proc/self/fd/{file}", (1, 1)),
    lambda: libc.utimensat(file, b"", four, EMPTY_PATH),
    lambda: libc.utimensat(file, None, four, 0),
    lambda: libc.futimens(file, four),
    lambda: libc.utime(path, pairs),
    lambda: libc.utimes(path, four),
    lambda: libc.futimesat(folder, b"mode", four),
    lambda: libc.futimesat(file, None, four),
):
    try:
        way()
    except OSError:
        continue
if os.stat(path).st_mtime != 1:
    raise OSError("all were refused")
