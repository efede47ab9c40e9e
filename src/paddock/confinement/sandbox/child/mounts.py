"""Copy and attach the mounts of a jail, and mount file systems (mount(2), open_tree(2), move_mount(2))."""

import os
import stat

from paddock.confinement.sandbox.child.system_calls import LIBC, check_result

RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
"""Flags of mount(2)."""
_OPEN_TREE, _MOVE_MOUNT = 428, 429
"""System call numbers, the same on every architecture."""
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE, _OPEN_TREE_CLONE = -100, 0x1000, 0x8000, 1
_MOVE_MOUNT_F_EMPTY_PATH, _MOVE_MOUNT_T_EMPTY_PATH = 0x04, 0x40
_DETACH = 2
"""MNT_DETACH of umount2(2)."""
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}.get(os.uname().machine, -1)


def clone_mount_tree(path: str) -> int:
    """Return a descriptor of a detached copy of the mounts at and below a path. Raises OSError."""
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    return check_result(f"open_tree {path}", LIBC.syscall(_OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags))


def clone_mount(file: int, *, whole: bool = False) -> int:
    """Return a descriptor of a detached copy of the mount of an open file or directory, which is its root.

    It has the mounts below only with `whole`. Raises OSError.
    """
    flags = _OPEN_TREE_CLONE | _AT_EMPTY_PATH | os.O_CLOEXEC | (_AT_RECURSIVE if whole else 0)
    return check_result("open_tree", LIBC.syscall(_OPEN_TREE, file, b"", flags))


def attach_mount(path: str, tree: int) -> None:
    """Attach a detached copy at a path, which is made if necessary, and close its descriptor. Raises OSError."""
    if stat.S_ISDIR(os.fstat(tree).st_mode):
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
    moved = LIBC.syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(path), _MOVE_MOUNT_F_EMPTY_PATH)
    check_result(f"move_mount {path}", moved)
    os.close(tree)


def cover_file(file: int, tree: int) -> None:
    """Attach a detached copy over an open file or directory, and close the copy's descriptor. Raises OSError."""
    flags = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_EMPTY_PATH
    check_result("move_mount", LIBC.syscall(_MOVE_MOUNT, tree, b"", file, b"", flags))
    os.close(tree)


def bind_path(source: str, path: str) -> None:
    """Make a path lead to another file. Raises OSError."""
    bound = LIBC.mount(os.fsencode(source), os.fsencode(path), None, BIND, None)
    check_result(f"mount {source} {path}", bound)


def mount_filesystem(kind: str, path: str, flags: int, options: str = "") -> None:
    """Mount a file system of a kind, or change the mount at a path without one. Raises OSError."""
    name = kind.encode() or None
    mounted = LIBC.mount(name, os.fsencode(path), name, flags, options.encode() or None)
    check_result(f"mount {kind} {path}", mounted)


def change_root(path: str) -> None:
    """Make a mount the root of this process, whose mounts are its own, and let go of the old root. Raises OSError."""
    os.chdir(path)
    check_result("pivot_root", LIBC.syscall(_PIVOT_ROOT, b".", b"."))
    check_result("umount the old root", LIBC.umount2(b".", _DETACH))
    os.chdir("/")
