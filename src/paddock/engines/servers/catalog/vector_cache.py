"""Vectors of tools in one private file, for later processes of the same user.

    magic | records: 32 bytes of key, 384 numbers of 32 bits | SHA-256 of everything before

The file is read and replaced as a whole, under a lock. A file that is damaged, another user's or too large counts as
empty: the vectors are computed again, which only costs time.
"""

import contextlib
import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from paddock.engines.servers.catalog.sentence_model import DIMENSIONS, Vector
from paddock.foundation.files import hold_lock, is_ours, make_private, replace_file
from paddock.foundation.own_files import check_directory, read_own

MAX_VECTORS = 8_192
"""Maximum number of vectors in the file; the oldest are removed first."""
_MAGIC = b"paddock vectors 1\n"
_KEY_BYTES = _DIGEST_BYTES = hashlib.sha256().digest_size
_RECORD_BYTES = _KEY_BYTES + 4 * DIMENSIONS
_MAX_BYTES = len(_MAGIC) + MAX_VECTORS * _RECORD_BYTES + _DIGEST_BYTES


class VectorCache:
    """Vectors by key, in a directory of this user. It is only a cache; its methods raise nothing."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = directory / "tools.bin"

    def read_vectors(self) -> dict[bytes, Vector]:
        """Return the stored vectors, oldest first."""
        try:
            check_directory(self._directory)
            content = read_own(self._file, _MAX_BYTES)
        except OSError:
            return {}
        records = content[len(_MAGIC) : -_DIGEST_BYTES]
        if (
            not content.startswith(_MAGIC)
            or len(records) % _RECORD_BYTES
            or hashlib.sha256(content[:-_DIGEST_BYTES]).digest() != content[-_DIGEST_BYTES:]
        ):
            return {}
        return {
            records[at : at + _KEY_BYTES]: np.frombuffer(
                records, dtype="<f4", count=DIMENSIONS, offset=at + _KEY_BYTES
            ).astype(np.float32)
            for at in range(0, len(records), _RECORD_BYTES)
        }

    def add_vectors(self, vectors: Mapping[bytes, Vector]) -> None:
        """Store further vectors beside those that other processes have added."""
        if not vectors:
            return
        with contextlib.suppress(OSError):
            make_private(self._directory)
            check_directory(self._directory)
            if not is_ours(self._directory):
                return
            with hold_lock(self._directory / "lock"):
                kept = {key: vector for key, vector in self.read_vectors().items() if key not in vectors}
                newest = list({**kept, **vectors}.items())[-MAX_VECTORS:]
                content = _MAGIC + b"".join(key + vector.astype("<f4").tobytes() for key, vector in newest)
                replace_file(self._file, content + hashlib.sha256(content).digest())
