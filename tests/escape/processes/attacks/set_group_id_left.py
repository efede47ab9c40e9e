"""Leave a set-group-id program in the workspace that runs with the group of the job's user.

landlock: closed
namespaces: closed
unconfined: open
"""

import ctypes
import os
import threading

libc = ctypes.CDLL(None, use_errno=True)
folder = FACTS["workspace"]
path = folder + "/program"
open(path, "w").close()
os.symlink(path, folder + "/link")
here = os.open(folder, os.O_RDONLY)
os.chdir(folder)
ways = {
    "chmod": lambda: os.chmod(path, 0o2755),
    "chmod of a link": lambda: os.chmod("link", 0o2755),
    "fchmod": lambda: os.fchmod(os.open(path, os.O_WRONLY), 0o2755),
    "fchmodat": lambda: os.chmod("program", 0o2755, dir_fd=here),
    "fchmodat2": lambda: libc.syscall(452, -100, path.encode(), 0o2755, 0),
    "open": lambda: os.open(path + "1", os.O_CREAT | os.O_WRONLY, 0o2755),
    "unnamed": lambda: os.link(
        f"/proc/self/fd/{os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o2755)}", path + "2"
    ),
    "openat2": lambda: libc.syscall(
        437, -100, (path + "3").encode(), (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o2755), 24
    ),
    "mknod": lambda: os.mknod(path + "4", 0o102755),
    "mkdir": lambda: os.mkdir(path + "5", 0o2755),
}
for way in ways.values():
    try:
        way()
    except OSError:
        pass


def swap():
    """Have a name lead to a folder when it is looked at, and to a file when it counts."""
    while not done:
        for target in ("/folder", "/program"):
            os.symlink(folder + target, folder + "/next")
            os.rename(folder + "/next", folder + "/racing")


os.mkdir(folder + "/folder")
os.symlink(path, folder + "/racing")
done = False
(thread := threading.Thread(target=swap)).start()
for _ in range(300):
    try:
        os.chmod(folder + "/racing", 0o2755)
    except OSError:
        pass
done = True
thread.join()
found = [entry.name for entry in os.scandir(folder) if entry.is_file() and entry.stat().st_mode & 0o2000]
if not found:
    raise OSError("none is there")
