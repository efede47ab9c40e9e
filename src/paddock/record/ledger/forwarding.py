"""Sinks on top of another sink: each one overrides only what it changes."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Unpack

from paddock.record.ledger.sink import AuditQuery, AuditRecord, AuditSink, Facts

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
    """Removes secrets from the fields of every record."""

    def __init__(self, sink: AuditSink, redact: Callable[[Facts], Facts]) -> None:
        super().__init__(sink)
        self._redact = redact

    def _write(self, record: NewRecord, write: Write) -> str:
        return write(self._redact(record.fields))
