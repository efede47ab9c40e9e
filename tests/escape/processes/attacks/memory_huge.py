"""Take huge pages that the machine keeps for others, which no limit counts.

landlock: closed
namespaces: closed
unconfined: any
"""

import mmap
import os

LATER, HUGE = 0x4000, 0x40000  # MAP_NORESERVE, MAP_HUGETLB
took = []
for take in (
    lambda: mmap.mmap(-1, 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | LATER | HUGE),
    lambda: os.memfd_create("huge", os.MFD_HUGETLB),
):
    try:
        took.append(take())
    except OSError as error:
        refused = error
if not took:
    raise refused
