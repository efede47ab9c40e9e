"""Vectors of tools: their form, their keys, and the file that keeps them for later processes.

A vector is 384 numbers of 32 bits, little-endian, of length 1. This module loads no NumPy: Paddock's process only
stores vectors and passes them on (`sentence_process.py`).
"""

import contextlib
import hashlib
from array import array
from collections.abc import Iterable, Mapping
from math import hypot
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from paddock.engines.servers.catalog.queries import split_words
from paddock.foundation.files import hold_lock, is_ours, make_private, replace_file
from paddock.foundation.own_files import check_directory, read_own

if TYPE_CHECKING:
    from paddock.engines.servers.result import CatalogTool  # the process of the model needs none

MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
DIMENSIONS = 384
VECTOR_BYTES = 4 * DIMENSIONS
MAX_DESCRIPTION_CHARS = 600
"""Maximum length of a description that goes into its vector, in characters."""
MAX_VECTORS = 8_192
"""Maximum number of vectors in the file, where the oldest are removed first, and of one catalog."""

_SCHEME = f"1 {MODEL_SHA256}"
"""Version of the way vectors are made. Another model or formula needs another name."""
_MAGIC = b"paddock vectors 1\n"
_KEY_BYTES = _DIGEST_BYTES = hashlib.sha256().digest_size
_RECORD_BYTES = _KEY_BYTES + VECTOR_BYTES
_MAX_BYTES = len(_MAGIC) + MAX_VECTORS * _RECORD_BYTES + _DIGEST_BYTES
_MAX_LENGTH_ERROR = 1e-3


class ToolTexts(NamedTuple):
    """The texts behind a tool's vector."""

    name: str
    server: str
    description: str

    @property
    def key(self) -> bytes:
        """The key of the tool's vector: a hash over the texts and the model."""
        digest = hashlib.sha256(_SCHEME.encode())
        for text in self:
            encoded = text.encode("utf-8", "replace")
            digest.update(len(encoded).to_bytes(8, "big") + encoded)
        return digest.digest()


def list_texts(entry: "CatalogTool") -> ToolTexts:
    """Return the texts behind a tool's vector: name and server, split into words, and description."""
    name = " ".join(split_words(entry.tool.name)) or entry.tool.name
    server = " ".join(split_words(entry.server)) or entry.server
    return ToolTexts(name, server, entry.tool.description[:MAX_DESCRIPTION_CHARS].strip())


def is_vector(content: bytes) -> bool:
    """Return whether these bytes are a vector of length 1. A number that is not finite would spoil every score."""
    return len(content) == VECTOR_BYTES and abs(hypot(*array("f", content)) - 1) < _MAX_LENGTH_ERROR


class VectorCache:
    """Vectors by key in one private file, for later processes of the same user. Its methods raise nothing.

        magic | records: 32 bytes of key, a vector | SHA-256 of everything before

    The file is read and replaced as a whole, under a lock. A file that is damaged, another user's or too large counts
    as empty, and so does a record that is no vector: it is computed again, which only costs time.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = directory / "tools.bin"

    def read_vectors(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the stored vectors of some keys."""
        records = self._read_records()
        return {key: records[key] for key in keys if key in records and is_vector(records[key])}

    def add_vectors(self, vectors: Mapping[bytes, bytes]) -> bool:
        """Store further vectors beside those that other processes have added.

        Return False if another process writes at the moment: waiting for it could delay the end of this one.
        """
        if not vectors:
            return True
        with contextlib.suppress(OSError):
            make_private(self._directory)
            check_directory(self._directory)
            if not is_ours(self._directory):
                return True
            with hold_lock(self._directory / "lock", wait=False) as held:
                if not held:
                    return False
                kept = {key: vector for key, vector in self._read_records().items() if key not in vectors}
                newest = list({**kept, **vectors}.items())[-MAX_VECTORS:]
                content = _MAGIC + b"".join(key + vector for key, vector in newest)
                replace_file(self._file, content + hashlib.sha256(content).digest())
        return True

    def _read_records(self) -> dict[bytes, bytes]:
        """Return the records of the file, oldest first."""
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
            records[at : at + _KEY_BYTES]: records[at + _KEY_BYTES : at + _RECORD_BYTES]
            for at in range(0, len(records), _RECORD_BYTES)
        }
