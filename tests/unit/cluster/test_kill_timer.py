"""The timer of the kernel ends a process, whatever state it is in."""

import os
import signal
import time

from paddock.cluster.lease import KillTimer


def run_child(*, stops: bool, disarms: bool) -> int:
    """Return the exit code of a process that arms the timer, and may stop itself or disarm it again."""
    pid = os.fork()
    if pid == 0:
        timer = KillTimer()
        timer.arm(time.clock_gettime(time.CLOCK_BOOTTIME) + (0.05 if not disarms else 3600))
        if disarms:
            timer.disarm()
            os._exit(7)
        if stops:
            os.kill(os.getpid(), signal.SIGSTOP)
        while True:
            time.sleep(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_it_kills_a_process_that_runs_or_is_stopped() -> None:
    assert run_child(stops=False, disarms=False) == -signal.SIGKILL
    assert run_child(stops=True, disarms=False) == -signal.SIGKILL


def test_a_disarmed_timer_kills_nothing() -> None:
    assert run_child(stops=False, disarms=True) == 7
