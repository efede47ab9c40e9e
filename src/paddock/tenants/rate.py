"""The rate of one token: at most so many requests in any 60 seconds."""

import time
from collections import deque
from collections.abc import Callable

from paddock.tenants.errors import RateExceeded

PERIOD_S = 60.0


class RateLimit:
    """Counts the requests of a token. It keeps the time of each accepted request of the last 60 seconds."""

    def __init__(self, requests: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Accept at most `requests` in any period; `clock` returns seconds."""
        self.requests = requests
        self._clock = clock
        self._accepted: deque[float] = deque(maxlen=requests)

    def count_request(self) -> None:
        """Count a request. Raises RateExceeded; a refused request does not count."""
        now = self._clock()
        if len(self._accepted) == self.requests and (wait := self._accepted[0] + PERIOD_S - now) > 0:
            raise RateExceeded(self.requests, wait)
        self._accepted.append(now)
