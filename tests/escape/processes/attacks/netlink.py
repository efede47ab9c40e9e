"""Open a netlink socket.

landlock: closed
namespaces: closed
unconfined: open
"""

import socket

socket.socket(16, socket.SOCK_RAW, 0)
