"""Read what a program changed: the upper directory of an overlayfs, or a changed copy, against the workspace.

    upper     hostile, but nothing writes to it any more: the program has ended, or is stopped
    lower     the workspace, which other processes may change at any time

Both are read below their descriptors (`tree.Folder`). In an upper directory a character device 0:0 stands for a removed
name, and `user.overlay.opaque` for a directory that shows nothing of the lower one. A copy is read as if each of its
directories were opaque.
"""

import contextlib
import errno
import hashlib
import os
import stat
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from paddock.confinement.sandbox.child import permissions
from paddock.confinement.sandbox.child.hiding import HidingRules, find_hidden, is_hidden
from paddock.confinement.sandbox.child.protection import (
    ProtectionRules,
    list_matches,
    list_protected_paths,
)
from paddock.confinement.sandbox.child.scratch import unlock_directory
from paddock.confinement.sandbox.child.snapshot import TooLargeError
from paddock.engines.changes.plan import (
    decides_for_git,
    is_among,
    is_at_or_below,
    leads_out,
    list_above,
    sort_key,
)
from paddock.engines.changes.tree import MAX_DEPTH, Folder
from paddock.foundation.files import read_pieces
from paddock.model.change_set import Change, ChangeKind, ChangeSet, FileFacts
from paddock.model.changes import OverlayMethod
from paddock.model.errors import ChangesTooLarge
from paddock.record.changes.store import NewChangeSet, encode_json

MAX_LEFT_OUT = 100
_MAX_NAMES = 200_000
"""Maximum number of names to look at, in both trees together; most of them are no changes."""
_MAX_KNOWN = 100_000
_OPAQUE = "user.overlay.opaque"
_SNIFFED_BYTES = 8000
"""Bytes in which a NUL makes contents binary, as git decides it."""
_LINK_MODE = 0o777


class CaptureRules(NamedTuple):
    """What is special below a workspace."""

    protection: ProtectionRules
    hiding: HidingRules
    own: Sequence[str] = ()
    """Absolute paths of Paddock's own files and directories: changes there are left out."""
    installed: Sequence[str] = ()
    """Absolute paths of Paddock's installation: changes there are protected."""


class CaptureLimits(NamedTuple):
    """How much a change set may hold; contents before count as well."""

    bytes: int
    changes: int


class Overlaid(NamedTuple):
    """A workspace that a program worked in through an overlay."""

    workspace: Path
    """Its real path."""
    folder: Path
    """The upper directory, or the changed copy."""
    method: OverlayMethod
    opened_ns: int
    """By the clock of the file system."""
    omitted: Collection[str] = ()
    """Relative paths that were not copied: what is there did not go."""
    user: int | None = None
    """The user that the program ran as; None for the one of this process."""
    cut_short: str = ""
    """Why the program could not write more; then the set is incomplete. Empty if it could."""
    known: set[bytes] | None = None
    """Digests of the files that earlier readings of a session's overlay found: what the program worked from, and what
    it made. If the workspace has one of them, the change is an acceptance or an undo, and no change by others."""

    identity: tuple[int, int] | None = None
    """Device and inode of the workspace when it was opened. Another directory has other files at the same paths, and
    their times do not show it."""

    def locate(self, path: Path) -> Path:
        """Return where the program sees a real path of the workspace."""
        is_moved = self.method == "copy" and path.is_relative_to(self.workspace)
        return self.folder / path.relative_to(self.workspace) if is_moved else path


def capture_changes(
    overlaid: Overlaid, new: NewChangeSet, request: str, rules: CaptureRules, limits: CaptureLimits
) -> ChangeSet:
    """Return the manifest of what changed, and add its contents to a new set. Raises ChangesError and OSError."""
    with Folder.open(overlaid.workspace) as lower, Folder.open(overlaid.folder) as upper:
        capture = _Capture(overlaid, lower, upper, new, rules=rules, limits=limits)
        incomplete = capture.read()
        if overlaid.identity not in {None, lower.identity}:
            incomplete = "the directory was replaced by another one during the run"
        changes = capture.finish()
    if overlaid.known is not None:
        _remember(changes, overlaid.known)
    return ChangeSet(
        request=request,
        workspace=str(overlaid.workspace),
        opened_ns=overlaid.opened_ns,
        ended_ns=time.time_ns(),
        method=overlaid.method,
        changes=changes,
        left_out=tuple(capture.left_out)[:MAX_LEFT_OUT],
        incomplete=incomplete or overlaid.cut_short,
    )


