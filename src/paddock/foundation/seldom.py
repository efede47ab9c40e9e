"""Log what happens again and again at most once a minute."""

import time
from collections.abc import Callable

PERIOD_S = 60.0
"""Minimum time between two log lines about one thing, in seconds."""


class Seldom:
    """Tells when a log line about a thing is due. The things are few: replicas, not callers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self._clock = clock
        self._logged: dict[str, float] = {}

    def is_due(self, thing: str) -> bool:
        """Return whether the last time that this was true for the thing was at least `PERIOD_S` ago."""
        now = self._clock()
        if now - self._logged.get(thing, float("-inf")) < PERIOD_S:
            return False
        self._logged[thing] = now
        return True
