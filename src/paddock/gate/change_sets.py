"""The change sets of an opened Paddock: list and show them, and do what the gate has allowed."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from paddock.foundation.cancellation import finish_first
from paddock.gate.work.kind import shorten_names
from paddock.model.base import Json, count
from paddock.model.errors import ChangesCorrupted, ChangesError, EngineError
from paddock.model.numbers import dumps
from paddock.model.printable import make_printable
from paddock.model.request import ChangesAction, ChangeSetRun
from paddock.model.texts import cut_middle
from paddock.policy.settings.overlay import OverlaySettings
from paddock.policy.settings.schema import Settings
from paddock.record.ledger.sink import FINISHED

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from paddock.confinement.sandbox.protocol import GuardingSandbox
    from paddock.engines.changes.accept import Acceptor, AcceptReport, Recovery
    from paddock.engines.changes.differ import Differ, FileDiff
    from paddock.engines.changes.merge import Merges
    from paddock.engines.changes.plan import PathNote
    from paddock.model.change_set import Change
    from paddock.record.changes.store import ChangeStore, StoredChanges
    from paddock.record.ledger.sink import AuditSink, Field

    OpenSandbox = Callable[[], Awaitable["GuardingSandbox"]]
    OpenSink = Callable[[], AbstractContextManager[AuditSink]]

MAX_PATH_CHARS = 4096
_UNDO_NOTE = "undo removes the lines with + and restores those with -:"
_SHOWN_LINES = 60
_SHOWN_CHARS = 2000
"""Maximum length of the beginning of the difference in a question. All of it has 4,000 characters, and whatever is
longer loses its middle: nothing that a caller chooses may push another line out."""
_SHOWN_GUARDED_CHARS = 1000
_SHOWN_NAMES_CHARS = 200


def open_store(settings: OverlaySettings) -> "ChangeStore":
    """Return the store of change sets; nothing is created before the first one."""
    from paddock.record.changes.store import ChangeStore

    return ChangeStore(settings.directory, max_bytes=settings.bytes, undo_bytes=settings.undo_bytes)


async def _refuse_sandbox() -> "GuardingSandbox":
    raise EngineError("nothing runs programs here")


class ChangesReport(NamedTuple):
    """What was done with a change set."""

    id: str
    action: ChangesAction
    report: "AcceptReport | None"
    recovery: "Recovery | None"
    repeated: bool = False
    """Whether the set was discarded before."""

    def describe(self) -> dict[str, Json]:
        """Return the report as JSON, with printable paths."""
        given = self.report
        fields: dict[str, Json] = {"id": self.id, "action": self.action}
        if given is not None:
            fields |= {
                "paths": _print_paths(given.accepted),
                "unchanged": _print_paths(given.unchanged),
                "merged": _print_paths(given.merged),
                "left": _print_notes(given.left),
                "conflicts": _print_notes(given.conflicts),
            }
            if given.can_merge:
                fields["can_merge"] = True
        if self.repeated:
            fields["repeated"] = True
        if self.recovery is not None:
            fields["recovered"] = describe_recovery(self.recovery)
        return fields


class ReviewedChange(NamedTuple):
    """A change, and what decides now how it can be accepted."""

    change: "Change"
    guard: str
    """Why it is accepted only if its path is named; empty if it is not."""
    is_hidden: bool
    """Whether `workspace.hide` hides what is at its path, so that it cannot be accepted."""
    is_accepted: bool


class ChangeSets:
    """The change sets of one directory of state, that of a tenant or of the user. `hide` removes secrets from a text.

    Merges run in a sandbox of `open_sandbox`. All methods but `carry_out` may block for as long as files are read or
    written.
    """

    def __init__(
        self,
        settings: Settings,
        hide: Callable[[str], str],
        open_sink: "OpenSink",
        open_sandbox: "OpenSandbox" = _refuse_sandbox,
        own: Sequence[Path] = (),
    ) -> None:
        """Keep the files and directories of the settings, and `own` (Paddock's), out of what is written.

        What became of a request whose process was killed is recorded in the sink that `open_sink` opens.
        """
        self._own = own
        self._open_sink = open_sink
        self._open_sandbox = open_sandbox
        self._settings = settings
        self._hide = hide

    @property
    def store(self) -> "ChangeStore":
        """Return the store."""
        return open_store(self._settings.overlay)

    def at(self, directory: Path) -> "ChangeSets":
        """Return the change sets of another directory, that of a tenant, to look at."""
        overlay = self._settings.overlay.model_copy(update={"directory": directory})
        settings = self._settings.model_copy(update={"overlay": overlay})
        return ChangeSets(settings, self._hide, self._open_sink, own=self._own)

    def recover(self, workspace: Path) -> "Recovery | None":
        """Finish or undo what a killed process left in a workspace, and return what was done.

        Raises ChangesError and LedgerError.
        """
        if not self.store.find_journal(workspace).exists():
            return None
        with self._make_acceptor(workspace).open() as recovery:
            self._record(recovery)
            return recovery

    def list_sets(self, workspace: Path) -> "list[StoredChanges]":
        """Return the sets of a workspace, the newest first. Raises ChangesError."""
        return self.store.list_sets(workspace)

    def find(self, prefix: str, workspace: Path) -> "StoredChanges":
        """Return the only set of a workspace whose ID begins so. Raises ChangesError."""
        return self.store.find(prefix, workspace)

    def find_id(self, prefix: str, workspace: Path, action: ChangesAction) -> str:
        """Return the ID of the only set of a workspace that begins so. One that was damaged can still be discarded.

        Raises ChangesError.
        """
        try:
            return self.find(prefix, workspace).id
        except ChangesCorrupted:
            if action != "discard":
                raise
            return self.store.find_damaged(prefix)

    def compare(self, stored: "StoredChanges", paths: Sequence[str] = ()) -> "Iterator[FileDiff]":
        """Yield the differences at the paths of a set, or all. Raises ChangesError."""
        yield from self.compare_changes(stored, _select_paths(stored, paths))

    def compare_changes(self, stored: "StoredChanges", changes: "Iterable[Change]") -> "Iterator[FileDiff]":
        """Yield the differences of some changes of a set. Raises ChangesError."""
        yield from self._open_differ(stored).compare(changes)

    def render(self, stored: "StoredChanges", max_chars: int, paths: Sequence[str] = ()) -> str:
        """Return the first lines of the differences that `compare` yields, at most so many characters.

        Raises ChangesError.
        """
        return self._open_differ(stored).render(_select_paths(stored, paths), max_chars)

    def review(self, stored: "StoredChanges", workspace: Path) -> "list[ReviewedChange]":
        """Return the changes of a set with what decides now how they can be accepted. Raises ChangesError."""
        from paddock.engines.changes.plan import describe_guard, is_among, is_guarded

        hidden = frozenset(find_hidden_paths(self._settings, workspace))
        accepted = frozenset(stored.state.accepted)
        return [
            ReviewedChange(
                each,
                guard=describe_guard(each) if is_guarded(each) else "",
                is_hidden=is_among(each.path, hidden),
                is_accepted=each.path in accepted,
            )
            for each in self._make_acceptor(workspace).list_changes(stored)
        ]

    def _open_differ(self, stored: "StoredChanges") -> "Differ":
        from paddock.engines.changes.differ import Differ
        from paddock.engines.changes.plan import is_among

        workspace = Path(stored.change_set.workspace)
        hidden = frozenset(find_hidden_paths(self._settings, workspace))

        def is_hidden(path: str) -> bool:
            # The first knows what links lead to; the second also what was removed.
            return is_among(path, hidden) or is_hidden_path(self._settings, workspace, path)

        return Differ(self.store, stored.id, self._hide, is_hidden)

    def preview(self, work: ChangeSetRun, workspace: Path) -> tuple[str, ...]:
        """Return what work would change, as lines for the person who is asked.

        They are the number of paths, each path that must be named, and the beginning of the difference. Raises
        ChangesError, also if the paths that must be named need more space than a question has.
        """
        from paddock.engines.changes.plan import describe_guard, is_guarded

        stored = self._load(work, workspace)
        changes = self._select(stored, work, workspace)
        guarded = [f"{describe_guard(each)}: {print_path(each.path)}" for each in changes if is_guarded(each)]
        if work.action == "discard":
            guarded = []
        if sum(map(_measure, guarded)) > _SHOWN_GUARDED_CHARS:
            raise ChangesError(
                f"A question cannot show all paths that must be named ({len(guarded)}); name fewer of them, or use the "
                f"command line: paddock changes {work.action} {stored.id}"
            )
        lines = [_summarize(stored, changes, work.paths), *guarded]
        if work.action == "undo":
            lines.append(_UNDO_NOTE)
        left = _SHOWN_CHARS
        for diff in self._open_differ(stored).compare(changes):
            for line in diff.lines:
                left -= _measure(line)
                if left < 0 or len(lines) > _SHOWN_LINES:
                    return (*lines, f"... (more: paddock changes diff {stored.id})")
                lines.append(line)
        return tuple(lines)

    def _select(self, stored: "StoredChanges", work: ChangeSetRun, workspace: Path) -> "Sequence[Change]":
        """Return the changes of a set that work would make or take back. Raises ChangesError."""
        from paddock.engines.changes.plan import select_changes
        from paddock.engines.changes.undo import select_reverse

        changes = self.list_changes(stored, workspace)
        if work.action == "discard":
            return changes
        if work.action == "accept":
            return select_changes(changes, work.paths).changes
        undone = {each.path for each in select_reverse(stored, work.paths).changes}
        return [each for each in changes if each.path in undone]

    async def carry_out(self, work: ChangeSetRun, workspace: Path, request: str = "") -> ChangesReport:
        """Accept, discard or undo what `work.shown` shows of it, if it shows something, for a recorded request.

        Once writing has begun, a cancellation of the caller waits for its next await, so that it can record what was
        done. Raises ChangesError and LedgerError; then nothing was changed.
        """
        if work.action != "discard":  # a damaged set can still be discarded
            await asyncio.to_thread(self._load, work, workspace)
        merges = await self._merge(work, workspace) if work.merge else None
        # A thread cannot be stopped; what it began is finished or undone before the answer.
        return await finish_first(asyncio.to_thread(self._carry_out, work, workspace, request, merges))

    async def _merge(self, work: ChangeSetRun, workspace: Path) -> "Merges":
        """Return the merges of all conflicts that there are now. Raises ChangesError."""
        from paddock.engines.changes.merge import merge_texts

        find = self._make_acceptor(workspace).find_texts
        found = await asyncio.to_thread(find, work.id, work.paths)
        try:
            return {texts.key: await merge_texts(await self._open_sandbox(), texts) for texts in found}
        except EngineError as error:
            raise ChangesError(f"Nothing was changed: git merge-file cannot be confined: {error}") from error

    def _carry_out(
        self, work: ChangeSetRun, workspace: Path, request: str, merges: "Merges | None"
    ) -> ChangesReport:
        acceptor = self._make_acceptor(workspace, request)
        with acceptor.open(writes=work.action != "discard") as recovery:
            self._record(recovery)
            if work.shown and self.preview(work, workspace) != work.shown:
                raise ChangesError(
                    "Nothing was changed: by now this would do something else than the person was shown; "
                    "call it again"
                )
            if work.action == "discard":
                repeated = self._discard(work, workspace)
                return ChangesReport(work.id, work.action, None, recovery, repeated)
            report = (
                acceptor.accept(work.id, work.paths, merges)
                if work.action == "accept"
                else acceptor.undo(work.id, work.paths)
            )
        return ChangesReport(work.id, work.action, report, recovery)

    def _discard(self, work: ChangeSetRun, workspace: Path) -> bool:
        """Discard a set; return whether that was done before."""
        try:
            if self._load(work, workspace).state.discarded_at is not None:
                return True
            self.store.discard(work.id)
        except ChangesCorrupted:
            self.store.remove(work.id)
        return False

    def _load(self, work: ChangeSetRun, workspace: Path) -> "StoredChanges":
        return self.store.find(work.id, workspace)

    def _record(self, recovery: "Recovery | None") -> None:
        """Record the end of a request whose process was killed. Raises LedgerError."""
        if recovery is None or not recovery.request:
            return
        paths = recovery.paths if recovery.finished else ()
        facts: dict[str, Field] = {
            "status": "ok" if recovery.finished else "failed",
            "recovered": True,
            "path_count": len(paths),
            "paths": shorten_names(self._hide(print_path(path)) for path in paths),
        }
        with self._open_sink() as sink:
            sink.append(FINISHED, recovery.request, facts)

    def _make_acceptor(self, workspace: Path, request: str = "") -> "Acceptor":
        from paddock.engines.changes.accept import Acceptor

        def list_hidden() -> list[str]:
            return find_hidden_paths(self._settings, workspace)

        def list_protected() -> list[str]:
            return find_protected_paths(self._settings, workspace)

        def list_own() -> list[str]:
            return find_own_paths(self._settings, self._own, workspace)

        return Acceptor(self.store, workspace, list_hidden, list_protected, list_own, request=request)

    def list_changes(self, stored: "StoredChanges", workspace: Path) -> "Sequence[Change]":
        """Return the changes of a set; those at paths that are protected now are marked, too. Raises ChangesError."""
        return self._make_acceptor(workspace).list_changes(stored)


def _select_paths(stored: "StoredChanges", paths: Sequence[str]) -> "Sequence[Change]":
    """Return the changes of a set at some paths, with all below them; all of them without any. Raises ChangesError."""
    from paddock.engines.changes.plan import select_changes

    if stored.state.discarded_at is not None:
        raise ChangesError(f"The change set {stored.id} was discarded, and its contents are gone")
    changes = stored.change_set.changes
    return select_changes(changes, paths, guards=False).changes if paths else changes


def _summarize(stored: "StoredChanges", changes: "Sequence[Change]", named: Sequence[str]) -> str:
    """Return how many paths of a set would be changed, and the beginning of the named ones."""
    kinds = [each.kind for each in changes]
    counts = {"added": kinds.count("added"), "deleted": kinds.count("deleted")}
    counts["modified"] = len(kinds) - sum(counts.values())
    listed = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()) if number)
    whole = count(len(stored.change_set.changes), "path")
    text = f"{len(kinds)} of {whole}: {listed or 'none'}"
    names = ", ".join(_print_paths([*dict.fromkeys(named)]))
    return f"{text}; named: {cut_middle(names, _SHOWN_NAMES_CHARS)}" if names else text


def _measure(line: str) -> int:
    """Return how many characters a question needs for a line."""
    return len(dumps(line, ensure_ascii=False)) + len(", ")


def find_hidden_paths(settings: Settings, workspace: Path) -> list[str]:
    """Return what `workspace.hide` hides now, relative to the workspace. Raises ChangesError."""
    from paddock.confinement.sandbox.child.hiding import find_hidden
    from paddock.gate.processes import read_hiding

    try:
        found = find_hidden([str(workspace)], read_hiding(settings.workspace))
    except OSError as error:
        raise ChangesError(
            f"The hidden files of the workspace cannot be listed: {error.strerror or error}"
        ) from error
    return [os.path.relpath(each.path, workspace) for each in found]


def is_hidden_path(settings: Settings, workspace: Path, path: str) -> bool:
    """Return whether `workspace.hide` hides a file at a path of a workspace, by its names."""
    from paddock.confinement.sandbox.child.hiding import is_hidden
    from paddock.gate.processes import read_hiding

    return is_hidden(f"{workspace}/{path}", str(workspace), read_hiding(settings.workspace))


def find_own_paths(settings: Settings, own: Sequence[Path], workspace: Path) -> list[str]:
    """Return Paddock's own files and directories in a workspace, relative to it.

    Raises ChangesError for a workspace in one of them.
    """
    from paddock.confinement.sandbox import state_paths
    from paddock.confinement.sandbox.child.paths import list_links
    from paddock.gate.processes import own_directories, own_files

    top = str(workspace)
    directories = state_paths.list_own_directories([*own, *own_directories(settings)])
    if keeper := state_paths.keeper(directories, top):
        raise ChangesError(f"{top} is in {keeper}, where Paddock keeps its own files")
    files = state_paths.list_own_directories(Path(file.path) for file in own_files(settings))
    # Who replaces a link on the way replaces what it leads to.
    links = [link for path in (*directories, *files) for link in list_links(path)]
    found = dict.fromkeys((*directories, *files, *links))
    return [path.removeprefix(f"{top}/") for path in found if path.startswith(f"{top}/")]


def find_protected_paths(settings: Settings, workspace: Path) -> list[str]:
    """Return the protected paths of the workspace, relative to it. Raises OSError."""
    from paddock.confinement.sandbox import state_paths
    from paddock.confinement.sandbox.child.protection import list_protected_paths
    from paddock.confinement.sandbox.spec import read_protection
    from paddock.gate.processes import installation_paths

    rules = read_protection(settings.sandbox.protected, settings.sandbox.unprotected, os.environ)
    root = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        paths = list_protected_paths(root, rules)
    finally:
        os.close(root)
    top = f"{workspace}/"
    installed = state_paths.list_own_directories(installation_paths())
    return [*paths, *(path.removeprefix(top) for path in installed if path.startswith(top))]


def describe_recovery(recovery: "Recovery") -> str:
    """Return what was done with an interrupted acceptance, for people."""
    what = "accepted" if recovery.action == "accept" else "undid"
    done = "it was finished now" if recovery.finished else "nothing of it is left"
    text = f"a command was killed while it {what} {recovery.set_id}; {done}"
    if recovery.kept:
        paths = "; ".join(f"{each['path']}: {each['why']}" for each in _list_notes(recovery.kept))
        text += f", except for {paths}; look into {recovery.folder}, and remove it"
    return text


def describe_set(stored: "StoredChanges") -> dict[str, Json]:
    """Return a change set as JSON, without its paths."""
    given, state = stored.change_set, stored.state
    fields: dict[str, Json] = {
        "id": stored.id,
        "request": given.request,
        "ended": format_ns(given.ended_ns),
        "method": given.method,
        "state": state.describe(len(given.changes)),
        "paths": len(given.changes),
        "accepted": list[Json](_print_paths(state.accepted)),
    }
    return fields | ({"incomplete": given.incomplete} if given.incomplete else {})


def format_ns(moment: int) -> str:
    """Return a time in nanoseconds since the epoch as ISO 8601."""
    return datetime.fromtimestamp(moment // 10**9, UTC).isoformat(timespec="seconds")


def describe_change(change: "Change") -> dict[str, Json]:
    """Return a change as JSON, with printable paths."""
    fields: dict[str, Json] = {"path": print_path(change.path), "kind": change.kind}
    for name in ("before", "after"):
        facts = getattr(change, name)
        if facts is not None:
            fields[name] = {k: v for k, v in facts.model_dump(mode="json").items() if v is not None}
            if facts.target is not None:
                fields[name]["target"] = print_path(facts.target)
            fields[name]["mode"] = f"{facts.mode:04o}"
    for name in ("renamed_from", "linked_to"):
        if (path := getattr(change, name)) is not None:
            fields[name] = print_path(path)
    for name in ("binary", "protected", "outward", "changed_meanwhile"):
        if getattr(change, name):
            fields[name] = True
    return fields


def print_path(path: str) -> str:
    """Return a path for display and JSON: bytes that are not UTF-8, control characters and the like are escaped."""
    return make_printable(path, MAX_PATH_CHARS)


def _print_paths(paths: Sequence[str]) -> list[str]:
    return [print_path(path) for path in paths]


def _list_notes(notes: "Sequence[PathNote]") -> list[dict[str, str]]:
    return [{"path": print_path(each.path), "why": each.why} for each in notes]


def _print_notes(notes: "Sequence[PathNote]") -> list[Json]:
    return list[Json](_list_notes(notes))
