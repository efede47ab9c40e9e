"""Ctrl-C where nothing waits for it, and signals that come twice."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from pydantic_core import SchemaError

from paddock.foundation import forced_exit
from paddock.surfaces.cli import interrupts

SWALLOWED = """
import signal
from paddock.surfaces.cli import interrupts
interrupts.install_interrupt_hook()
class Swallows:
    def __del__(self): raise {0}
Swallows()
print("went on", flush=True)
"""


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Signals that were sent, and none of them was. Sessions that other tests left open hear of none."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(forced_exit, "_acts", [])
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


ABANDONS = """
import os, signal, sys, time
from paddock.foundation import forced_exit
from paddock.surfaces.cli import interrupts
interrupts.SAME_INTERRUPT_S = {same_s}
def fails(): raise OSError
def acts(): {acts}
with forced_exit.do_before(acts), forced_exit.do_before(fails):
    interrupts.end_at_next(signal.SIGTERM)
    for _ in range({count}):
        os.kill(os.getpid(), signal.SIGTERM)
    while True: pass  # a signal just before a blocking call is handled after the call
"""


@pytest.mark.parametrize(
    ("acts", "count", "same_s", "out"),
    [
        ("print('done', flush=True)", 1, 0, "done\n"),
        ("signal.pause()", 2, 0, ""),
    ],
)
def test_what_must_come_before_comes_before_the_end_by_force(
    acts: str, count: int, same_s: float, out: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ABANDONS.format(acts=acts, count=count, same_s=same_s)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, out)


def test_a_signal_that_comes_twice_does_not_cut_short_what_comes_before(
    monkeypatch: pytest.MonkeyPatch, sent: list[tuple[int, int]]
) -> None:
    before, may_end, ended = signal.getsignal(signal.SIGUSR1), threading.Event(), threading.Event()
    now = [100.0]

    def act() -> None:
        may_end.wait()
        ended.set()

    try:
        monkeypatch.setattr(time, "monotonic", lambda: now[0])
        with forced_exit.do_before(act):
            interrupts.end_at_next(signal.SIGUSR1)
            for now[0] in (101.0, 101.0, 101.4):
                signal.raise_signal(signal.SIGUSR1)
            assert sent == []
            now[0] = 101.6
            signal.raise_signal(signal.SIGUSR1)  # it is not waited for any longer
            assert sent == [(os.getpid(), signal.SIGUSR1)]
            assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
            may_end.set()
            ended.wait()
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
