"""Signals outside of the event loop: Ctrl-C, repeated signals, and ignored ones.

`signals` handles signals that an event loop waits for.
"""

import _thread
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from paddock.foundation import forced_exit

if TYPE_CHECKING:
    from types import FrameType

EXIT_INTERRUPTED = 130
"""Exit code after Ctrl-C, as in a shell: 128 plus the signal's number."""

SAME_INTERRUPT_S = 0.5
"""Time in which a repeated signal counts as the same, in seconds. timeout(1) signals its child and the group of both; a
signal from a terminal arrives again from programs that forward it, such as npm."""


def install_interrupt_hook() -> None:
    """Let a Ctrl-C end the process if it arrives where it cannot be raised, as in a `__del__`.

    Python would print it and continue.
    """
    default_hook = sys.unraisablehook

    def on_unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            _end_by(signal.SIGINT)
        default_hook(unraisable)

    sys.unraisablehook = on_unraisable


def reset_sigchld() -> None:
    """Reset SIGCHLD if the parent process ignored it; otherwise exit statuses of our children are lost."""
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def is_interrupt(error: Exception) -> bool:
    """Return whether an error was Ctrl-C; pydantic turns it into its own error while it builds a validator."""
    return type(error).__name__ == "SchemaError" and KeyboardInterrupt.__name__ in str(error)


def end_at_next(number: int) -> None:
    """Let the next signal with this number end the process; an earlier one is already ending it in order."""
    received_at = time.monotonic()

    def on_signal(_number: int, _frame: "FrameType | None") -> None:
        if time.monotonic() - received_at >= SAME_INTERRUPT_S:
            _end_by(number)

    signal.signal(number, on_signal)


def _end_by(number: int) -> None:
    """End the process by a signal, after necessary records; a later signal (half a second on) does not wait."""
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
            os.kill(os.getpid(), number)  # only the main thread may restore the default action

    def on_signal(_number: int, _frame: "FrameType | None") -> None:
        if done or time.monotonic() - received_at >= SAME_INTERRUPT_S:
            _kill_self(number)

    signal.signal(number, on_signal)
    try:
        # The interrupted code may hold the needed locks; `threading` itself takes some.
        _thread.start_new_thread(end_process, ())
    except RuntimeError:  # no further thread can be started
        _kill_self(number)


def _kill_self(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
