"""Take more memory than allowed in memory files that no process maps, hidden from the user of the process.

landlock: closed
namespaces: closed
unconfined: closed
"""

import ctypes
import os
import time

ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
files = [os.memfd_create("hidden") for _ in range(8)]
for file in files:
    for _ in range(32):
        os.write(file, bytes(1 << 20))
time.sleep(4)
