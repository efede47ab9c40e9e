"""Listen on a TCP port.

landlock: closed
namespaces: closed
namespaces with loopback: open
unconfined: open
"""

import socket

socket.create_server(("127.0.0.1", 0))
