"""Change the mode of a file outside by a link that leads inside when it is looked at, and outside when it counts.

landlock: closed
landlock unsupervised: open
namespaces: closed
unconfined: open
"""

import os
import threading
import time

outside, own = FACTS["outside"], FACTS["workspace"]
os.mkdir(f"{own}/inside")
open(f"{own}/inside/mode", "w").close()
for name, target in (("one", f"{own}/inside"), ("two", outside)):
    os.symlink(target, f"{own}/{name}")
done = False


def swap():
    while not done:
        for name in ("one", "two"):
            os.link(f"{own}/{name}", f"{own}/next", follow_symlinks=False)
            os.rename(f"{own}/next", f"{own}/link")
        os.rename(f"{own}/inside", f"{own}/aside")  # and a directory by one of another name
        os.rename(f"{own}/aside", f"{own}/inside")


os.symlink(outside, f"{own}/link")
thread = threading.Thread(target=swap)
thread.start()
until = time.monotonic() + 1.5
while time.monotonic() < until and os.stat(f"{outside}/mode").st_mode & 0o777 != 0o777:
    try:
        os.chmod(f"{own}/link/mode", 0o777)
    except OSError:
        pass
done = True
thread.join()
if os.stat(f"{outside}/mode").st_mode & 0o777 != 0o777:
    raise OSError("all were refused")
