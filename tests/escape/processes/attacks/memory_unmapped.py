"""Take more memory than allowed in shared anonymous mappings, and unmap the pages without freeing them.

landlock: closed
namespaces: closed
unconfined: closed
"""

import mmap
import time

mappings = [mmap.mmap(-1, 32 << 20) for _ in range(8)]
for mapping in mappings:
    for start in range(0, len(mapping), 1 << 20):
        mapping[start : start + (1 << 20)] = bytes(1 << 20)
    mapping.madvise(mmap.MADV_DONTNEED)
time.sleep(4)
