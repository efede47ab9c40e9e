"""A network of a job's own: a loopback interface, and, for the grant `hosts`, the socket of its proxy.

The shim (`_confine_process`) makes it before any code of the program runs. Paddock gets the listening socket once, over
the channel of the shim, and accepts connections on it from outside: a socket stays in the network in which it was made
(network_namespaces(7)). Nothing of the program sends Paddock a descriptor.
"""

import fcntl
import socket
import sys

PROXY_ADDRESS = ("127.0.0.1", 3128)
"""Where the proxy of a job listens, in the job's own network."""
OWN_NETWORKS = ("loopback", "hosts")
"""The grants with which each job has its own network."""

_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_IFREQ_BYTES, _NAME_BYTES = 40, 16
"""netdevice(7)."""
_BACKLOG = 128


def bring_up_loopback() -> None:
    """Bring up `lo` in the network of this process; needs CAP_NET_ADMIN in its user namespace. Raises OSError."""
    request = b"lo".ljust(_NAME_BYTES, b"\0") + _IFF_UP.to_bytes(2, sys.byteorder)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, request.ljust(_IFREQ_BYTES, b"\0"))


def open_proxy_socket() -> socket.socket:
    """Return a socket that listens at `PROXY_ADDRESS` in the network of this process. Raises OSError."""
    proxy_socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        proxy_socket.bind(PROXY_ADDRESS)
        proxy_socket.listen(_BACKLOG)
    except OSError:
        proxy_socket.close()
        raise
    return proxy_socket
