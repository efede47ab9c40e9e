"""An empty root for a worker, on kernels without Landlock: gVisor, old kernels, and where it is switched off.

The worker enters a user namespace and a mount namespace of its own (user_namespaces(7)), and its root becomes a small
directory in memory that has nothing but the files that it may read. It gives up its capabilities there afterwards.
"""

import ctypes
import os
from collections.abc import Iterable

_NEW_USER, _NEW_MOUNTS, _NEW_NETWORK, _NEW_IPC = 0x10000000, 0x00020000, 0x40000000, 0x08000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_DETACH = 2
_PR_SET_DUMPABLE = 4
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_PLACE = "/tmp"  # noqa: S108 - a directory that is there; the mount is this process's own
_LIBC = ctypes.CDLL(None, use_errno=True)


def enter_empty_root(readable: Iterable[str] = ()) -> None:
    """Replace the root of this process, which must have one thread, by one with the `readable` files alone.

    Raises OSError if the kernel refuses user namespaces.
    """
    user, group = os.geteuid(), os.getegid()
    _LIBC.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # else the maps belong to root after a change of user (proc(5))
    unshared = _LIBC.unshare(_NEW_USER | _NEW_MOUNTS | _NEW_NETWORK | _NEW_IPC)
    _check("a user namespace for a worker", unshared)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")
    _mount(None, "/", None, _REC | _PRIVATE)
    _mount("tmpfs", _PLACE, "tmpfs", _NOSUID | _NODEV, "size=64k,mode=755")
    for path in readable:
        target = f"{_PLACE}{path}"
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o444))
        _mount(path, target, None, _BIND)
    os.chdir(_PLACE)
    _check("pivot_root", _LIBC.syscall(_PIVOT_ROOT[os.uname().machine], b".", b"."))
    _check("umount the old root", _LIBC.umount2(b".", _DETACH))
    _mount(None, "/", None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV | _NOEXEC)
    os.chdir("/")


def _write(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str = "") -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    _check(f"mount {target}", _LIBC.mount(*words, flags, options.encode() or None))


def _check(what: str, result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
