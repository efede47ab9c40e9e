"""Leave a set-user-id program in the workspace that runs as the job's user.

landlock: closed
namespaces: closed
unconfined: open
"""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
path = FACTS["workspace"] + "/program"
open(path, "w").close()
ways = {
    "chmod": lambda: os.chmod(path, 0o4755),
    "fchmod": lambda: os.fchmod(os.open(path, os.O_WRONLY), 0o4755),
    "fchmodat2": lambda: libc.syscall(452, -100, path.encode(), 0o4755, 0),
    "open": lambda: os.open(path + "1", os.O_CREAT | os.O_WRONLY, 0o4755),
    "unnamed": lambda: os.link(
        f"/proc/self/fd/{os.open(FACTS['workspace'], os.O_TMPFILE | os.O_WRONLY, 0o4755)}", path + "2"
    ),
    "openat2": lambda: libc.syscall(
        437, -100, (path + "3").encode(), (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o4755, 0), 24
    ),
    "mknod": lambda: os.mknod(path + "4", 0o104755),
}
for way in ways.values():
    try:
        way()
    except OSError:
        pass
found = [entry.name for entry in os.scandir(FACTS["workspace"]) if entry.stat().st_mode & 0o4000]
if not found:
    raise OSError("none is there")
