"""What became of a change set. It is no part of the set's ID, and nothing that is written depends on it alone."""

from datetime import datetime
from typing import Literal

from paddock.model.base import Value
from paddock.model.change_set import Change

ChangesStatus = Literal["open", "partly accepted", "accepted", "discarded", "undone"]


class ChangesState(Value):
    """What a person decided about a change set."""

    version: Literal[1] = 1
    accepted: tuple[str, ...] = ()
    """Paths whose changes are in the workspace because they were accepted."""
    merged: tuple[Change, ...] = ()
    """What was accepted by a merge, instead of the changes of the set at these paths."""
    accepted_at: datetime | None = None
    """The last time that a path was accepted."""
    discarded_at: datetime | None = None
    undone_at: datetime | None = None
    """The last time that accepted paths were undone."""

    def describe(self, changes: int) -> ChangesStatus:
        """Return the state of a set with so many changes."""
        if self.discarded_at is not None:
            return "discarded"
        if self.accepted:
            return "accepted" if len(self.accepted) >= changes else "partly accepted"
        return "open" if self.undone_at is None else "undone"
