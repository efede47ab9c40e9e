"""The changes that take back what was accepted of a set."""

from collections.abc import Collection, Sequence

from paddock.engines.changes.plan import Selection, select_changes
from paddock.model.change_set import Change, ChangeKind
from paddock.model.errors import ChangesError
from paddock.model.printable import make_printable
from paddock.record.changes.store import ChangeStore, StoredChanges

_REVERSE: dict[ChangeKind, ChangeKind] = {"added": "deleted", "deleted": "added"}


def list_reverse(stored: StoredChanges) -> tuple[Change, ...]:
    """Return the reverse of each accepted change. Raises ChangesError if nothing was accepted."""
    merged = {change.path: change for change in stored.state.merged}
    accepted = frozenset(stored.state.accepted)
    changes = [merged.get(c.path, c) for c in stored.change_set.changes if c.path in accepted]
    if not changes:
        raise ChangesError(f"Nothing of the change set {stored.id} is accepted, so there is nothing to undo")
    return tuple(
        Change(
            path=c.path, kind=_REVERSE.get(c.kind, c.kind), before=c.after, after=c.before, binary=c.binary
        )
        for c in changes
    )


def select_reverse(stored: StoredChanges, named: Collection[str] = ()) -> Selection:
    """Return the reverse of the accepted changes at or below the named paths, or of all. Raises ChangesError."""
    reverse = list_reverse(stored)
    try:
        return select_changes(reverse, named, guards=False)
    except ChangesError:
        select_changes(stored.change_set.changes, named, guards=False)
        names = ", ".join(make_printable(name) for name in named)
        raise ChangesError(
            f"Not all of these paths are accepted, so they cannot be undone: {names}; `paddock changes show` marks "
            "the accepted ones"
        ) from None


def check_kept(store: ChangeStore, set_id: str, changes: Sequence[Change]) -> None:
    """Raise ChangesError unless the contents that some reversed changes bring back were kept."""
    for change in changes:
        after, before = change.after, change.before
        if after is None or after.sha256 is None or (before is not None and before.sha256 == after.sha256):
            continue
        if not store.has_before(set_id, after.sha256):
            raise ChangesError(
                f"{make_printable(change.path)} cannot be undone: its contents before were not kept, because all of "
                "them together are larger than overlay.undo_bytes; name the paths to undo without it"
            )
