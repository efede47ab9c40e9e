"""Read a hidden file of the workspace, by each of its paths and by descriptors of its folders.

landlock: closed
namespaces: closed
unconfined: open
"""

import os

WORKSPACE = FACTS["workspace"]
os.chdir(WORKSPACE)
folder = os.open("api", os.O_PATH)
inner = os.open("api/config", os.O_RDONLY)
itself = os.open(".env", os.O_PATH)
paths = [
    WORKSPACE + "/.env",
    WORKSPACE + "/api/../api/config/.env",
    "/proc/self/cwd/.env",
    "/proc/self/root" + WORKSPACE + "/.env",
    "/proc/1/root" + WORKSPACE + "/.env",
    "/proc/%d/cwd/.env" % os.getppid(),
    "/proc/self/fd/%d/config/.env" % folder,
    "/dev/fd/%d/.env" % inner,
    "/proc/self/fd/%d" % itself,
]
seen = []
for path in paths:
    for flags in (os.O_RDONLY, os.O_RDWR, os.O_RDONLY | os.O_NOATIME):
        try:
            seen.append(os.read(os.open(path, flags), 100))
        except OSError:
            pass
for name, at in (("config/.env", folder), (".env", inner)):
    try:
        seen.append(os.read(os.open(name, os.O_RDONLY, dir_fd=at), 100))
    except OSError:
        pass
assert b"SECRET" in seen
