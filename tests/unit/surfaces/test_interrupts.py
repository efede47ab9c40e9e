"""Ctrl-C where nothing waits for it, and signals that come twice."""

import os
import signal
import subprocess
import sys
import time

import pytest
from pydantic_core import SchemaError

from paddock.surfaces.cli import interrupts

SWALLOWED = """
import signal
from paddock.surfaces.cli import interrupts
interrupts.lose_none()
class Swallows:
    def __del__(self): raise {0}
Swallows()
print("went on", flush=True)
"""


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Signals that were sent, and none of them was."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *what: sent.append(what))
    return sent


@pytest.mark.parametrize(("later", "ends"), [(0.0, False), (0.49, False), (0.51, True), (60.0, True)])
def test_the_second_signal_ends_the_process_unless_it_is_the_first_one_again(
    monkeypatch: pytest.MonkeyPatch, sent: list[tuple[int, int]], later: float, *, ends: bool
) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    try:
        monkeypatch.setattr(time, "monotonic", lambda: 100.0)
        interrupts.end_at_next(signal.SIGUSR1)
        monkeypatch.setattr(time, "monotonic", lambda: 100.0 + later)
        signal.raise_signal(signal.SIGUSR1)
        assert sent == [(os.getpid(), signal.SIGUSR1)] * ends
        assert (signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL) is ends
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    ("raised", "code", "out"), [("KeyboardInterrupt", -signal.SIGINT, ""), ("ValueError", 0, "went on\n")]
)
def test_an_interrupt_that_python_would_swallow_ends_the_process(raised: str, code: int, out: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SWALLOWED.format(raised)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (code, out)


def test_an_interrupt_is_known_in_the_words_of_pydantic() -> None:
    message = 'Error building "model" validator:\n  KeyboardInterrupt: '
    assert interrupts.is_interrupt(SchemaError(message))
    assert not interrupts.is_interrupt(SchemaError("Error building"))
    assert not interrupts.is_interrupt(ValueError("KeyboardInterrupt"))
