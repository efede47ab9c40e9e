"""Open a path without following links, safe against concurrent changes (openat2(2)); list the links of a path."""

import ctypes
import os

_OPENAT2 = 437
"""System call number, the same on every architecture."""
_AT_FDCWD = -100
_NO_MAGIC_LINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_MAX_LINKS = 40
"""The kernel's limit."""
_LIBC = ctypes.CDLL(None, use_errno=True)


def open_itself(path: str, within: int | None = None, *, flags: int = 0) -> int:
    """Return a descriptor (O_PATH) of a path that does not lead through a link or out of the open directory `within`.

    Raises OSError, with ELOOP for a link.
    """
    resolve = _NO_SYMLINKS if within is None else _NO_SYMLINKS | _BENEATH
    return _open_path(os.fsencode(path), within, flags, resolve)


def open_without_magic(path: bytes, within: int | None = None, *, follows: bool) -> int:
    """Return a descriptor (O_PATH) of a path that does not lead through a magic link, such as those of /proc.

    Relative paths begin `within` a directory. A link at the end is opened itself unless `follows`. Raises OSError.
    """
    return _open_path(path, within, 0 if follows else os.O_NOFOLLOW, _NO_MAGIC_LINKS)


def _open_path(path: bytes, within: int | None, flags: int, resolve: int) -> int:
    how = (ctypes.c_uint64 * 3)(os.O_PATH | os.O_CLOEXEC | flags, 0, resolve)
    folder = _AT_FDCWD if within is None else within
    found = int(_LIBC.syscall(_OPENAT2, folder, path, how, ctypes.sizeof(how)))
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
