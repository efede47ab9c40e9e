"""The new files of an acceptance, made in a directory of the workspace's file system before anything is replaced."""

import contextlib
import os
from collections.abc import Sequence
from typing import Protocol

from paddock.engines.changes.plan import Step, is_at_or_below
from paddock.engines.changes.tree import Folder
from paddock.model.changes import Change, FileFacts
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
    """Make what the steps put into the workspace; return the inode of each by its name, all on disk. Raises ChangesError, OSError."""
    moved = {step.path: step.name for step in steps if step.kind in {"put", "exchange"}}
    made: dict[str, tuple[str, FileFacts]] = {}
    top = ""
    for change in changes:
        if not top or not is_at_or_below(change.path, top):
            top = change.path if change.path in moved else ""
        if top and change.after is not None:
            staged = moved[top] + change.path[len(top) :]
            _make(root, staging, staged, change, made, contents)
            made[change.path] = (staged, change.after)
    staging.sync([*(staged for staged, _ in made.values()), ""])
    return {name: _inode(staging, name) for name in moved.values()}


def _make(
    root: Folder,
    staging: Folder,
    staged: str,
    change: Change,
    made: dict[str, tuple[str, FileFacts]],
    contents: Contents,
) -> None:
    after = change.after
    assert after is not None
    if after.type == "directory":
        staging.make_directory(staged)
        staging.set_mode(staged, after.mode | _OWNER_ACCESS)
        return
    if after.type == "link":
        staging.make_link(staged, after.target or "")
        return
    known = made.get(change.linked_to or "")
    if known is not None and known[1] == after:
        staging.make_other_name(staged, known[0])
        return
    if after.sha256 is None:
        raise ChangesCorrupted("a file without a digest")
    file = staging.make_file(staged)
    try:
        contents.copy(after.sha256, file)
        if change.before is not None and change.before.type == "file":
            _keep_owner(root, change.path, file)
        os.fchmod(file, after.mode)
    finally:
        os.close(file)


def _keep_owner(root: Folder, path: str, file: int) -> None:
    """Give a file the owner of the one that it replaces, if this process may."""
    facts = root.find(path)
    if facts is not None and (facts.st_uid, facts.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):
            os.fchown(file, facts.st_uid, facts.st_gid)


def _inode(staging: Folder, name: str) -> int:
    facts = staging.find(name)
    assert facts is not None
    return facts.st_ino
