"""Take more memory than allowed in memory files that lie in a connection that its server has not accepted.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os
import socket
import time

server = socket.socket(socket.AF_UNIX)
server.bind("\0server")
server.listen()
client = socket.socket(socket.AF_UNIX)
client.connect("\0server")
for _ in range(8):
    file = os.memfd_create("sent")
    for _ in range(32):
        os.write(file, bytes(1 << 20))
    socket.send_fds(client, [b"x"], [file])
    os.close(file)
client.close()
time.sleep(4)
