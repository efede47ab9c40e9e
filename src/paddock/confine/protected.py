"""Paths of a writable workspace that a job must not change: what tools of the user run or trust later on.

Landlock cannot carve a hole into a writable tree, and no mount can cover a path that does not exist yet. So the
protected paths are recorded before the job and put back after it, when nothing of the job lives any more. Other jobs
may still be at work in the same workspace: so every step is taken below open folders, and no link is followed.

Only the standard library may be imported here: the module runs in wardens.
"""

import contextlib
import errno
import fcntl
import marshal
import os
import stat
from collections.abc import Generator
from typing import NamedTuple

from paddock.confine import scratch

PROTECTED = (
    ".git/hooks",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",  # where it is, git takes hooks and settings from elsewhere
    ".mcp.json",
    ".vscode",
    ".idea",
    ".claude",
    ".codex",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".envrc",
    "paddock.toml",
    ".paddock",
)
MOST_BYTES = 64 * 1024 * 1024
"""More than this in the protected paths is not recorded, and the workspace is not made writable."""

_NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
"""Of these the last two say that a path leads through a file or a link."""


class TooLargeError(OSError):
    """The protected paths hold more than can be recorded."""


class _Node(NamedTuple):
    """A file, a link or a directory as it was."""

    mode: int
    content: bytes = b""
    """Content of a file, target of a link."""


Record = dict[str, _Node]
"""Every protected path that exists, and all below it, by path relative to the workspace; parents first."""


class Before:
    """The protected paths as they were before the first of the jobs that are at work in a workspace at the same time.

    A later one may already see what another has left there.
    """

    def __init__(self, workspace: str, known: int) -> None:
        """Read it from the file `known`, which these jobs share and `restore` closes, or record it there.

        Raises TooLargeError and OSError.
        """
        self._workspace = workspace
        self._known = known
        with self._alone():
            if os.pread(known, 1, 0):
                size = os.fstat(known).st_size
                found: dict[str, tuple[int, bytes]] = marshal.loads(os.pread(known, size, 1))  # noqa: S302 - ours
                self._record = {path: _Node._make(node) for path, node in found.items()}
                return
            self._record = record(workspace)
            data = marshal.dumps({path: tuple(node) for path, node in self._record.items()})
            done = 0
            while done < len(data):
                done += os.pwrite(known, data[done:], 1 + done)
            os.pwrite(known, b"!", 0)  # last, so that half a record is none

    def restore(self) -> list[str]:
        """Put the protected paths back; return those that were not as before. Raises OSError."""
        try:
            with self._alone():
                return restore(self._workspace, self._record)
        finally:
            os.close(self._known)

    @contextlib.contextmanager
    def _alone(self) -> Generator[None]:
        fcntl.lockf(self._known, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._known, fcntl.LOCK_UN)


def record(workspace: str) -> Record:
    """Return the protected paths of `workspace` as they are. Raises TooLargeError, or OSError when unreadable."""
    found: Record = {}
    room = MOST_BYTES
    with _opened(workspace) as root:
        for top in PROTECTED:
            parent = os.path.dirname(top)  # noqa: PTH120
            if parent and parent not in found and _is_there(root, parent):
                found[parent] = _node(root, parent)
            pending = [top] if _is_there(root, top) else []
            while pending:
                path = pending.pop()
                found[path] = node = _node(root, path)
                room -= len(node.content)
                if room < 0:
                    raise TooLargeError(f"the protected paths hold more than {MOST_BYTES} bytes")
                if stat.S_ISDIR(node.mode):
                    pending += [f"{path}/{name}" for name in _names(root, path)]
    return found


def restore(workspace: str, before: Record) -> list[str]:
    """Put every protected path back to `before`; return those that had been changed, made or removed.

    Raises OSError when one of them cannot be put back, after the others.
    """
    violations: list[str] = []
    failure: OSError | None = None
    with _opened(workspace) as root:
        for top in PROTECTED:
            try:
                try:
                    changed = _restore_one(root, top, before)
                except PermissionError:  # the program has closed what the path is in
                    _open_up(root, os.path.dirname(top))  # noqa: PTH120
                    changed = _restore_one(root, top, before)
            except OSError as error:
                changed, failure = True, error
            if changed:
                violations.append(top)
    if failure is not None:
        raise failure
    return violations


def _restore_one(root: int, top: str, before: Record) -> bool:
    changed = _restore_parent(root, os.path.dirname(top), before)  # noqa: PTH120
    wanted = {path: node for path, node in before.items() if path == top or path.startswith(f"{top}/")}
    if not changed and _same(root, top, wanted):
        return False
    if _in_real_directory(root, top):  # else behind a link of the user's own, or nowhere
        _remove(root, top)
        for path, node in wanted.items():
            _make(root, path, node)
    return True


