"""Open an IPv6 socket.

landlock: closed
namespaces: closed
unconfined: open
"""

import socket

socket.socket(socket.AF_INET6)
