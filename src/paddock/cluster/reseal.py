"""Seal the kept rows anew, before an old key is removed from `cluster.key_file`."""

import json
from typing import NamedTuple

from paddock.cluster.database import Database
from paddock.cluster.kept import MAX_BODY_CHARS, READ, REPLACE, KeptRow
from paddock.cluster.seals import Seals

_MAX_ATTEMPTS = 5
"""Number of times that a row is read which another machine changes meanwhile."""
_LIST = "select kind, name from kept where body ? 'seal' order by kind, name"


class Resealed(NamedTuple):
    """What became of the rows."""

    sealed: int
    """Number of rows that have the seal of the first key now, also those that had it before."""
    refused: tuple[str, ...]
    """Kinds and names of rows without a valid seal, and of those that other machines changed each time."""


async def reseal(database: Database, seals: Seals) -> Resealed:
    """Give each row with a valid seal that of the first key. Raises StoreUnavailable."""
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
