"""Artifacts: the stored output of executions, in a directory, in memory or in a bucket (`backends.py`).

An artifact is three objects below its handle: `stdout.gz`, `stderr.gz` and `manifest.json`, written in this order. A
reader ignores an artifact without a manifest, and one that has expired, even before it is swept.
"""

import contextlib
import logging
import os
import re
import secrets
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path

import orjson

from paddock._version import __version__
from paddock.foundation.own_files import NotOursError
from paddock.model.artifact import STREAMS, ArtifactManifest, Handle, RunFacts, Stream, expiry, safe_name
from paddock.model.errors import ArtifactError, ArtifactStoreError, ArtifactTooLarge, UnknownArtifact
from paddock.model.limits import KIB
from paddock.policy.redaction.scanner import Scanner
from paddock.policy.settings.schema import ArtifactSettings, RedactionSettings
from paddock.record.output.backends import ArtifactStore, LocalBackend, ObjectStoreBackend
from paddock.record.output.recording import OnOutput, RecordedStream, Recording

_MANIFEST_NAME = "manifest.json"
_FILE_NAMES = (_MANIFEST_NAME, *(f"{stream}.gz" for stream in STREAMS))
"""In the order of deletion. The manifest is first, so that a half-deleted artifact does not exist for readers."""
_INLINE_BYTES = 256 * KIB
_CHUNK_BYTES = 256 * KIB
_MANIFEST_BYTES = 64 * KIB
_SMALL_BYTES = 64 * KIB
_OPTIONAL_FACTS = frozenset({"file_path", "media_type", "flow_labels"})
_UNREDACTED = Scanner(RedactionSettings(enabled=False))
_ORPHAN_AGE = timedelta(days=1)
_SWEEP_EVERY = timedelta(minutes=5)
_SLOW_S = 3.0
"""Time of a failed attempt to write, in seconds, from which on the store hangs."""
_PAUSE_S = 15.0
"""Time for which a store that hangs is left alone, in seconds."""
_ADDRESS = re.compile(r"https?://[^\s()]+")
_log = logging.getLogger("paddock.record.output")


