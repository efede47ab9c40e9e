"""Record files, links and folders, find out what has changed, and restore only that.

A hostile program left what is found later, and others may still run beside it. Therefore every step goes through open
folders and follows no link. A file with the same inode is restored in place, because it may have other names. A new
folder is moved aside in one call, however large it is, and removed when there is time. Modification times are not
restored.
"""

import contextlib
import errno
import itertools
import os
import stat
import time
from collections.abc import Generator
from typing import NamedTuple

from paddock.confinement.sandbox.child import scratch

MAX_BYTES = 64 * 1024 * 1024
"""Maximum size of a snapshot, in bytes; each entry counts with `_ENTRY_BYTES` in addition to its content."""
MAX_DEPTH = 64

_ENTRY_BYTES = 512
_READ_BYTES = 64 * 1024
_MAX_NEW_NAMES = 1000
"""A folder with more than so many additional names is replaced as a whole."""
_ATTRIBUTE_PREFIXES = ("user.", "system.posix_acl_")
"""Extended attributes that a program can change without a capability (xattr(7), acl(5))."""
_OPEN_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags for every open: the name may have become a link or a pipe."""

ASIDE_PREFIX = ".paddock-removed-"
"""Beginning of the names of folders that are on their way to removal."""


class TooLargeError(OSError):
    """The snapshot would exceed its limits."""


class _StuckError(OSError):
    """A name in a folder can be neither restored nor removed, even with write access to the folder."""


class SnapshotEntry(NamedTuple):
    """A file, a link or a folder as recorded."""

    mode: int
    owner: tuple[int, int]
    content: bytes = b""
    """Content of a file, target of a link, or names in a folder, separated by slashes."""
    attributes: tuple[tuple[str, bytes], ...] = ()
    file: tuple[int, int] = (0, 0)
    """Device and inode of a file."""

    @property
    def kind(self) -> int:
        """Return the type of file, as `stat.S_IFMT` does."""
        return stat.S_IFMT(self.mode)

    @property
    def names(self) -> list[str]:
        """Return the names in a folder."""
        return os.fsdecode(self.content).split("/") if self.content else []


class Snapshot:
    """Entries by path."""

    def __init__(self, nodes: dict[str, SnapshotEntry] | None = None) -> None:
        self.nodes = nodes or {}
        self._room = MAX_BYTES

    def take(self, folder: int, name: str, path: str) -> None:
        """Record a name in an open folder, and all below it. Raises TooLargeError; OSError if unreadable."""
        node = self.nodes[path] = look_up(folder, name, self._room)
        self._room -= _ENTRY_BYTES + len(node.content) + sum(len(value) for _, value in node.attributes)
        if self._room < 0:
            raise TooLargeError(f"they hold more than {MAX_BYTES >> 20} MiB")
        if path.count("/") > MAX_DEPTH:
            raise TooLargeError(f"they are nested deeper than {MAX_DEPTH} folders")
        if node.kind == stat.S_IFDIR:
            with open_folder(folder, name) as inner:
                for child in node.names:
                    self.take(inner, child, f"{path}/{child}")


class Restoration:
    """Restores a snapshot below one open folder."""

    def __init__(self, root: int, before: Snapshot) -> None:
        self._root = root
        self._before = before.nodes
        self.aside: list[str] = []
        """Names in the root of folders that were moved aside and have yet to be removed."""

    def put_back(self, folder: int, name: str, path: str) -> bool:
        """Restore a name in an open folder to the entry of a path; return whether it had changed. Raises OSError."""
        try:
            return self._put_back(folder, name, path)
        except PermissionError:  # a program removed the owner's rights to the folder
            try:
                open_up(folder)
                return self._put_back(folder, name, path)
            except PermissionError as error:  # another type, so that the folders above do not try again
                raise _StuckError(error.errno, error.strerror) from error

    def discard(self, seconds: float = 60.0) -> None:
        """Remove the folders that were moved aside, for at most `seconds`; the next call removes the rest."""
        until = time.monotonic() + seconds
        left, self.aside = self.aside, []
        for name in left:
            try:
                scratch.remove_directory(name, self._root, until=until)
            except OSError:  # also if another process writes there meanwhile
                if kind_of(self._root, name):
                    self.aside.append(name)

    def _put_back(self, folder: int, name: str, path: str) -> bool:
        wanted, kind = self._before.get(path), kind_of(folder, name)
        if wanted is None:
            if kind:
                self._clear(folder, name)
            return bool(kind)
        if kind == wanted.kind == stat.S_IFDIR:
            changed = self._mend_folder(folder, name, path, wanted)
            if changed is not None:
                return changed
        elif kind == wanted.kind:
            if _is_same(folder, name, wanted):
                return False
            if kind == stat.S_IFREG and _mend_file(folder, name, wanted):
                return True
        if kind:
            self._clear(folder, name)
        self._make(folder, name, path, wanted)
        return True

    def _mend_folder(self, folder: int, name: str, path: str, wanted: SnapshotEntry) -> bool | None:
        """Restore the content of a folder, then its mode and attributes; None if it must be replaced as a whole."""
        facts = os.lstat(name, dir_fd=folder)
        before = wanted.names
        with open_folder(folder, name) as inner:
            max_names = 2 * len(before) + _MAX_NEW_NAMES
            names = _list_names(inner, max_names)
            if len(names) > max_names:
                return None
            now = SnapshotEntry(
                facts.st_mode, (facts.st_uid, facts.st_gid), wanted.content, _read_attributes(inner)
            )
            changed, failure = now != wanted, None
            for child in dict.fromkeys((*before, *names)):
                try:
                    changed |= self.put_back(inner, child, f"{path}/{child}")
                except OSError as error:  # raised after the other names have been restored
                    changed, failure = True, error
            if changed:
                _restore_attributes(inner, wanted)
        if failure is not None:
            raise failure
        return changed

    def _clear(self, folder: int, name: str) -> None:
        """Remove a name, or move a folder aside."""
        if kind_of(folder, name) != stat.S_IFDIR:
            os.unlink(name, dir_fd=folder)
            return
        aside = f"{ASIDE_PREFIX}{os.urandom(8).hex()}"
        try:
            with contextlib.suppress(PermissionError):
                os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=self._root)
                self.aside.append(aside)
                return
            scratch.unlock_directory(folder, name)  # moving a folder requires write access to it
            os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=self._root)
            self.aside.append(aside)
        except OSError as error:
            if error.errno not in {errno.EXDEV, errno.EBUSY}:
                raise
            scratch.remove_directory(name, folder)  # on another file system, or a mount point

    def _make(self, folder: int, name: str, path: str, node: SnapshotEntry) -> None:
        if node.kind == stat.S_IFLNK:
            os.symlink(os.fsdecode(node.content), name, dir_fd=folder)
            facts = os.lstat(name, dir_fd=folder)
            if (facts.st_uid, facts.st_gid) != node.owner:
                os.chown(name, *node.owner, dir_fd=folder, follow_symlinks=False)
        elif node.kind == stat.S_IFREG:
            with open_entry(folder, name, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as made:
                _fill_file(made, node)
        elif node.kind == stat.S_IFDIR:
            os.mkdir(name, 0o700, dir_fd=folder)
            if self._mend_folder(folder, name, path, node) is None:
                raise OSError(errno.EBUSY, "other processes write there")
        elif node.kind == stat.S_IFIFO:
            os.mkfifo(name, 0o600, dir_fd=folder)
            with open_entry(folder, name, os.O_RDONLY) as made:
                _restore_attributes(made, node)
        else:
            raise OSError(errno.EOPNOTSUPP, "devices and sockets cannot be restored")


def open_up(folder: int) -> None:
    """Give the owner of an open folder all rights to it. Raises OSError."""
    own = f"/proc/self/fd/{folder}"  # fchmod(2) rejects an O_PATH descriptor
    os.chmod(own, stat.S_IMODE(os.stat(own).st_mode) | stat.S_IRWXU)


def kind_of(folder: int, name: str) -> int:
    """Return the file type of a name in an open folder, as `stat.S_IFMT` does; 0 if it does not exist."""
    try:
        return stat.S_IFMT(os.lstat(name, dir_fd=folder).st_mode)
    except FileNotFoundError:
        return 0


@contextlib.contextmanager
def open_folder(folder: int, name: str) -> Generator[int]:
    """Open a folder in an open one, and unlock it if its owner may not read it. Raises OSError."""
    try:
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | _OPEN_FLAGS, dir_fd=folder)
    except PermissionError:
        scratch.unlock_directory(folder, name)
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | _OPEN_FLAGS, dir_fd=folder)
    try:
        yield inner
    finally:
        os.close(inner)


def look_up(folder: int, name: str, max_bytes: int) -> SnapshotEntry:
    """Return the entry of a name in an open folder, with up to `max_bytes` + 1 bytes of a file. Raises OSError."""
    facts = os.lstat(name, dir_fd=folder)
    owner = facts.st_uid, facts.st_gid
    if stat.S_ISLNK(facts.st_mode):
        return SnapshotEntry(facts.st_mode, owner, os.fsencode(os.readlink(name, dir_fd=folder)))
    if stat.S_IFMT(facts.st_mode) not in {stat.S_IFREG, stat.S_IFDIR}:
        return SnapshotEntry(facts.st_mode, owner)
    with open_entry(folder, name, os.O_RDONLY) as file:
        facts = os.fstat(file)
        node = SnapshotEntry(facts.st_mode, (facts.st_uid, facts.st_gid), attributes=_read_attributes(file))
        if stat.S_ISDIR(facts.st_mode):
            names = _list_names(file, max_bytes // _ENTRY_BYTES)
            return node._replace(content=os.fsencode("/".join(names)))
        if not stat.S_ISREG(facts.st_mode):
            return node
        return node._replace(content=read_up_to(file, max_bytes + 1), file=(facts.st_dev, facts.st_ino))


def read_up_to(file: int, max_bytes: int) -> bytes:
    """Return up to `max_bytes` bytes of an open file, without allocating so many at once. Raises OSError."""
    parts: list[bytes] = []
    while max_bytes > 0 and (part := os.read(file, min(max_bytes, _READ_BYTES))):
        parts.append(part)
        max_bytes -= len(part)
    return b"".join(parts)


@contextlib.contextmanager
def open_entry(folder: int, name: str, how: int) -> Generator[int]:
    """Open a name in an open folder unless it is a link, and yield the descriptor. Raises OSError."""
    file = os.open(name, how | _OPEN_FLAGS, 0o600, dir_fd=folder)
    try:
        yield file
    finally:
        os.close(file)


def _list_names(folder: int, max_names: int) -> list[str]:
    """Return the names in an open folder, up to `max_names` + 1."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in itertools.islice(entries, max_names + 1)]


