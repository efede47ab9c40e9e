"""The journal of one acceptance: JSON lines, each on disk before the next step.

    1  the set, its changes and steps, the staging directory, and the state to store at the end
    2  the inode of each staged file or directory: from now on the workspace changes
    3  all steps are done: from now on there is no way back

Which steps were done is not written: a staged inode that is still in the staging directory was not moved.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import TypeAdapter

from paddock.engines.changes.plan import STAGING_PREFIX, Step
from paddock.foundation.files import sync_directory, write_all
from paddock.foundation.own_files import open_own, read_own
from paddock.model.change_set import Change
from paddock.record.changes.state import ChangesState
from paddock.record.changes.store import MAX_JOURNAL_BYTES, encode_json

Action = Literal["accept", "undo"]
_CHANGES = TypeAdapter(tuple[Change, ...])


class JournalHead(NamedTuple):
    """What an acceptance is about to do."""

    set_id: str
    action: Action
    staging: str
    """Name of the staging directory in the workspace."""
    changes: tuple[Change, ...]
    """Sorted by path."""
    steps: tuple[Step, ...]
    state: ChangesState
    """What becomes of the set."""
    request: str
    """ID of the request, in the record."""


class JournalContent(NamedTuple):
    """What a journal says."""

    head: JournalHead
    inodes: Mapping[str, int] | None
    """By name in the staging directory; None if nothing was moved."""
    applied: bool


class Journal:
    """An open journal. It exists as long as there is something to finish or to undo."""

    def __init__(self, path: Path, head: JournalHead) -> None:
        """Write the first line. Raises OSError."""
        self._path = path
        self._file = open_own(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        try:
            self._append(
                {
                    **head._asdict(),
                    "changes": [each.model_dump() for each in head.changes],
                    "state": head.state.model_dump(mode="json"),
                }
            )
            sync_directory(path.parent)
        except BaseException:
            self.remove()
            raise

    def write_staged(self, inodes: Mapping[str, int]) -> None:
        """Record that the new files are staged. Raises OSError."""
        self._append({"inodes": dict(inodes)})

    def write_applied(self) -> None:
        """Record that all steps are done. Raises OSError."""
        self._append({"applied": True})

    def close(self) -> None:
        """Close the file, which stays."""
        os.close(self._file)

    def remove(self) -> None:
        """Close and remove the file. Raises OSError."""
        self.close()
        remove_journal(self._path)

    def _append(self, fields: dict[str, Any]) -> None:
        write_all(self._file, encode_json(fields) + b"\n")
        os.fsync(self._file)


def read_journal(path: Path) -> JournalContent | None:
    """Return what a journal says; None without one, or if not even its first line is complete. Raises OSError.

    Raises ValueError if it is not a journal.
    """
    try:
        lines = read_own(path, MAX_JOURNAL_BYTES).split(b"\n")[
            :-1
        ]  # what follows the last newline was never finished
    except FileNotFoundError:
        return None
    if not lines:
        return None
    fields = json.loads(lines[0])
    head = JournalHead(
        str(fields["set_id"]),
        "undo" if fields["action"] == "undo" else "accept",
        str(fields["staging"]),
        _CHANGES.validate_python(fields["changes"]),
        tuple(Step(kind, path, name, (mode[0], mode[1])) for kind, path, name, mode in fields["steps"]),
        ChangesState.model_validate(fields["state"]),
        str(fields.get("request", "")),
    )
    if not head.staging.startswith(STAGING_PREFIX) or "/" in head.staging:
        raise ValueError("its staging directory is none of Paddock's")
    inodes = {str(k): int(v) for k, v in json.loads(lines[1])["inodes"].items()} if len(lines) > 1 else None
    return JournalContent(head, inodes, applied=len(lines) > 2)


def remove_journal(path: Path) -> None:
    """Remove a journal durably. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    sync_directory(path.parent)
