"""Progress of a long installation, for whoever watches: the command line prints it on standard error."""

from collections.abc import Callable
from contextvars import ContextVar

on_progress: ContextVar[Callable[[str], None] | None] = ContextVar("on_progress", default=None)
"""Receives one line for each step of an installation. It must not raise."""


def report_progress(text: str) -> None:
    """Pass on one line of progress."""
    if (receive := on_progress.get()) is not None:
        receive(text)
