"""An audit sink that notifies observers."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from paddock.model.program import RUNTIMES
from paddock.record.ledger.sink import AuditSink, Facts
from paddock.record.ledger.sink_wrappers import ForwardingSink, NewRecord, Write

if TYPE_CHECKING:
    from paddock.record.output.artifacts import Artifacts

WAITS = ("queue", "claim")
"""What a request waits for before it runs: its turn in this process, and its claim among the machines of a cluster."""
_ENDS = ("finished", "decided")

_log = logging.getLogger("paddock.record.telemetry")

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


class Reading(NamedTuple):
    """A number that is read whenever metrics are: a counter if its name ends with `_total`, otherwise a gauge."""

    name: str
    about: str
    value: float | Mapping[str, float]
    """The number, or one for each value of a label."""
    label: str = ""
    """Name of that label."""


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


class ObservedSink(ForwardingSink):
    """Notifies observers of records. An observer cannot fail a request."""

    def __init__(self, sink: AuditSink, observers: Sequence[Observer]) -> None:
        super().__init__(sink)
        self._observers = observers

    def _write(self, record: NewRecord, write: Write) -> str:
        """Write a record. Observers are notified of an end or an answer even if it cannot be written."""
        event, request, parent, fields = record
        try:
            id_ = write(fields)
        finally:
            if event in _ENDS:
                self._notify_observers(lambda observer: observer.on_end(request, parent, fields))
            elif event == "answered":
                self._notify_observers(lambda observer: observer.on_answer(request, parent, fields))
        if event is None:
            self._notify_observers(lambda observer: observer.on_start(request, parent, fields))
        return id_

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
