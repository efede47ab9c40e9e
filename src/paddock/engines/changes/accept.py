"""Accept changes into a workspace: all of them or none, whatever else happens at the same time.

    compare   every path must be as the set says it was; else nothing is written
    stage     the new files are made in a private directory of the workspace
    journal   what is about to happen is on disk, in the store
    apply     one renameat2(2) for each path; what it moved away is compared once more
    finish    the state of the set, then the staging directory and the journal go

A process that is killed leaves the journal. The next command for that workspace undoes the steps, or finishes if all
of them were done: `recover`.
"""

import os
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from paddock.engines.changes.apply import StepConflict, Steps
from paddock.engines.changes.conflicts import HIDDEN, OWN, ConflictCheck, read_modes
from paddock.engines.changes.contents import StoredContents, keep_before
from paddock.engines.changes.journal import Action, Journal, JournalHead, read_journal, remove_journal
from paddock.engines.changes.lock import lock_workspace
from paddock.engines.changes.merge import Merges, MergeTexts, find_texts, merge_conflicts
from paddock.engines.changes.plan import (
    STAGING_PREFIX,
    PathNote,
    check_set,
    decides_for_git,
    is_among,
    plan_modes,
    plan_steps,
    select_changes,
)
from paddock.engines.changes.staging import stage_changes
from paddock.engines.changes.tree import Folder
from paddock.engines.changes.undo import check_kept, select_reverse
from paddock.model.change_set import Change
from paddock.model.errors import ChangesError
from paddock.model.printable import make_printable
from paddock.record.changes.state import ChangesState
from paddock.record.changes.store import ChangeStore, StoredChanges

_MAX_NAMED = 20


class AcceptReport(NamedTuple):
    """What was done with the paths of a change set."""

    accepted: tuple[str, ...] = ()
    """Paths that are in the workspace now; with `undo`, paths that are as they were before."""
    unchanged: tuple[str, ...] = ()
    """Paths that were so already."""
    merged: tuple[str, ...] = ()
    """Those of the accepted paths that a person had changed, too."""
    left: tuple[PathNote, ...] = ()
    conflicts: tuple[PathNote, ...] = ()
    """If there are any, nothing was written."""
    can_merge: bool = False
    """Whether a merge, which was not asked for, may resolve some of them."""


class Recovery(NamedTuple):
    """What became of an acceptance whose process was killed."""

    set_id: str
    action: Action
    finished: bool
    """Whether it was finished; otherwise it was undone."""
    kept: tuple[PathNote, ...] = ()
    """Paths that could not be undone, because they were changed since."""
    folder: str = ""
    """Directory in the workspace that keeps what these paths had before."""
    request: str = ""
    """ID of the request whose process was killed; empty if it has none."""
    paths: tuple[str, ...] = ()
    """All paths that the acceptance was to change."""


class _Task(NamedTuple):
    """One acceptance, prepared."""

    stored: StoredChanges
    action: Action
    changes: tuple[Change, ...]
    contents: StoredContents
    finish: Callable[[Sequence[Change], Sequence[str]], ChangesState]
    """Returns the state of the set, given the changes made and the paths that were so already."""


