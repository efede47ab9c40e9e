"""The files of a workspace, all reached below its own descriptor: no link is followed and no mount is crossed.

Other processes may change the workspace at any time. Therefore each call opens the directory anew with openat2(2), and
what a call has moved is looked at afterwards.
"""

import contextlib
import ctypes
import errno
import hashlib
import os
import stat
from collections.abc import Collection, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from paddock.confinement.sandbox.child.paths import open_beneath, open_itself
from paddock.confinement.sandbox.child.scratch import remove_directory
from paddock.confinement.sandbox.child.system_calls import LIBC, check_result
from paddock.foundation.files import read_pieces
from paddock.model.change_set import FileFacts

_RENAMEAT2 = {"x86_64": 316, "aarch64": 276}.get(os.uname().machine, -1)
_NOREPLACE, _EXCHANGE = 1, 2
_LINK_MODE = 0o777
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAX_SYNCED = 200
"""From so many files on, one call of syncfs(2) takes less time."""
MAX_DEPTH = 256
"""Maximum nesting of directories below the workspace."""


class OddFileError(OSError):
    """There is a device, a pipe or a socket, or a directory nested too deeply; the text says which."""


class Folder:
    """An open directory, below which everything is reached by relative paths."""

    def __init__(self, handle: int) -> None:
        """Take over the descriptor."""
        self.handle = handle

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a directory by its real path. Raises OSError: ELOOP for a link on the way.

        A program may write to a directory above, and put a link there that leads to another place.
        """
        handle = open_itself(str(path), flags=os.O_DIRECTORY)
        try:
            return cls(os.open(".", _DIRECTORY, dir_fd=handle))
        finally:
            os.close(handle)

    def open_inner(self, name: str) -> Self:
        """Open a directory in this one. Raises OSError."""
        return type(self)(os.open(name, _DIRECTORY, dir_fd=self.handle))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.handle)

    @property
    def inode(self) -> int:
        """Return the number of the directory in its file system."""
        return os.fstat(self.handle).st_ino

    @property
    def identity(self) -> tuple[int, int]:
        """Return the device and the inode of the directory."""
        facts = os.fstat(self.handle)
        return facts.st_dev, facts.st_ino

    @contextmanager
    def open_parent(self, path: str) -> Generator[tuple[int, str]]:
        """Yield the directory (O_PATH) of a path, and the last name. Raises OSError: ELOOP for a link on the way."""
        parent, _, name = path.rpartition("/")
        handle = open_beneath(parent or ".", self.handle, flags=os.O_DIRECTORY)
        try:
            yield handle, name
        finally:
            os.close(handle)

    def find(self, path: str) -> os.stat_result | None:
        """Return what `lstat` returns for a path; None if nothing is there. Raises OSError."""
        try:
            with self.open_parent(path) as (parent, name):
                return os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def examine(self, path: str) -> FileFacts | None:
        """Return what is at a path; None if nothing is there. Raises OSError, also for what no change can hold."""
        try:
            with self.open_parent(path) as (parent, name):
                return _examine(parent, name)
        except FileNotFoundError:
            return None

    def examine_tree(self, path: str) -> dict[str, FileFacts]:
        """Return what is at a path and below it, by path; empty if nothing is there. Raises OSError."""
        found: dict[str, FileFacts] = {}
        pending = [path]
        while pending:
            here = pending.pop()
            facts = self.examine(here)
            if facts is None:
                continue
            found[here] = facts
            if here.count("/") > path.count("/") + MAX_DEPTH:
                raise OddFileError(errno.ELOOP, "its directories are nested too deeply", here)
            if facts.type == "directory":
                pending += [f"{here}/{name}" for name in self.list_names(here)]
        return found

    def list_names(self, path: str) -> list[str]:
        """Return the names in a directory. Raises OSError."""
        with self.open_parent(path) as (parent, name):
            handle = os.open(name, _DIRECTORY, dir_fd=parent)
            try:
                return sorted(os.listdir(handle))
            finally:
                os.close(handle)

    def open_file(self, path: str) -> int:
        """Return a descriptor of a regular file for reading. Raises OSError."""
        with self.open_parent(path) as (parent, name):
            return _open_regular(parent, name)

    def make_file(self, path: str, mode: int = 0o600) -> int:
        """Make a file and return its descriptor for writing. Raises OSError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self.open_parent(path) as (parent, name):
            return os.open(name, flags, mode, dir_fd=parent)

    def make_directory(self, path: str) -> None:
        """Make a directory for its owner alone. Raises OSError."""
        with self.open_parent(path) as (parent, name):
            os.mkdir(name, 0o700, dir_fd=parent)

    def make_link(self, path: str, target: str) -> None:
        """Make a symbolic link. Raises OSError."""
        with self.open_parent(path) as (parent, name):
            os.symlink(target, name, dir_fd=parent)

    def make_other_name(self, path: str, known: str) -> None:
        """Give a file another name (a hard link). Raises OSError."""
        with self.open_parent(known) as (source, old), self.open_parent(path) as (parent, name):
            os.link(old, name, src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)

    def set_mode(self, path: str, mode: int) -> None:
        """Set the permission bits of a file or directory, never through a link. Raises OSError."""
        with self.open_parent(path) as (parent, name):
            handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            try:
                if stat.S_ISLNK(os.fstat(handle).st_mode):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                os.chmod(f"/proc/self/fd/{handle}", mode)
            finally:
                os.close(handle)

    def move(self, path: str, target: "Folder", name: str) -> None:
        """Move what is at a path to a free path of another folder. Raises OSError: EEXIST if it is taken."""
        self._rename(path, target, name, _NOREPLACE)

    def exchange(self, path: str, target: "Folder", name: str) -> None:
        """Exchange what is at two paths, in one step. Raises OSError."""
        self._rename(path, target, name, _EXCHANGE)

    def sync(self, paths: Collection[str]) -> None:
        """Write these files and directories to disk, with everything in the file system if they are many.

        Raises OSError.
        """
        if len(paths) > _MAX_SYNCED:
            check_result("syncfs", LIBC.syncfs(self.handle))
            return
        for path in paths:
            try:
                self._sync_path(path)
            except PermissionError:  # closed to its owner
                check_result("syncfs", LIBC.syncfs(self.handle))
                return

    def _sync_path(self, path: str) -> None:
        with self.open_parent(path) as (parent, name):
            if stat.S_ISLNK(os.stat(name or ".", dir_fd=parent, follow_symlinks=False).st_mode):
                return
            handle = os.open(name or ".", _FILE, dir_fd=parent)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def remove_tree(self, name: str) -> None:
        """Remove a directory in this one and all below it, if it is there, and nothing outside. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            remove_directory(name, self.handle)

    def _rename(self, path: str, target: "Folder", name: str, flags: int) -> None:
        with self.open_parent(path) as (source, old), target.open_parent(name) as (other, new):
            result = int(
                LIBC.syscall(
                    _RENAMEAT2, source, os.fsencode(old), other, os.fsencode(new), ctypes.c_uint(flags)
                )
            )
            if result < 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), path)


def describe_type(facts: os.stat_result) -> str:
    """Return what a path is, with its article."""
    kinds = {
        stat.S_IFREG: "a file",
        stat.S_IFDIR: "a directory",
        stat.S_IFLNK: "a link",
        stat.S_IFIFO: "a pipe",
    }
    return kinds.get(stat.S_IFMT(facts.st_mode), "a device or a socket")


def _examine(parent: int, name: str) -> FileFacts:
    facts = os.stat(name, dir_fd=parent, follow_symlinks=False)
    mode = stat.S_IMODE(facts.st_mode) & 0o777
    if stat.S_ISLNK(facts.st_mode):
        return FileFacts(type="link", mode=_LINK_MODE, target=os.readlink(name, dir_fd=parent))
    if stat.S_ISDIR(facts.st_mode):
        return FileFacts(type="directory", mode=mode)
    if not stat.S_ISREG(facts.st_mode):
        raise OddFileError(errno.EINVAL, f"it is {describe_type(facts)}", name)
    handle = _open_regular(parent, name)
    try:
        digest, size = hashlib.sha256(), 0
        for piece in read_pieces(handle):
            digest.update(piece)
            size += len(piece)
        mode = stat.S_IMODE(os.fstat(handle).st_mode) & 0o777
    finally:
        os.close(handle)
    return FileFacts(type="file", mode=mode, size=size, sha256=digest.hexdigest())


def _open_regular(parent: int, name: str) -> int:
    """Return a descriptor of a regular file; one that its owner may not read is opened up for this. Raises OSError."""
    try:
        handle = os.open(name, _FILE, dir_fd=parent)
    except PermissionError:
        handle = _open_closed(parent, name)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OddFileError(errno.EINVAL, "it is not a regular file", name)
    return handle


def _open_closed(parent: int, name: str) -> int:
    path = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        facts = os.fstat(path)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        own = f"/proc/self/fd/{path}"
        os.chmod(own, facts.st_mode | stat.S_IRUSR)
        try:
            return os.open(own, os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.chmod(own, stat.S_IMODE(facts.st_mode))
    finally:
        os.close(path)
