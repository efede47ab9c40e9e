"""Merge a text file that a program changed and a person changed since, with `git merge-file` in a sandbox.

The base is the file at the end of the run, which the set kept. A merge with conflicts stays a conflict: conflict
markers are never written. Git parses text of the program. Therefore it is confined, sees nothing but the three texts,
and its result may only have lines of theirs.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from paddock.confinement.sandbox.protocol import Streams
from paddock.engines.changes.conflicts import Comparison
from paddock.engines.changes.contents import StoredContents
from paddock.engines.changes.plan import PathNote, sort_key
from paddock.engines.changes.tree import Folder
from paddock.foundation.files import system_program
from paddock.model.change_set import Change, FileFacts
from paddock.model.errors import ChangesError
from paddock.model.outcome import Status
from paddock.model.process import ProcessGrants, ProcessLimits

if TYPE_CHECKING:
    from paddock.confinement.sandbox.protocol import GuardingSandbox

MAX_BYTES = 8 * 1024 * 1024
_MAX_ALL_BYTES = 64 * 1024 * 1024
"""Maximum size of all texts of one acceptance."""
_LIMITS = ProcessLimits(timeout_ms=60_000, stdout_bytes=3 * MAX_BYTES)


class MergeTexts(NamedTuple):
    """Three versions of a file."""

    ours: bytes
    base: bytes
    theirs: bytes

    @property
    def key(self) -> str:
        """Digest of all three."""
        return hashlib.sha256(b"".join(hashlib.sha256(text).digest() for text in self)).hexdigest()


Merges = Mapping[str, bytes | None]
"""Merged texts by the key of what was merged; None if both sides changed the same lines."""


def find_texts(
    root: Folder, compared: Comparison, changes: Sequence[Change], contents: StoredContents
) -> list[MergeTexts]:
    """Return the texts of the conflicts that a merge may resolve. Raises ChangesError and OSError."""
    by_path = {change.path: change for change in changes}
    found: list[MergeTexts] = []
    left = _MAX_ALL_BYTES
    for note in compared.conflicts:
        texts = _read_texts(root, by_path[note.path], compared.present.get(note.path), contents)
        if isinstance(texts, MergeTexts):
            left -= sum(map(len, texts))
            if left < 0:
                break
            found.append(texts)
    return found


def merge_conflicts(
    root: Folder, compared: Comparison, changes: Sequence[Change], contents: StoredContents, merges: Merges
) -> tuple[Comparison, tuple[str, ...]]:
    """Return the comparison after merging the conflicts that merged cleanly, and the merged paths.

    Raises ChangesError and OSError.
    """
    by_path = {change.path: change for change in changes}
    merged: list[Change] = []
    conflicts: list[PathNote] = []
    for note in compared.conflicts:
        result = _merge(root, by_path[note.path], compared.present.get(note.path), contents, merges)
        if isinstance(result, Change):
            merged.append(result)
        else:
            conflicts.append(PathNote(note.path, f"{note.why}{result}"))
    pending = sorted((*compared.pending, *merged), key=lambda change: sort_key(change.path))
    paths = tuple(change.path for change in merged)
    return compared._replace(pending=tuple(pending), conflicts=tuple(conflicts)), paths


async def merge_texts(sandbox: "GuardingSandbox", texts: MergeTexts) -> bytes | None:
    """Return the merged text; None if there are conflicts. Raises ChangesError and EngineError."""
    git = system_program("git")
    if git is None:
        raise ChangesError("git is not installed, and `--merge` needs it")
    return await run_merge(sandbox, [git, "merge-file", "-p", "-q", *texts._fields], texts)


async def run_merge(sandbox: "GuardingSandbox", command: Sequence[str], texts: MergeTexts) -> bytes | None:
    """Return what a confined command makes of the files `ours`, `base` and `theirs`, as `merge_texts` does."""
    made = bytearray()
    grants = ProcessGrants(environment={"GIT_CONFIG_NOSYSTEM": "1", "GIT_CEILING_DIRECTORIES": "/"})
    slot = await sandbox.take_slot(grants, _LIMITS)
    try:
        _write_texts(texts, slot.scratch)
        ended = await sandbox.run(command, grants, _LIMITS, Streams(stdout=made.extend), slot=slot)
    finally:
        slot.release()
    if ended.status is Status.FAILED and ended.exit_code is not None:
        return None  # the number of conflicts; more than 127 if one of them is binary for git
    if ended.status is not Status.OK:
        why = ended.reason or ended.limit or (f"signal {ended.signal}" if ended.signal else ended.status)
        raise ChangesError(
            f"Nothing was changed: git merge-file could not merge ({why}); accept "
            "without --merge, or merge by hand"
        )
    if not _list_lines(bytes(made)) <= _list_lines(texts.ours) | _list_lines(texts.theirs):
        raise ChangesError(
            "Nothing was changed: git merge-file made lines that neither side has; merge by hand"
        )
    return bytes(made)


def _write_texts(texts: MergeTexts, scratch: Path) -> None:
    owner = scratch.stat().st_uid
    for name, text in texts._asdict().items():
        (scratch / name).write_bytes(text)
        os.chown(scratch / name, owner, -1)


def _list_lines(text: bytes) -> set[bytes]:
    return {line.removesuffix(b"\r") for line in text.split(b"\n")}


def _merge(
    root: Folder, change: Change, now: FileFacts | None, contents: StoredContents, merges: Merges
) -> Change | str:
    """Return the change from the present file to the merged one, or why there is none, to append to a reason."""
    before, after = change.before, change.after
    texts = _read_texts(root, change, now, contents)
    if isinstance(texts, str):
        return texts
    if texts.key not in merges or now is None or before is None or after is None:
        return ""
    text = merges[texts.key]
    if text is None:
        return ", and both changed the same lines"
    mode = after.mode if after.mode != before.mode else now.mode
    facts = FileFacts(type="file", mode=mode, size=len(text), sha256=contents.add(text))
    return change.replace(before=now, after=facts, kind="modified", linked_to=None)


def _read_texts(
    root: Folder, change: Change, now: FileFacts | None, contents: StoredContents
) -> MergeTexts | str:
    """Return what to merge, or why there is no merge, to append to a reason."""
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
    return "" if ours is None or b"\0" in ours else MergeTexts(ours, base, theirs)


def _read(root: Folder, path: str, now: FileFacts) -> bytes | None:
    with open(root.open_file(path), "rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    return data if hashlib.sha256(data).hexdigest() == now.sha256 else None
