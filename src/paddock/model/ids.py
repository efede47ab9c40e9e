"""Ids of requests and records: ULIDs, which sort by the millisecond in which they were made."""

import re

from ulid_transform import ulid_at_time, ulid_now, ulid_to_timestamp

_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


def new_id(at: float | None = None) -> str:
    """Return a fresh id, made now or `at` so many seconds since the epoch."""
    return ulid_now() if at is None else ulid_at_time(at)


def minted_at(text: str) -> float | None:
    """Return when an id was made, in seconds since the epoch; None when it is not a ULID in its one spelling."""
    return ulid_to_timestamp(text) / 1000 if _ULID.fullmatch(text) else None
