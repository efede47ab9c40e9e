"""Take memory of the kernel's own with rules of Landlock rulesets, each of which may have one for every port and file.

landlock: closed
namespaces: closed
unconfined: any
"""

import ctypes
import os
import struct

libc = ctypes.CDLL(None, use_errno=True)
refused = 0
for access, kind, rule in (
    (struct.pack("=QQ", 0, 3), 2, struct.pack("=QQ", 1, 80)),
    (struct.pack("=QQ", 4, 0), 1, struct.pack("=Qi", 4, os.open("/usr", os.O_PATH))),
):
    ruleset = libc.syscall(444, access, 16, 0)
    refused += ruleset < 0 or libc.syscall(445, ruleset, kind, rule, 0) < 0
if refused == 2:
    raise OSError(ctypes.get_errno(), "refused")
