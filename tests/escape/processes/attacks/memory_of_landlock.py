"""Take memory of the kernel's own with rules for ports, of which each Landlock ruleset may have 65536.

landlock: closed
namespaces: closed
unconfined: any
"""

import ctypes
import struct

libc = ctypes.CDLL(None, use_errno=True)
ruleset = libc.syscall(444, struct.pack("=QQ", 0, 3), 16, 0)
for port in range(1000):
    if libc.syscall(445, ruleset, 2, struct.pack("=QQ", 1, port), 0):
        raise OSError(ctypes.get_errno(), "refused")
