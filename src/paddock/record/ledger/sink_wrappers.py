"""Sinks on top of another sink: each one overrides only what it changes."""

import inspect
import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple, NoReturn, Unpack, cast

from paddock.model.errors import LedgerError, LedgerUnusable
from paddock.record.ledger.sink import (
    AuditQuery,
    AuditRecord,
    AuditSink,
    Facts,
    check_event,
    check_fields,
    check_ids,
)

_log = logging.getLogger("paddock.record.ledger")

Write = Callable[[Facts], str]
"""Writes a record with these fields to the other sink, and returns its id."""


class NewRecord(NamedTuple):
    """A record to write."""

    event: str | None
    """None for a claim."""
    request: str
    parent: str | None
    fields: Facts


class ForwardingSink:
    """An `AuditSink` that passes every call on to another one."""

    def __init__(self, sink: AuditSink) -> None:
        self._sink = sink

    def claim(self, request: str, fields: Facts, *, parent: str | None = None) -> str:
        """Write the `started` record of a request; see `AuditSink.claim`."""
        return self._write(
            NewRecord(None, request, parent, fields),
            lambda facts: self._sink.claim(request, facts, parent=parent),
        )

    def append(self, event: str, request: str, fields: Facts, *, parent: str | None = None) -> str:
        """Write one record; see `AuditSink.append`."""
        return self._write(
            NewRecord(event, request, parent, fields),
            lambda facts: self._sink.append(event, request, facts, parent=parent),
        )

    def append_soon(self, event: str, request: str, fields: Facts, *, parent: str | None = None) -> str:
        """Queue one record; see `AuditSink.append_soon`."""
        return self._write(
            NewRecord(event, request, parent, fields),
            lambda facts: self._sink.append_soon(event, request, facts, parent=parent),
        )

    def query(self, **wanted: Unpack[AuditQuery]) -> Iterator[AuditRecord]:
        """Yield matching records; see `AuditSink.query`."""
        return self._sink.query(**wanted)

    def close(self) -> None:
        """Close the other sink."""
        self._sink.close()

    def _write(self, record: NewRecord, write: Write) -> str:
        """Write any record, and return its id."""
        return write(record.fields)


class RedactedSink(ForwardingSink):
    """Removes secrets from the fields of every record.

    Known secrets are removed from all fields. The rules for unknown ones read only the facts that a program or caller
    chose.
    """

    def __init__(self, sink: AuditSink, redact: Callable[[Facts], Facts]) -> None:
        super().__init__(sink)
        self._redact = redact

    def _write(self, record: NewRecord, write: Write) -> str:
        return write(self._redact(record.fields))


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


class CheckedSink(ForwardingSink):
    """Passes records on to a sink that the caller brings: whatever it does, nothing runs without a record.

    What that raises is a LedgerUnusable, and so is an answer that is no id.

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
