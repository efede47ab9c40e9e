"""The interface of every audit sink: what it accepts, guarantees and returns.

A sink stores facts about a request, never its payloads: fields are scalars and short lists of short strings.
"""

import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import Annotated, Protocol, TypedDict, cast

from pydantic import Field as Described

from paddock.model import ids
from paddock.model.base import Value
from paddock.model.errors import AlreadyClaimed, LedgerError

Field = str | int | float | bool | None | list[str] | tuple[str, ...]
"""A fact of a record: a scalar or a short list of short strings."""
Facts = Mapping[str, Field]
"""Facts of a request, by name: the fields of its record."""

STARTED = "started"
"""Event of a claim; only `claim` writes it."""
FINISHED = "finished"
"""Event for the end of a claimed request."""
RECOVERED = "recovered"
"""Event for damage that a sink found; only the sink itself writes it."""

REPAIRED = "repaired"
"""Event for a repaired mode of one of Paddock's own files; only the sink itself writes it."""
ARCHIVED = "archived"
"""Event for a day whose file was moved to an archive; only the sink itself writes it."""
REVOKED = "revoked"
"""Event for a token that a replica of a cluster found removed or changed."""

EVENTS = (
    "refused",
    "asked",
    "answered",
    "decided",
    STARTED,
    "looked",
    "connected",
    FINISHED,
    "approved",
    REVOKED,
    RECOVERED,
    REPAIRED,
    ARCHIVED,
)
"""Every event that Paddock writes, in the order in which they occur; docs/record.md describes each."""

MAX_FIELDS = 48
MAX_FIELD_CHARS = 512
MAX_LIST_ITEMS = 64
MAX_ITEM_CHARS = 128
CLAIM_AGE_S = 24 * 3600
"""Maximum age of an id that can be claimed, in seconds."""
CLAIM_SKEW_S = 60
"""Maximum time by which the clock that minted an id may be ahead of the sink's, in seconds."""

_FIELD_NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,63}")
_RESERVED_FIELD_NAMES = frozenset({"v", "seq", "id", "ts", "event", "request", "parent", "prev", "hash"})


class AuditRecord(Value):
    """One record, as it was written."""

    seq: Annotated[int, Described(strict=True, gt=0, lt=2**63)]
    """Position in the chain, from 1, without gaps."""
    id: str
    """ULID of the record."""
    ts: str
    """UTC, ISO 8601 with milliseconds and `Z`; strings sort as times do."""
    event: str
    """`started`, `finished`, `decided`, ...; `recovered` and `repaired` are the sink's own."""
    request: str
    """Id of the request; empty for the sink's own events."""
    parent: str | None
    """Id of the request that caused this one."""
    fields: dict[str, str | int | float | bool | tuple[str, ...] | None]
    """Facts about the request, by name."""
    prev: str
    """`hash` of the record before this one; 64 zeros for the first."""
    hash: str
    """SHA-256 (hex) over everything else in the record."""


class AuditQuery(TypedDict, total=False):
    """The arguments of `AuditSink.query`, for sinks that pass them on."""

    event: str | None
    request: str | None
    since: datetime | None
    """Earliest time, inclusive, with a time zone."""
    limit: int | None
    """Maximum number of records."""
    newest_first: bool
    """True by default."""


class AuditSink(Protocol):
    """Records what the gate is about to do, and the result.

    Every method may be called from any thread. A record is written when the call returns (except by `append_soon`).
    LedgerError means that it is not written, and that the recorded action must not happen.
    """

    def claim(self, request: str, fields: Mapping[str, Field], *, parent: str | None = None) -> str:
        """Write the `started` record of `request` and return the record's id; at most once for each request.

        `request` is a ULID minted at most `CLAIM_AGE_S` ago. Raises AlreadyClaimed, a LedgerError, if this or another
        process has already claimed the request on the same sink.
        """
        ...

    def append(
        self, event: str, request: str, fields: Mapping[str, Field], *, parent: str | None = None
    ) -> str:
        """Write one record of any event except `started` and the sink's own, and return the record's id."""
        ...

    def append_soon(
        self, event: str, request: str, fields: Mapping[str, Field], *, parent: str | None = None
    ) -> str:
        """Queue one record of an event that has already happened, and return its id.

        It is checked as by `append` and has the time of this call. The sink writes it within a second, before any other
        record, before `query` reads and before `close` returns. As long as it cannot be written, all of these raise
        LedgerError.
        """
        ...

    def query(
        self,
        *,
        event: str | None = None,
        request: str | None = None,
        since: datetime | None = None,
        limit: int | None = None,
        newest_first: bool = True,
    ) -> Iterator[AuditRecord]:
        """Yield matching records lazily, at most `limit`; `since` is inclusive and needs a time zone."""
        ...

    def close(self) -> None:
        """Sync everything and close; a second call does nothing."""
        ...


def timestamp(seconds: float) -> str:
    """Return a record's `ts` for seconds since the epoch."""
    second, microseconds = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"{_format_second(second)}.{microseconds // 1000:03d}Z"


@lru_cache(maxsize=4)
def _format_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat(timespec="seconds").removesuffix("+00:00")


def since_timestamp(since: datetime | None) -> str:
    """Return the `ts` of a limit in time; "" for none. Raises LedgerError if it has no time zone."""
    if since is None:
        return ""
    if since.tzinfo is None:
        raise LedgerError("`since` has no time zone, so that its time is not known. Pass an aware datetime.")
    return timestamp(since.timestamp())


