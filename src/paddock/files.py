"""Files that several processes keep together: a lock that one holds at a time, content that is replaced in one step."""

import fcntl
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Generator[bool]:
    """Hold the lock that a file stands for; without `wait` yield False at once when somebody holds it.

    Makes the file and its directory, for their owner alone. Raises OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        yield False
        return
    except BaseException:
        os.close(lock)
        raise
    try:
        yield True
    finally:
        os.close(lock)


def replace_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write a file so that readers see the old or the new one whole, and a crash leaves one of them. Raises OSError.

    It is on the disk when this returns.
    """
    handle, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - a descriptor
            os.fchmod(handle, mode)
            file.write(data)
            file.flush()
            os.fsync(handle)
        Path(made).replace(path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
