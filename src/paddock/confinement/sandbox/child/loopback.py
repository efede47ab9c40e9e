"""A network of a job's own: a loopback interface, and, for the grant `hosts`, the socket of its proxy.

The keeper of the mounts makes the network ahead of the jail that gets it (`namespaces`), and the shim opens the socket
(`shim._confine_process`). Paddock gets that once, over the channel of the shim, before any code of the program runs. It
accepts connections on it from outside: a socket stays in the network in which it was made (network_namespaces(7)).
Nothing of the program sends Paddock a descriptor.
"""

import ctypes
import fcntl
import socket
import sys

from paddock.confinement.sandbox.child.system_calls import check_result

PROXY_ADDRESS = ("127.0.0.1", 3128)
"""Where the proxy of a job listens, in the job's own network."""
OWN_NETWORKS = ("loopback", "hosts")
"""The grants with which each job has its own network."""

_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_IFREQ_BYTES, _NAME_BYTES = 40, 16
"""netdevice(7)."""
_BACKLOG = 128
_NEW_NETWORK = 0x40000000
"""CLONE_NEWNET of unshare(2)."""
_LIBC = ctypes.CDLL(None, use_errno=True)


def enter_new_network() -> None:
    """Move this process to a new network, and bring up `lo` there. Raises OSError.

    Needs CAP_SYS_ADMIN and CAP_NET_ADMIN in its user namespace.
    """
    check_result("unshare: network", _LIBC.unshare(_NEW_NETWORK))
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
