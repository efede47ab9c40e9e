"""An audit sink that keeps its records in a list, for tests and for use without a ledger."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Unpack

from paddock.model.errors import LedgerError
from paddock.record.ledger.line_format import chain_record
from paddock.record.ledger.sink import (
    STARTED,
    AuditQuery,
    AuditRecord,
    Field,
    check_event,
    check_fields,
    check_ids,
    duplicate_claim_error,
    find_mint_time,
    select_records,
)


class MemoryAudit:
    """Keeps audit records in `records`, in order; an `AuditSink` of one process."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self.records: list[AuditRecord] = []
        self._clock = clock
        self._mutex = threading.Lock()
        self._claimed: set[str] = set()
        self._closed = False

    def claim(self, request: str, fields: Mapping[str, Field], *, parent: str | None = None) -> str:
        """Add the `started` record of a request, at most once; see `AuditSink.claim`."""
        find_mint_time(request, self._clock())
        return self._keep_record(STARTED, request, parent, fields)

    def append(
        self, event: str, request: str, fields: Mapping[str, Field], *, parent: str | None = None
    ) -> str:
        """Add one record; see `AuditSink.append`."""
        check_event(event)
        return self._keep_record(event, request, parent, fields)

    append_soon = append

    def query(self, **wanted: Unpack[AuditQuery]) -> Iterator[AuditRecord]:
        """Yield matching records; see `AuditSink.query`."""
        records = reversed(self.records) if wanted.get("newest_first", True) else iter(self.records)
        return select_records(records, wanted)

    def close(self) -> None:
        """Accept no more records; existing ones stay readable."""
        self._closed = True

    def _keep_record(self, event: str, request: str, parent: str | None, fields: Mapping[str, Field]) -> str:
        check_ids(request, parent)
        check_fields(fields)
        with self._mutex:
            if self._closed:
                raise LedgerError("The audit sink is closed. Open another one to write.")
            if event == STARTED and request in self._claimed:
                raise duplicate_claim_error(request)
            last = self.records[-1] if self.records else None
            self.records.append(
                chain_record(last, event, request, fields, parent=parent, seconds=self._clock())
            )
            if event == STARTED:
                self._claimed.add(request)
            return self.records[-1].id
