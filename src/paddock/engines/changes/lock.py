"""The lock of a workspace: one acceptance at a time, whichever stores and users there are.

It is flock(2) on the directory itself, so that nothing is left in the workspace. Every process that may read the
directory can hold it, also a confined program. Therefore waiting for it ends.
"""

import errno
import fcntl
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from paddock.engines.changes.tree import Folder
from paddock.model.errors import ChangesError

_MAX_WAIT_S = 10.0
_PAUSE_S = 0.05
_UNSUPPORTED = frozenset({errno.EBADF, errno.ENOLCK, errno.ENOTSUP, errno.EINVAL})
"""Errors of file systems without locks of directories, such as NFS (flock(2))."""


@contextmanager
def lock_workspace(workspace: Path) -> Generator[None]:
    """Hold the lock of a workspace. Without locks of directories, only the comparison of each file protects it.

    Raises ChangesError if another process holds it for too long, and OSError.
    """
    with Folder.open(workspace) as directory:
        deadline = time.monotonic() + _MAX_WAIT_S
        while not _try_to_lock(directory.handle):
            if time.monotonic() > deadline:
                raise ChangesError(
                    f"Another process holds the lock of the workspace {workspace} (flock); wait for the programs that "
                    "run there, or end them, and run the command again"
                )
            time.sleep(_PAUSE_S)
        yield


def _try_to_lock(directory: int) -> bool:
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    return True
