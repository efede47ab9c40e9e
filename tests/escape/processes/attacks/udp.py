"""Send a datagram to an address in its own network.

landlock: closed
namespaces: closed
namespaces with loopback: open
unconfined: open
"""

import socket

socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))
