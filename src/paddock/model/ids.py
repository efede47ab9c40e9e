"""Ids of requests and records: ULIDs, which sort by their creation time in milliseconds.

`mint_id` also keeps its ids in this process until they are spent. Its random bits come from the kernel: neither a fork
nor a process that saw earlier ids can create the same one. A minted id that is not spent is new.

In a cluster, the last 40 of the 80 random bits are the mark of the replica, so that others know whom to ask about an
id. The form is the same, and 40 random bits within one millisecond of one replica remain.
"""

import os
import re
import time
from collections import OrderedDict
from datetime import UTC, datetime
from itertools import count

from ulid_transform import bytes_to_ulid, ulid_at_time, ulid_now, ulid_to_bytes, ulid_to_timestamp

_ULID_PATTERN = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
MAX_UNSPENT = 16 * 1024
"""Maximum number of minted ids in memory; a forgotten one counts as spent."""
ID_MARK_CHARS = 10
"""Length of the mark in an id, in hexadecimal digits."""
_serials = count(1)
_unspent: OrderedDict[str, int] = OrderedDict()
"""Minted ids with their serial numbers, oldest first. Each operation on it is atomic."""


def new_id(at: float | None = None) -> str:
    """Return a new id, for now or for `at` in seconds since the epoch."""
    return ulid_now() if at is None else ulid_at_time(at)


class _Mark:
    """What the ids of this process end with."""

    data = b""


def mark_ids(mark: str) -> None:
    """Let the ids that this process mints end with the first digits of a mark, in hexadecimal; with none for ""."""
    _Mark.data = bytes.fromhex(mark[:ID_MARK_CHARS])


def find_id_mark(text: str) -> str:
    """Return the mark in an id, in hexadecimal: random digits in an id that has none. `text` is an id."""
    return ulid_to_bytes(text)[-ID_MARK_CHARS // 2 :].hex()


def mint_id() -> str:
    """Return a new id for a request, and keep it until it is spent."""
    random = os.urandom(10 - len(_Mark.data))
    minted = bytes_to_ulid((time.time_ns() // 1_000_000).to_bytes(6) + random + _Mark.data)
    _unspent[minted] = next(_serials)
    if len(_unspent) > MAX_UNSPENT:
        _unspent.popitem(last=False)
    return minted


def next_serial() -> int:
    """Return a number above the serials of all minted ids and below those of later ones."""
    return next(_serials)


def is_unspent(text: str, since: int) -> bool:
    """Return whether `mint_id` created an id in this process after the serial number `since`, and it is not spent."""
    return _unspent.get(text, 0) > since


def count_unspent() -> int:
    """Return how many minted ids this process remembers, at most `MAX_UNSPENT`."""
    return len(_unspent)


def spend_id(text: str) -> None:
    """Forget a minted id: its request was claimed, or never will be."""
    _unspent.pop(text, None)


def is_id(text: str) -> bool:
    """Return whether a string has the form of an id: a ULID in canonical form."""
    return _ULID_PATTERN.fullmatch(text) is not None


def find_mint_time(text: str) -> float | None:
    """Return the creation time of an id, in seconds since the epoch; None if it is not a ULID in canonical form."""
    return ulid_to_timestamp(text) / 1000 if is_id(text) else None


def find_mint_moment(text: str) -> datetime | None:
    """Return the creation time of an id, at most the last one of the calendar; None if it is not a ULID."""
    minted = find_mint_time(text)
    if minted is None:
        return None
    try:
        return datetime.fromtimestamp(minted, UTC)
    except ValueError:  # an id can name the year 10889
        return datetime.max.replace(tzinfo=UTC)


def sort_key(text: str) -> int | None:
    """Return the first 63 bits of an id: its time and some randomness; None if it is not a ULID."""
    return int.from_bytes(ulid_to_bytes(text)[:8]) >> 1 if _ULID_PATTERN.fullmatch(text) else None
