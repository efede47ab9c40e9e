"""The circuit breaker of one server: a value without a clock."""

from dataclasses import dataclass, replace

FAILURE_THRESHOLD = 5
"""Consecutive failures that open the breaker."""

COOLDOWN_MS = 30_000
"""Milliseconds for which it stays open; the last of them still counts as open."""


@dataclass(frozen=True, slots=True)
class Breaker:
    """Count consecutive failures. Open, refuse; after the cooldown, let calls through again.

    The count starts anew when the breaker opens, so a server needs five more failures to open it again.
    """

    threshold: int = FAILURE_THRESHOLD
    cooldown_ms: float = COOLDOWN_MS
    failures: int = 0
    opened_at: float | None = None

    def is_open(self, now: float) -> bool:
        """Return whether calls are refused at `now` (milliseconds)."""
        return self.opened_at is not None and now - self.opened_at <= self.cooldown_ms

    def record_failure(self, now: float) -> "Breaker":
        """Return the breaker after one more failure at `now`."""
        if self.failures + 1 < self.threshold:
            return replace(self, failures=self.failures + 1)
        return replace(self, failures=0, opened_at=now)

    def record_success(self) -> "Breaker":
        """Return the breaker after a success: everything is forgotten."""
        return (
            replace(self, failures=0, opened_at=None) if self.failures or self.opened_at is not None else self
        )
