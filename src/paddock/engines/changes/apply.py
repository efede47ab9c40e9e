"""The steps of an acceptance: each exchanges, moves or closes one path, is looked at afterwards, and can be undone.

put        staged file -> free path                 undone: back into the staging directory
exchange   staged file <-> what is at the path      undone: the same again
take       what is at the path -> staging directory undone: back to the path
mode       permission bits                          undone: the bits before
"""

import errno
import os
import stat
from collections.abc import Mapping, Sequence

from paddock.engines.changes.plan import (
    PathNote,
    Step,
    expect_before,
    expect_staged,
    group_changes,
    is_at_or_below,
)
from paddock.engines.changes.tree import Folder
from paddock.model.change_set import Change, FileFacts


class StepConflict(Exception):
    """A path is no longer as it was when it was checked."""

    def __init__(self, note: PathNote) -> None:
        super().__init__(note.why)
        self.note = note


class Steps:
    """The steps of one acceptance, with what was staged for them."""

    def __init__(
        self,
        root: Folder,
        staging: Folder,
        changes: Sequence[Change],
        steps: Sequence[Step],
        inodes: Mapping[str, int],
    ) -> None:
        self._root = root
        self._staging = staging
        self._groups = group_changes(changes, steps)
        self._steps = steps
        self._inodes = inodes

    def apply(self) -> None:
        """Make all steps. Raises StepConflict and OSError; then some of them are done."""
        for step in self._steps:
            try:
                self._apply(step)
            except OSError as error:
                raise explain_step(step.path, error) from error
        # A directory above may have been moved away while something was put into it.
        for step in self._steps:
            if step.kind in {"put", "exchange"} and self._find_inode(step.path) != self._inodes[step.name]:
                raise StepConflict(PathNote(step.path, "it was replaced at the same time"))

    def undo(self) -> list[PathNote]:
        """Undo the steps that were done; return the paths that could not be, because they were changed meanwhile.

        What they had before stays in the staging directory.
        """
        return [note for step in reversed(self._steps) if (note := self._try_to_undo(step)) is not None]

    def _apply(self, step: Step) -> None:
        if step.kind == "mode":
            facts = self._root.find(step.path)
            if facts is None or stat.S_IMODE(facts.st_mode) != step.mode[0]:
                raise StepConflict(PathNote(step.path, "its mode was changed at the same time"))
            self._root.set_mode(step.path, step.mode[1])
            return
        if step.kind == "put":
            self._staging.move(step.name, self._root, step.path)
            return
        if step.kind == "take":
            self._root.move(step.path, self._staging, step.name)
        else:
            self._staging.exchange(step.name, self._root, step.path)
        if self._look(step) != expect_before(self._groups[step.path]):
            raise StepConflict(PathNote(step.path, "it was changed at the same time"))

    def _look(self, step: Step) -> dict[str, FileFacts]:
        """Return what is in the staging directory for a step, by the paths that it has in the workspace."""
        found = self._staging.examine_tree(step.name)
        return {f"{step.path}{path[len(step.name) :]}": each for path, each in found.items()}

    def _find_inode(self, path: str) -> int | None:
        try:
            facts = self._root.find(path)
        except OSError:
            return None
        return None if facts is None else facts.st_ino

    def _try_to_undo(self, step: Step) -> PathNote | None:
        try:
            return self._undo(step)
        except OSError as error:
            return PathNote(step.path, os.strerror(error.errno or 0).lower())

    def _undo(self, step: Step) -> PathNote | None:
        """Undo a step if it was done. Raises OSError."""
        if step.kind == "mode":
            self._undo_mode(step)
            return None
        staged = self._staging.find(step.name)
        if step.kind == "take":
            if staged is None:
                return None
            return self._return(step)
        if staged is not None and staged.st_ino == self._inodes[step.name]:
            return None
        if self._find_inode(step.path) != self._inodes[step.name]:
            # Another process removed or replaced what was put there.
            return None if step.kind == "put" else self._return(step)
        if step.kind == "put":
            self._root.move(step.path, self._staging, step.name)
        else:
            self._staging.exchange(step.name, self._root, step.path)
        if self._look(step) == expect_staged(self._groups[step.path]):
            return None
        # The new file was changed since: its version is kept, too.
        return PathNote(step.path, "it was changed since; that version is kept")

    def _undo_mode(self, step: Step) -> None:
        comes = any(
            each.kind in {"put", "exchange"} and is_at_or_below(step.path, each.path) for each in self._steps
        )
        try:
            facts = self._root.find(step.path)
        except OSError as error:
            if comes and error.errno in {errno.ENOTDIR, errno.ELOOP}:
                return  # something else is there until its directory comes
            raise
        if facts is not None and stat.S_IMODE(facts.st_mode) == step.mode[1]:
            self._root.set_mode(step.path, step.mode[0])

    def _return(self, step: Step) -> PathNote | None:
        try:
            self._staging.move(step.name, self._root, step.path)
        except FileExistsError:
            return PathNote(step.path, "another file took its place; what it had before is kept")
        return None


def explain_step(path: str, error: OSError) -> Exception:
    """Return the conflict for an error that says that a path was changed meanwhile; else the error itself."""
    reasons = {
        errno.ELOOP: "the way to it leads through a link",
        errno.ENOTDIR: "a directory above it is none any more",
        errno.ENOENT: "it, or a directory above it, was removed",
        errno.EEXIST: "it exists already",
        errno.EXDEV: "it is on another file system",
        errno.EBUSY: "it is a mount point",
        errno.EINVAL: "it is not a file, a directory or a link",
    }
    why = reasons.get(error.errno or 0)
    return error if why is None else StepConflict(PathNote(path, why))
