"""The clock of this machine, compared with that of the database at each renewal of the lease.

Ids, records, expiries of tokens and the proofs of `hops` have the time of a machine, and other machines judge it.
"""

import logging
import time
from collections.abc import Callable

from paddock.model.errors import StoreUnavailable

MAX_SKEW_S = 10.0
"""Maximum difference from the clock of the database, in seconds. Two replicas then differ by 20 seconds at most, so
that a proof, which holds for `hops.MAX_AGE_S`, may be 10 seconds on its way."""

_log = logging.getLogger("paddock.cluster")


class ClockCheck:
    """Whether the clock of this machine is that of the database, as of the last comparison."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns seconds since the epoch."""
        self.now = clock
        self.skew_s = 0.0
        """Seconds by which this clock is ahead of the other one, behind it if negative; 0 if they may be equal."""
        self.problem = ""
        """Why this machine must not serve; empty if it may."""

    def compare(self, sent: float, database: float, received: float) -> None:
        """Compare with a time of the database, read after `sent` and before `received` on this clock.

        Only what is certain counts: a slow answer makes no difference.
        """
        if received < sent:  # this clock was set meanwhile
            return
        self.skew_s = max(0.0, sent - database) - max(0.0, database - received)
        if abs(self.skew_s) <= MAX_SKEW_S:
            if self.problem:
                _log.warning("the clock of this machine agrees with that of the database again")
            self.problem = ""
            return
        if not self.problem:
            _log.error("the clock of this machine differs from that of the database by %.1f s", self.skew_s)
        self.problem = (
            f"The clock of this machine is {abs(self.skew_s):.0f} s {'ahead of' if self.skew_s > 0 else 'behind'} that "
            f"of the database of cluster.url; at most {MAX_SKEW_S:.0f} s are allowed. Set it, for example by NTP."
        )

    def check(self) -> None:
        """Raise StoreUnavailable if the clocks differ by more than `MAX_SKEW_S`."""
        if self.problem:
            raise StoreUnavailable(self.problem)
