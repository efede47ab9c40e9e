"""Whether the records of a server can be written. A server that runs nothing without them must not get requests."""

import logging
import math
import time

from paddock.model.errors import LedgerError
from paddock.policy.settings.schema import AuditSettings
from paddock.record.ledger.sink import AuditSink
from paddock.record.ledger.writer import Ledger

_MIN_PAUSE_S = 0.5
"""Minimum time between two attempts to write, in seconds: anybody may ask for the health of a server."""
_log = logging.getLogger("paddock.record")


class RecordWatch:
    """The ledger of a server, as its health checks see it."""

    def __init__(self, sink: AuditSink, settings: AuditSettings) -> None:
        """Watch the ledger `sink`. Another sink counts as one that can be written."""
        self._sink = sink
        self._settings = settings
        self._problem = ""
        self._looked_at = -math.inf

    def can_run(self) -> bool:
        """Return whether requests of some kind can run now, and log once that they cannot, and that they can again."""
        if time.monotonic() - self._looked_at >= _MIN_PAUSE_S:
            self._look()
            self._looked_at = time.monotonic()
        return not self._problem or self._settings.required != "all"

    def _look(self) -> None:
        problem = ""
        if isinstance(self._sink, Ledger):
            try:
                self._sink.check_writable()
            except LedgerError as error:
                problem = str(error)
        if problem and not self._problem:
            _log.error("requests are refused: %s", problem)
        elif self._problem and not problem:
            _log.warning("the record can be written again")
        self._problem = problem
