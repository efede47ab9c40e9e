"""Take memory of the kernel's own with tables of pages: to read a byte of each 2 MiB of nothing takes a page for each.

landlock: closed
namespaces: closed
unconfined: closed
"""

import mmap
import time

step = 2 << 20
nothing = mmap.mmap(
    -1, 65536 * step, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ
)
for place in range(0, len(nothing), step):
    nothing[place]
time.sleep(4)
