"""Change sets on disk.

    DIRECTORY/ID/manifest.json       the `ChangeSet` as canonical JSON
    DIRECTORY/ID/contents/SHA256     new contents of files
    DIRECTORY/ID/before/SHA256       contents before, for differences, merges and `undo`; some may be missing
    DIRECTORY/ID/state.json          what became of the set (`state.py`)

The ID has the digest of the manifest, and the manifest has those of all contents. Therefore a set that was edited in
the store is rejected when it is read, and what is accepted is what was shown.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from pydantic import ValidationError

from paddock.foundation.files import (
    hold_lock,
    make_private,
    make_temporary_directory,
    read_pieces,
    replace_file,
    sync_directory,
    write_all,
)
from paddock.foundation.own_files import NotOursError, check_directory, open_own, read_own
from paddock.model.change_set import ChangeSet
from paddock.model.errors import ChangesCorrupted, ChangesError, ChangesNotFound, ChangesTooLarge
from paddock.model.limits import MIB
from paddock.record.changes.state import ChangesState

MAX_MANIFEST_BYTES = 64 * MIB
"""20,000 changes with paths of 4,096 bytes would have more; such a set is too large."""
_ID = re.compile(r"changes-[0-9a-f]{32}")
_ID_PREFIX = "changes-"
_ID_DIGITS = 32
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NEW_PREFIX = ".new-"
_JOURNAL_SUFFIX = ".journal"
MAX_JOURNAL_BYTES = 256 * MIB
_PURGE_EVERY_S = 300.0
_PURGED_FILE = ".purged"
"""Its modification time is that of the last purge, by any process."""
_CONTENTS, _BEFORE, _MANIFEST, _STATE = "contents", "before", "manifest.json", "state.json"
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SYNC_THREADS = 32
_DAY_NS = 24 * 3600 * 10**9


class StoredChanges(NamedTuple):
    """A change set in the store."""

    id: str
    change_set: ChangeSet
    state: ChangesState


class ChangeStore:
    """The change sets in one directory. Nothing is created before the first one."""

    def __init__(self, directory: Path, *, max_bytes: int = 256 * MIB, undo_bytes: int = 64 * MIB) -> None:
        """Limit the new contents of one set to `max_bytes`, and its contents before to `undo_bytes`."""
        self.directory = directory
        self._max_bytes = max_bytes
        self._undo_bytes = undo_bytes

    def check(self) -> None:
        """Make the directory if it is missing, and check that only this user can change it. Raises OSError."""
        make_private(self.directory)
        check_directory(self.directory)

    def begin(self) -> "NewChangeSet":
        """Return a new change set, which is a context manager: what is not finished is removed. Raises ChangesError."""
        return NewChangeSet(self.directory, self._max_bytes, self._undo_bytes)

    def read(self, set_id: str) -> ChangeSet:
        """Return a set. Raises ChangesNotFound, and ChangesCorrupted if it is not what its ID says."""
        data = self._read_file(self._locate(set_id) / _MANIFEST, set_id)
        if make_id(data) != set_id:
            raise _make_corruption(set_id, "its manifest was changed")
        try:
            return ChangeSet.model_validate(json.loads(data))
        except (ValueError, ValidationError, RecursionError):
            raise _make_corruption(set_id, "its manifest is of another version of Paddock") from None

    def find(self, prefix: str, workspace: Path | None = None) -> StoredChanges:
        """Return the only set whose ID begins with `prefix`, with or without `changes-`, of a workspace (None: any).

        Raises ChangesNotFound, also if there are several.
        """
        wanted = prefix if prefix.startswith(_ID_PREFIX) else f"{_ID_PREFIX}{prefix}"
        ids = [set_id for set_id in self._list_ids() if set_id.startswith(wanted)] if len(prefix) > 0 else []
        found = [each for each in map(self.load, ids) if workspace in {None, Path(each.change_set.workspace)}]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(each.id for each in found[:5])
            raise ChangesNotFound(f"{prefix[:80]!r} begins several IDs: {names}; write more of it")
        elsewhere = " in this workspace" if ids else ""
        raise ChangesNotFound(
            f"Change set not found{elsewhere}: {prefix[:80]!r}; `paddock changes list` shows those of a workspace"
        )

    def find_damaged(self, prefix: str) -> str:
        """Return the only ID that begins so, whatever its set contains. Raises ChangesNotFound."""
        wanted = prefix if prefix.startswith(_ID_PREFIX) else f"{_ID_PREFIX}{prefix}"
        found = [set_id for set_id in self._list_ids() if set_id.startswith(wanted)]
        if len(found) != 1 or not prefix:
            raise ChangesNotFound(f"{prefix[:80]!r} does not begin the ID of exactly one change set")
        return found[0]

    def remove(self, set_id: str) -> None:
        """Delete a set, of which nothing is left. Raises ChangesNotFound for what is no ID."""
        folder = self._locate(set_id)
        (folder / _MANIFEST).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)

    def load(self, set_id: str) -> StoredChanges:
        """Return a set with its state. Raises what `read` raises."""
        return StoredChanges(set_id, self.read(set_id), self.read_state(set_id))

    def list_sets(self, workspace: Path | None = None) -> list[StoredChanges]:
        """Return the sets of a workspace (None: all), the newest first, without those that are damaged."""
        found: list[StoredChanges] = []
        for set_id in self._list_ids():
            with contextlib.suppress(ChangesError):
                stored = self.load(set_id)
                if workspace is None or stored.change_set.workspace == str(workspace):
                    found.append(stored)
        return sorted(found, key=lambda each: (each.change_set.ended_ns, each.id), reverse=True)

    def open_content(self, set_id: str, sha256: str) -> int:
        """Return a descriptor of the new contents with this digest. The reader checks it, as `copy_checked` does.

        Raises ChangesCorrupted.
        """
        return self._open_part(set_id, _CONTENTS, sha256)

    def open_before(self, set_id: str, sha256: str) -> int | None:
        """Return a descriptor of the contents before, as `open_content` does; None if they were not kept."""
        try:
            return self._open_part(set_id, _BEFORE, sha256)
        except ChangesMissing:
            return None

    def read_content(self, set_id: str, sha256: str, max_bytes: int, *, before: bool = False) -> bytes | None:
        """Return contents with this digest; None if they are larger, or not kept. Raises ChangesCorrupted."""
        file = self.open_before(set_id, sha256) if before else self.open_content(set_id, sha256)
        if file is None:
            return None
        with open(file, "rb") as stream:
            data = stream.read(max_bytes + 1)
        if len(data) > max_bytes:
            return None
        if hashlib.sha256(data).hexdigest() != sha256:
            raise _make_corruption(set_id, "its contents were changed")
        return data

    def has_before(self, set_id: str, sha256: str) -> bool:
        """Return whether the contents before with this digest were kept."""
        return bool(_SHA256.fullmatch(sha256)) and (self._locate(set_id) / _BEFORE / sha256).is_file()

    def measure_undo_room(self, set_id: str) -> int:
        """Return how many bytes of contents before the set may still keep."""
        return max(0, self._undo_bytes - _measure(self._locate(set_id) / _BEFORE))

    def keep_before(self, set_id: str, source: int, max_bytes: int) -> int | None:
        """Copy an open file to the contents before; return its size, None if it has more than so many bytes.

        Raises ChangesError.
        """
        folder = self._locate(set_id) / _BEFORE
        try:
            make_private(folder)
            kept = folder / _add_file(folder, source, max_bytes)
            _sync_path(kept)
            return kept.lstat().st_size
        except ChangesTooLarge:
            return None
        except OSError as error:
            raise explain_failure("stored", error) from error

    def read_state(self, set_id: str) -> ChangesState:
        """Return what became of a set. Raises ChangesCorrupted."""
        try:
            data = read_own(self._locate(set_id) / _STATE, MAX_MANIFEST_BYTES)
            return ChangesState.model_validate(json.loads(data))
        except FileNotFoundError:
            return ChangesState()
        except (OSError, ValueError, ValidationError, RecursionError):
            raise _make_corruption(set_id, "its state was changed") from None

    def write_state(self, set_id: str, state: ChangesState) -> None:
        """Store what became of a set. Raises ChangesError."""
        try:
            replace_file(self._locate(set_id) / _STATE, encode_json(state.model_dump(mode="json")))
        except OSError as error:
            raise explain_failure("stored", error) from error

    def discard(self, set_id: str) -> None:
        """Mark a set as discarded, and remove its contents. Raises ChangesError."""
        state = self.read_state(set_id)
        self.write_state(set_id, state.replace(discarded_at=datetime.now(UTC)))
        for part in (_CONTENTS, _BEFORE):
            shutil.rmtree(self._locate(set_id) / part, ignore_errors=True)

    def purge(self, keep_days: float, keep_bytes: int) -> list[str]:
        """Delete the sets older than so many days, and the oldest ones beyond so many bytes; return their IDs.

        Keeps those of a workspace in which an acceptance was interrupted. Raises ChangesError.
        """
        limit, total = time.time_ns() - int(keep_days * _DAY_NS), 0
        deleted: list[str] = []
        busy = self._list_busy()
        for moment, set_id in sorted(
            ((self._find_moment(each), each) for each in self._list_ids()), reverse=True
        ):
            folder = self._locate(set_id)
            total += sum(_measure(folder / part) for part in ("", _CONTENTS, _BEFORE))
            if (moment < limit or total > keep_bytes) and set_id not in busy:
                deleted.append(set_id)
                # The manifest goes first: a set that is half deleted does not exist for readers.
                (folder / _MANIFEST).unlink(missing_ok=True)
                shutil.rmtree(folder, ignore_errors=True)
        return deleted

    def purge_when_due(self, keep_days: float, keep_bytes: int) -> None:
        """Purge unless any process did so recently. Errors are left to the next purge."""
        marker = self.directory / _PURGED_FILE
        with contextlib.suppress(OSError, ChangesError):
            if not marker.exists() or abs(time.time() - marker.stat().st_mtime) >= _PURGE_EVERY_S:
                marker.touch(mode=0o600)
                self.purge(keep_days, keep_bytes)

    def _list_busy(self) -> set[str]:
        """Return the sets that a journal names."""
        busy: set[str] = set()
        for name in os.listdir(self.directory) if self.directory.is_dir() else ():
            if name.endswith(_JOURNAL_SUFFIX):
                with contextlib.suppress(OSError):
                    text = read_own(self.directory / name, MAX_JOURNAL_BYTES).decode("ascii", "replace")
                    busy.update(_ID.findall(text))
        return busy

    def lock(self, workspace: Path) -> "contextlib.AbstractContextManager[bool]":
        """Hold the lock of a workspace: only one process at a time accepts changes into it. Raises OSError."""
        return hold_lock(self.find_journal(workspace).with_suffix(".lock"))

    def find_journal(self, workspace: Path) -> Path:
        """Return the path of the journal of a workspace, which exists while changes are accepted into it."""
        name = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:_ID_DIGITS]
        return self.directory / f"{name}{_JOURNAL_SUFFIX}"

    def _find_moment(self, set_id: str) -> int:
        with contextlib.suppress(OSError):
            return (self._locate(set_id) / _MANIFEST).lstat().st_mtime_ns
        return 0

    def _list_ids(self) -> list[str]:
        try:
            check_directory(self.directory)
            return sorted(name for name in os.listdir(self.directory) if _ID.fullmatch(name))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise explain_failure("listed", error) from error

    def _locate(self, set_id: str) -> Path:
        if not _ID.fullmatch(set_id):
            raise ChangesNotFound(
                f"{set_id[:80]!r} is not the ID of a change set; `paddock changes list` shows them"
            )
        return self.directory / set_id

    def _open_part(self, set_id: str, part: str, sha256: str) -> int:
        if not _SHA256.fullmatch(sha256):
            raise _make_corruption(set_id, "its manifest has no digest of a file")
        try:
            return open_own(self._locate(set_id) / part / sha256)
        except FileNotFoundError:
            raise ChangesMissing(_describe_corruption(set_id, "contents of it are missing")) from None
        except OSError as error:
            raise explain_failure("read", error) from error

    def _read_file(self, path: Path, set_id: str) -> bytes:
        try:
            check_directory(path.parent)
            return read_own(path, MAX_MANIFEST_BYTES)
        except FileNotFoundError:
            raise ChangesNotFound(
                f"Change set not found: {set_id}; it was deleted, or is older than overlay.keep_days"
            ) from None
        except OSError as error:
            raise explain_failure("read", error) from error


class ChangesMissing(ChangesCorrupted):
    """Contents of a change set are not in the store."""


class NewChangeSet:
    """A change set that is being made, in a private directory. Without `finish`, nothing of it is left."""

    def __init__(self, directory: Path, max_bytes: int, undo_bytes: int) -> None:
        """Make the directory. Raises ChangesError."""
        self._store = directory
        self._left_bytes = max_bytes
        self._left_undo_bytes = undo_bytes
        self._max_bytes = max_bytes
        self._stack = contextlib.ExitStack()
        try:
            make_private(directory)
            check_directory(directory)
            self._folder = self._stack.enter_context(make_temporary_directory(_NEW_PREFIX, directory))
            (self._folder / _CONTENTS).mkdir(mode=0o700)
            (self._folder / _BEFORE).mkdir(mode=0o700)
        except OSError as error:
            self._stack.close()
            raise explain_failure("stored", error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def add_content(self, source: int, size: int) -> str:
        """Copy the new contents of an open file of so many bytes; return their digest.

        Reads from the start of the file. Raises ChangesTooLarge if the set would exceed its limit, also for a file that
        grows meanwhile; ChangesError if it cannot be stored.
        """
        if size > self._left_bytes:
            raise _explain_size(self._max_bytes)
        sha256, taken = self._add(_CONTENTS, source, self._left_bytes)
        self._left_bytes -= taken
        return sha256

    def add_before(self, source: int, size: int) -> str | None:
        """Copy the contents before of an open file, for differences and merges; return their digest.

        Returns None if the set would have more contents before than it may. Raises ChangesError.
        """
        if size > self._left_undo_bytes:
            return None
        try:
            sha256, taken = self._add(_BEFORE, source, self._left_undo_bytes)
        except ChangesTooLarge:
            return None
        self._left_undo_bytes -= taken
        return sha256

    def finish(self, change_set: ChangeSet) -> str:
        """Store the manifest durably, and return the ID. Raises ChangesTooLarge and ChangesError."""
        data = encode_json(change_set.model_dump())
        if len(data) > MAX_MANIFEST_BYTES:
            raise ChangesTooLarge(f"the list of changes has more than {MAX_MANIFEST_BYTES} bytes")
        set_id = make_id(data)
        try:
            with open(os.open(self._folder / _MANIFEST, _NEW_FILE, 0o600), "wb") as manifest:
                manifest.write(data)
            # All at the end: the first one makes the file system write most of the others, too.
            _sync_tree(self._folder)
            # The same set in the store has the same contents, because its ID is their digest.
            with contextlib.suppress(FileExistsError):
                self._rename(self._store / set_id)
            sync_directory(self._store)
        except OSError as error:
            raise explain_failure("stored", error) from error
        return set_id

    def _rename(self, target: Path) -> None:
        try:
            self._folder.rename(target)
        except OSError as error:
            if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
            raise

    def _add(self, part: str, source: int, max_bytes: int) -> tuple[str, int]:
        try:
            sha256 = _add_file(self._folder / part, source, max_bytes)
            return sha256, (self._folder / part / sha256).lstat().st_size
        except ChangesTooLarge:
            raise _explain_size(self._max_bytes) from None
        except OSError as error:
            raise explain_failure("stored", error) from error


def make_id(manifest: bytes) -> str:
    """Return the ID of the set with these bytes as its manifest."""
    return f"{_ID_PREFIX}{hashlib.sha256(manifest).hexdigest()[:_ID_DIGITS]}"


def encode_json(value: object) -> bytes:
    """Return canonical JSON in ASCII: lone surrogates of names that are not UTF-8 survive."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def copy_checked(source: int, target: int, sha256: str, set_id: str) -> None:
    """Copy an open file of a set to another one, from its start. Raises ChangesCorrupted for other contents."""
    digest = hashlib.sha256()
    for piece in read_pieces(source):
        digest.update(piece)
        write_all(target, piece)
    if digest.hexdigest() != sha256:
        raise _make_corruption(set_id, "its contents were changed")


