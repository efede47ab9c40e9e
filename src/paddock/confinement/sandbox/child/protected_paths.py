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
from collections.abc import Generator, Sequence
from typing import NamedTuple

from paddock.confinement.sandbox.child.git_paths import GitConfigError
from paddock.confinement.sandbox.child.protection import (
    BUILT_IN_RULES,
    PresentNames,
    ProtectionRules,
    list_matches,
    list_outermost,
    list_protected_paths,
)
from paddock.confinement.sandbox.child.snapshot import (
    Restoration,
    Snapshot,
    SnapshotEntry,
    TooLargeError,
    kind_of,
    open_entry,
    open_folder,
    open_up,
)

_NO_SPACE_ERRORS = {errno.ENOSPC, errno.EDQUOT}
_COMPLETE_MARK = b"!"
"""The first byte of a file with a complete record. In an incomplete one it reads as zero."""
MAX_REPORTED = 100
"""Maximum number of paths in a report, which is one message."""
_MAX_PATH_CHARS = 200
_REMOVE_WITHIN_S = 0.05
"""Maximum time of removal before the report is sent, in seconds; the rest is removed afterwards."""

_EntryFields = tuple[int, tuple[int, int], bytes, tuple[tuple[str, bytes], ...], tuple[int, int]]


class RecordError(Exception):
    """The protected paths of a workspace cannot be recorded, so that no job may write to it."""


class PathRecord(NamedTuple):
    """The protected paths of a workspace."""

    paths: Sequence[str]
    """All of them, also those that do not exist. None is below another one."""
    snapshot: Snapshot


class RestoreReport(NamedTuple):
    """The result of restoring the protected paths."""

    violations: list[str]
    """The paths that had been changed, as text for people: at most `MAX_REPORTED` of them."""
    left: dict[str, str]
    """The changed paths that could not be restored completely, each with the reason."""

    def add(self, top: str, why: str) -> None:
        """Add a path that had been changed, and why it could not be restored, or ""."""
        text = top if top.isprintable() else ascii(top)[1:-1]  # a program may have chosen the name
        if len(text) > _MAX_PATH_CHARS:
            text = f"{text[:_MAX_PATH_CHARS]}..."
        if len(self.violations) < MAX_REPORTED:
            self.violations.append(text)
        if why and len(self.left) < MAX_REPORTED:
            self.left[text] = why


class ProtectedPaths:
    """The protected paths of a writable folder, as they were before the first of several concurrent jobs began.

    A later job must not record them itself: an earlier one may already have changed them.
    """

    def __init__(
        self, folder: str, known: int, rules: ProtectionRules = BUILT_IN_RULES, shown: str = ""
    ) -> None:
        """Read the record from the file `known`, which these jobs share, or write it; `close` closes the file.

        `shown` precedes the paths in reports. Raises RecordError; OSError if the folder does not exist.
        """
        self._folder = folder
        self._shown = shown
        self._known = known
        self._rules = rules
        self.root = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            with self._is_alone():
                self.record = self._open_shared()
        except OSError as error:
            os.close(self.root)
            raise RecordError(_explain_error(error)) from error
        self._way_back = Restoration(self.root, self.record.snapshot)

    def restore(self) -> RestoreReport:
        """Restore the protected paths as far as possible."""
        with self._is_alone():
            found = restore_paths(self.root, self.record, self._way_back, self._rules)
        self._way_back.discard(_REMOVE_WITHIN_S)
        violations = [f"{self._shown}{path}" for path in found.violations]
        return RestoreReport(violations, {f"{self._shown}{path}": why for path, why in found.left.items()})

    def close(self) -> list[str]:
        """Close the files; return the folders that were moved aside and have yet to be removed."""
        os.close(self.root)
        os.close(self._known)
        return [f"{self._folder}/{name}" for name in self._way_back.aside]

    def _open_shared(self) -> PathRecord:
        known = self._known
        if os.pread(known, 1, 0) == _COMPLETE_MARK:
            size = os.fstat(known).st_size
            found: tuple[list[str], dict[str, _EntryFields]]
            found = marshal.loads(os.pread(known, size, 1))  # noqa: S302 - ours
            nodes = {path: SnapshotEntry._make(node) for path, node in found[1].items()}
            return PathRecord(found[0], Snapshot(nodes))
        record = record_paths(self.root, self._rules)
        nodes = {path: tuple(node) for path, node in record.snapshot.nodes.items()}
        data = marshal.dumps((list(record.paths), nodes))
        done = 0
        while done < len(data):
            done += os.pwrite(known, data[done:], 1 + done)
        os.pwrite(known, _COMPLETE_MARK, 0)  # last, so that an incomplete record does not count
        return record

    @contextlib.contextmanager
    def _is_alone(self) -> Generator[None]:
        fcntl.lockf(self._known, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._known, fcntl.LOCK_UN)


