"""An empty root for a worker, on kernels without Landlock: gVisor, old kernels, and where it is switched off.

The worker enters its own user namespace and mount namespace (user_namespaces(7)), and its root becomes a small
directory in memory that has nothing but the files that it may read. It gives up its capabilities there afterwards.
"""

import os
from collections.abc import Iterable

from paddock.confinement.sandbox.child import mounts
from paddock.confinement.sandbox.child.mounts import (
    BIND,
    NODEV,
    NOEXEC,
    NOSUID,
    PRIVATE,
    RDONLY,
    REC,
    REMOUNT,
)
from paddock.confinement.sandbox.child.system_calls import LIBC, check_result, make_dumpable, write_file

_NEW_USER, _NEW_MOUNTS, _NEW_NETWORK, _NEW_IPC = 0x10000000, 0x00020000, 0x40000000, 0x08000000
_PLACE = "/tmp"  # noqa: S108 - a directory that is there; the mount is this process's own


def enter_empty_root(readable: Iterable[str] = ()) -> None:
    """Replace the root of this process, which must have one thread, by one with the `readable` files alone.

    Raises OSError if the kernel refuses user namespaces.
    """
    user, group = os.geteuid(), os.getegid()
    make_dumpable()  # else the maps belong to root after a change of user (proc(5))
    unshared = LIBC.unshare(_NEW_USER | _NEW_MOUNTS | _NEW_NETWORK | _NEW_IPC)
    check_result("a user namespace for a worker", unshared)
    write_file("/proc/self/setgroups", b"deny")
    write_file("/proc/self/uid_map", f"{user} {user} 1".encode())
    write_file("/proc/self/gid_map", f"{group} {group} 1".encode())
    mounts.mount_filesystem("", "/", REC | PRIVATE)
    mounts.mount_filesystem("tmpfs", _PLACE, NOSUID | NODEV, "size=64k,mode=755")
    for path in readable:
        target = f"{_PLACE}{path}"
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o444))
        mounts.bind_path(path, target)
    mounts.change_root(_PLACE)
    mounts.mount_filesystem("", "/", REMOUNT | BIND | RDONLY | NOSUID | NODEV | NOEXEC)
