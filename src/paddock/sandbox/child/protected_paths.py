"""Paths of a writable workspace that a job must not change, because the user's tools run or trust them.

Landlock cannot exclude a path from a writable tree, and no mount can cover a path that does not exist yet. Therefore
the supervisor records the protected paths before the job and restores them after all processes of the job have ended.
Other jobs may still work in the same workspace. Therefore every step goes through open folders and follows no link.
"""

import contextlib
import errno
import fcntl
import marshal
import os
import stat
from collections.abc import Generator
from typing import NamedTuple

from paddock.sandbox.child.snapshot import (
    Restoration,
    Snapshot,
    SnapshotEntry,
    TooLargeError,
    kind_of,
    open_entry,
    open_folder,
    open_up,
)

PROTECTED_PATHS = (
    ".git/hooks",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",  # git takes hooks and settings from the folder that it names
    "HEAD",  # makes a folder itself a repository, with its settings in a `config` beside it
    ".mcp.json",
    ".vscode",
    ".idea",
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".roo",
    ".kilocode",
    ".kiro",
    ".zed",
    ".windsurf",
    ".amazonq",
    ".amp",
    ".continue",
    ".github/mcp.json",  # of GitHub Copilot CLI
    ".junie",
    ".warp",
    ".qwen",
    ".opencode",
    "opencode.json",
    "opencode.jsonc",
    ".crush.json",
    "crush.json",
    ".husky",  # git hooks of projects that use it
    ".bashrc",
    ".bash_aliases",
    ".inputrc",  # can bind a key to a command and the Enter key
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".ssh",  # from here on, for a workspace that is a home directory
    ".gitconfig",
    ".config/git",
    ".config/fish",
    ".config/systemd",
    ".config/autostart",
    ".config/environment.d",
    ".xprofile",
    ".xsession",
    ".xsessionrc",
    ".xinitrc",
    ".claude.json",
    ".envrc",
    "paddock.toml",
    ".paddock",
    ".mentu",  # scripts in it run by name, like those of `.paddock`
)

_NO_SPACE_ERRORS = {errno.ENOSPC, errno.EDQUOT}
_COMPLETE_MARK = b"!"
"""The first byte of a file with a complete record. In an incomplete one it reads as zero."""
_REMOVE_WITHIN_S = 0.05
"""Maximum time of removal before the report is sent, in seconds; the rest is removed afterwards."""


class RecordError(Exception):
    """The protected paths of a workspace cannot be recorded, so that no job may write to it."""


class RestoreReport(NamedTuple):
    """The result of restoring the protected paths."""

    violations: list[str]
    """The paths that had been changed."""
    left: dict[str, str]
    """The changed paths that could not be restored completely, each with the reason."""