def explain_failure(what: str, error: OSError) -> ChangesError:
    """Return the error for a failure of the store's own files."""
    why = f"{error.filename}: {error.strerror}" if isinstance(error, NotOursError) else error.strerror or "?"
    place = f" ({error.filename})" if error.filename and not isinstance(error, NotOursError) else ""
    return ChangesError(f"The change set cannot be {what}: {why}{place}")


def _add_file(folder: Path, source: int, max_bytes: int) -> str:
    """Copy an open file to a file named by its digest. Raises ChangesTooLarge and OSError."""
    made = folder / f".{os.urandom(8).hex()}"
    target = os.open(made, _NEW_FILE, 0o600)
    try:
        final = folder / _copy_file(source, target, max_bytes)
        made.rename(final)
    except BaseException:
        made.unlink(missing_ok=True)
        raise
    finally:
        os.close(target)
    return final.name


def _copy_file(source: int, target: int, max_bytes: int) -> str:
    digest, taken = hashlib.sha256(), 0
    for piece in read_pieces(source):
        taken += len(piece)
        if taken > max_bytes:
            raise ChangesTooLarge(f"more than {max_bytes} bytes")
        digest.update(piece)
        write_all(target, piece)
    return digest.hexdigest()


def _measure(folder: Path) -> int:
    """Return the bytes of the files in a directory; 0 without one."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return sum(
            each.stat(follow_symlinks=False).st_size
            for each in entries
            if each.is_file(follow_symlinks=False)
        )
    return 0


def _sync_tree(folder: Path) -> None:
    paths = [*folder.rglob("*"), folder]
    if len(paths) <= _SYNC_THREADS:
        for path in paths:
            _sync_path(path)
    else:  # the file system writes to disk once for all that wait
        with ThreadPoolExecutor(_SYNC_THREADS) as threads:
            for _ in threads.map(_sync_path, paths):
                pass


def _sync_path(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _explain_size(max_bytes: int) -> ChangesTooLarge:
    return ChangesTooLarge(f"the new contents have more than overlay.bytes = {max_bytes} bytes")


def _make_corruption(set_id: str, why: str) -> ChangesCorrupted:
    return ChangesCorrupted(_describe_corruption(set_id, why))


def _describe_corruption(set_id: str, why: str) -> str:
    return f"The change set {set_id} cannot be used: {why}; remove it: paddock changes discard {set_id}"
