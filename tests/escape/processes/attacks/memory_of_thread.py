"""Take more memory than allowed in a process whose first thread has ended, so that it looks dead.

landlock: closed
namespaces: closed
unconfined: closed
"""

import ctypes
import mmap
import os
import threading
import time


def take():
    mappings = [mmap.mmap(-1, 32 << 20) for _ in range(8)]
    for mapping in mappings:
        for start in range(0, len(mapping), 1 << 20):
            mapping[start : start + (1 << 20)] = bytes(1 << 20)
    time.sleep(4)
    os._exit(0)


threading.Thread(target=take).start()
ctypes.CDLL(None).syscall(
    {"x86_64": 60, "aarch64": 93}[os.uname().machine], 0
)  # exit(2), of this thread alone
