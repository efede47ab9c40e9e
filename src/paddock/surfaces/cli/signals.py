"""Interrupts: the first one ends work in order, the second one at once."""

import asyncio
import signal
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def cancelled_by_signals() -> Generator[list[int]]:
    """Cancel the current task at the first interrupt, so that it ends in order; a second one ends it.

    Yields the list of signals that came.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    received: list[int] = []

    def cancel(number: signal.Signals) -> None:
        loop.remove_signal_handler(number)
        received.append(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, cancel, number)
    try:
        yield received
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
