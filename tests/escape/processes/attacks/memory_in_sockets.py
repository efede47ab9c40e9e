"""Take more memory than allowed with what lies in sockets, enlarged as far as the kernel lets one.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os
import socket
import time

kept = []
for _ in range(7):  # other programs of the machine may free memory meanwhile
    if not os.fork():
        break
for _ in range(450):
    pair = socket.socketpair()
    kept.append(pair)
    for end in pair:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 23)
        end.setblocking(False)
        try:
            for _ in range(128):
                end.send(bytes(1 << 13))
        except BlockingIOError:
            pass
time.sleep(4)
