"""Change sets of two directories, for tests of accepting them: what a program did to a copy of the workspace."""

import hashlib
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from paddock.model.change_set import Change, ChangeKind, ChangeSet, FileFacts
from paddock.record.changes.store import ChangeStore


def open_no_sink() -> NoReturn:
    """Fail, because a test recovers nothing."""
    raise AssertionError("nothing was killed here")


def read_tree(folder: Path) -> dict[str, FileFacts]:
    """Return what is in a directory, by relative path."""
    found: dict[str, FileFacts] = {}
    pending = [folder]
    while pending:
        for path in sorted(pending.pop().iterdir()):
            facts = path.lstat()
            name = str(path.relative_to(folder))
            mode = stat.S_IMODE(facts.st_mode) & 0o777
            if stat.S_ISLNK(facts.st_mode):
                found[name] = FileFacts(type="link", mode=0o777, target=str(path.readlink()))
            elif stat.S_ISDIR(facts.st_mode):
                found[name] = FileFacts(type="directory", mode=mode)
                pending.append(path)
            elif stat.S_ISREG(facts.st_mode):
                data = path.read_bytes()
                sha256 = hashlib.sha256(data).hexdigest()
                found[name] = FileFacts(type="file", mode=mode, size=len(data), sha256=sha256)
    return found


def make_change_set(
    store: ChangeStore,
    workspace: Path,
    changed: Path,
    *,
    adapt: Callable[[Change], Change] = lambda change: change,
    incomplete: str = "",
) -> str:
    """Store the set that leads from one directory to the other; return its ID."""
    before, after = read_tree(workspace), read_tree(changed)
    inodes: dict[int, str] = {}
    changes: list[Change] = []
    with store.begin() as new:
        for path in sorted(before.keys() | after.keys(), key=lambda path: path.split("/")):
            old, now = before.get(path), after.get(path)
            if old == now:
                continue
            linked_to = None
            if now is not None and now.type == "file":
                linked_to = inodes.setdefault((changed / path).lstat().st_ino, path)
                if old is None or old.sha256 != now.sha256:
                    _add(new.add_content, changed / path, now.size)
            if old is not None and old.type == "file" and (now is None or old.sha256 != now.sha256):
                _add(new.add_before, workspace / path, old.size)
            kind: ChangeKind = "added" if old is None else "deleted" if now is None else "modified"
            if old is not None and now is not None and old.replace(mode=now.mode) == now:
                kind = "mode"
            change = Change(
                path=path,
                kind=kind,
                before=old,
                after=now,
                linked_to=linked_to if linked_to != path else None,
            )
            changes.append(adapt(change))
        return new.finish(
            ChangeSet(
                request="run-1",
                workspace=str(workspace),
                opened_ns=1,
                ended_ns=time.time_ns(),
                method="copy",
                changes=tuple(changes),
                incomplete=incomplete,
            )
        )


def _add(add: Callable[[int, int], object], path: Path, size: int) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        add(file, size)
    finally:
        os.close(file)
