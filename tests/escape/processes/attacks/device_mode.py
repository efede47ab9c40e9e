"""Change the mode or the times of a device, which is the host's.

landlock: closed
namespaces: closed
unconfined: not tried
"""

import os
import stat

facts = os.stat("/dev/null")  # to what they are, so that nothing changes where that works
for change in (
    lambda: os.chmod("/dev/null", stat.S_IMODE(facts.st_mode)),
    lambda: os.utime("/dev/null", ns=(facts.st_atime_ns, facts.st_mtime_ns)),
    lambda: os.chmod("/proc/keys", 0o666),
):
    try:
        change()
    except OSError:
        continue
    break
else:
    raise OSError("all were refused")