def _read_attributes(file: int) -> tuple[tuple[str, bytes], ...]:
    try:
        names = os.listxattr(file)
    except OSError:  # the file system does not support them
        return ()
    return tuple(
        (name, os.getxattr(file, name)) for name in sorted(names) if name.startswith(_ATTRIBUTE_PREFIXES)
    )


def _is_same(folder: int, name: str, wanted: SnapshotEntry) -> bool:
    """Return whether a name has its recorded content and attributes, possibly as another inode."""
    try:
        now = look_up(folder, name, len(wanted.content))
    except OSError:
        return False
    return now._replace(file=wanted.file) == wanted


def _mend_file(folder: int, name: str, wanted: SnapshotEntry) -> bool:
    """Restore the content of a file that still has the recorded inode; return whether that was possible."""
    with open_entry(folder, name, os.O_PATH) as found:
        facts = os.fstat(found)
        if (facts.st_dev, facts.st_ino) != wanted.file:
            return False
        own = f"/proc/self/fd/{found}"
        try:
            os.chmod(own, stat.S_IRUSR | stat.S_IWUSR)  # proc(5)
            file = os.open(own, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except PermissionError:
            return False
        try:
            _fill_file(file, wanted)
        finally:
            os.close(file)
    return True


def _fill_file(file: int, node: SnapshotEntry) -> None:
    done = 0
    while done < len(node.content):
        done += os.pwrite(file, node.content[done:], done)
    os.ftruncate(file, done)
    _restore_attributes(file, node)


def _restore_attributes(file: int, node: SnapshotEntry) -> None:
    """Restore owner, mode and attributes of an open file or folder."""
    facts = os.fstat(file)
    if (facts.st_uid, facts.st_gid) != node.owner:
        os.fchown(file, *node.owner)
    now = dict(_read_attributes(file))
    for name in now.keys() - dict(node.attributes).keys():
        os.removexattr(file, name)
    for name, value in node.attributes:
        if now.get(name) != value:
            os.setxattr(file, name, value)
    os.fchmod(file, stat.S_IMODE(node.mode))
