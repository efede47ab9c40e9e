"""The one directory that a job may fill: measure it while the job runs, remove it whatever the job left there.

Both meet hostile trees: millions of files, directories nested deeper than a path may be long, directories without
permissions. So measuring goes in small steps, and removing never descends: it moves directories up instead.

Only the standard library may be imported here: the module runs in wardens.
"""

import contextlib
import ctypes
import errno
import os
import stat
import sys
from collections.abc import Iterator

_BLOCK = 512
_STEP = 200
_ENTRY_BYTES = 512
"""What a file counts at least, so that empty files are not free."""


_OPENAT2 = 437
_NO_SYMLINKS, _BENEATH = 0x04, 0x08
"""Of openat2(2)."""
_LIBC = ctypes.CDLL(None, use_errno=True)

_FOLDERS = ("tmp", "home")
"""What variables of the job's environment point to or into (`paddock.confine.plan`)."""


def make(directory: str, owner: int | None) -> None:
    """Make a scratch directory that only `owner` may enter. Raises OSError, also when it is there already."""
    for path in (directory, *(f"{directory}/{name}" for name in _FOLDERS)):
        os.mkdir(path, 0o700)  # noqa: PTH102 - pathlib costs a fork of the zygote a millisecond
        if owner is not None:
            os.chown(path, owner, owner)


def usage(directory: str) -> Iterator[int | None]:
    """Yield None every few hundred entries, and the bytes that `directory` holds on disk at the end.

    Links are not followed, and each name of a file counts. A directory that its owner has closed to himself is opened
    again, for it would hide what it holds. Where it cannot look, as deep down as paths do not reach, nobody knows how
    much is there, and it yields `sys.maxsize`.
    """
    total, seen, pending = 0, 0, [directory]
    while pending:
        try:
            current = pending.pop()
            if not os.access(current, os.R_OK | os.X_OK, effective_ids=True):
                _unlock(directory, current)
            with os.scandir(current) as entries:
                for entry in entries:
                    seen += 1
                    if seen % _STEP == 0:
                        yield None
                    facts = entry.stat(follow_symlinks=False)
                    total += max(_ENTRY_BYTES, facts.st_blocks * _BLOCK)
                    if stat.S_ISDIR(facts.st_mode):
                        pending.append(entry.path)
        except OSError as error:
            if error.errno in {errno.ENAMETOOLONG, errno.EACCES}:
                yield sys.maxsize
                return  # anything else is most likely gone meanwhile
    yield total


def _unlock(root: str, directory: str) -> None:
    """Give the owner his rights to a directory, and touch nothing outside of `root`, whatever is moved meanwhile."""
    within = os.open(root, os.O_PATH | os.O_CLOEXEC)
    try:
        how = (ctypes.c_uint64 * 3)(os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, 0, _NO_SYMLINKS | _BENEATH)
        path = os.fsencode(os.path.relpath(directory, root))
        found = int(_LIBC.syscall(_OPENAT2, within, path, how, ctypes.sizeof(how)))
    finally:
        os.close(within)
    if found < 0:
        raise OSError(ctypes.get_errno(), "openat2")
    try:
        os.chmod(f"/proc/self/fd/{found}", 0o700)  # noqa: PTH101 - the file of the descriptor (proc(5))
    finally:
        os.close(found)


def remove(directory: str) -> None:
    """Remove `directory` and all below it. Nothing may write there any more. Raises OSError when that fails."""
    with contextlib.suppress(OSError):  # as it was made, which is the most common case, and the fastest
        for path in (*(f"{directory}/{name}" for name in _FOLDERS), directory):
            os.rmdir(path)  # noqa: PTH106
        return
    prefix, number = f"{directory}/.{os.urandom(8).hex()}", 0
    pending = [directory]
    while pending:
        current = pending.pop()
        os.chmod(current, 0o700)  # noqa: PTH101
        with os.scandir(current) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)  # noqa: PTH108
                    continue
                os.chmod(entry.path, 0o700)  # noqa: PTH101 - a directory can be moved only by who may write to it
                number += 1
                moved = f"{prefix}-{number}" if current != directory else entry.path
                if moved != entry.path:
                    os.rename(entry.path, moved)  # noqa: PTH104
                pending.append(moved)
        if current != directory:
            os.rmdir(current)  # noqa: PTH106
    os.rmdir(directory)  # noqa: PTH106
