"""Read or change the table of segments, a tool of kernel exploits (x86).

landlock: closed
namespaces: closed
unconfined: any
"""

import ctypes
import os

if os.uname().machine != "x86_64":
    raise OSError("there is no such call")
libc = ctypes.CDLL(None, use_errno=True)
if libc.syscall(154, 0, ctypes.create_string_buffer(8192), 8192) < 0:
    raise OSError(ctypes.get_errno(), "refused")
