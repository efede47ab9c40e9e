"""The one directory that a job may fill: measure it while the job runs, remove it whatever the job left there.

Both meet hostile trees: millions of files, directories nested deeper than a path may be long, directories without
permissions. So measuring goes in small steps, and removing never descends: it moves directories up instead.
"""

import contextlib
import errno
import math
import os
import stat
import sys
import time
from collections.abc import Iterator

from paddock.sandbox.child.paths import open_itself

_BLOCK_BYTES = 512
_ENTRIES_PER_STEP = 200
_ENTRY_BYTES = 512
"""What a file counts at least, so that empty files are not free."""
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_FOLDERS = ("tmp", "home")
"""What variables of the job's environment point to or into (`paddock.sandbox.spec`)."""


def make_scratch(directory: str, owner: int | None) -> None:
    """Make a scratch directory that only `owner` may enter. Raises OSError, also when it is there already."""
    for path in (directory, *(f"{directory}/{name}" for name in _FOLDERS)):
        os.mkdir(path, 0o700)  # pathlib costs a fork of the fork server a millisecond
        if owner is not None:
            os.chown(path, owner, owner)


def measure_in_slices(directory: str) -> Iterator[int | None]:
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
                _unlock_open(directory, current)
            with os.scandir(current) as entries:
                for entry in entries:
                    seen += 1
                    if seen % _ENTRIES_PER_STEP == 0:
                        yield None
                    facts = entry.stat(follow_symlinks=False)
                    total += max(_ENTRY_BYTES, facts.st_blocks * _BLOCK_BYTES)
                    if stat.S_ISDIR(facts.st_mode):
                        pending.append(entry.path)
        except OSError as error:
            if error.errno in {errno.ENAMETOOLONG, errno.EACCES}:
                yield sys.maxsize
                return  # anything else is most likely gone meanwhile
    yield total


def unlock_directory(within: int, path: str) -> None:
    """Give the owner his rights to a directory below an open one, and touch nothing outside of that, whatever is moved.

    Raises OSError.
    """
    found = open_itself(path, within, flags=os.O_DIRECTORY)
    try:
        os.chmod(f"/proc/self/fd/{found}", 0o700)  # the file of the descriptor (proc(5))
    finally:
        os.close(found)


def _unlock_open(root: str, directory: str) -> None:
    within = os.open(root, os.O_PATH | os.O_CLOEXEC)
    try:
        unlock_directory(within, os.path.relpath(directory, root))
    finally:
        os.close(within)


def remove_directory(directory: str, within: int | None = None, *, until: float = math.inf) -> None:
    """Remove a directory, a path or a name in the open folder `within`, and all below it. Raises OSError.

    That happens when something writes there meanwhile, which may be hostile: nothing outside of it is touched. When it
    takes longer than `until` (`time.monotonic`), this is a TimeoutError, and what is left can be removed later.
    """
    if within is None:
        with contextlib.suppress(OSError):  # as it was made, which is the most common case, and the fastest
            for path in (*(f"{directory}/{name}" for name in _FOLDERS), directory):
                os.rmdir(path)
            return
    how = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    above = os.open(os.path.dirname(directory) or ".", how, dir_fd=within)
    try:
        name = os.path.basename(directory)
        top = _enter_directory(above, name)
        try:
            _empty_directory(top, until)
        finally:
            os.close(top)
        os.rmdir(name, dir_fd=above)
    finally:
        os.close(above)


def _empty_directory(top: int, until: float) -> None:
    """Remove what is in an open directory. Directories below it are moved up, for they may be deep."""
    prefix, number = f".{os.urandom(8).hex()}", 0
    pending = ["."]
    while pending:
        current = pending.pop()
        folder = _enter_directory(top, current)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if time.monotonic() > until:
                        raise TimeoutError
                    if not entry.is_dir(follow_symlinks=False):
                        os.unlink(entry.name, dir_fd=folder)
                        continue
                    moved = entry.name
                    if current != ".":
                        unlock_directory(
                            folder, moved
                        )  # a directory can be moved only by who may write to it
                        number += 1
                        moved = f"{prefix}-{number}"
                        os.rename(entry.name, moved, src_dir_fd=folder, dst_dir_fd=top)
                    pending.append(moved)
        finally:
            os.close(folder)
        if current != ".":
            os.rmdir(current, dir_fd=top)


def _enter_directory(within: int, name: str) -> int:
    """Open a directory that is no link, in an open one, whatever its owner has closed. Raises OSError."""
    try:
        found = os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=within)
        if os.access(name, os.W_OK | os.X_OK, dir_fd=within, effective_ids=True):
            return found
        os.close(found)
    except PermissionError:
        pass
    unlock_directory(within, name)
    return os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=within)