def _open_up(root: int, parent: str) -> None:
    os.chmod(f"/proc/self/fd/{root}", os.fstat(root).st_mode | stat.S_IRWXU)  # noqa: PTH101 - proc(5)
    if parent:
        scratch.unlock(root, parent)


def _restore_parent(root: int, parent: str, before: Record) -> bool:
    """Have the directory that holds protected paths be of the kind it was; tell whether it was not."""
    if not parent or not _is_there(root, parent):
        if parent in before and stat.S_ISDIR(before[parent].mode):
            os.mkdir(parent, dir_fd=root)
            return True
        return False
    now = _node(root, parent)
    if parent not in before:
        if stat.S_ISDIR(now.mode):
            return False
        _remove(root, parent)
        return True
    node = before[parent]
    if stat.S_IFMT(now.mode) == stat.S_IFMT(node.mode) and (stat.S_ISDIR(now.mode) or now == node):
        return False
    _remove(root, parent)
    _make(root, parent, node)
    return True


def _same(root: int, top: str, wanted: Record) -> bool:
    if not _is_there(root, top):
        return not wanted
    if top not in wanted:
        return False
    names = 0
    for path, node in wanted.items():
        try:
            if _node(root, path) != node:
                return False
            names += len(_names(root, path)) if stat.S_ISDIR(node.mode) else 0
        except OSError:
            return False
    return names == len(wanted) - 1


@contextlib.contextmanager
def _opened(path: str, within: int | None = None) -> Generator[int]:
    """Yield a descriptor, to find others by, of a folder that is no link itself. Raises OSError."""
    folder = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    try:
        yield folder
    finally:
        os.close(folder)


@contextlib.contextmanager
def _beside(root: int, path: str) -> Generator[tuple[int, str]]:
    """Yield a descriptor of the folder that a path below `root` is in, and its name there. Raises OSError."""
    first, _, rest = path.partition("/")
    if not rest:
        yield root, first
        return
    with _opened(first, root) as folder, _beside(folder, rest) as found:
        yield found


def _is_there(root: int, path: str) -> bool:
    try:
        with _beside(root, path) as (folder, name):
            os.lstat(name, dir_fd=folder)
    except OSError as error:
        if error.errno not in _NOT_THERE:
            raise
        return False
    return True


def _in_real_directory(root: int, path: str) -> bool:
    """Tell whether the parent of a protected path is a directory and no link: nothing is touched through links."""
    parent = os.path.dirname(path)  # noqa: PTH120
    return not parent or (_is_there(root, parent) and stat.S_ISDIR(_node(root, parent).mode))


def _names(root: int, path: str) -> list[str]:
    with _beside(root, path) as (folder, name):
        opened = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            return os.listdir(opened)  # noqa: PTH208
        finally:
            os.close(opened)


def _node(root: int, path: str) -> _Node:
    with _beside(root, path) as (folder, name):
        mode = os.lstat(name, dir_fd=folder).st_mode
        if stat.S_ISLNK(mode):
            return _Node(mode, os.fsencode(os.readlink(name, dir_fd=folder)))
        if not stat.S_ISREG(mode):
            return _Node(mode)
        how = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # it may be a pipe by now
        with open(os.open(name, how, dir_fd=folder), "rb") as stream:  # noqa: PTH123
            return _Node(mode, stream.read(MOST_BYTES + 1))


def _remove(root: int, path: str) -> None:
    if not _is_there(root, path):
        return
    with _beside(root, path) as (folder, name):
        if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
            scratch.remove(name, folder)
        else:
            os.unlink(name, dir_fd=folder)


def _make(root: int, path: str, node: _Node) -> None:
    how = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with _beside(root, path) as (folder, name):
        if stat.S_ISLNK(node.mode):
            os.symlink(os.fsdecode(node.content), name, dir_fd=folder)
            return
        if stat.S_ISDIR(node.mode):
            os.mkdir(name, dir_fd=folder)
            how |= os.O_DIRECTORY
        elif stat.S_ISREG(node.mode):
            how |= os.O_WRONLY | os.O_CREAT | os.O_EXCL
        else:
            return  # a device, a pipe or a socket has no content that could be put back
        made = os.open(name, how, 0o600, dir_fd=folder)
        try:
            content = node.content
            while content:
                content = content[os.write(made, content) :]
            os.fchmod(made, stat.S_IMODE(node.mode))
        finally:
            os.close(made)
