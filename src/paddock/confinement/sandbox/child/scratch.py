"""The scratch directory of a job: measure it while the job runs, and remove it afterwards.

The tree may be hostile: millions of files, nesting deeper than the maximum length of a path, directories without
permissions. Therefore measuring proceeds in small steps, and removing never descends: it moves directories up instead.
"""

import contextlib
import errno
import math
import os
import stat
import sys
import time
from collections.abc import Iterator

from paddock.confinement.sandbox.child.paths import open_itself

_BLOCK_BYTES = 512
_ENTRIES_PER_STEP = 200
_ENTRY_BYTES = 512
"""Minimum size that a file counts with, in bytes, so that empty files are not free."""
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_FOLDERS = ("tmp", "home")
"""Directories that variables of the job's environment point to or into (`paddock.confinement.sandbox.spec`)."""


def make_scratch(directory: str, owner: int | None) -> None:
    """Make a scratch directory that only `owner` may enter. Raises OSError, also if it exists already."""
    for path in (directory, *(f"{directory}/{name}" for name in _FOLDERS)):
        os.mkdir(path, 0o700)  # pathlib costs a fork of the fork server a millisecond
        if owner is not None:
            os.chown(path, owner, owner)


def measure_in_slices(directory: str) -> Iterator[int | None]:
    """Yield None every few hundred entries, and at the end the bytes that `directory` takes on disk.

    Does not follow links, and counts a file once for each name. Unlocks a directory that its owner may not read, which
    could hide files. Yields `sys.maxsize` if a directory cannot be measured, because it is nested deeper than a path
    can reach.
    """
    total, seen, pending = 0, 0, [directory]
    while pending:
        try:
            current = pending.pop()
            if not os.access(current, os.R_OK | os.X_OK, effective_ids=True):
                within = os.open(directory, os.O_PATH | os.O_CLOEXEC)
                try:
                    unlock_directory(within, os.path.relpath(current, directory))
                finally:
                    os.close(within)
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
                return  # other errors: most likely the entry was removed during the walk
    yield total


def unlock_directory(within: int, path: str) -> None:
    """Set mode 0700 on a directory below an open one. Touches nothing outside, even if paths are moved meanwhile.

    Raises OSError.
    """
    found = open_itself(path, within, flags=os.O_DIRECTORY)
    try:
        os.chmod(f"/proc/self/fd/{found}", 0o700)  # the file of the descriptor (proc(5))
    finally:
        os.close(found)


def remove_directory(directory: str, within: int | None = None, *, until: float = math.inf) -> None:
    """Remove a directory, given as a path or as a name in the open folder `within`, and all below it.

    Touches nothing outside of it, even if a hostile process writes there meanwhile; raises OSError then. Raises
    TimeoutError at the time `until` (`time.monotonic`); a later call can remove the rest.
    """
    if within is None:
        with contextlib.suppress(
            OSError
        ):  # an unused directory is the most common case; this is the fastest way
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
    """Empty an open directory. Moves nested directories up to it, because they may be deep."""
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
                        unlock_directory(folder, moved)  # moving a directory requires write access to it
                        number += 1
                        moved = f"{prefix}-{number}"
                        os.rename(entry.name, moved, src_dir_fd=folder, dst_dir_fd=top)
                    pending.append(moved)
        finally:
            os.close(folder)
        if current != ".":
            os.rmdir(current, dir_fd=top)


def _enter_directory(within: int, name: str) -> int:
    """Open a directory, but not a link, in an open one; unlock it if its owner may not use it. Raises OSError."""
    try:
        found = os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=within)
        if os.access(name, os.W_OK | os.X_OK, dir_fd=within, effective_ids=True):
            return found
        os.close(found)
    except PermissionError:
        pass
    unlock_directory(within, name)
    return os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=within)
