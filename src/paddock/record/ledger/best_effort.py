"""Sinks to use if the ledger cannot be written and the settings allow computations without it."""

import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from paddock.model.errors import LedgerUnusable
from paddock.record.ledger.sink import AuditRecord, AuditSink, Field

_log = logging.getLogger("paddock.record.ledger")


class UnavailableSink:
    """An `AuditSink` whose ledger could not be opened: every call raises that error."""

    def __init__(self, why: LedgerUnusable) -> None:
        self._why = why

    def claim(self, request: str, fields: Mapping[str, Field], *, parent: str | None = None) -> str:
        """Raise LedgerUnusable."""
        raise self._why

    def append(
        self,
        event: str,
        request: str,
        fields: Mapping[str, Field],
        *,
        parent: str | None = None,
    ) -> str:
        """Raise LedgerUnusable."""
        raise self._why

    append_soon = append

    def query(
        self,
        *,
        event: str | None = None,
        request: str | None = None,
        since: datetime | None = None,
        limit: int | None = None,
        newest_first: bool = True,
    ) -> Iterator[AuditRecord]:
        """Raise LedgerUnusable."""
        raise self._why

    def close(self) -> None:
        """Do nothing."""

    def abandon(self) -> None:
        """Do nothing."""


class BestEffortSink:
    """Writes to a sink. If its ledger cannot be written, continues without a record and returns an empty id.

    A second claim of the same request still raises LedgerError, so that a request runs at most once.
    """

    def __init__(self, sink: AuditSink) -> None:
        self._sink = sink

    def claim(self, request: str, fields: Mapping[str, Field], *, parent: str | None = None) -> str:
        """Write the `started` record of a request, if possible; see `AuditSink.claim`."""
        return self._write_if_possible(lambda: self._sink.claim(request, fields, parent=parent))

    def append(
        self, event: str, request: str, fields: Mapping[str, Field], *, parent: str | None = None
    ) -> str:
        """Write one record, if possible; see `AuditSink.append`."""
        return self._write_if_possible(lambda: self._sink.append(event, request, fields, parent=parent))

    append_soon = append

    def _write_if_possible(self, write: Callable[[], str]) -> str:
        try:
            return write()
        except LedgerUnusable as why:
            _log.warning("not recorded: %s", why)
            return ""
