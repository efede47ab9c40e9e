"""Connect to an abstract unix socket.

landlock: closed
namespaces: closed
unconfined: open
"""

import socket

socket.socket(socket.AF_UNIX).connect("\0" + FACTS["abstract"])
