"""Take more memory than allowed in memory files that are on their way through a socket, and open nowhere.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os
import socket
import time

here, there = socket.socketpair()
for _ in range(8):
    file = os.memfd_create("sent")
    for _ in range(32):
        os.write(file, bytes(1 << 20))
    socket.send_fds(here, [b"x"], [file])
    os.close(file)
time.sleep(4)
