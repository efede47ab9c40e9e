"""See by inotify when files outside that everybody may read are made and opened, and what they are called.

landlock: closed
namespaces: closed
unconfined: open
"""

import ctypes

libc = ctypes.CDLL(None, use_errno=True)
if libc.inotify_add_watch(libc.inotify_init(), FACTS["outside"].encode(), 0x120) < 0:
    raise OSError(ctypes.get_errno(), "refused")
