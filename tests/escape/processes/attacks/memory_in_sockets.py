"""Take more memory than allowed with what lies in sockets, enlarged as far as the kernel lets one; a control group counts it.

landlock: open
namespaces: open
unconfined: open
"""

import socket
import time

kept = []
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
time.sleep(0.5)