def _current_time() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """An artifact that may be read. `manifest` is None if it exists but cannot be parsed."""

    handle: Handle
    manifest: ArtifactManifest | None


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The result of a sweep: artifacts deleted, and artifacts that it could not read or delete."""

    deleted: int
    errors: int


class Artifacts:
    """The artifacts of one backend. Nothing is created before the first artifact is stored."""

    def __init__(
        self,
        settings: ArtifactSettings,
        scanner: Scanner,
        *,
        clock: Callable[[], datetime] = _current_time,
        store: ArtifactStore | None = None,
    ) -> None:
        """Keep them in `store`, or else where the settings say."""
        self.settings = settings
        self._scanner = scanner
        self._clock = clock
        self._last_sweep = datetime.min.replace(tzinfo=UTC)
        """The last known sweep; another process may have swept since."""
        self._lock = threading.Lock()
        self._retry_at = 0.0
        """Monotonic time until which the store is left alone; 0 if it works."""
        self.store: ArtifactStore = store or (
            LocalBackend(settings.directory)
            if settings.url is None
            else ObjectStoreBackend(settings.url, clock())
        )

    def record(
        self,
        *,
        persist: bool = True,
        kept_bytes: int = _INLINE_BYTES,
        kept_stderr_bytes: int | None = None,
        on_output: OnOutput | None = None,
    ) -> Recording:
        """Return a recording for one execution; without `persist` it redacts but stores no artifact.

        Of each stream `kept_bytes` stay in memory; of standard error `kept_stderr_bytes`, if that is given.
        """
        return Recording(
            self._scanner,
            kept_bytes={"stdout": kept_bytes, "stderr": kept_stderr_bytes or kept_bytes},
            max_bytes=self.settings.max_bytes,
            store=self if persist and self.settings.enabled else None,
            on_output=on_output,
        )

    def record_file(self, *, redacts: bool) -> Recording:
        """Return a recording for a file, as standard output; `redacts` is false for binary or redacted files."""
        return Recording(
            self._scanner if redacts else _UNREDACTED,
            kept_bytes={"stdout": 0, "stderr": 0},
            max_bytes=self.settings.max_bytes,
            store=self if self.settings.enabled else None,
        )

    def read(self, handle: str, workspace: Path | None, stream: Stream = "stdout") -> bytes:
        """Return a stream of an artifact; that of a stored file is standard output. Raises ArtifactError."""
        found = self.find(handle, workspace)
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        data = b""
        for piece in self.read_packed(found.handle, stream):
            data += unpacker.decompress(piece, self.settings.max_read_bytes - len(data) + 1)
            if len(data) > self.settings.max_read_bytes:
                limit = self.settings.max_read_bytes
                raise ArtifactTooLarge(f"{handle} is larger than artifacts.max_read_bytes = {limit}")
        return data

    def record_result(self) -> Recording:
        """Return a recording for a result. It stores as much as can be read back, and keeps nothing in memory."""
        return Recording(
            self._scanner,
            kept_bytes={"stdout": 0, "stderr": 0},
            max_bytes=self.settings.max_read_bytes,
            setting="artifacts.max_read_bytes",
            store=self if self.settings.enabled else None,
        )

    def begin(self, workspace: Path) -> Handle:
        """Return the handle of a new artifact; a directory backend makes its files. Raises ArtifactError."""
        handle = Handle.make(workspace.name, self._clock(), secrets.token_hex(8))
        try:
            self.store.begin(str(handle), _FILE_NAMES[1:], whole=_MANIFEST_NAME)
        except Exception as error:
            self.drop(handle)
            raise _store_error("write the artifact", error) from error
        return handle

    def is_quick(self, size: int) -> bool:
        """Return whether writing so many bytes takes less time than starting a thread."""
        return self.store.is_near and size <= _SMALL_BYTES

    def put(self, handle: Handle, tracks: Mapping[Stream, RecordedStream]) -> None:
        """Write the streams of an artifact that was begun. On ArtifactError, nothing of it is left."""
        began = self._begin_attempt()
        try:
            for stream in STREAMS:
                self.store.put(str(handle), f"{stream}.gz", tracks[stream].finish_packed())
        except BaseException as error:
            raise self._give_up(handle, error, began) from error
        self._retry_at = 0.0

    def _begin_attempt(self) -> float:
        """Return the time. Raises ArtifactError for a while after a failure that took long.

        Then one caller tries again. Programs that wait for a store that hangs would keep their slots from all others.
        """
        now = time.monotonic()
        with self._lock:
            if now < self._retry_at:
                raise ArtifactStoreError(
                    f"cannot write the artifact: the store did not answer in time, and is tried again within "
                    f"{_PAUSE_S:.0f} s"
                )
            if self._retry_at:
                self._retry_at = now + _PAUSE_S
        return now

    def publish(self, handle: Handle, facts: RunFacts, tracks: Mapping[Stream, RecordedStream]) -> None:
        """Write the manifest of an artifact after its streams. On ArtifactError, nothing of it is left."""
        began = time.monotonic()
        try:
            text = self._manifest_of(handle, facts, tracks)
            self.store.put(str(handle), _MANIFEST_NAME, BytesIO(text), whole=True)
        except BaseException as error:
            raise self._give_up(handle, error, began) from error

    def _give_up(self, handle: Handle, error: BaseException, began: float) -> ArtifactError:
        """Return the error to raise for an attempt, and delete what it wrote, except in a store that hangs."""
        if not self.store.is_near and time.monotonic() - began >= _SLOW_S:
            self._retry_at = time.monotonic() + _PAUSE_S
        else:
            with contextlib.suppress(ArtifactError):
                self._delete_artifact(handle)
        return _store_error("write the artifact", error)

    def drop(self, handle: Handle) -> None:
        """Delete an artifact that was begun and not published."""
        with contextlib.suppress(Exception):
            self.store.drop(str(handle))

    def find(self, handle: str, workspace: Path | None) -> StoredArtifact:
        """Return an artifact that `workspace` may read; None means any workspace.

        Raises InvalidHandle; UnknownArtifact if it does not exist, has expired, or belongs to another workspace.
        """
        parsed = Handle.parse(handle)
        data = self._read_manifest(parsed)
        manifest = None if data is None else ArtifactManifest.parse(data)
        ends = manifest.expires_at if manifest else expiry(parsed, self.settings.ttl_hours)
        if data is None or ends <= self._clock():
            raise UnknownArtifact(
                f"Artifact not found: {parsed}; it does not exist or has expired (artifacts.ttl_hours)"
            )
        if workspace is not None and not self.settings.cross_workspace:
            own = (
                manifest.workspace == str(workspace) if manifest else parsed.repo == safe_name(workspace.name)
            )
            if not own:
                raise UnknownArtifact(
                    f"Artifact not found in this workspace: {parsed}; read it from its own workspace, "
                    "or set artifacts.cross_workspace = true"
                )
        return StoredArtifact(parsed, manifest)

    def read_packed(self, handle: Handle, stream: Stream) -> Iterator[bytes]:
        """Yield the gzip file of a stream in chunks; nothing if it is missing. Raises ArtifactError."""
        return self._read_object(handle, f"{stream}.gz", _CHUNK_BYTES)

    def list(self) -> Iterator[Handle]:
        """Yield the handles of all stored artifacts, complete or not. Raises ArtifactError."""
        try:
            groups = [str(group) for group in self.store.groups()]
        except Exception as error:
            raise _store_error("list artifacts", error) from error
        for group in groups:
            try:
                handle = Handle.parse(group)
            except ArtifactError:
                continue
            yield handle

    def newest_handles(self, workspace: Path | None) -> "list[Handle]":
        """Return the handles that may belong to a workspace (None: any), the newest first. Raises ArtifactError.

        Reads no manifests: some artifacts may have expired, or belong to another directory of the same name.
        """
        own = None if workspace is None or self.settings.cross_workspace else safe_name(workspace.name)
        handles = (handle for handle in self.list() if own in (None, handle.repo))
        return sorted(handles, key=lambda handle: (handle.epoch_ms, handle.token), reverse=True)

    def readable(
        self, workspace: Path | None, handles: Iterable[Handle] | None = None
    ) -> Iterator[StoredArtifact]:
        """Yield the artifacts that a workspace may read (None: any), the newest first. Raises ArtifactError.

        Reads each manifest only when it is needed. `handles` replace those of `newest_handles`.
        """
        for handle in self.newest_handles(workspace) if handles is None else handles:
            with contextlib.suppress(UnknownArtifact):
                yield self.find(str(handle), workspace)

    def size(self) -> int:
        """Return the size of all stored artifacts, in bytes. Raises ArtifactError."""
        try:
            return self.store.size()
        except Exception as error:
            raise _store_error("measure the artifacts", error) from error

    def sweep(self, *, thorough: bool = True) -> SweepReport:
        """Delete expired artifacts; read those younger than the time to live only if `thorough`.

        An artifact without a manifest may still be in progress, so it is kept for another day.
        """
        deleted, errors, now = 0, 0, self._clock()
        for handle in self.list():
            if not thorough and expiry(handle, self.settings.ttl_hours) > now:
                continue
            try:
                data = self._read_manifest(handle)
                manifest = ArtifactManifest.parse(data) if data is not None else None
                grace = _ORPHAN_AGE if data is None else timedelta()
                ends = manifest.expires_at if manifest else expiry(handle, self.settings.ttl_hours) + grace
                if ends <= now:
                    self._delete_artifact(handle)
                    deleted += 1
                elif data is not None and manifest is None:
                    errors += 1
            except ArtifactError:
                errors += 1
        return SweepReport(deleted, errors)

    def sweep_when_due(self) -> None:
        """Sweep unless that was done recently. Errors are left to the next sweep."""
        now = self._clock()
        with contextlib.suppress(Exception):
            if self.must_sweep:
                self.store.swept(now)
                self.sweep(thorough=False)

    def _manifest_of(self, handle: Handle, facts: RunFacts, tracks: Mapping[Stream, RecordedStream]) -> bytes:
        """Return the JSON that `ArtifactManifest` reads. A model takes three times as long."""
        now, names = self._clock(), ArtifactManifest.names()
        fields: dict[str, object] = {
            **{name: value for name, value in vars(facts).items() if value or name not in _OPTIONAL_FACTS},
            "artifact_id": str(handle),
            "repo_id": os.path.basename(facts.workspace),
            "stdout_bytes": tracks["stdout"].written,
            "stderr_bytes": tracks["stderr"].written,
            "stdout_sha256": tracks["stdout"].sha256,
            "stderr_sha256": tracks["stderr"].sha256,
            "created_at": now,
            "expires_at": now + timedelta(hours=self.settings.ttl_hours),
            "server_version": __version__,
        }
        manifest = {names[name]: value for name, value in fields.items()}
        return orjson.dumps(manifest, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z)

    @property
    def must_sweep(self) -> bool:
        """Whether no process has swept recently."""
        now = self._clock()
        if _is_recent(now, self._last_sweep):
            return False
        try:
            self._last_sweep = self.store.last_sweep
            return not _is_recent(now, self._last_sweep)
        except Exception:  # noqa: BLE001 - it may be the caller's own store
            self._last_sweep = now
            return False

    def _read_manifest(self, handle: Handle) -> bytes | None:
        """Return the manifest's bytes, cut soon after the maximum; None without a manifest."""
        data = None
        try:
            for piece in self._read_object(handle, _MANIFEST_NAME, _MANIFEST_BYTES):
                data = (data or b"") + piece
                if len(data) > _MANIFEST_BYTES:
                    break
        except ArtifactError as error:
            # A link or a pipe counts as a damaged manifest; other artifacts can still be read.
            if not isinstance(error.__cause__, NotOursError) or not error.__cause__.filename.endswith(
                _MANIFEST_NAME
            ):
                raise
            data = b""
        return data

    def _read_object(self, handle: Handle, name: str, chunk: int) -> Iterator[bytes]:
        try:
            yield from self.store.read(str(handle), name, chunk)
        except Exception as error:
            raise _store_error("read the artifact", error) from error

    def _delete_artifact(self, handle: Handle) -> None:
        try:
            self.store.delete(str(handle), _FILE_NAMES)
        except Exception as error:
            raise _store_error("delete the artifact", error) from error


def _is_recent(now: datetime, sweep: datetime) -> bool:
    return abs(now - sweep) < _SWEEP_EVERY  # a clock may have been set back


def _store_error(what: str, error: BaseException) -> ArtifactStoreError:
    """Return the error for an error of the backend, whose text may have many lines.

    The texts of a bucket's client have its address, and times: the log gets them, without the address.
    """
    why = str(error).partition(chr(10))[0]
    if type(error).__module__.startswith("obstore"):
        _log.warning("the bucket of artifacts.url cannot be used: %s", _ADDRESS.sub("...", why))
        why = f"the bucket of artifacts.url cannot be used ({type(error).__name__})"
    if isinstance(error, NotOursError):
        why = f"{error.filename}: {error.strerror}"
    if isinstance(error, PermissionError) and error.filename:
        cure = f"make it accessible to user {os.geteuid()}, or set artifacts.directory"
        why = f"{error.filename}: {error.strerror}; {cure}"
    return ArtifactStoreError(f"cannot {what}: {why}")
