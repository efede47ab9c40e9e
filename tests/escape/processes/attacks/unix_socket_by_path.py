"""Connect to a unix socket, such as docker.sock.

landlock: closed
namespaces: closed
unconfined: open
"""

import socket

socket.socket(socket.AF_UNIX).connect(FACTS["unix"])