class Acceptor:
    """Accepts change sets of one store into one workspace, a real path.

    `hidden`, `protected` and `own` (Paddock's files) return the paths of the workspace that are so now, relative to it,
    whatever the set says. `request` is the one that accepts, for the journal.
    """

    def __init__(
        self,
        store: ChangeStore,
        workspace: Path,
        hidden: Callable[[], Collection[str]] = tuple,
        protected: Callable[[], Collection[str]] = tuple,
        own: Callable[[], Collection[str]] = tuple,
        *,
        request: str = "",
    ) -> None:
        self._own = own
        self._request = request
        self._store = store
        self._workspace = workspace
        self._hidden = hidden
        self._protected = protected

    @contextmanager
    def open(self, *, writes: bool = True) -> Generator[Recovery | None]:
        """Hold the locks of the workspace, and finish or undo what a killed process left; yield what was done.

        Without `writes`, the workspace stays as it is, and no program that holds its lock is waited for. Raises
        ChangesError.
        """
        try:
            self._store.check()
            with self._store.lock(self._workspace):
                if not writes and not self._store.find_journal(self._workspace).exists():
                    yield None
                    return
                with lock_workspace(self._workspace):
                    yield self._recover()
        except OSError as error:
            raise ChangesError(
                f"The workspace cannot be opened: {error.strerror} ({error.filename or self._workspace})"
            ) from error

    def find_texts(self, set_id: str, named: Collection[str] = ()) -> list[MergeTexts]:
        """Return the texts of conflicts that `accept` would have and a merge may resolve. Raises ChangesError."""
        stored = self._load(set_id)
        check_set(set_id, stored.change_set)
        changes = select_changes(self.list_changes(stored), named).changes
        with _open_workspace(self._workspace) as root:
            compared = ConflictCheck(root, self._list_kept()).compare(changes)
            return find_texts(root, compared, changes, StoredContents(self._store, set_id))

    def accept(self, set_id: str, named: Collection[str] = (), merges: Merges | None = None) -> AcceptReport:
        """Accept the changes at the named paths, or all that need no naming. Call it within `open`.

        With conflicts nothing is written, except that `merges` resolves those which it has. Raises ChangesError.
        """
        stored = self._load(set_id)
        check_set(set_id, stored.change_set)
        changes = self.list_changes(stored)
        selection = select_changes(changes, named)
        contents = StoredContents(self._store, set_id)

        def finish(made: Sequence[Change], _: Sequence[str]) -> ChangesState:
            old, known = stored.state, {each.path: each for each in changes}
            paths = [each.path for each in made]
            merged = [each for each in made if each != known[each.path]]
            return old.replace(
                accepted=tuple(sorted({*old.accepted, *paths})),
                merged=(*(each for each in old.merged if each.path not in paths), *merged),
                accepted_at=datetime.now(UTC),
            )

        report = self._run(_Task(stored, "accept", selection.changes, contents, finish), merges)
        return report._replace(left=selection.left)

    def list_changes(self, stored: StoredChanges) -> tuple[Change, ...]:
        """Return the changes of a set; those at paths that are protected now are marked, too. Raises ChangesError."""
        try:
            protected = {path.casefold() for path in self._protected()}  # a file system may ignore case
        except OSError as error:
            why = error.strerror or str(error)
            raise ChangesError(f"The protected paths of the workspace cannot be listed: {why}") from error
        return tuple(
            each.replace(protected=True)
            if is_among(each.path.casefold(), protected) or decides_for_git(each.path, each.after)
            else each
            for each in stored.change_set.changes
        )

    def undo(self, set_id: str, named: Collection[str] = ()) -> AcceptReport:
        """Take back what was accepted, or the part of it at the named paths, as safely as it was accepted.

        Raises ChangesError, also if contents before were not kept.
        """
        stored = self._load(set_id)
        selection = select_reverse(stored, named)
        check_kept(self._store, set_id, selection.changes)
        contents = StoredContents(self._store, set_id, before=True)

        def finish(made: Sequence[Change], already: Sequence[str]) -> ChangesState:
            old, undone = stored.state, {*already, *(each.path for each in made)}
            return old.replace(
                accepted=tuple(path for path in old.accepted if path not in undone),
                merged=tuple(each for each in old.merged if each.path not in undone),
                undone_at=datetime.now(UTC),
            )

        report = self._run(_Task(stored, "undo", selection.changes, contents, finish))
        return report._replace(left=selection.left)

    def _list_kept(self) -> dict[str, str]:
        return dict.fromkeys(self._hidden(), HIDDEN) | dict.fromkeys(self._own(), OWN)

    def _load(self, set_id: str) -> StoredChanges:
        stored = self._store.load(set_id)
        if stored.change_set.workspace != str(self._workspace):
            raise ChangesError(
                f"The change set {set_id} belongs to another workspace: "
                f"{make_printable(stored.change_set.workspace)}; run the command there"
            )
        if stored.state.discarded_at is not None:
            raise ChangesError(
                f"The change set {set_id} was discarded, and its contents are gone; run it again"
            )
        return stored

    def _run(self, task: _Task, merges: Merges | None = None) -> AcceptReport:
        with _open_workspace(self._workspace) as root:
            return self._accept(root, task, merges)

    def _accept(self, root: Folder, task: _Task, merges: Merges | None) -> AcceptReport:
        since = "the run" if task.action == "accept" else "it was accepted"
        compared = ConflictCheck(root, self._list_kept(), since=since).compare(task.changes)
        merged: tuple[str, ...] = ()
        if compared.conflicts and merges is not None:
            compared, merged = merge_conflicts(root, compared, task.changes, task.contents, merges)
        if compared.conflicts:
            may_ask = merges is None and task.action == "accept"
            texts = find_texts(root, compared, task.changes, task.contents) if may_ask else []
            return AcceptReport(conflicts=compared.conflicts, can_merge=bool(texts))
        pending = compared.pending
        if not pending:
            if compared.unchanged and task.action == "undo":
                self._store.write_state(task.stored.id, task.finish((), compared.unchanged))
            return AcceptReport(unchanged=compared.unchanged)
        first, last = plan_modes(pending, read_modes(root, pending))
        steps = (*first, *plan_steps(pending), *last)
        if task.action == "accept":
            keep_before(root, pending, self._store, task.stored.id)
        state = task.finish(pending, compared.unchanged)
        staging = f"{STAGING_PREFIX}{os.urandom(8).hex()}"
        head = JournalHead(*(task.stored.id, task.action, staging, pending, steps, state, self._request))
        try:
            self._change(root, head, task.contents)
        except StepConflict as conflict:
            return AcceptReport(conflicts=(conflict.note,))
        return AcceptReport(tuple(each.path for each in pending), compared.unchanged, merged)

    def _change(self, root: Folder, head: JournalHead, contents: StoredContents) -> None:
        """Stage, apply and finish. Raises StepConflict, ChangesError and OSError; then everything was undone."""
        path = self._store.find_journal(self._workspace)
        journal, inodes = Journal(path, head), None
        try:
            root.make_directory(head.staging)
            with root.open_inner(head.staging) as staging:
                inodes = stage_changes(root, staging, head.changes, head.steps, contents)
                root.sync([""])
                journal.write_staged(inodes)
                Steps(root, staging, head.changes, head.steps, inodes).apply()
            _sync_steps(root, head)
            journal.write_applied()
        except BaseException as error:
            kept = _undo_steps(root, head, inodes)
            remove_journal(path)
            if kept:
                raise ChangesError(_explain_kept(head.staging, kept)) from error
            raise
        finally:
            journal.close()
        # From here on the next command finishes.
        self._finish(root, head)

    def _finish(self, root: Folder, head: JournalHead) -> None:
        self._store.write_state(head.set_id, head.state)
        root.remove_tree(head.staging)
        remove_journal(self._store.find_journal(self._workspace))

    def _recover(self) -> Recovery | None:
        """Finish or undo what the journal of the workspace says. Raises ChangesError and OSError."""
        path = self._store.find_journal(self._workspace)
        try:
            content = read_journal(path)
        except (ValueError, KeyError, TypeError, IndexError, RecursionError):
            raise ChangesError(
                f"A command was killed while it accepted changes, and its journal is damaged: {path}; compare the "
                f"workspace with {STAGING_PREFIX}* in it, and remove both"
            ) from None
        if content is None:
            remove_journal(path)
            return None
        head = content.head
        found = Recovery(
            *(head.set_id, head.action, content.applied),
            request=head.request,
            paths=tuple(each.path for each in head.changes),
        )
        with Folder.open(self._workspace) as root:
            if content.applied:
                self._finish(root, head)
                return found
            if content.inodes is not None and root.find(head.staging) is None:
                remove_journal(path)
                paths = ", ".join(make_printable(step.path) for step in head.steps[:_MAX_NAMED])
                raise ChangesError(
                    f"A command was killed while it accepted {head.set_id}, and the replaced files are gone with "
                    f"{head.staging}: some of these paths may be old and others new: {paths}"
                )
            kept = _undo_steps(root, head, content.inodes)
            found = found._replace(kept=kept, folder=head.staging if kept else "")
            remove_journal(path)
        return found


