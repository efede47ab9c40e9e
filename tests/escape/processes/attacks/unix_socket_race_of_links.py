"""Connect to a unix socket in the workspace by a link that leads to one's own when it is looked at.

landlock: closed
namespaces: closed
unconfined: open
"""

import os
import socket
import tempfile
import threading
import time

outside, own = f"{FACTS['workspace']}/socket", tempfile.mkdtemp()
server = socket.socket(socket.AF_UNIX)
server.bind(f"{own}/socket")
server.listen(4096)
for name, target in (("one", own), ("two", FACTS["workspace"]), ("folder", own)):
    os.symlink(target, f"{own}/{name}")
done = False


def swap():
    while not done:
        for name in ("one", "two"):
            os.link(f"{own}/{name}", f"{own}/next", follow_symlinks=False)
            os.rename(f"{own}/next", f"{own}/folder")


thread = threading.Thread(target=swap)
thread.start()
until, reached = time.monotonic() + 1.5, False
while time.monotonic() < until and not reached:
    client = socket.socket(socket.AF_UNIX)
    client.setblocking(False)
    try:
        client.connect(f"{own}/folder/socket")
        reached = client.getpeername() == outside
    except OSError:
        pass
    client.close()
done = True
thread.join()
if not reached:
    raise OSError("all were refused")
