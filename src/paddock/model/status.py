"""How a request ended."""

from enum import StrEnum


class Status(StrEnum):
    """Who is at fault. The program failed, the request was refused, or Paddock is broken: never mixed."""

    OK = "ok"
    """It ran to its end."""
    FAILED = "failed"
    """The program itself failed: it threw, or does not parse."""
    TIMEOUT = "timeout"
    """It reached its wall time and was ended."""
    MEMORY_LIMIT = "memory_limit"
    """It needed more memory than its limit and was ended."""
    OUTPUT_LIMIT = "output_limit"
    """It wrote more than its limit and was ended; or it returned more, which is stored."""
    PROCESS_LIMIT = "process_limit"
    """It started more processes than its limit and was ended."""
    CANCELLED = "cancelled"
    """Cancelled by the caller: Ctrl-C, a cancelled request, a disconnected client."""
    DENIED = "denied"
    """Policy refused; nothing ran."""
    INVALID = "invalid"
    """The request is not valid; nothing ran."""
    UNAVAILABLE = "unavailable"
    """It never started, or other programs kept it from running and it changed nothing; safe to retry."""
    LOST = "lost"
    """The worker died after the start, and its effects until then remain; or the session had ended, and nothing ran."""
    ERROR = "error"
    """Paddock itself failed."""
