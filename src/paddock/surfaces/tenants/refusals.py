"""Requests that a server refused before policy saw them: bad tokens, reached limits, no free slot, other names.

Each one is counted in the metrics. The record and the log get one entry for each cause and second, with a number:
whoever has no token must not be able to fill the disk. The first refusal is written at once.
"""

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from paddock.model.errors import LedgerError
from paddock.model.ids import new_id
from paddock.model.program import RUNTIMES
from paddock.record.ledger.sink import AuditSink, Field

if TYPE_CHECKING:
    from paddock.record.telemetry.metrics import Metrics

PERIOD_S = 1.0
"""Minimum time between two entries for one cause, in seconds."""
MAX_NAMED = 10
"""Maximum number of actors, and of languages, that one entry names."""
_LANGUAGES = frozenset({"javascript", *RUNTIMES})
_log = logging.getLogger("paddock.refusals")


class _Waiting:
    """Refusals for one cause since its last entry."""

    def __init__(self, flush: asyncio.TimerHandle) -> None:
        self.flush = flush
        self.count = 0
        self.actors = Counter[str]()
        self.languages = Counter[str]()


class Refusals:
    """The refused requests of one server. Use it in one event loop."""

    def __init__(self, audit: AuditSink, metrics: "Metrics | None", surface: str = "http") -> None:
        """Record in `audit`, and count in `metrics`, what a `surface` refuses."""
        self._surface = surface
        self._audit = audit
        self._metrics = metrics
        self._waiting: dict[str, _Waiting] = {}

    def note(self, reason: str, actor: str = "", language: str = "") -> None:
        """Count a refusal. `reason` is one of a fixed set; `actor` is a known one, or empty."""
        language = language if language in _LANGUAGES else ""  # a caller may have made it up
        if self._metrics is not None:
            self._metrics.refusals.labels(reason, language).inc()
        waiting = self._waiting.get(reason)
        if waiting is None:
            self._write(reason, 1, [actor], [language])
            self._start_period(reason)
            return
        waiting.count += 1
        for names, name in ((waiting.actors, actor), (waiting.languages, language)):
            if name in names or len(names) < MAX_NAMED:
                names[name] += 1

    def observe_wait(self, seconds: float) -> None:
        """Count how long a request waited for a slot among all users."""
        if self._metrics is not None and seconds >= 0.001:
            self._metrics.waits.labels("slot").observe(seconds)

    def close(self) -> None:
        """Write what has not been written yet."""
        for reason, waiting in [*self._waiting.items()]:
            waiting.flush.cancel()
            self._flush(reason, waiting)
        self._waiting.clear()

    def _start_period(self, reason: str) -> None:
        timer = asyncio.get_running_loop().call_later(PERIOD_S, self._end_period, reason)
        self._waiting[reason] = _Waiting(timer)

    def _end_period(self, reason: str) -> None:
        waiting = self._waiting.pop(reason)
        if waiting.count:
            self._flush(reason, waiting)
            self._start_period(reason)

    def _flush(self, reason: str, waiting: _Waiting) -> None:
        if waiting.count:
            self._write(reason, waiting.count, [*waiting.actors], [*waiting.languages])

    def _write(self, reason: str, count: int, actors: list[str], languages: list[str]) -> None:
        facts: dict[str, Field] = {
            "kind": "refusal",
            "surface": self._surface,
            "reason": reason,
            "count": count,
        }
        named: dict[str, Field] = {
            "actors": sorted(filter(None, actors)),
            "languages": sorted(filter(None, languages)),
        }
        facts |= {name: values for name, values in named.items() if values}
        text = " ".join(f"{name}={','.join(v) if isinstance(v, list) else v}" for name, v in facts.items())
        _log.warning("refused %s", text, extra={"event": "refused", "facts": facts})
        with suppress(LedgerError):  # a request that is refused is refused also without the ledger
            self._audit.append_soon("refused", new_id(), facts)
