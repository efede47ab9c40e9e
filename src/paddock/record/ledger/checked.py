"""An audit sink that the caller of the library brings: whatever it does, nothing runs without a record."""

import inspect
import logging
from collections.abc import Iterator
from typing import Unpack, cast

from paddock.model.errors import LedgerError, LedgerUnusable
from paddock.record.ledger.forwarding import ForwardingSink, NewRecord, Write
from paddock.record.ledger.sink import (
    AuditQuery,
    AuditRecord,
    AuditSink,
    check_event,
    check_fields,
    check_ids,
)

_log = logging.getLogger("paddock.record.ledger")


class CheckedSink(ForwardingSink):
    """Passes records on to a sink. What that raises is a LedgerUnusable, and so is an answer that is no id.

    The texts of its exceptions may hold what it was given, and credentials: the log has their type and place.
    """

    def __init__(self, sink: AuditSink) -> None:
        super().__init__(sink)
        self._name = type(sink).__name__

    def query(self, **wanted: Unpack[AuditQuery]) -> Iterator[AuditRecord]:
        """Yield matching records; see `AuditSink.query`."""
        try:
            yield from self._sink.query(**wanted)
        except LedgerError:
            raise
        except Exception as error:
            raise self._explain_fault(error) from error

    def close(self) -> None:
        """Do nothing: the sink is its owner's to close."""

    def _write(self, record: NewRecord, write: Write) -> str:
        if record.event is not None:
            check_event(record.event)
        check_ids(record.request, record.parent)
        check_fields(record.fields)
        try:
            id_ = cast("object", write(record.fields))  # the sink may be untyped
        except LedgerError:
            raise
        except Exception as error:
            raise self._explain_fault(error) from error
        if not isinstance(id_, str) or not id_:
            raise LedgerUnusable(
                f"the audit sink {self._name} gave no id of a record, so nothing shows that it has one"
            )
        return id_

    def _explain_fault(self, error: Exception) -> LedgerUnusable:
        kind, where = type(error).__name__, inspect.trace()[-1]
        _log.warning("the audit sink %s raised %s in %s, line %s", self._name, kind, *where[1:3])
        return LedgerUnusable(f"the audit sink {self._name} failed: {kind}")
