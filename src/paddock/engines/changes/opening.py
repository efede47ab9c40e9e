"""Let a program work in an overlay of its workspace: overlayfs where the sandbox mounts it, else a bounded copy.

    overlayfs   the grant `overlay`; the program sees the changes at the path of the workspace
    copy        the grant `read-only`, and SCRATCH/workspace to work in: another path, because nothing can be mounted

A copy has no hidden file, none of Paddock's own, none that the program's user may not read, and nothing but files,
directories and links.
"""

import asyncio
import contextlib
import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from paddock.confinement.sandbox.child import overlay
from paddock.confinement.sandbox.child.hiding import find_hidden
from paddock.confinement.sandbox.child.paths import identify_path
from paddock.confinement.sandbox.child.snapshot import TooLargeError
from paddock.confinement.sandbox.directories import list_overlaid
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.engines.changes.capture import CaptureRules, Overlaid, may_read
from paddock.engines.changes.plan import is_at_or_below
from paddock.engines.changes.tree import MAX_DEPTH, Folder
from paddock.model.errors import EngineError
from paddock.model.outcome import ErrorInfo, RawResult, Status
from paddock.model.process import ProcessGrants, ProcessLimits, ProcessResult

if TYPE_CHECKING:
    from paddock.confinement.sandbox.protocol import GuardingSandbox, SandboxSlot

COPY_FOLDER = "workspace"
"""Directory in scratch that has the copy."""
_WRITE_LIMITS = {"scratch", "file_size"}
_UNKEPT = frozenset({Status.LOST, Status.INVALID, Status.DENIED})
"""Ends of a program that left nothing to keep."""
_FICLONE = 0x40049409
"""ioctl_ficlone(2)."""
_STAMP = ".opened"
_NO_COPY = (
    "This machine has no overlay for the directory {}, and only the workspace is copied instead; give it read-only "
    "(:ro) or for writing (:rw), or make the tier namespaces available (paddock doctor says how)"
)
_CHUNK_BYTES = 1 << 30


class OverlayBounds(NamedTuple):
    """How much of a workspace may be copied."""

    copy_bytes: int
    copy_files: int


class Overlays(NamedTuple):
    """The overlays of one program."""

    workspace: Overlaid | None
    """None if only directories beside the workspace have overlays."""
    directories: tuple[Overlaid, ...] = ()

    @property
    def has_copy(self) -> bool:
        """Whether the program works in a copy of its workspace."""
        return self.workspace is not None and self.workspace.method == "copy"

    def locate(self, path: Path) -> Path:
        """Return where the program sees a real path of the workspace."""
        return path if self.workspace is None else self.workspace.locate(path)

    def list_all(self) -> list[Overlaid]:
        """Return all of them."""
        return [*([self.workspace] if self.workspace is not None else []), *self.directories]


class OpenedSlot(NamedTuple):
    """A slot for a program with overlays."""

    grants: ProcessGrants
    """Those of the program, or of one that works in a copy."""
    slot: "SandboxSlot"
    overlays: Overlays


class OverlayRefused(Exception):
    """A program cannot have its overlays; the text says why and what to do."""


