"""Open an IPv6 socket.

landlock: closed
namespaces: closed
namespaces with loopback: open
unconfined: open
"""

import socket

socket.socket(socket.AF_INET6)
