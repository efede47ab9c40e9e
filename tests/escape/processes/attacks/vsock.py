"""Open a socket to the host of a virtual machine.

landlock: closed
namespaces: closed
unconfined: open
"""

import socket

socket.socket(40, socket.SOCK_STREAM)