class OverlayRun(NamedTuple):
    """Opens the overlays of one program, and keeps what the program changed."""

    bounds: OverlayBounds
    take: Callable[[Overlaid, CaptureRules], None]
    """Keeps the changes to one directory, of a program that has ended, in a thread."""

    async def open(
        self, sandbox: "GuardingSandbox", grants: ProcessGrants, limits: ProcessLimits
    ) -> OpenedSlot | RawResult:
        """Return a slot with the overlays of a program, which the caller releases; a result if it cannot have them.

        Raises EngineError.
        """
        try:
            with contextlib.ExitStack() as on_failure:
                opened = await self._open(sandbox, grants, limits, on_failure)
                on_failure.pop_all()
                return opened
        except OverlayRefused as refusal:
            error = ErrorInfo(name="Overlay", message=str(refusal), phase="decide")
            return RawResult(status=Status.DENIED, error=error)
        except OSError as error:
            raise EngineError(f"the overlay cannot be opened: {error.strerror}") from error

    async def _open(
        self,
        sandbox: "GuardingSandbox",
        grants: ProcessGrants,
        limits: ProcessLimits,
        on_failure: contextlib.ExitStack,
    ) -> OpenedSlot:
        if isinstance(sandbox, KernelSandbox) and sandbox.tier == "namespaces":
            slot = await sandbox.take_slot(grants, limits)
            on_failure.callback(slot.release)
            if await sandbox.has_overlay(slot):
                overlays = await asyncio.to_thread(open_overlayfs, grants, slot.scratch)
                return OpenedSlot(grants, slot, overlays)
            slot.release()
        if grants.overlaid:
            raise OverlayRefused(_NO_COPY.format(grants.overlaid[0]))
        workspace = grants.workspace
        assert workspace is not None
        grants = grants.replace(access="read-only")
        slot = await sandbox.take_slot(grants, limits)
        on_failure.callback(slot.release)
        rules = make_rules(sandbox)
        copied = await asyncio.to_thread(open_copy, workspace, slot.scratch, rules, self.bounds)
        return OpenedSlot(grants, slot, Overlays(copied))

    async def keep(
        self, sandbox: "GuardingSandbox", overlays: Overlays, ended: ProcessResult | None = None
    ) -> None:
        """Keep the changes of a program that has `ended`, or is stopped between two executions.

        Does nothing if it did not start, if a process of it may still be alive, or its scratch be half removed.
        """
        if ended is not None and (ended.survivors or ended.status in _UNKEPT):
            return
        cut_short = ""
        if ended is not None and ended.limit in _WRITE_LIMITS:
            cut_short = f"the program was ended when it wrote too much ({ended.limit})"
        for each in overlays.list_all():
            await asyncio.to_thread(self.take, each._replace(cut_short=cut_short), make_rules(sandbox))


def make_rules(sandbox: "GuardingSandbox") -> CaptureRules:
    """Return what is special below a workspace, as the sandbox treats it."""
    own = (*sandbox.own, *(file.path for file in sandbox.files))
    return CaptureRules(sandbox.protection, sandbox.hiding, own, sandbox.installed)


def open_overlayfs(grants: ProcessGrants, scratch: Path) -> Overlays:
    """Return the overlays that a jail has mounted, whose upper directories are in its scratch. Raises OSError."""
    opened_ns, user = _read_clock(scratch), scratch.stat().st_uid
    opened = [
        Overlaid(
            path.resolve(),
            scratch / overlay.locate_upper(number),
            "overlayfs",
            opened_ns,
            user=user,
            known=set(),
            identity=identify_path(str(path.resolve())),
        )
        for number, path in enumerate(list_overlaid(grants))
    ]
    first = opened.pop(0) if grants.access == "overlay" else None
    return Overlays(first, tuple(opened))


def open_copy(workspace: Path, scratch: Path, rules: CaptureRules, bounds: OverlayBounds) -> Overlaid:
    """Copy a workspace into a program's scratch, for the owner of scratch. Raises OverlayRefused, and OSError."""
    workspace, target = workspace.resolve(), scratch / COPY_FOLDER
    opened_ns = _read_clock(scratch)
    try:
        hidden = {each.path for each in find_hidden([str(workspace)], rules.hiding)}
    except TooLargeError as error:
        raise OverlayRefused(str(error)) from error
    kept_out = [
        path.removeprefix(f"{workspace}/")
        for path in (*hidden, *rules.own, str(scratch.parent))
        if path.startswith(f"{workspace}/")
    ]
    target.mkdir(mode=0o700)
    with Folder.open(workspace) as source, Folder.open(target) as copied:
        copy = _Copy(source, copied, scratch.stat().st_uid, kept_out, bounds)
        copy.copy_folder("")
        omitted, identity = frozenset(copy.omitted), source.identity
    return Overlaid(workspace, target, "copy", opened_ns, omitted, copy.owner, known=set(), identity=identity)


