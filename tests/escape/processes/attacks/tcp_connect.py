"""Connect to a TCP port of this machine.

landlock: closed
namespaces: closed
unconfined: open
"""

import socket

socket.create_connection(("127.0.0.1", FACTS["tcp"]), 1)
