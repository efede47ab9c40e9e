"""Signals where nothing waits for them: Ctrl-C, those that come twice, and those that were ignored.

What waits for signals is in `signals`.
"""

import _thread
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from paddock import forced_exit

if TYPE_CHECKING:
    from types import FrameType

EXIT_INTERRUPTED = 130
"""Exit code after Ctrl-C, as under a shell: 128 and the number of the signal."""

SAME_INTERRUPT_S = 0.5
"""Seconds in which a signal counts as the one before it. timeout(1) sends each to its child and to the group of both,
and what a terminal sends to all comes again from programs that pass it on, such as npm."""


def install_interrupt_hook() -> None:
    """Have a Ctrl-C end the process that comes while nobody can be told, as in a callback of pydantic's or a `__del__`.

    Python would print it and go on.
    """
    told = sys.unraisablehook

    def on_unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            _end_by(signal.SIGINT)
        told(unraisable)

    sys.unraisablehook = on_unraisable


def reset_sigchld() -> None:
    """Undo that the ends of children are ignored, as some starters leave it: nobody would know how ours ended."""
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def is_interrupt(error: Exception) -> bool:
    """Return whether it was Ctrl-C, of which pydantic makes an error of its own while it makes a validator."""
    return type(error).__name__ == "SchemaError" and KeyboardInterrupt.__name__ in str(error)


def end_at_next(number: int) -> None:
    """Have the next signal of this number end the process, which one before it is about to end in order."""
    received_at = time.monotonic()

    def on_signal(_number: int, _frame: "FrameType | None") -> None:
        if time.monotonic() - received_at >= SAME_INTERRUPT_S:
            _end_by(number)

    signal.signal(number, on_signal)


def _end_by(number: int) -> None:
    """End the process by a signal, after what must come before; another signal, half a second later, does not wait."""
    if not forced_exit.has_acts():
        _kill_self(number)
        return
    received_at, done = time.monotonic(), False

    def end_process() -> None:
        nonlocal done
        try:
            forced_exit.do_all()
        finally:
            done = True
            os.kill(os.getpid(), number)  # only the main thread may give the signal its own meaning back

    def on_signal(_number: int, _frame: "FrameType | None") -> None:
        if done or time.monotonic() - received_at >= SAME_INTERRUPT_S:
            _kill_self(number)

    signal.signal(number, on_signal)
    try:
        # The interrupted code may hold the locks that are needed; `threading` itself takes some.
        _thread.start_new_thread(end_process, ())
    except RuntimeError:  # there may be no more threads
        _kill_self(number)


def _kill_self(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
