"""Paths of a writable workspace that a job must not change: what tools of the user run or trust later on.

Landlock cannot carve a hole into a writable tree, and no mount can cover a path that does not exist yet. So the
protected paths are recorded before the job and put back after it, when nothing of the job lives any more.

Only the standard library may be imported here: the module runs in wardens.
"""

import os
import stat
from typing import NamedTuple

from paddock.confine import scratch

PROTECTED = (
    ".git/hooks",
    ".git/config",
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


class TooLargeError(OSError):
    """The protected paths hold more than can be recorded."""


class _Node(NamedTuple):
    """A file, a link or a directory as it was."""

    mode: int
    content: bytes = b""
    """Content of a file, target of a link."""


Record = dict[str, _Node]
"""Every protected path that exists, and all below it, by path relative to the workspace; parents first."""


def record(workspace: str) -> Record:
    """Return the protected paths of `workspace` as they are. Raises TooLargeError, or OSError when unreadable."""
    found: Record = {}
    room = MOST_BYTES
    for top in PROTECTED:
        parent = os.path.dirname(top)  # noqa: PTH120
        if parent and parent not in found and os.path.lexists(f"{workspace}/{parent}"):
            found[parent] = _node(f"{workspace}/{parent}")
        pending = [top] if _reachable(workspace, top) else []
        while pending:
            path = pending.pop()
            found[path] = node = _node(f"{workspace}/{path}")
            room -= len(node.content)
            if room < 0:
                raise TooLargeError(f"the protected paths hold more than {MOST_BYTES} bytes")
            if stat.S_ISDIR(node.mode):
                pending += [f"{path}/{name}" for name in os.listdir(f"{workspace}/{path}")]  # noqa: PTH208
    return found


def restore(workspace: str, before: Record) -> list[str]:
    """Put every protected path back to `before`; return those that had been changed, made or removed."""
    violations: list[str] = []
    for top in PROTECTED:
        changed = _restore_parent(workspace, os.path.dirname(top), before)  # noqa: PTH120
        wanted = {path: node for path, node in before.items() if path == top or path.startswith(f"{top}/")}
        if not changed and _same(workspace, top, wanted):
            continue
        violations.append(top)
        if not _in_real_directory(workspace, top):
            continue  # behind a link of the user's own, or nowhere: there is nothing of this workspace
        _remove(f"{workspace}/{top}")
        for path, node in wanted.items():
            _make(f"{workspace}/{path}", node)
    return violations


def _restore_parent(workspace: str, parent: str, before: Record) -> bool:
    """Have the directory that holds protected paths be of the kind it was; tell whether it was not."""
    path = f"{workspace}/{parent}"
    if not parent or not os.path.lexists(path):
        if parent in before and stat.S_ISDIR(before[parent].mode):
            os.makedirs(path)  # noqa: PTH103
            return True
        return False
    mode = os.lstat(path).st_mode
    if parent not in before:
        if stat.S_ISDIR(mode):
            return False
        _remove(path)
        return True
    node = before[parent]
    if stat.S_IFMT(mode) == stat.S_IFMT(node.mode) and (stat.S_ISDIR(mode) or _node(path) == node):
        return False
    _remove(path)
    _make(path, node)
    return True


def _reachable(workspace: str, path: str) -> bool:
    return _in_real_directory(workspace, path) and os.path.lexists(f"{workspace}/{path}")


def _in_real_directory(workspace: str, path: str) -> bool:
    """Tell whether the parent of a protected path is a directory and no link: nothing is touched through links."""
    parent = os.path.dirname(f"{workspace}/{path}")  # noqa: PTH120
    return os.path.lexists(parent) and stat.S_ISDIR(os.lstat(parent).st_mode)


def _same(workspace: str, top: str, wanted: Record) -> bool:
    if not _reachable(workspace, top):
        return not wanted
    if top not in wanted:
        return False
    names = 0
    for path, node in wanted.items():
        try:
            if _node(f"{workspace}/{path}") != node:
                return False
            names += len(os.listdir(f"{workspace}/{path}")) if stat.S_ISDIR(node.mode) else 0  # noqa: PTH208
        except OSError:
            return False
    return names == len(wanted) - 1


def _node(path: str) -> _Node:
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return _Node(mode, os.fsencode(os.readlink(path)))  # noqa: PTH115
    if stat.S_ISREG(mode):
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(file, "rb") as stream:  # noqa: PTH123
            return _Node(mode, stream.read(MOST_BYTES + 1))
    return _Node(mode)


def _remove(path: str) -> None:
    if not os.path.lexists(path):
        return
    if stat.S_ISDIR(os.lstat(path).st_mode):
        scratch.remove(path)
    else:
        os.unlink(path)  # noqa: PTH108


def _make(path: str, node: _Node) -> None:
    if stat.S_ISLNK(node.mode):
        os.symlink(os.fsdecode(node.content), path)  # noqa: PTH211
        return
    if stat.S_ISDIR(node.mode):
        os.mkdir(path)  # noqa: PTH102
    elif stat.S_ISREG(node.mode):
        with open(path, "xb") as stream:  # noqa: PTH123
            stream.write(node.content)
    else:
        return  # a device, a pipe or a socket has no content that could be put back
    os.chmod(path, stat.S_IMODE(node.mode))  # noqa: PTH101
