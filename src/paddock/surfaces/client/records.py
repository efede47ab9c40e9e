"""Records of the audit ledger or of the caller's own sink, and stored output, for `Paddock`."""

import asyncio
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from paddock.model.errors import RequestError
from paddock.surfaces.client.arguments import check_type, make_value, read_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from paddock.model.artifact import OutputFound, OutputQuery
    from paddock.record.ledger.sink import AuditRecord, AuditSink
    from paddock.record.output.artifacts import Artifacts


class WantedRecords(TypedDict):
    """The fields of `paddock.record.ledger.search.RecordFilter`."""

    name: str | None
    event: str | None
    actor: str | None
    status: str | None
    server: str | None
    tool: str | None
    since: "datetime | None"


async def find_output(
    open_store: "Callable[[], Artifacts]", asked: "OutputQuery", workspace: Path
) -> "OutputFound":
    """Search stored output. Raises PaddockError for a handle that cannot be read."""
    from paddock.model.artifact import OutputQuery
    from paddock.record.output.query import query

    check_type(asked, OutputQuery, "asked", "an OutputQuery")
    return await asyncio.to_thread(query, open_store(), asked, workspace)


async def find_records(
    sink: "AuditSink | None", directory: Path, limit: int | None, **wanted: Unpack[WantedRecords]
) -> "list[AuditRecord]":
    """Return up to `limit` records that match, newest first: of the sink, or else of the ledger in `directory`.

    Raises RequestError for an unknown event or status, and LedgerError.
    """
    from paddock.record.ledger.search import STATUSES, RecordFilter, find
    from paddock.record.ledger.sink import EVENTS

    for word, given, known in (("event", wanted["event"], EVENTS), ("status", wanted["status"], STATUSES)):
        if given is not None and read_text(given, word) not in known:
            raise RequestError(f"no record has the {word} {given[:200]!r}; there are {', '.join(known)}")
    matching = make_value(RecordFilter, wanted)
    if sink is None:
        return await asyncio.to_thread(lambda: list(find(directory, matching, limit=limit)))
    from paddock.record.ledger.sink_wrappers import CheckedSink

    found = filter(matching.matches, CheckedSink(sink).query(event=wanted["event"], since=wanted["since"]))
    return await asyncio.to_thread(lambda: list(islice(found, limit)))
