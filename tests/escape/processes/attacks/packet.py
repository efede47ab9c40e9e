"""Open a packet socket.

landlock: closed
namespaces: closed
unconfined: closed
"""

import socket

socket.socket(17, socket.SOCK_RAW, 0)
