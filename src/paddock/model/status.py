"""How a request ended."""

from enum import StrEnum


class Status(StrEnum):
    """Who is to blame. The program failed, the request was refused, or Paddock is broken: never mixed."""

    OK = "ok"
    """It ran to its end."""
    FAILED = "failed"
    """The program itself: it threw, it does not parse."""
    TIMEOUT = "timeout"
    """It used up its wall time, and was ended."""
    MEMORY_LIMIT = "memory_limit"
    """It wanted more memory than its limit, and was ended."""
    OUTPUT_LIMIT = "output_limit"
    """It wrote more than its limit, and was ended; or it returned more, which is stored."""
    PROCESS_LIMIT = "process_limit"
    """It started more processes than its limit, and was ended."""
    CANCELLED = "cancelled"
    """Who asked wanted it no more: Ctrl-C, a cancelled call, a client that is gone."""
    DENIED = "denied"
    """Policy refused; nothing ran."""
    INVALID = "invalid"
    """The request makes no sense; nothing ran."""
    UNAVAILABLE = "unavailable"
    """Never started; safe to retry."""
    LOST = "lost"
    """The worker died after the start; what it did up to then happened."""
    ERROR = "error"
    """Paddock itself failed."""
