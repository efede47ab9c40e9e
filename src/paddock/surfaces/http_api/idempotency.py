"""Start each request with an `Idempotency-Key` at most once, also after a restart.

The id of the execution follows from the caller, the key and the day. Therefore a second start would claim the same id,
which the ledger refuses. The id's own time is the beginning of the day (UTC), and the ledger refuses ids that are older
than 24 hours, so that an id can be claimed on its day alone. A request is new if neither the id of today nor that of
yesterday was claimed. A key is remembered for at least 24 hours, and at most 48.
"""

import hashlib
import re
import time
from datetime import UTC, datetime
from typing import NamedTuple

from ulid_transform import bytes_to_ulid

from paddock.model.base import Json
from paddock.model.canonical import canonical
from paddock.model.request import RequestKey
from paddock.record.ledger.sink import CLAIM_AGE_S, FINISHED, STARTED, AuditSink
from paddock.surfaces.http_server.problems import INVALID_KEY, OUTCOME_LOST, Problem

HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotent-Replayed"
_KEY_PATTERN = re.compile(r"[!-~]{1,255}", re.ASCII)
_RANDOM_BYTES = 10
"""Size of the part of a ULID that is not its time."""
_DAY_S = CLAIM_AGE_S


class KeyedRequest(NamedTuple):
    """A request with a key."""

    actor: str
    key: str
    digest: bytes
    """SHA-256 over everything that the request asks for."""

    def to_request_key(self) -> RequestKey:
        """Return the key as a request has it."""
        return RequestKey(name=self.key, digest=self.digest)


def read_key(actor: str, header: str | None, request: Json) -> KeyedRequest | None:
    """Return the key of a request, which asks for `request`; None without a key. Raises Problem."""
    if header is None:
        return None
    if not _KEY_PATTERN.fullmatch(header):
        raise Problem(
            INVALID_KEY,
            "An Idempotency-Key is 1 to 255 printable ASCII characters without spaces. "
            "Send a new random one, such as a UUID, for each new request.",
        )
    return KeyedRequest(actor, header, hashlib.sha256(canonical(request)).digest())


def derive_id(keyed: KeyedRequest, now: float) -> str:
    """Return the id for a request with a key on the day of `now`, in seconds since the epoch."""
    day_ms = int(now // _DAY_S) * _DAY_S * 1000
    name = canonical(["idempotency-key", keyed.actor, keyed.key])
    return bytes_to_ulid(day_ms.to_bytes(6) + hashlib.sha256(name).digest()[:_RANDOM_BYTES])


def check_unclaimed(sink: AuditSink, keyed: KeyedRequest, now: float) -> None:
    """Raise Problem if the ledger has a start of this request, today or yesterday. Reads the ledger; may block."""
    since = datetime.fromtimestamp((now // _DAY_S - 1) * _DAY_S, UTC)
    for day in (now, now - _DAY_S):
        id_ = derive_id(keyed, day)
        if next(sink.query(event=STARTED, request=id_, since=since, limit=1), None) is not None:
            ended = next(sink.query(event=FINISHED, request=id_, since=since, limit=1), None)
            raise explain_lost(id_, None if ended is None else str(ended.fields.get("status")))


def explain_lost(id_: str, status: str | None) -> Problem:
    """Return the problem for a request that was started before and whose outcome is not kept."""
    became = (
        f"It finished with the status {status}, but its outcome is no longer kept."
        if status is not None
        else "How it ended is not known: the server may have ended while it ran."
    )
    return Problem(
        OUTCOME_LOST,
        f"This Idempotency-Key has started the execution {id_} before. {became} "
        "Nothing was started now. `paddock audit show` prints its record; send a new key to run it again.",
        execution=id_,
        headers={},
    )


def current_time() -> float:
    """Return the time, in seconds since the epoch."""
    return time.time()
