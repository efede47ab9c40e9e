"""The new files of an acceptance, made in a directory of the workspace's file system before anything is replaced."""

import contextlib
import os
from collections.abc import Sequence
from typing import Protocol

from paddock.engines.changes.plan import Step, group_changes
from paddock.engines.changes.tree import Folder
from paddock.model.change_set import Change, FileFacts
from paddock.model.errors import ChangesCorrupted

_OWNER_ACCESS = 0o700


class Contents(Protocol):
    """Where the contents of new files come from."""

    def copy(self, sha256: str, target: int) -> None:
        """Copy contents to an open file, and check the digest. Raises ChangesError and OSError."""
        ...


def stage_changes(
    root: Folder, staging: Folder, changes: Sequence[Change], steps: Sequence[Step], contents: Contents
) -> dict[str, int]:
    """Make what the steps put into the workspace, on disk; return the inode of each by its name.

    Raises ChangesError and OSError.
    """
    moved = {step.path: step.name for step in steps if step.kind in {"put", "exchange"}}
    made = _Staged(root, staging, contents)
    for top, group in group_changes(changes, steps).items():
        for change in group:
            if change.after is not None:
                made.add(moved[top] + change.path[len(top) :], change, change.after)
    staging.sync([*made.names, ""])
    return {name: _read_inode(staging, name) for name in moved.values()}


class _Staged:
    """What was made so far."""

    def __init__(self, root: Folder, staging: Folder, contents: Contents) -> None:
        self._root = root
        self._staging = staging
        self._contents = contents
        self._files: dict[str, tuple[str, FileFacts]] = {}
        """Staged name and facts of each file, by its path in the workspace."""
        self.names: list[str] = []

    def add(self, name: str, change: Change, after: FileFacts) -> None:
        """Make what a change leaves. Raises ChangesError and OSError."""
        self.names.append(name)
        if after.type == "directory":
            self._staging.make_directory(name)
            self._staging.set_mode(name, after.mode | _OWNER_ACCESS)
        elif after.type == "link":
            self._staging.make_link(name, after.target or "")
        else:
            known = self._files.get(change.linked_to or "")
            if known is not None and known[1] == after:
                self._staging.make_other_name(name, known[0])
            else:
                self._make_file(name, change, after)
            self._files[change.path] = (name, after)

    def _make_file(self, name: str, change: Change, after: FileFacts) -> None:
        if after.sha256 is None:
            raise ChangesCorrupted("a file of the change set has no digest")
        file = self._staging.make_file(name)
        try:
            self._contents.copy(after.sha256, file)
            if change.before is not None and change.before.type == "file":
                self._keep_owner(change.path, file)
            os.fchmod(file, after.mode)
        finally:
            os.close(file)

    def _keep_owner(self, path: str, file: int) -> None:
        """Give a file the owner of the one that it replaces, if this process may."""
        facts = self._root.find(path)
        if facts is not None and (facts.st_uid, facts.st_gid) != (os.geteuid(), os.getegid()):
            with contextlib.suppress(PermissionError):
                os.fchown(file, facts.st_uid, facts.st_gid)


def _read_inode(staging: Folder, name: str) -> int:
    facts = staging.find(name)
    assert facts is not None
    return facts.st_ino
