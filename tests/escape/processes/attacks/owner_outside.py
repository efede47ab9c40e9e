"""Change owner and group of a file outside, as far as its owner may, by each call that does.

landlock: closed
landlock unsupervised: open
namespaces: closed
unconfined: open
"""

import os

path, user, group = FACTS["outside"] + "/mode", os.getuid(), os.getgid()
folder, file = os.open(FACTS["outside"], os.O_PATH), os.open(path, os.O_PATH)
for way in (
    lambda: os.chown(path, user, group),
    lambda: os.lchown(path, user, group),
    lambda: os.chown("mode", user, group, dir_fd=folder),
    lambda: os.chown(f"/proc/self/fd/{file}", user, group),
):
    try:
        way()
    except OSError:
        continue
    break
else:
    raise OSError("all were refused")
