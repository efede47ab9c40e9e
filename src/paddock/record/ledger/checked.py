"""An audit sink that the caller of the library brings: whatever it does, nothing runs without a record."""

import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from paddock.model.errors import LedgerError, LedgerUnusable
from paddock.record.ledger.sink import AuditRecord, AuditSink, Field, check_event, check_fields, check_ids

_log = logging.getLogger("paddock.record.ledger")


class CheckedSink:
    """Passes records on to a sink. What that raises is a LedgerUnusable, and so is an answer that is no id.

    The texts of its exceptions may hold what it was given, and credentials: the log has their type and place.
    """

    def __init__(self, sink: AuditSink) -> None:
        self._sink = sink
        self._name = type(sink).__name__

    def claim(self, request: str, fields: Mapping[str, Field], *, parent: str | None = None) -> str:
        """Write the `started` record of a request; see `AuditSink.claim`."""
        check_ids(request, parent)
        check_fields(fields)
        return self._write(lambda: self._sink.claim(request, fields, parent=parent))

    def append(
        self, event: str, request: str, fields: Mapping[str, Field], *, parent: str | None = None
    ) -> str:
        """Write one record; see `AuditSink.append`."""
        self._check(event, request, parent, fields)
        return self._write(lambda: self._sink.append(event, request, fields, parent=parent))

    def append_soon(
        self, event: str, request: str, fields: Mapping[str, Field], *, parent: str | None = None
    ) -> str:
        """Take one record; see `AuditSink.append_soon`."""
        self._check(event, request, parent, fields)
        return self._write(lambda: self._sink.append_soon(event, request, fields, parent=parent))

    def query(
        self,
        *,
        event: str | None = None,
        request: str | None = None,
        since: datetime | None = None,
        limit: int | None = None,
        newest_first: bool = True,
    ) -> Iterator[AuditRecord]:
        """Yield matching records; see `AuditSink.query`."""
        try:
            yield from self._sink.query(
                event=event, request=request, since=since, limit=limit, newest_first=newest_first
            )
        except LedgerError:
            raise
        except Exception as error:
            raise self._explain_fault(error) from error

    def close(self) -> None:
        """Do nothing: the sink is its owner's to close."""

    def _check(self, event: str, request: str, parent: str | None, fields: Mapping[str, Field]) -> None:
        check_event(event)
        check_ids(request, parent)
        check_fields(fields)

    def _write(self, write: Callable[[], object]) -> str:
        try:
            record = write()
        except LedgerError:
            raise
        except Exception as error:
            raise self._explain_fault(error) from error
        if not isinstance(record, str) or not record:
            raise LedgerUnusable(
                f"the audit sink {self._name} gave no id of a record, so nothing shows that it has one"
            )
        return record

    def _explain_fault(self, error: Exception) -> LedgerUnusable:
        kind, where = type(error).__name__, inspect.trace()[-1]
        _log.warning("the audit sink %s raised %s in %s, line %s", self._name, kind, *where[1:3])
        return LedgerUnusable(f"the audit sink {self._name} failed: {kind}")
