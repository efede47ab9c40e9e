"""Seals on rows that grant something: a user of the database who lacks the key grants nothing by writing one.

The keys are those of `cluster.key_file`. Without that file rows have no seal, and the database alone is trusted.
"""

import hashlib
import hmac
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from paddock.cluster.database import Database
from paddock.cluster.kept import MAX_BODY_CHARS, READ, REPLACE, KeptRow
from paddock.foundation.own_files import read_trusted
from paddock.model.errors import ConfigurationError
from paddock.policy.settings.cluster import ClusterSettings

MIN_KEY_CHARS = 32
_MAX_KEYS = 16
_MAX_BYTES = 64 * 1024
_MAX_ATTEMPTS = 5
"""Number of times that a row is read which another machine changes meanwhile."""
_LIST = "select kind, name from kept where body ? 'seal' order by kind, name"


def read_keys(file: Path) -> tuple[bytes, ...]:
    """Return the keys in a file, one per line: the first one signs, all are accepted. Raises ConfigurationError.

    To replace a key without a pause, add the new one below the old one on every replica, then swap them, then seal the
    rows anew (`reseal_rows`), then remove the old one. Each change needs a restart of the replicas, one after another.
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


class Resealed(NamedTuple):
    """What became of the rows."""

    sealed: int
    """Number of rows that have the seal of the first key now, also those that had it before."""
    refused: tuple[str, ...]
    """Kinds and names of rows without a valid seal, and of those that other machines changed each time."""


async def reseal_rows(database: Database, seals: Seals) -> Resealed:
    """Give each row with a valid seal that of the first key, before an old key is removed. Raises StoreUnavailable."""
    sealed = 0
    refused: list[str] = []
    for kind, name in await database.fetch(_LIST):
        if await _reseal_row(database, seals, str(kind), str(name)):
            sealed += 1
        else:
            refused.append(f"{kind} {name}")
    return Resealed(sealed, tuple(refused))


async def _reseal_row(database: Database, seals: Seals, kind: str, name: str) -> bool:
    """Return whether the row has a valid seal now; a row that was removed meanwhile needs none."""
    for _ in range(_MAX_ATTEMPTS):
        rows = await database.fetch(READ, (MAX_BODY_CHARS * 2, kind, name))
        if not rows:
            return True
        row = KeptRow(*rows[0])
        try:
            match row.parse():
                case {"text": str() as text, "seal": str() as seal}:  # a fact
                    member, given = "text", bytes.fromhex(seal)
                case {"token": str() as text, "seal": str() as seal}:
                    member, given = "token", bytes.fromhex(seal)
                case _:
                    return False
        except ValueError:
            return False
        if not seals.accepts(given, kind, name, text):
            return False
        made = seals.seal(kind, name, text)
        if made == given:
            return True
        new = json.dumps({member: text, "seal": None if made is None else made.hex()})
        if await database.fetch(REPLACE, (new, kind, name, row.version)):
            return True
    return False