class _Copy:
    """One copy of a workspace."""

    def __init__(
        self, source: Folder, target: Folder, owner: int, kept_out: list[str], bounds: OverlayBounds
    ) -> None:
        self._source, self._target = source, target
        self.owner = owner
        self._kept_out = kept_out
        self._bounds = bounds
        self._files = self._bytes = 0
        self.omitted: set[str] = set()

    def copy_folder(self, top: str) -> None:
        """Copy what a directory holds; modes of directories come last, because some are closed."""
        modes: list[tuple[str, int]] = []
        pending = [top]
        while pending:
            path = pending.pop()
            try:
                facts = self._source.find(path or ".")
                names = self._source.list_names(path or ".")
            except OSError:  # closed, or another file system
                self.omitted.add(path)
                continue
            if path:
                self._target.make_directory(path)
            if facts is not None:
                modes.append((path or ".", facts.st_mode & 0o777))
            for name in names:
                here = f"{path}/{name}" if path else name
                if self._copy_entry(here):
                    pending.append(here)
        for path, mode in reversed(modes):
            self._target.set_mode(path, mode)
            self._hand_over(path)

    def _copy_entry(self, path: str) -> bool:
        """Copy a file or a link; return whether it is a directory instead."""
        self._files += 1
        if self._files > self._bounds.copy_files:
            raise self._refuse(f"more than {self._bounds.copy_files:,} files and directories", "copy_files")
        if any(is_at_or_below(path, each) for each in self._kept_out) or path.count("/") >= MAX_DEPTH:
            self.omitted.add(path)
            return False
        try:
            facts = self._source.find(path)
            if facts is None:
                return False
            if not may_read(facts, self.owner):
                self.omitted.add(path)
                return False
            if stat.S_ISDIR(facts.st_mode):
                return True
            if stat.S_ISLNK(facts.st_mode):
                with self._source.open_parent(path) as (parent, name):
                    self._target.make_link(path, os.readlink(name, dir_fd=parent))
                self._hand_over(path)
                return False
            file = self._source.open_file(path)
        except OSError:  # closed, replaced meanwhile, or no regular file
            self.omitted.add(path)
            return False
        try:
            self._copy_file(path, file)
        finally:
            os.close(file)
        return False

    def _copy_file(self, path: str, file: int) -> None:
        facts = os.fstat(file)
        self._bytes += facts.st_size
        if self._bytes > self._bounds.copy_bytes:
            raise self._refuse(f"more than {self._bounds.copy_bytes:,} bytes", "copy_bytes")
        made = self._target.make_file(path)
        try:
            try:
                fcntl.ioctl(made, _FICLONE, file)
            except OSError:  # the file system shares no blocks, or it is another one
                done = 0
                while done < facts.st_size and (copied := os.sendfile(made, file, done, _CHUNK_BYTES)):
                    done += copied
            os.utime(made, ns=(facts.st_atime_ns, facts.st_mtime_ns))
            os.fchown(made, self.owner, -1)
            os.fchmod(made, facts.st_mode & 0o777)
        finally:
            os.close(made)

    def _hand_over(self, path: str) -> None:
        with self._target.open_parent(path) as (parent, name):
            os.chown(name, self.owner, -1, dir_fd=parent, follow_symlinks=False)

    def _refuse(self, what: str, key: str) -> OverlayRefused:
        return OverlayRefused(
            "This machine has no overlay for the workspace, so that it would be copied, and it has "
            f"{what} (overlay.{key}); raise that setting, work in a smaller directory, or make the tier namespaces "
            "available (paddock doctor says how)"
        )


def _read_clock(folder: Path) -> int:
    """Return the present time by the clock of a file system, in nanoseconds. Raises OSError."""
    path = folder / _STAMP
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        return os.fstat(file).st_ctime_ns
    finally:
        os.close(file)
        path.unlink()
