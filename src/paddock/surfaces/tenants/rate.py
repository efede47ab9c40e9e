"""The rate of one token: at most so many requests in any 60 seconds."""

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence

from paddock.surfaces.tenants.errors import RateExceeded

PERIOD_S = 60.0

Elsewhere = Sequence[tuple[float, int]]
"""Requests that other servers accepted: when, on the clock of this one, and how many."""


class RateLimit:
    """Counts the requests of a token. It keeps the time of each accepted request of the last 60 seconds."""

    def __init__(self, requests: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Accept at most `requests` in any period; `clock` returns seconds."""
        self.requests = requests
        self._clock = clock
        self._accepted: deque[float] = deque(maxlen=requests)

    def count_request(self, elsewhere: Elsewhere = ()) -> None:
        """Count a request. Raises RateExceeded; a refused request does not count."""
        now = self._forget_old()
        others = [(at, number) for at, number in elsewhere if at + PERIOD_S > now]
        if len(self._accepted) + sum(number for _, number in others) >= self.requests:
            oldest = min([*list(self._accepted)[:1], *(at for at, _ in others)])
            raise RateExceeded(self.requests, oldest + PERIOD_S - now)
        self._accepted.append(now)

    def count_by_age(self) -> dict[int, int]:
        """Return the number of accepted requests by their age in whole seconds."""
        now = self._forget_old()
        return dict(Counter(int(now - at) for at in self._accepted))

    def _forget_old(self) -> float:
        """Forget requests that are no longer in the period, and return the time."""
        now = self._clock()
        while self._accepted and self._accepted[0] + PERIOD_S <= now:
            self._accepted.popleft()
        return now
