"""Seals on rows that grant something: a user of the database who lacks the key grants nothing by writing one.

The keys are those of `cluster.key_file`. Without that file rows have no seal, and the database alone is trusted.
"""

import hashlib
import hmac
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from paddock.foundation.own_files import read_trusted
from paddock.model.errors import ConfigurationError
from paddock.policy.settings.cluster import ClusterSettings

MIN_KEY_CHARS = 32
_MAX_KEYS = 16
_MAX_BYTES = 64 * 1024


def read_keys(file: Path) -> tuple[bytes, ...]:
    """Return the keys in a file, one per line: the first one signs, all are accepted. Raises ConfigurationError.

    To replace a key without a pause, add the new one below the old one on every replica, then swap them, then seal the
    rows anew (`reseal`), then remove the old one. Each change needs a restart of the replicas, one after the other.
    """
    try:
        text = read_trusted(file, _MAX_BYTES).decode("ascii")
        others_read = file.stat().st_mode & 0o007
    except (OSError, UnicodeDecodeError) as problem:  # NotOursError is an OSError
        why = getattr(problem, "strerror", None) or problem
        raise ConfigurationError(f"cluster.key_file: cannot read {file}: {why}") from None
    if others_read:
        raise ConfigurationError(f"cluster.key_file: every user can read {file}; run: chmod 600 {file}")
    keys = [line.strip() for line in text.splitlines() if line.strip()]
    if not keys or len(keys) > _MAX_KEYS or any(len(key) < MIN_KEY_CHARS for key in keys):
        raise ConfigurationError(
            f"cluster.key_file: {file} must have 1 to {_MAX_KEYS} keys, one per line, each of at least {MIN_KEY_CHARS} "
            'characters; make one with: python3 -c "import secrets; print(secrets.token_urlsafe(32))"'
        )
    return tuple(key.encode() for key in keys)


class Seals:
    """Seals of the machines that have the same keys."""

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        """Seal with the first key, and accept all; without keys, seal nothing and accept everything."""
        self._keys = tuple(keys)

    def seal(self, purpose: str, *fields: str) -> bytes | None:
        """Return the seal of some fields, HMAC-SHA256; None without a key. A seal holds for one `purpose`."""
        return _compute_mac(self._keys[0], purpose, fields) if self._keys else None

    def accepts(self, seal: bytes | None, purpose: str, *fields: str) -> bool:
        """Return whether a seal is that of the fields, in time that does not depend on its content."""
        if not self._keys:
            return True
        given = seal or b""
        found = [hmac.compare_digest(given, _compute_mac(key, purpose, fields)) for key in self._keys]
        return any(found)


NO_SEALS: Final = Seals()
"""Those of machines without keys."""


def _compute_mac(key: bytes, purpose: str, fields: Sequence[str]) -> bytes:
    data = json.dumps(["paddock", purpose, *fields]).encode()  # no two lists have the same JSON
    return hmac.digest(key, data, hashlib.sha256)


def open_seals(settings: ClusterSettings) -> Seals:
    """Return the seals of the settings. Raises ConfigurationError if `cluster.key_file` cannot be used."""
    return Seals(read_keys(settings.key_file) if settings.key_file else ())