class ProtectedPaths:
    """The protected paths of a workspace, as they were before the first of several concurrent jobs began.

    A later job must not record them itself: an earlier one may already have changed them.
    """

    def __init__(self, workspace: str, known: int) -> None:
        """Read the record from the file `known`, which these jobs share, or write it; `close` closes the file.

        Raises RecordError; OSError if the workspace does not exist.
        """
        self._workspace = workspace
        self._known = known
        self.root = os.open(workspace, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            with self._is_alone():
                self.record = self._open_shared()
        except OSError as error:
            os.close(self.root)
            raise RecordError(_explain_error(error)) from error
        self._way_back = Restoration(self.root, self.record)

    def restore(self) -> RestoreReport:
        """Restore the protected paths as far as possible."""
        with self._is_alone():
            found = restore_paths(self.root, self.record, self._way_back)
        self._way_back.discard(_REMOVE_WITHIN_S)
        return found

    def close(self) -> list[str]:
        """Close the files; return the folders that were moved aside and have yet to be removed."""
        os.close(self.root)
        os.close(self._known)
        return [f"{self._workspace}/{name}" for name in self._way_back.aside]

    def _open_shared(self) -> Snapshot:
        known = self._known
        if os.pread(known, 1, 0) == _COMPLETE_MARK:
            size = os.fstat(known).st_size
            found: dict[
                str, tuple[int, tuple[int, int], bytes, tuple[tuple[str, bytes], ...], tuple[int, int]]
            ]
            found = marshal.loads(os.pread(known, size, 1))  # noqa: S302 - ours
            return Snapshot({path: SnapshotEntry._make(node) for path, node in found.items()})
        snapshot = record_paths(self.root)
        data = marshal.dumps({path: tuple(node) for path, node in snapshot.nodes.items()})
        done = 0
        while done < len(data):
            done += os.pwrite(known, data[done:], 1 + done)
        os.pwrite(known, _COMPLETE_MARK, 0)  # last, so that an incomplete record does not count
        return snapshot

    @contextlib.contextmanager
    def _is_alone(self) -> Generator[None]:
        fcntl.lockf(self._known, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._known, fcntl.LOCK_UN)


def _explain_error(error: OSError) -> str:
    if isinstance(error, TooLargeError):
        return (
            f"the protected paths of the workspace are too large to watch: {error}; "
            "request read-only access, or make them smaller"
        )
    return f"the protected paths of the workspace cannot be read: {error.strerror}"


def record_paths(root: int) -> Snapshot:
    """Return a snapshot of the protected paths below an open folder. Raises TooLargeError; OSError if unreadable."""
    found = Snapshot()
    for top in PROTECTED_PATHS:
        parent, _, name = top.rpartition("/")
        if not parent:
            if kind_of(root, top):
                found.take(root, top, top)
            continue
        kind = kind_of(root, parent)
        if kind == stat.S_IFDIR:
            with open_entry(root, parent, os.O_PATH | os.O_DIRECTORY) as folder:
                facts = os.fstat(folder)
                found.nodes[parent] = SnapshotEntry(facts.st_mode, (facts.st_uid, facts.st_gid))
                if kind_of(folder, name):
                    found.take(folder, name, top)
        elif kind and parent not in found.nodes:
            found.take(root, parent, parent)
    return found


def restore_paths(root: int, before: Snapshot, way_back: Restoration) -> RestoreReport:
    """Restore every protected path below an open folder as far as possible."""
    found = RestoreReport([], {})
    if not os.access(".", os.R_OK | os.X_OK, dir_fd=root, effective_ids=True):
        with contextlib.suppress(OSError):
            open_up(root)
    for top in PROTECTED_PATHS:
        try:
            changed = _restore_one(root, top, before, way_back)
        except OSError as error:
            changed = True
            if why := _try_again(root, top, before, way_back, error):
                found.left[top] = why
        if changed:
            found.violations.append(top)
    return found


def _try_again(root: int, top: str, before: Snapshot, way_back: Restoration, error: OSError) -> str:
    """Free disk space if there was none, and try again; return why a path could not be restored, or ""."""
    if error.errno in _NO_SPACE_ERRORS:
        way_back.discard()
        try:
            _restore_one(root, top, before, way_back)
        except OSError as again:
            error = again
        else:
            return ""
    return error.strerror or type(error).__name__


def _restore_one(root: int, top: str, before: Snapshot, way_back: Restoration) -> bool:
    parent, _, name = top.rpartition("/")
    if not parent:
        return way_back.put_back(root, top, top)
    wanted, changed = before.nodes.get(parent), False
    if kind_of(root, parent) != stat.S_IFDIR or (wanted is not None and wanted.kind != stat.S_IFDIR):
        changed = way_back.put_back(root, parent, parent)
    if kind_of(root, parent) != stat.S_IFDIR:  # the user's own link or file, or nothing
        return changed
    mode = os.lstat(parent, dir_fd=root).st_mode
    with open_folder(root, parent) as folder:
        try:
            return way_back.put_back(folder, name, top) or changed
        finally:
            if wanted is not None and os.fstat(folder).st_mode != mode:  # `open_folder` unlocked it
                os.fchmod(folder, stat.S_IMODE(wanted.mode))
