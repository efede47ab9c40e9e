"""See by inotify when files in a folder outside that its owner has closed to others are made and opened.

landlock: closed
namespaces: closed
unconfined: open
"""

import ctypes

libc = ctypes.CDLL(None, use_errno=True)
if libc.inotify_add_watch(libc.inotify_init(), FACTS["private"].encode(), 0x120) < 0:
    raise OSError(ctypes.get_errno(), "refused")
