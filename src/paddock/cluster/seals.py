"""Seals on rows that grant something: a user of the database who lacks the key grants nothing by writing one.

The keys are those of `cluster.key_file`. Without that file rows have no seal, and the database alone is trusted.
"""

import hashlib
import hmac
import json
from collections.abc import Sequence
from typing import Final

from paddock.cluster.keys import read_keys
from paddock.policy.settings.cluster import ClusterSettings


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
