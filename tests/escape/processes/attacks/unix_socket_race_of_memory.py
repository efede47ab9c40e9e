"""Connect to a unix socket in the workspace by an address that another thread rewrites, with the socket, in the call.

landlock: closed
namespaces: closed
unconfined: open
"""

import ctypes
import os
import socket
import struct
import tempfile
import threading
import time

outside, own = f"{FACTS['workspace']}/socket", tempfile.mkdtemp()
server = socket.socket(socket.AF_UNIX)
server.bind(f"{own}/socket")
server.listen(4096)
addresses = [
    struct.pack("=H108s", socket.AF_UNIX, path)
    for path in (f"{own}/socket".encode(), outside.encode(), b"\0abstract")
]
libc = ctypes.CDLL(None)
buffer = ctypes.create_string_buffer(addresses[0], 110)
done = False


def rewrite():
    inet = socket.socket()
    while not done:
        for address in addresses:
            ctypes.memmove(buffer, address, len(address))
        try:
            os.dup2(inet.fileno(), number)
            os.dup2(socket.socket(socket.AF_UNIX).fileno(), number)
        except OSError:
            pass


number = socket.socket(socket.AF_UNIX).detach()
thread = threading.Thread(target=rewrite)
thread.start()
until, reached = time.monotonic() + 1.5, False
while time.monotonic() < until and not reached:
    client = socket.socket(socket.AF_UNIX)
    client.setblocking(False)
    for descriptor in (client.fileno(), number):
        libc.connect(descriptor, buffer, 110)
        try:
            peer = socket.socket(fileno=os.dup(descriptor))
            reached = reached or peer.getpeername() == outside
            peer.close()
        except OSError:
            pass
    client.close()
done = True
thread.join()
if not reached:
    raise OSError("all were refused")