def select_records(records: Iterable[AuditRecord], wanted: AuditQuery) -> Iterator[AuditRecord]:
    """Yield the records that match, at most `limit`, in the order of `records`. Raises LedgerError for `since`."""
    event, request, limit = wanted.get("event"), wanted.get("request"), wanted.get("limit")
    earliest = since_timestamp(wanted.get("since"))
    found = (
        record
        for record in records
        if record.ts >= earliest and event in (None, record.event) and request in (None, record.request)
    )
    return islice(found, None if limit is None else min(limit, sys.maxsize))


def check_event(event: str) -> None:
    """Raise LedgerError unless `event` is a name that `append` may write."""
    if event in (STARTED, RECOVERED, REPAIRED, ARCHIVED):
        how = "claim() writes it" if event == STARTED else "only the sink itself writes it"
        raise LedgerError(f"The audit event `{event}` cannot be appended: {how}. Use another event.")
    if not _FIELD_NAME_PATTERN.fullmatch(event):
        raise LedgerError(
            "An audit event's name is not 1 to 64 of a-z, 0-9 and _. Use a name like `finished`."
        )


def check_ids(request: str, parent: str | None) -> None:
    """Raise LedgerError unless both ids are strings that fit a record."""
    for text in (request, parent or ""):
        if not (text.isascii() and len(text) <= MAX_FIELD_CHARS) and (fault := _explain_fault(text)):
            raise LedgerError(f"An audit record's request or parent id {fault}. Use a ULID.")


def check_fields(fields: Mapping[str, Field]) -> None:
    """Raise LedgerError unless every field may be stored. The error never contains a value, which may be a secret."""
    if len(fields) > MAX_FIELDS:
        raise LedgerError(
            f"An audit record has {len(fields)} fields, over the limit of {MAX_FIELDS}. Log fewer facts."
        )
    if _may_name_all(tuple(fields)) and _are_plain(fields.values()):
        return  # the fast path for most records, because every call writes one
    for name, value in fields.items():
        if not _may_name(name):
            raise LedgerError(
                f"The audit field {name[:64]!r} has a reserved or malformed name. Use 1 to 64 of "
                f"a-z, 0-9 and _, and none of {', '.join(sorted(_RESERVED_FIELD_NAMES))}."
            )
        if fault := _explain_fault(value):
            raise LedgerError(f"The audit field `{name}` {fault}. The ledger stores facts, never payloads.")


@lru_cache(maxsize=256)
def _may_name_all(names: tuple[str, ...]) -> bool:
    return all(map(_may_name, names))


def _may_name(name: str) -> bool:
    return name not in _RESERVED_FIELD_NAMES and _FIELD_NAME_PATTERN.fullmatch(name) is not None


_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**63 - 1


def _are_plain(values: Iterable[Field]) -> bool:
    """Return whether all values may be stored, by a fast check. False for unusual values means only a closer check."""
    for value in values:
        if type(value) is str:  # `isinstance` takes twice as long
            if len(value) > MAX_FIELD_CHARS or not value.isascii():
                return False
        elif type(value) is int or type(value) is float:
            if not _MIN_INTEGER <= value <= _MAX_INTEGER:
                return False
        elif type(value) is list or type(value) is tuple:
            if not _are_short(value):
                return False
        elif value is not None and _explain_fault(value):
            return False
    return True


def _are_short(items: Sequence[str]) -> bool:
    try:
        ascii_only = "".join(items).isascii()
    except TypeError:
        return False
    return ascii_only and len(items) <= MAX_LIST_ITEMS and max(map(len, items), default=0) <= MAX_ITEM_CHARS


def _explain_fault(value: object) -> str:
    """Return what is wrong with a value and what to do, or ""."""
    match value:
        case None | bool():
            return ""
        case str():
            if len(value) > MAX_FIELD_CHARS:
                return f"is over {MAX_FIELD_CHARS} characters; log its hash or length"
            return "" if _is_text(value) else "is not valid Unicode; replace the lone surrogates"
        case int():
            return "" if -(2**63) <= value < 2**63 else "does not fit 64 bits; log it as text"
        case float():
            return "" if math.isfinite(value) else "is not a finite number; log None"
        case list() | tuple():
            items = cast("Sequence[object]", value)
            if len(items) > MAX_LIST_ITEMS:
                return f"has over {MAX_LIST_ITEMS} items; log their number"
            if all(
                isinstance(item, str) and len(item) <= MAX_ITEM_CHARS and _is_text(item) for item in items
            ):
                return ""
            return f"has an item that is not Unicode text of at most {MAX_ITEM_CHARS} characters; log names"
        case _:
            return "is not a scalar or a list of short strings; log facts about it"


def _is_text(value: str) -> bool:
    """Return whether `value` has no lone surrogates, which file names may have and JSON readers reject."""
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)


def find_mint_time(request: str, now: float) -> float:
    """Return when the id of a request to be claimed was minted, in seconds since the epoch.

    Raises LedgerError if the id is not a ULID, or was minted too long before `now` or after it. Only a bounded period
    is searched for an earlier claim, so that an id from outside of it could be claimed twice.
    """
    minted = ids.find_mint_time(request)
    if minted is None:
        raise LedgerError("The request cannot be claimed: its id is not a ULID. Mint one with new_id().")
    if not now - CLAIM_AGE_S <= minted <= now + CLAIM_SKEW_S:
        raise LedgerError(
            f"The request {request} cannot be claimed: its id was minted over {CLAIM_AGE_S // 3600} h ago or "
            "in the future. Mint a new id with new_id(); if this one is new, set the clock right."
        )
    return minted


def duplicate_claim_error(request: str) -> AlreadyClaimed:
    """Return the error for a second claim."""
    return AlreadyClaimed(
        f"The request {request} was claimed before and runs at most once. "
        f"Look up what became of it in the audit ledger; to run it again, send it with a new id."
    )
