"""Open a netlink socket, which lists the interfaces of its network.

landlock: closed
namespaces: closed
namespaces with loopback: open
unconfined: open
"""

import socket

socket.socket(16, socket.SOCK_RAW, 0)
