"""Interrupts: the first one ends work in order, the second one at once."""

import asyncio
import signal
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.interrupts import end_at_next

T = TypeVar("T")
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def cancel_on_signals(stop: asyncio.Event | None = None) -> Generator[list[int]]:
    """At the first interrupt set `stop`, or without it cancel the current task, so that work ends in order.

    Another interrupt, half a second later, ends the process. Yields the list of received signals.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    received: list[int] = []

    def on_signal(number: signal.Signals) -> None:
        loop.remove_signal_handler(number)
        end_at_next(number)
        received.append(number)
        if stop is None:
            task.cancel()
        else:
            stop.set()

    # An ignored signal stays ignored: nohup(1), background jobs of a script.
    heeded = [number for number in ENDING_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    for number in heeded:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield received
    finally:
        for number in heeded:
            if number not in received:
                loop.remove_signal_handler(number)


def run_until_signal(work: Coroutine[Any, Any, T]) -> T:
    """Return the value of `work`. Raises `CommandFailure`, with the exit code of the signal, if an interrupt ended it.

    Work is cancelled, so that it ends its processes and removes its temporary directories.
    """

    async def await_work() -> T:
        with cancel_on_signals() as received:
            try:
                return await work
            except (asyncio.CancelledError, Exception):
                if not received:
                    raise
                raise CommandFailure("Cancelled", exit_code=128 + received[0]) from None

    return asyncio.run(await_work())
