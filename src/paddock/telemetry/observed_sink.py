"""The audit sink with observers around it."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from paddock.audit.sink import AuditRecord, AuditSink, Field

if TYPE_CHECKING:
    from paddock.output.artifacts import Artifacts

_ENDS = ("finished", "decided")

_log = logging.getLogger("paddock.telemetry")

Facts = Mapping[str, Field]
"""What the record keeps of a request (see `paddock.app.audit_facts`)."""

LabelFinder = Callable[[str, str], tuple[str, str]]
"""Returns a server's and a tool's name if they are configured and listed; empty for those that a program made up."""


class Sources(NamedTuple):
    """What is known of a session besides its requests."""

    find_labels: LabelFinder
    waiting: Callable[[], int]
    """How many programs wait for a place."""
    workers: Callable[[], int]
    """How many workers of the guest live, spares included."""
    servers: Callable[[], int]
    """How many upstream servers live."""
    artifacts: "Callable[[], Artifacts]"
    """Where output is stored."""


class Observer(Protocol):
    """Hears of requests, in the task that carries them out."""

    def on_start(self, request: str, parent: str | None, facts: Facts) -> None:
        """Hear that a request is about to run."""
        ...

    def on_end(self, request: str, parent: str | None, facts: Facts) -> None:
        """Hear how a request ended; one that was decided without running never started."""
        ...

    def on_answer(self, request: str, parent: str | None, facts: Facts) -> None:
        """Hear what a person said who was asked about a request, and how long that took."""
        ...


class ObservedSink:
    """An `AuditSink` whose observers hear what it was given to write. None of them can fail a request."""

    def __init__(self, sink: AuditSink, observers: Sequence[Observer]) -> None:
        self._sink = sink
        self._observers = observers

    def claim(self, request: str, fields: Facts, *, parent: str | None = None) -> str:
        """Write the `started` record of a request; see `AuditSink.claim`."""
        record = self._sink.claim(request, fields, parent=parent)
        self._notify_observers(lambda observer: observer.on_start(request, parent, fields))
        return record

    def append(self, event: str, request: str, fields: Facts, *, parent: str | None = None) -> str:
        """Write one record; see `AuditSink.append`. A request has ended although that cannot be written."""
        try:
            return self._sink.append(event, request, fields, parent=parent)
        finally:
            self._tell_of(event, request, parent, fields)

    def append_soon(self, event: str, request: str, fields: Facts, *, parent: str | None = None) -> str:
        """Hand over one record; see `AuditSink.append_soon`."""
        try:
            return self._sink.append_soon(event, request, fields, parent=parent)
        finally:
            self._tell_of(event, request, parent, fields)

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
        return self._sink.query(
            event=event, request=request, since=since, limit=limit, newest_first=newest_first
        )

    def close(self) -> None:
        """Close the sink."""
        self._sink.close()

    def _tell_of(self, event: str, request: str, parent: str | None, fields: Facts) -> None:
        if event in _ENDS:
            self._notify_observers(lambda observer: observer.on_end(request, parent, fields))
        elif event == "answered":
            self._notify_observers(lambda observer: observer.on_answer(request, parent, fields))

    def _notify_observers(self, tell: Callable[[Observer], None]) -> None:
        for observer in self._observers:
            try:
                tell(observer)
            except Exception as fault:  # noqa: BLE001 - whatever it is, the request goes on
                _log.warning("%s failed: %s", type(observer).__name__, type(fault).__name__)


def call_of(facts: Facts, find_labels: LabelFinder) -> tuple[str, str]:
    """Return the server and the tool of a call, as far as they may be told."""
    server, _, tool = str(facts["name"]).rpartition("/")
    return find_labels(server, tool)
