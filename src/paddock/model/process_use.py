"""What processes use at one moment."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple


class ProcessUse(NamedTuple):
    """What the processes of a run use now."""

    memory_bytes: int
    cpu_ms: float
    """CPU time since their start."""


MeasureUse = Callable[[], Awaitable[ProcessUse | None]]
"""Measures the processes of a run; None after their end, or if they do not answer."""