def _explain_error(error: OSError) -> str:
    if isinstance(error, GitConfigError):
        return (
            f"the protected paths of the workspace cannot be found: {error}; request read-only access, or change that "
            "configuration"
        )
    if isinstance(error, TooLargeError):
        return (
            f"the protected paths of the workspace are too large to watch: {error}; "
            "request read-only access, make them smaller, or name what need not be watched in sandbox.unprotected of "
            "the user's settings"
        )
    return f"the protected paths of the workspace cannot be read: {error.strerror}"


def record_paths(root: int, rules: ProtectionRules = BUILT_IN_RULES) -> PathRecord:
    """Record the protected paths below an open folder. Raises TooLargeError; OSError if they cannot be read."""
    paths, found = list_protected_paths(root, rules), Snapshot()
    for path in PresentNames(root).select(paths):
        _record_one(root, path, found)
    return PathRecord(paths, found)


def _record_one(root: int, top: str, found: Snapshot) -> None:
    *parents, name = top.split("/")
    with contextlib.ExitStack() as opened:
        folder, path = root, ""
        for part in parents:
            path = f"{path}/{part}" if path else part
            kind = kind_of(folder, part)
            if kind == stat.S_IFDIR:
                folder = opened.enter_context(open_entry(folder, part, os.O_PATH | os.O_DIRECTORY))
                facts = os.fstat(folder)
                found.nodes.setdefault(path, SnapshotEntry(facts.st_mode, (facts.st_uid, facts.st_gid)))
            else:
                if kind and path not in found.nodes:
                    found.take(folder, part, path)
                return
        if kind_of(folder, name):
            found.take(folder, name, top)


def restore_paths(
    root: int, before: PathRecord, way_back: Restoration, rules: ProtectionRules = BUILT_IN_RULES
) -> RestoreReport:
    """Restore every protected path below an open folder as far as possible."""
    found = RestoreReport([], {})
    if not os.access(".", os.R_OK | os.X_OK, dir_fd=root, effective_ids=True):
        with contextlib.suppress(OSError):
            open_up(root)
    try:
        present = PresentNames(root)
        for top in present.select(before.paths, before.snapshot.nodes):
            _restore_path(root, top, before.snapshot, way_back, found)
        matches = list_matches(root, rules)
    except OSError as error:
        found.left["."] = error.strerror or str(error)
        return found
    known = set(before.paths)
    for top in list_outermost((*before.paths, *matches)):
        if top not in known:
            _restore_path(root, top, before.snapshot, way_back, found)
    return found


def _restore_path(root: int, top: str, before: Snapshot, way_back: Restoration, found: RestoreReport) -> None:
    """Restore a path, and report what was changed and what is left."""
    try:
        changed, failure = _restore_one(root, top, before, way_back), None
    except OSError as error:
        changed, failure = True, error
    if failure is not None and failure.errno in _NO_SPACE_ERRORS:
        way_back.discard()  # frees disk space
        try:
            _restore_one(root, top, before, way_back)
            failure = None
        except OSError as error:
            failure = error
    if changed:
        found.add(top, "" if failure is None else failure.strerror or type(failure).__name__)


def _restore_one(root: int, top: str, before: Snapshot, way_back: Restoration) -> bool:
    *parents, name = top.split("/")
    changed = False
    with contextlib.ExitStack() as opened:
        folder, path = root, ""
        for part in parents:
            path = f"{path}/{part}" if path else part
            wanted = before.nodes.get(path)
            if kind_of(folder, part) != stat.S_IFDIR or (wanted is not None and wanted.kind != stat.S_IFDIR):
                changed |= way_back.put_back(folder, part, path)
            if kind_of(folder, part) != stat.S_IFDIR:  # the user's own link or file, or nothing
                return changed
            folder = opened.enter_context(_open_parent(folder, part, wanted))
        return way_back.put_back(folder, name, top) or changed


@contextlib.contextmanager
def _open_parent(folder: int, name: str, wanted: SnapshotEntry | None) -> Generator[int]:
    """Open a folder in an open one; if `open_folder` must unlock it, restore its recorded mode afterwards."""
    mode = os.lstat(name, dir_fd=folder).st_mode
    with open_folder(folder, name) as inner:
        try:
            yield inner
        finally:
            if wanted is not None and os.fstat(inner).st_mode != mode:
                os.fchmod(inner, stat.S_IMODE(wanted.mode))
