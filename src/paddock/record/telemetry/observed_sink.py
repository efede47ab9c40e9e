"""An audit sink that notifies observers."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from paddock.model.program import RUNTIMES
from paddock.record.ledger.sink import AuditRecord, AuditSink, Field

if TYPE_CHECKING:
    from paddock.record.output.artifacts import Artifacts

WAITS = ("queue", "claim")
"""What a request waits for before it runs: its turn in this process, and its claim among the machines of a cluster."""
_ENDS = ("finished", "decided")

_log = logging.getLogger("paddock.record.telemetry")

Facts = Mapping[str, Field]
"""Facts of a request in the ledger (`paddock.gate.audit_facts`)."""

LabelFinder = Callable[[str, str], tuple[str, str]]
"""Returns the names of a server and a tool if they are configured and listed; "" for names that a program made up."""


class Sources(NamedTuple):
    """Sources of facts about a session besides its requests."""

    find_labels: LabelFinder
    waiting: Callable[[], int]
    """Number of programs that wait for a slot."""
    workers: Callable[[], int]
    """Number of live JavaScript workers, including spares."""
    servers: Callable[[], int]
    """Number of live upstream servers."""
    artifacts: "Callable[[], Artifacts]"
    """Returns the store of output."""


class Observer(Protocol):
    """Is notified of requests, in the task that carries them out."""

    def on_start(self, request: str, parent: str | None, facts: Facts) -> None:
        """Handle the start of a request."""
        ...

    def on_end(self, request: str, parent: str | None, facts: Facts) -> None:
        """Handle the end of a request; a rejected request ends without a start."""
        ...

    def on_answer(self, request: str, parent: str | None, facts: Facts) -> None:
        """Handle a person's answer about a request, and the time that it took."""
        ...


class ObservedSink:
    """An `AuditSink` that notifies observers of its records. An observer cannot fail a request."""

    def __init__(self, sink: AuditSink, observers: Sequence[Observer]) -> None:
        self._sink = sink
        self._observers = observers

    def claim(self, request: str, fields: Facts, *, parent: str | None = None) -> str:
        """Write the `started` record of a request; see `AuditSink.claim`."""
        record = self._sink.claim(request, fields, parent=parent)
        self._notify_observers(lambda observer: observer.on_start(request, parent, fields))
        return record

    def append(self, event: str, request: str, fields: Facts, *, parent: str | None = None) -> str:
        """Write one record; see `AuditSink.append`. Observers are notified even if it cannot be written."""
        try:
            return self._sink.append(event, request, fields, parent=parent)
        finally:
            self._tell_of(event, request, parent, fields)

    def append_soon(self, event: str, request: str, fields: Facts, *, parent: str | None = None) -> str:
        """Queue one record; see `AuditSink.append_soon`."""
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
            except Exception as fault:  # noqa: BLE001 - the request continues after any fault
                _log.warning("%s failed: %s", type(observer).__name__, type(fault).__name__)


def find_language(facts: Facts) -> str:
    """Return the language of a program that ended; empty for other work, and for a name that was made up."""
    if facts["kind"] == "guest":
        return "javascript"
    name = str(facts.get("name"))
    is_known = name in RUNTIMES or facts.get("status") not in ("denied", "invalid")
    return name if facts["kind"] == "runtime" and is_known else ""


def call_of(facts: Facts, find_labels: LabelFinder) -> tuple[str, str]:
    """Return the server and the tool of a call, or "" for names that must not be exported."""
    server, _, tool = str(facts["name"]).rpartition("/")
    return find_labels(server, tool)