@contextmanager
def _open_workspace(workspace: Path) -> Generator[Folder]:
    """Yield the workspace; an OSError within becomes a ChangesError."""
    try:
        with Folder.open(workspace) as root:
            yield root
    except OSError as error:
        where = f" ({make_printable(os.fsdecode(error.filename))})" if error.filename else ""
        raise ChangesError(f"Nothing was changed: {error.strerror or error}{where}") from error


def _undo_steps(root: Folder, head: JournalHead, inodes: Mapping[str, int] | None) -> tuple[PathNote, ...]:
    """Undo the steps that were done, and remove the staging directory, unless it keeps what could not be undone.

    Without `inodes`, no step was done. Raises OSError.
    """
    if root.find(head.staging) is None:
        return ()
    kept: list[PathNote] = []
    if inodes is not None:
        with root.open_inner(head.staging) as staging:
            kept = Steps(root, staging, head.changes, head.steps, inodes).undo()
    if not kept:
        root.remove_tree(head.staging)
    _sync_steps(root, head)
    return tuple(kept)


def _sync_steps(root: Folder, head: JournalHead) -> None:
    """Write what the steps changed to disk, as far as it is there. Raises OSError."""
    parents = {step.path.rpartition("/")[0] for step in head.steps if step.kind != "mode"}
    paths = {"", *parents, *(step.path for step in head.steps if step.kind == "mode")}
    root.sync([path for path in paths if not path or _is_there(root, path)])


def _is_there(root: Folder, path: str) -> bool:
    try:
        return root.find(path) is not None
    except OSError:
        return False


def _explain_kept(folder: str, kept: Sequence[PathNote]) -> str:
    named = "; ".join(f"{make_printable(note.path)}: {note.why}" for note in kept[:_MAX_NAMED])
    return f"The changes were undone, except for {named}; look into {folder} in the workspace, and remove it"
