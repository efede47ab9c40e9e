"""Contents of a stored change set, checked while they are copied."""

import hashlib
import os
from collections.abc import Iterable

from paddock.engines.changes.tree import Folder
from paddock.foundation.files import write_all
from paddock.model.change_set import Change
from paddock.model.errors import ChangesError
from paddock.record.changes.store import ChangeStore, copy_checked


class StoredContents:
    """The new contents of a set, or those `before`, and what merges made."""

    def __init__(self, store: ChangeStore, set_id: str, *, before: bool = False) -> None:
        self._store = store
        self._set_id = set_id
        self._before = before
        self._merged: dict[str, bytes] = {}

    def add(self, data: bytes) -> str:
        """Add contents that are not in the store; return their digest."""
        sha256 = hashlib.sha256(data).hexdigest()
        self._merged[sha256] = data
        return sha256

    def read(self, sha256: str, max_bytes: int, *, before: bool) -> bytes | None:
        """Return contents; None if they are larger, or not kept. Raises ChangesError."""
        return self._store.read_content(self._set_id, sha256, max_bytes, before=before)

    def copy(self, sha256: str, target: int) -> None:
        """Copy contents to an open file, and check the digest. Raises ChangesError and OSError."""
        if sha256 in self._merged:
            write_all(target, self._merged[sha256])
            return
        source = (
            self._store.open_before(self._set_id, sha256)
            if self._before
            else self._store.open_content(self._set_id, sha256)
        )
        if source is None:
            raise ChangesError("contents before are no longer in the store")
        try:
            copy_checked(source, target, sha256, self._set_id)
        finally:
            os.close(source)


def keep_before(root: Folder, changes: Iterable[Change], store: ChangeStore, set_id: str) -> None:
    """Keep the files that some changes replace or delete, as long as there is room. Raises ChangesError and OSError."""
    room = store.measure_undo_room(set_id)
    for change in changes:
        before, after = change.before, change.after
        if before is None or before.sha256 is None or before.size > room:
            continue
        if (after is not None and after.sha256 == before.sha256) or store.has_before(set_id, before.sha256):
            continue
        file = root.open_file(change.path)
        try:
            room -= store.keep_before(set_id, file, room) or 0
        finally:
            os.close(file)
