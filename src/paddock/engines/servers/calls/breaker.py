"""The circuit breaker of one server: a value without a clock."""

from dataclasses import dataclass, replace

FAILURE_THRESHOLD = 5
"""Number of consecutive failures that opens the breaker."""

COOLDOWN_MS = 30_000
"""How long the breaker stays open, in milliseconds, including the last one."""


@dataclass(frozen=True, slots=True)
class Breaker:
    """Counts consecutive failures. Refuses calls while it is open; after the cooldown, allows them again.

    Opening resets the count, so that a server needs five more failures to open it again.
    """

    threshold: int = FAILURE_THRESHOLD
    cooldown_ms: float = COOLDOWN_MS
    failures: int = 0
    opened_at: float | None = None

    def is_open(self, now: float) -> bool:
        """Return whether calls are refused at `now`, in milliseconds."""
        return self.opened_at is not None and now - self.opened_at <= self.cooldown_ms

    def record_failure(self, now: float) -> "Breaker":
        """Return the breaker after one more failure at `now`."""
        if self.failures + 1 < self.threshold:
            return replace(self, failures=self.failures + 1)
        return replace(self, failures=0, opened_at=now)

    def record_success(self) -> "Breaker":
        """Return the breaker after a success: its failures are forgotten."""
        return (
            replace(self, failures=0, opened_at=None) if self.failures or self.opened_at is not None else self
        )
