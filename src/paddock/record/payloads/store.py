"""Recordings on disk: one encrypted file for each run, `RUN.recording`.

    MAGIC | nonce (12 bytes) | AES-256-GCM of the deflated JSON, with MAGIC and the run's id as associated data

The ledger's `finished` record of the run has the SHA-256 of the file (`recording_sha256`). Therefore a file that was
changed, cut, or exchanged for that of another run is refused before it is decrypted. The key is a secret of the vault.
"""

import contextlib
import hashlib
import os
import time
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from paddock.foundation.files import make_private, replace_file
from paddock.foundation.own_files import NotOursError, check_directory, read_own
from paddock.model.errors import RecordingError
from paddock.model.ids import find_mint_moment, is_id
from paddock.policy.settings.schema import RecordSettings

KEY_BYTES = 32
_MAGIC = b"paddock-recording-1\n"
_NONCE_BYTES = 12
_TAG_BYTES = 16
_SUFFIX = ".recording"
_DAY_S = 24 * 3600
_PURGE_EVERY_S = 300.0
_PURGED_FILE = ".purged"
"""Its modification time is that of the last purge, by any process."""


class StoredRecording(NamedTuple):
    """A recording on disk."""

    run: str
    size: int
    """Bytes of its file."""
    recorded: datetime


class RecordingStore:
    """The recordings in one directory. Nothing is created before the first one."""

    def __init__(self, settings: RecordSettings, find_key: Callable[[], bytes]) -> None:
        """Encrypt with the key that `find_key` returns, of `KEY_BYTES`."""
        self._settings = settings
        self._directory = settings.directory
        self._find_key = find_key

    def write(self, run: str, text: str) -> str:
        """Store the recording of a run; return the SHA-256 (hex) of its file. Raises RecordingError and VaultError.

        Deletes expired recordings, unless that was done recently.
        """
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # takes 30 ms

        data = text.encode("utf-8", "surrogatepass")
        if len(data) > self._settings.payload_bytes:
            raise RecordingError(explain_size(self._settings.payload_bytes))
        nonce = os.urandom(_NONCE_BYTES)
        sealed = AESGCM(self._find_key()).encrypt(nonce, zlib.compress(data, 6), _bind(run))
        content = _MAGIC + nonce + sealed
        try:
            make_private(self._directory)
            check_directory(self._directory)
            replace_file(self._locate(run), content)
        except OSError as error:
            raise _explain_failure("stored", error) from error
        self._purge_when_due()
        return hashlib.sha256(content).hexdigest()

    def read(self, run: str, sha256: str) -> str:
        """Return the recording of a run whose file has this SHA-256 (hex). Raises RecordingError and VaultError."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        max_bytes = self._settings.payload_bytes
        # Data that cannot be compressed grows by a few bytes for each 16 KiB.
        max_file_bytes = max_bytes + max_bytes // 1000 + 1024
        try:
            check_directory(self._directory)
            content = read_own(self._locate(run), max_file_bytes)
        except FileNotFoundError:
            raise RecordingError(
                f"the recording of {run} is gone: it was deleted, or is older than record.payload_days"
            ) from None
        except OSError as error:
            raise _explain_failure("read", error) from error
        if hashlib.sha256(content).hexdigest() != sha256:
            raise RecordingError(
                f"the recording of {run} is not the one that the ledger names: its file was changed or exchanged"
            )
        nonce, sealed = content[len(_MAGIC) :][:_NONCE_BYTES], content[len(_MAGIC) + _NONCE_BYTES :]
        if not content.startswith(_MAGIC) or len(sealed) < _TAG_BYTES:
            raise RecordingError(f"the recording of {run} is of another version of Paddock")
        try:
            packed = AESGCM(self._find_key()).decrypt(nonce, sealed, _bind(run))
        except InvalidTag:
            raise RecordingError(
                f"the recording of {run} cannot be decrypted: the vault has another key than when it was made"
            ) from None
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(packed, max_bytes)
        if not unpacker.eof:
            raise RecordingError(f"the recording of {run} is larger than record.payload_bytes = {max_bytes}")
        return data.decode("utf-8", "surrogatepass")

    def list_runs(self) -> list[StoredRecording]:
        """Return all recordings, the oldest first. Raises RecordingError."""
        found: list[StoredRecording] = []
        try:
            with os.scandir(self._directory) as entries:
                for entry in entries:
                    run = entry.name.removesuffix(_SUFFIX)
                    minted = find_mint_moment(run)
                    if minted is not None and entry.name != run and entry.is_file(follow_symlinks=False):
                        size = entry.stat(follow_symlinks=False).st_size
                        found.append(StoredRecording(run, size, minted))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _explain_failure("listed", error) from error
        return sorted(found)

    def purge(self, before: datetime | None = None, *, dry_run: bool = False) -> list[StoredRecording]:
        """Delete the recordings of runs before a time, by default the expired ones, and return them.

        With `dry_run`, only return them. Raises RecordingError.
        """
        limit = before or datetime.fromtimestamp(time.time() - self._settings.payload_days * _DAY_S, UTC)
        old = [each for each in self.list_runs() if each.recorded < limit]
        for each in () if dry_run else old:
            try:
                self._locate(each.run).unlink(missing_ok=True)
            except OSError as error:
                raise _explain_failure("deleted", error) from error
        return old

    def _purge_when_due(self) -> None:
        """Purge unless any process did so recently. Errors are left to the next purge."""
        marker = self._directory / _PURGED_FILE
        with contextlib.suppress(OSError, RecordingError):
            if not marker.exists() or abs(time.time() - marker.stat().st_mtime) >= _PURGE_EVERY_S:
                marker.touch(mode=0o600)
                self.purge()

    def _locate(self, run: str) -> Path:
        if not is_id(run):
            raise RecordingError(
                f"{run[:64]!r} is not the id of a run; `paddock record list` lists the recorded runs"
            )
        return self._directory / f"{run}{_SUFFIX}"


def explain_size(max_bytes: int) -> str:
    """Return why a run has no recording: it is too large."""
    return f"its recording would have more than record.payload_bytes = {max_bytes} bytes"


def _bind(run: str) -> bytes:
    return _MAGIC + run.encode()


def _explain_failure(what: str, error: OSError) -> RecordingError:
    why = f"{error.filename}: {error.strerror}" if isinstance(error, NotOursError) else error.strerror or "?"
    place = f" ({error.filename})" if error.filename and not isinstance(error, NotOursError) else ""
    return RecordingError(f"the recording cannot be {what}: {why}{place}")
