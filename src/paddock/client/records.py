"""Records of the audit ledger, or of the caller's own sink, for `Paddock.find_records`."""

import asyncio
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from paddock.model.errors import RequestError

if TYPE_CHECKING:
    from datetime import datetime

    from paddock.audit.sink import AuditRecord, AuditSink


class Wanted(TypedDict):
    """The fields of `paddock.audit.search.RecordFilter`."""

    name: str | None
    event: str | None
    actor: str | None
    status: str | None
    server: str | None
    tool: str | None
    since: "datetime | None"


async def find_records(
    sink: "AuditSink | None", directory: Path, limit: int | None, **wanted: Unpack[Wanted]
) -> "list[AuditRecord]":
    """Return up to `limit` records that match, newest first: of the sink, or else of the ledger in `directory`.

    Raises RequestError for an unknown event or status, and LedgerError.
    """
    from paddock.audit.search import STATUSES, RecordFilter, find
    from paddock.audit.sink import EVENTS

    for word, given, known in (("event", wanted["event"], EVENTS), ("status", wanted["status"], STATUSES)):
        if given is not None and given not in known:
            raise RequestError(f"no record has the {word} {given[:200]!r}; there are {', '.join(known)}")
    matching = RecordFilter(**wanted)
    if sink is None:
        return await asyncio.to_thread(lambda: list(find(directory, matching, limit=limit)))
    from paddock.audit.checked import CheckedSink

    found = filter(matching.matches, CheckedSink(sink).query(event=wanted["event"], since=wanted["since"]))
    return await asyncio.to_thread(lambda: list(islice(found, limit)))
