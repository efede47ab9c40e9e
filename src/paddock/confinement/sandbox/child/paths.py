"""Open a path without following links, safe against concurrent changes (openat2(2)); list what a path leads through."""

import ctypes
import os

from paddock.confinement.sandbox.child.system_calls import LIBC

_OPENAT2 = 437
"""System call number, the same on every architecture."""
_AT_FDCWD = -100
_NO_XDEV, _NO_MAGIC_LINKS, _NO_SYMLINKS, _BENEATH, _IN_ROOT = 0x01, 0x02, 0x04, 0x08, 0x10
_MAX_LINKS = 40
"""The kernel's limit."""


def open_itself(path: str, within: int | None = None, *, flags: int = 0) -> int:
    """Return a descriptor (O_PATH) of a path that does not lead through a link or out of the open directory `within`.

    Raises OSError, with ELOOP for a link.
    """
    resolve = _NO_SYMLINKS if within is None else _NO_SYMLINKS | _BENEATH
    return _open_path(os.fsencode(path), within, flags, resolve)


def open_beneath(path: str, within: int, *, flags: int = 0) -> int:
    """Return a descriptor (O_PATH) of a path, as `open_itself` does, on the file system of the directory `within`.

    Raises OSError, with EXDEV for another file system.
    """
    return _open_path(os.fsencode(path), within, flags, _NO_XDEV | _NO_SYMLINKS | _BENEATH)


def open_without_magic(path: bytes, within: int | None = None, *, follows: bool) -> int:
    """Return a descriptor (O_PATH) of a path that does not lead through a magic link, such as those of /proc.

    Relative paths begin `within` a directory. A link at the end is opened itself unless `follows`. Raises OSError.
    """
    return _open_path(path, within, 0 if follows else os.O_NOFOLLOW, _NO_MAGIC_LINKS)


def open_in_root(path: bytes, root: int, *, follows: bool) -> int:
    """Return a descriptor (O_PATH) of a path, as `open_without_magic` does for a process with that `root`."""
    return _open_path(path, root, 0 if follows else os.O_NOFOLLOW, _NO_MAGIC_LINKS | _IN_ROOT)


def _open_path(path: bytes, within: int | None, flags: int, resolve: int) -> int:
    how = (ctypes.c_uint64 * 3)(os.O_PATH | os.O_CLOEXEC | flags, 0, resolve)
    folder = _AT_FDCWD if within is None else within
    found = int(LIBC.syscall(_OPENAT2, folder, path, how, ctypes.sizeof(how)))
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fsdecode(path))
    return found


def identify_path(path: str) -> tuple[int, int]:
    """Return device and inode of a path that does not lead through a link. Raises OSError."""
    file = open_itself(path)
    try:
        facts = os.fstat(file)
    finally:
        os.close(file)
    return facts.st_dev, facts.st_ino


def list_links(path: str) -> list[str]:
    """Return the paths of the links that an absolute path leads through."""
    found: list[str] = []
    here, rest = "/", path.split("/")[::-1]
    while rest and len(found) < _MAX_LINKS:
        part = rest.pop()
        # `here` does not lead through a link, so that `..` can be resolved by name.
        step = os.path.normpath(f"{here.rstrip('/')}/{part}")
        try:
            target = os.readlink(step)
        except OSError:
            here = step
            continue
        found.append(step)
        rest += target.split("/")[::-1]
        here = "/" if target.startswith("/") else here
    return found


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is a folder or in it, by name."""
    return f"{path}/".startswith(f"{folder}/")


def list_above(path: str, top: str = "") -> list[str]:
    """Return the directories above an absolute path and below `top`, outer ones first."""
    found: list[str] = []
    # The root is `/` or `//` (POSIX.1-2017, section 4.13), and `dirname` returns either unchanged.
    while (path := os.path.dirname(path)).strip("/") and path != top and is_below(path, top):
        found.append(path)
    return found[::-1]


class LinkResolver:
    """Resolves paths in an open folder, and remembers the links in it that they lead through.

    Links outside are not looked at. The result holds as long as nothing changes: open it with `open_itself`.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self.top = os.readlink(f"/proc/self/fd/{root}")
        """Path of the folder."""
        self.passed: dict[str, None] = {}
        """The links, relative to the folder."""
        self._known: dict[str, str | None] = {}

    def resolve(self, path: str) -> str | None:
        """Return what a path leads to, relative to the folder, and "" for the folder itself; None if that is outside.

        A relative path begins at the folder. What it leads to need not exist.
        """
        if path not in self._known:
            self._known[path] = self._follow(path)
        return self._known[path]

    def _follow(self, path: str) -> str | None:
        if path.startswith(f"{self.top}/"):
            path = path[len(self.top) + 1 :]
        here = "/" if path.startswith("/") else self.top
        rest, hops = path.split("/")[::-1], 0
        while rest:
            part = rest.pop()
            if part == "..":
                here = os.path.dirname(here)
            if part in {"", ".", ".."}:
                continue
            here = f"{here.rstrip('/')}/{part}"
            inside = self._find_inside(here)
            if not inside:
                continue
            try:
                target = os.readlink(inside, dir_fd=self._root)
            except FileNotFoundError:  # nor is anything below it
                return self._find_inside(os.path.normpath("/".join((here, *rest[::-1]))))
            except OSError:
                continue
            self.passed[inside] = None
            hops += 1
            if hops > _MAX_LINKS:
                return None
            rest += target.split("/")[::-1]
            here = "/" if target.startswith("/") else os.path.dirname(here)
        return self._find_inside(here)

    def _find_inside(self, path: str) -> str | None:
        """Return a path without `..` relative to the folder; None if it is outside."""
        if path == self.top:
            return ""
        return path[len(self.top) + 1 :] if path.startswith(f"{self.top}/") else None
