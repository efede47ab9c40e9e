"""Interrupts: the first one ends work in order, the second one at once."""

import asyncio
import signal
from collections.abc import Generator
from contextlib import contextmanager

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def cancelled_by_signals(stop: asyncio.Event | None = None) -> Generator[list[int]]:
    """Set `stop`, or without it cancel the current task, at the first interrupt, so that it ends in order.

    Another one ends the process. Yields the list of signals that came.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    received: list[int] = []

    def cancel(number: signal.Signals) -> None:
        loop.remove_signal_handler(number)
        received.append(number)
        if stop is None:
            task.cancel()
        else:
            stop.set()

    # What is ignored was to be ignored: nohup(1), jobs in the background of a script.
    heeded = [number for number in _ENDING if signal.getsignal(number) != signal.SIG_IGN]
    for number in heeded:
        loop.add_signal_handler(number, cancel, number)
    try:
        yield received
    finally:
        for number in heeded:
            loop.remove_signal_handler(number)
