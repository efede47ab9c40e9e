"""Send to a unix socket in the workspace by one end of a pair, as to that of the system log.

landlock: closed
namespaces: closed
unconfined: open
"""

import socket

for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW, socket.SOCK_DGRAM):
    try:
        end, other = socket.socketpair(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK)
        end.connect(FACTS["workspace"] + "/log")
        break
    except OSError as error:
        refusal = error
else:
    raise refusal