def _remember(changes: Sequence[Change], known: set[bytes]) -> None:
    """Add the files of some changes; beyond the maximum, a file that was accepted counts as changed by others."""
    for change in changes:
        for facts in (change.before, change.after):
            if facts is not None and not change.changed_meanwhile and len(known) < _MAX_KNOWN:
                known.add(_identify(change.path, facts))


def _identify(path: str, facts: FileFacts) -> bytes:
    return hashlib.sha256(encode_json([path, facts.model_dump()])).digest()


def may_read(facts: os.stat_result, user: int | None) -> bool:
    """Return whether a program of a user, without capabilities, may read a file or list a directory.

    Only root can read more than its programs.
    """
    if os.geteuid() or user is None or stat.S_ISLNK(facts.st_mode) or facts.st_uid == user:
        return True
    enters = not stat.S_ISDIR(facts.st_mode) or permissions.may_pass(facts, user, {user})
    return enters and permissions.may_read(facts, user, {user})


class _TooMuch(Exception):
    """There is more than a change set may hold; the text says what."""


class _Folder(NamedTuple):
    """An upper directory to read."""

    path: str
    is_opaque: bool
    """Whether it shows nothing of the workspace's."""
    is_new: bool
    """Whether the workspace has no directory there."""


class _Capture:
    """One reading of an overlay."""

    def __init__(
        self,
        overlaid: Overlaid,
        lower: Folder,
        upper: Folder,
        new: NewChangeSet,
        *,
        rules: CaptureRules,
        limits: CaptureLimits,
    ) -> None:
        self._overlaid = overlaid
        self._is_copy = overlaid.method == "copy"
        self._lower, self._upper = lower, upper
        self._new = new
        self._limits = limits
        self._hiding = rules.hiding
        self._hidden: frozenset[str] | None = None
        """Found when the workspace has something at a changed path."""
        self._own, self._installed = (
            _make_relative(paths, overlaid.workspace) for paths in (rules.own, rules.installed)
        )
        self._protection = rules.protection
        self._protected = self._above_protected = frozenset[str]()
        self._omitted = frozenset(overlaid.omitted)
        self._changes: dict[str, Change] = {}
        self._names = 0
        self._bytes = {"before": 0, "after": 0}
        self._opened_up: list[tuple[str, int]] = []
        """Upper directories that were opened up to be read, and their modes. The program of a session goes on there."""
        self._links: dict[tuple[int, int], list[str]] = {}
        """Paths of upper files with several names, by device and inode."""
        self._staying: set[str] = set()
        """Lower paths that are no deletions, although an overlay does not show them."""
        self.left_out: dict[str, None] = {}

    def read(self) -> str:
        """Find the changes; return why there are more of them than were found, or ""."""
        try:
            self._protected = frozenset(self._list_protected())
            self._above_protected = frozenset(up for path in self._protected for up in list_above(path))
            pending = [_Folder("", is_opaque=self._is_copy, is_new=False)]
            while pending:
                pending += self._read_folder(pending.pop())
        except _TooMuch as error:
            return str(error)
        except TooLargeError as error:
            return str(error)
        finally:
            for path, mode in reversed(self._opened_up):
                with contextlib.suppress(OSError):
                    self._upper.set_mode(path, mode)
        return ""

    def finish(self) -> tuple[Change, ...]:
        """Return the changes, sorted, with what only all of them together show."""
        for path in self._staying:
            for above in (path, *list_above(path)):
                change = self._changes.get(above)
                if change is not None and change.before is not None and change.before.type == "directory":
                    if change.after is not None:
                        self._leave_out(above)
                    del self._changes[above]
        for paths in self._links.values():
            known = sorted((path for path in paths if path in self._changes), key=sort_key)
            for path in known[1:]:
                self._changes[path] = self._changes[path].replace(linked_to=known[0])
        self._find_renamed()
        return tuple(self._changes[path] for path in sorted(self._changes, key=sort_key))

    def _list_protected(self) -> Iterator[str]:
        """Yield the protected paths of the workspace, and those that the program's own changes would protect."""
        yield from list_protected_paths(self._lower.handle, self._protection)
        yield from list_protected_paths(self._upper.handle, self._protection)
        yield from list_matches(self._upper.handle, self._protection)
        yield from self._installed

    def _read_folder(self, folder: "_Folder") -> list["_Folder"]:
        """Find the changes in an upper directory; return the directories in it."""
        path = folder.path
        names = self._list_names(self._upper, path)
        paths = [f"{path}/{name}" if path else name for name in names]
        inner = [found for each in paths if (found := self._read_entry(each, is_new=folder.is_new))]
        if folder.is_opaque and not folder.is_new:
            for name in set(self._list_lower(path)).difference(names):
                self._delete(f"{path}/{name}" if path else name)
        return inner

    def _read_entry(self, path: str, *, is_new: bool) -> "_Folder | None":
        """Find the change at a path of the upper directory; return what there is to read of a directory.

        With `is_new`, the workspace has no such directory around it.
        """
        try:
            now = self._upper.find(path)
        except OSError:  # its path is too long
            now = None
        is_odd = now is None or path.count("/") >= MAX_DEPTH or not _is_encodable(path)
        if now is None or is_odd or self._is_kept_out(path) or path in self._omitted:
            self._leave_out(path)
            return None
        if stat.S_ISCHR(now.st_mode) and now.st_rdev == 0:
            self._delete(path)
            return None
        if not (stat.S_ISREG(now.st_mode) or stat.S_ISDIR(now.st_mode) or stat.S_ISLNK(now.st_mode)):
            self._leave_out(path)
            return None
        try:
            before = None if is_new else self._lower.find(path)
            if before is not None and self._is_hidden(path, before):
                self._leave_out(path)
                return None
            self._compare(path, before, now)
        except OSError:  # what the workspace has there can be neither kept nor compared
            self._leave_out(path)
            return None
        if not stat.S_ISDIR(now.st_mode):
            return None
        is_new = before is None or not stat.S_ISDIR(before.st_mode)
        return _Folder(path, is_opaque=self._is_copy or self._is_opaque(path), is_new=is_new)

    def _compare(self, path: str, before: os.stat_result | None, now: os.stat_result) -> None:
        was_folder = before is not None and stat.S_ISDIR(before.st_mode)
        if stat.S_ISDIR(now.st_mode):
            after = FileFacts(type="directory", mode=now.st_mode & 0o777)
            if was_folder and before is not None:
                self._add(path, FileFacts(type="directory", mode=before.st_mode & 0o777), after, before)
            else:
                self._add(path, self._read_before(path, before), after, before)
            return
        if stat.S_ISLNK(now.st_mode):
            with self._upper.open_parent(path) as (parent, name):
                target = os.readlink(name, dir_fd=parent)
            after = FileFacts(type="link", mode=_LINK_MODE, target=target)
            self._add(path, self._read_before(path, before), after, before)
        else:
            self._compare_file(path, before, now)
        if was_folder:
            self._delete_inner(path)

    def _compare_file(self, path: str, before: os.stat_result | None, now: os.stat_result) -> None:
        """Compare an upper file; one that was only copied up, for instance because its time was set, is no change."""
        if now.st_nlink > 1:
            self._links.setdefault((now.st_dev, now.st_ino), []).append(path)
        self._spend("after", now.st_size)
        file = self._upper.open_file(path)
        try:
            old: FileFacts | None = None
            may_be_same = (
                before is not None and stat.S_ISREG(before.st_mode) and before.st_size == now.st_size
            )
            if may_be_same:
                sha256 = _hash_file(file)
                old = self._read_before(path, before, unless=sha256)
                if old is not None and old.sha256 == sha256:
                    after = old.replace(mode=now.st_mode & 0o777)
                    if after != old:
                        self._add(path, old, after, before)
                    return
            else:
                old = self._read_before(path, before)
            sha256 = self._new.add_content(file, now.st_size)
            after = FileFacts(type="file", mode=now.st_mode & 0o777, size=now.st_size, sha256=sha256)
            self._add(path, old, after, before, is_binary=_is_binary(file))
        except ChangesTooLarge as error:
            raise self._explain_bytes() from error
        finally:
            os.close(file)

    def _delete(self, path: str) -> None:
        """Find the deletion of a lower path, with everything below it."""
        try:
            before = self._lower.find(path)
            if before is None:  # it has gone meanwhile
                return
            if path in self._omitted or self._is_kept_out(path) or self._is_hidden(path, before):
                self._staying.add(path)
                return
            self._add(path, self._read_before(path, before), None, before)
            if stat.S_ISDIR(before.st_mode):
                self._delete_inner(path)
        except OSError:  # another file system is mounted there, or it cannot be read
            self._staying.add(path)
            self._leave_out(path)

    def _delete_inner(self, path: str) -> None:
        for name in self._list_lower(path):
            self._delete(f"{path}/{name}")

    def _read_before(
        self, path: str, found: os.stat_result | None, *, unless: str | None = None
    ) -> FileFacts | None:
        """Return what the workspace has at a path, and keep contents other than `unless`. Raises OSError."""
        if found is None or not stat.S_ISREG(found.st_mode):
            return None if found is None else self._lower.examine(path)
        self._spend("before", found.st_size)
        file = self._lower.open_file(path)
        try:
            facts = os.fstat(file)
            sha256 = _hash_file(file)
            if sha256 != unless:
                self._new.add_before(file, facts.st_size)
            return FileFacts(type="file", mode=facts.st_mode & 0o777, size=facts.st_size, sha256=sha256)
        finally:
            os.close(file)

    def _add(
        self,
        path: str,
        before: FileFacts | None,
        after: FileFacts | None,
        found: os.stat_result | None,
        *,
        is_binary: bool = False,
    ) -> None:
        if before == after:
            return
        if len(self._changes) >= self._limits.changes:
            raise _TooMuch(f"it changed more than {self._limits.changes:,} paths (overlay.changes)")
        is_file = found is not None and not stat.S_ISDIR(found.st_mode)
        is_newer = is_file and found is not None and found.st_ctime_ns > self._overlaid.opened_ns
        known = self._overlaid.known or ()
        is_known = is_newer and before is not None and _identify(path, before) in known
        self._changes[path] = Change(
            path=path,
            kind=_name_kind(before, after),
            before=before,
            after=after,
            binary=is_binary,
            protected=self._is_protected(path, before, after),
            outward=after is not None and after.target is not None and leads_out(path, after.target),
            changed_meanwhile=is_newer and not is_known,
        )

    def _is_protected(self, path: str, before: FileFacts | None, after: FileFacts | None) -> bool:
        """Return whether a path is protected, or takes the place of a directory above a protected one."""
        if decides_for_git(path, after) or not self._protected.isdisjoint((path, *list_above(path))):
            return True
        stays_folder = all(facts is None or facts.type == "directory" for facts in (before, after))
        return not stays_folder and path in self._above_protected

    def _is_kept_out(self, path: str) -> bool:
        return any(is_at_or_below(path, own) for own in self._own)

    def _is_hidden(self, path: str, facts: os.stat_result) -> bool:
        """Return whether the program could not read what the workspace has at a path."""
        if not may_read(facts, self._overlaid.user):
            return True
        if is_among(path, self._list_hidden()):
            return True
        top = str(self._overlaid.workspace)
        # The name of a file in a folder decides on the folder, too.
        whole = f"{top}/{path}/." if stat.S_ISDIR(facts.st_mode) else f"{top}/{path}"
        return is_hidden(whole, top, self._hiding)

    def _list_hidden(self) -> frozenset[str]:
        """Return what is hidden now, with what links of such a name lead to, and other names. Raises _TooMuch."""
        if self._hidden is None:
            try:
                found = find_hidden([str(self._overlaid.workspace)], self._hiding)
            except OSError as error:
                raise _TooMuch(str(error)) from error
            self._hidden = _make_relative([each.path for each in found], self._overlaid.workspace)
        return self._hidden

    def _is_opaque(self, path: str) -> bool:
        """Return whether an upper directory shows nothing of the lower one. Raises OSError if that is unknown."""
        with self._upper.open_parent(path) as (parent, name):
            self._open_up(path, parent, name)  # its attributes can be read only if it can
            handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            try:
                return os.getxattr(f"/proc/self/fd/{handle}", _OPAQUE) == b"y"
            except OSError as error:
                if error.errno not in {errno.ENODATA, errno.ENOTSUP}:
                    raise
                return False
            finally:
                os.close(handle)

    def _list_names(self, folder: Folder, path: str) -> list[str]:
        """Return the names in a directory. Raises OSError, and _TooMuch beyond the limit of this reading."""
        with folder.open_parent(path or ".") as (parent, name):
            if folder is self._upper:
                self._open_up(path, parent, name)
            handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        names: list[str] = []
        try:
            with os.scandir(handle) as entries:
                for entry in entries:
                    self._names += 1
                    if self._names > _MAX_NAMES:
                        raise _TooMuch(f"it touched directories with more than {_MAX_NAMES:,} names")
                    names.append(entry.name)
        finally:
            os.close(handle)
        return names

    def _open_up(self, path: str, parent: int, name: str) -> None:
        """Let the owner list an upper directory that the program has closed, until all is read. Raises OSError."""
        mode = stat.S_IMODE(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            unlock_directory(parent, name)
            self._opened_up.append((path or ".", mode))

    def _list_lower(self, path: str) -> list[str]:
        """Return the names in a lower directory; none if there is no such directory. Raises OSError."""
        found = self._lower.find(path or ".")
        if found is None or not stat.S_ISDIR(found.st_mode):
            return []
        return self._list_names(self._lower, path)

    def _spend(self, kind: str, size: int) -> None:
        self._bytes[kind] += size
        if self._bytes[kind] > self._limits.bytes:
            raise self._explain_bytes()

    def _explain_bytes(self) -> _TooMuch:
        return _TooMuch(f"it changed files of more than {self._limits.bytes:,} bytes (overlay.bytes)")

    def _leave_out(self, path: str) -> None:
        self.left_out[path] = None

    def _find_renamed(self) -> None:
        """Note for added files which deleted one has the same contents, if it is the only one."""
        deleted: dict[str, list[str]] = {}
        for path, change in self._changes.items():
            if (
                change.kind == "deleted"
                and change.before is not None
                and change.before.sha256
                and change.before.size
            ):
                deleted.setdefault(change.before.sha256, []).append(path)
        for path, change in self._changes.items():
            sources = (
                deleted.get(change.after.sha256 or "", []) if change.kind == "added" and change.after else []
            )
            if len(sources) == 1:
                self._changes[path] = change.replace(renamed_from=sources[0])


def _make_relative(paths: Sequence[str], workspace: Path) -> frozenset[str]:
    top = f"{workspace}/"
    return frozenset(path.removeprefix(top) for path in paths if path.startswith(top))


def _name_kind(before: FileFacts | None, after: FileFacts | None) -> ChangeKind:
    if before is None:
        return "added"
    if after is None:
        return "deleted"
    return "mode" if before.replace(mode=after.mode) == after else "modified"


def _is_encodable(path: str) -> bool:
    with contextlib.suppress(UnicodeEncodeError):
        os.fsencode(path)
        return True
    return False


def _hash_file(file: int) -> str:
    digest = hashlib.sha256()
    for piece in read_pieces(file):
        digest.update(piece)
    return digest.hexdigest()


def _is_binary(file: int) -> bool:
    return b"\0" in os.pread(file, _SNIFFED_BYTES, 0)
