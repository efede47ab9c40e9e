"""Ask `conformance_client.py` for one scenario: `conformance_call.py SOCKET URL`."""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect(sys.argv[1])
    asked = {"url": sys.argv[2], "environment": dict(os.environ)}
    socket.send_fds(server, [json.dumps(asked).encode()], [0, 1, 2])
    sys.exit(int(server.recv(16) or b"1"))
