"""Take memory of the kernel's own with locks on files: one for every other byte, on files without a byte; nothing counts it.

landlock: open
namespaces: open
unconfined: open
"""

import fcntl
import os
import struct
import time

locks = [struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 2 * place, 1, 0) for place in reversed(range(600))]
files = [os.open(f"{os.environ['TMPDIR']}/{os.getpid()}-{n}", os.O_RDWR | os.O_CREAT) for n in range(160)]
for file in files:
    for lock in locks:
        fcntl.fcntl(file, fcntl.F_SETLK, lock)
time.sleep(0.5)
