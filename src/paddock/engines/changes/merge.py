"""Merge a text file that a program changed and a person changed since, with `git merge-file`.

The base is the file at the end of the run, which the set kept. A merge with conflicts stays a conflict: conflict
markers are never written.
"""

import errno
import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from paddock.engines.changes.conflicts import Comparison
from paddock.engines.changes.contents import StoredContents
from paddock.engines.changes.plan import PathNote, sort_key
from paddock.engines.changes.tree import Folder
from paddock.foundation.files import SYSTEM_PATH, system_program
from paddock.model.change_set import Change, FileFacts

MAX_BYTES = 8 * 1024 * 1024
_TIMEOUT_S = 60
_ERROR_CODE = 128


def merge_conflicts(
    root: Folder, compared: Comparison, changes: Sequence[Change], contents: StoredContents
) -> tuple[Comparison, tuple[str, ...]]:
    """Return the comparison after merging the conflicts that merge cleanly, and the merged paths.

    Raises ChangesError and OSError.
    """
    by_path = {change.path: change for change in changes}
    merged: list[Change] = []
    conflicts: list[PathNote] = []
    for note in compared.conflicts:
        result = _merge(root, by_path[note.path], compared.present.get(note.path), contents)
        if isinstance(result, Change):
            merged.append(result)
        else:
            conflicts.append(PathNote(note.path, f"{note.why}{result}"))
    pending = sorted((*compared.pending, *merged), key=lambda change: sort_key(change.path))
    paths = tuple(change.path for change in merged)
    return compared._replace(pending=tuple(pending), conflicts=tuple(conflicts)), paths


def _merge(root: Folder, change: Change, now: FileFacts | None, contents: StoredContents) -> Change | str:
    """Return the change from the present file to the merged one, or why there is none, to append to a reason."""
    before, after = change.before, change.after
    if now is None or now.type != "file" or change.binary or change.changed_meanwhile:
        return ""
    if before is None or after is None or before.sha256 is None or after.sha256 is None:
        return ""
    base = contents.read(before.sha256, MAX_BYTES, before=True)
    theirs = contents.read(after.sha256, MAX_BYTES, before=False)
    if base is None or theirs is None:
        return "; it cannot be merged, because its contents before were not kept"
    ours = _read(root, change.path, now)
    if ours is None or b"\0" in ours:
        return ""
    text = _merge_texts(ours, base, theirs)
    if text is None:
        return ", and both changed the same lines"
    mode = after.mode if after.mode != before.mode else now.mode
    facts = FileFacts(type="file", mode=mode, size=len(text), sha256=contents.add(text))
    return change.replace(before=now, after=facts, kind="modified", linked_to=None)


def _read(root: Folder, path: str, now: FileFacts) -> bytes | None:
    with open(root.open_file(path), "rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    return data if hashlib.sha256(data).hexdigest() == now.sha256 else None


def _merge_texts(ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
    """Return the merged text; None if there are conflicts. Raises OSError."""
    git = system_program("git")
    if git is None:
        raise FileNotFoundError(2, "git is not installed, and `--merge` needs it", "git")
    with tempfile.TemporaryDirectory(prefix="paddock-merge-") as folder:
        names = ("ours", "base", "theirs")
        for name, data in zip(names, (ours, base, theirs), strict=True):
            (Path(folder) / name).write_bytes(data)
        # No configuration of the user or of a repository applies.
        environment = {
            "PATH": SYSTEM_PATH,
            "HOME": folder,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CEILING_DIRECTORIES": "/",
        }
        try:
            done = subprocess.run(  # noqa: S603 - a program of the system, with fixed names
                [git, "merge-file", "-p", "-q", *names],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            why = f"git merge-file took longer than {_TIMEOUT_S} s; accept without --merge, or merge by hand"
            raise TimeoutError(errno.ETIMEDOUT, why) from None
    if done.returncode < 0 or done.returncode >= _ERROR_CODE:
        return None  # a binary file
    return done.stdout if done.returncode == 0 else None
