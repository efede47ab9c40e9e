"""Compare the workspace with what a change set says was there before: a path that differs is a conflict."""

import errno
import os
import stat
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from paddock.engines.changes.plan import (
    PathNote,
    list_above,
    makes_directory,
    removes_directory,
)
from paddock.engines.changes.tree import Folder
from paddock.model.change_set import Change, FileFacts
from paddock.model.printable import make_printable

HIDDEN = "workspace.hide hides a file there, which is never removed, replaced or shown"
OWN = "Paddock keeps its own files there"


class Comparison(NamedTuple):
    """The workspace as it is now, beside some changes."""

    pending: tuple[Change, ...]
    """Changes to make, sorted by path."""
    unchanged: tuple[str, ...]
    """Paths that are already as the change leaves them."""
    conflicts: tuple[PathNote, ...]
    present: dict[str, FileFacts]
    """What is at the paths of conflicts now, if it is a file."""


class ConflictCheck:
    """The comparison of one workspace. `since` says when it was as expected.

    `kept` are the paths that no change may touch, relative to it, and why.
    """

    def __init__(self, root: Folder, kept: Mapping[str, str] = {}, *, since: str = "the run") -> None:
        self._root = root
        self._since = since
        self._kept = kept
        self._above_kept = {above: why for path, why in kept.items() for above in list_above(path)}
        self._pending: dict[str, Change] = {}
        self._unchanged: list[str] = []
        self._conflicts: dict[str, str] = {}
        self._present: dict[str, FileFacts] = {}

    def compare(self, changes: Iterable[Change]) -> Comparison:
        """Compare changes, sorted by path. Reads every file that is to be replaced. Raises no OSError."""
        for change in changes:
            if reason := self._find_kept(change):
                self._conflicts[change.path] = reason
            elif not self._is_inside_conflict(change.path):
                self._compare(change)
        for change in self._pending.values():
            if removes_directory(change):
                self._check_directory(change.path)
        conflicts = tuple(PathNote(path, why) for path, why in self._conflicts.items())
        return Comparison(tuple(self._pending.values()), tuple(self._unchanged), conflicts, self._present)

    def _find_kept(self, change: Change) -> str:
        """Return why no change may be at a path; "" if one may.

        What is kept need not exist yet. Above it, a link would lead to the program's files instead.
        """
        path = change.path
        for each in (path, *list_above(path)):
            if each in self._kept:
                return self._kept[each]
        is_directory = change.after is None or change.after.type == "directory"
        return "" if is_directory else self._above_kept.get(path, "")

    def _is_inside_conflict(self, path: str) -> bool:
        return any(above in self._conflicts for above in list_above(path))

    def _compare(self, change: Change) -> None:
        for above in list_above(change.path):
            coming = self._pending.get(above)
            if coming is not None and makes_directory(coming) and change.before is None:
                self._pending[change.path] = change  # it comes with the directory above, where nothing is yet
                return
        try:
            now = self._root.examine(change.path)
        except OSError as error:
            if error.errno in {errno.ENOTDIR, errno.ELOOP} and self._went_with_directory(change):
                self._unchanged.append(change.path)
                return
            self._conflicts[change.path] = explain_lookup(error)
            return
        if now == change.after:
            self._unchanged.append(change.path)
        elif change.changed_meanwhile:
            self._conflicts[change.path] = "the workspace's own file was changed during the run"
        elif now is None and change.before is None and not self._has_parent(change.path):
            self._conflicts[change.path] = f"the directory above it was removed since {self._since}"
        elif now == change.before:
            self._pending[change.path] = change
        else:
            self._conflicts[change.path] = _explain(change.before, now, self._since)
            if now is not None:
                self._present[change.path] = now

    def _has_parent(self, path: str) -> bool:
        parent = path.rpartition("/")[0]
        return not parent or self._root.find(parent) is not None

    def _went_with_directory(self, change: Change) -> bool:
        """Return whether a deleted path is gone because the directory above it was replaced before."""
        return change.after is None and any(above in self._unchanged for above in list_above(change.path))

    def _check_directory(self, path: str) -> None:
        """Make a conflict of a directory that holds more than what is deleted with it."""
        try:
            names = self._root.list_names(path)
        except OSError as error:
            self._conflicts[path] = explain_lookup(error)
            return
        for name in names:
            inner = f"{path}/{name}"
            if inner in self._conflicts:
                continue
            if inner in self._kept:
                self._conflicts[path] = self._kept[inner]
            elif inner not in self._pending or self._pending[inner].before is None:
                self._conflicts[path] = f"it holds {make_printable(name)}, which the change set does not have"


def read_modes(root: Folder, changes: Iterable[Change]) -> dict[str, int]:
    """Return the permission bits, with the special ones, of what `plan_modes` needs to know. Raises OSError."""
    found: dict[str, int] = {}
    coming: set[str] = set()
    for change in changes:
        if makes_directory(change):
            coming.add(change.path)
        parent = change.path.rpartition("/")[0]
        paths = [parent] if parent and not any(a in coming for a in (*list_above(parent), parent)) else []
        if change.before is not None and change.before.type != "link":
            is_moved_alone = change.before.type == "file" and (
                change.after is None
                or change.after.type != "file"
                or change.after.sha256 != change.before.sha256
            )
            paths += [] if is_moved_alone else [change.path]
        for path in paths:
            facts = None if path in found else root.find(path)
            if facts is not None and not stat.S_ISLNK(facts.st_mode):
                found[path] = stat.S_IMODE(facts.st_mode)
    return found


def explain_lookup(error: OSError) -> str:
    """Return why a path cannot be looked at."""
    if error.errno in {errno.ELOOP, errno.ENOTDIR}:
        return "the way to it leads through a link or a file"
    if error.errno == errno.EXDEV:
        return "it is on another file system"
    if error.errno == errno.EINVAL and error.strerror:
        return f"{error.strerror} now"
    return (error.strerror or os.strerror(error.errno or 0)).lower()


def _explain(before: FileFacts | None, now: FileFacts | None, since: str) -> str:
    if before is None:
        return "it exists already"
    if now is None:
        return f"it was removed since {since}"
    if now.type != before.type:
        return f"it is a {now.type} now"
    what = "its mode" if now.replace(mode=before.mode) == before else "it"
    return f"{what} was changed since {since}"
