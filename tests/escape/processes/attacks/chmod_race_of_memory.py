"""Change the mode of a file outside by a path that another thread rewrites during the call.

landlock: closed
landlock unsupervised: open
namespaces: closed
unconfined: open
"""

import ctypes
import os
import threading
import time

outside, own = FACTS["outside"], FACTS["workspace"]
length = max(len(outside), len(own)) + 32
paths = [f"{folder}/".ljust(length, "/").encode() + b"mode\0" for folder in (own, outside)]
open(f"{own}/mode", "w").close()
libc = ctypes.CDLL(None)
buffer = ctypes.create_string_buffer(paths[0])
done = False


def rewrite():
    while not done:
        for path in paths:
            ctypes.memmove(buffer, path, len(path))


thread = threading.Thread(target=rewrite)
thread.start()
until = time.monotonic() + 1.5
while time.monotonic() < until and os.stat(f"{outside}/mode").st_mode & 0o777 != 0o777:
    libc.chmod(buffer, 0o777)
done = True
thread.join()
if os.stat(f"{outside}/mode").st_mode & 0o777 != 0o777:
    raise OSError("all were refused")
