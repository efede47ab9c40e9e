"""Sinks to use if the ledger cannot be written and the settings allow computations without it."""

import logging
from typing import NoReturn

from paddock.model.errors import LedgerUnusable
from paddock.record.ledger.forwarding import ForwardingSink, NewRecord, Write

_log = logging.getLogger("paddock.record.ledger")


class UnavailableSink:
    """An `AuditSink` whose ledger could not be opened: every call raises that error."""

    def __init__(self, why: LedgerUnusable) -> None:
        self._why = why

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise self._why

    claim = append = append_soon = query = _refuse

    def close(self) -> None:
        """Do nothing."""

    def abandon(self) -> None:
        """Do nothing."""


class BestEffortSink(ForwardingSink):
    """Writes to a sink. If its ledger cannot be written, continues without a record and returns an empty id.

    A second claim of the same request still raises LedgerError, so that a request runs at most once.
    """

    append_soon = ForwardingSink.append  # a queued record would fail a later call

    def _write(self, record: NewRecord, write: Write) -> str:
        try:
            return write(record.fields)
        except LedgerUnusable as why:
            _log.warning("not recorded: %s", why)
            return ""
