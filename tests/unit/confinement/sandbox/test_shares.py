"""What a supervisor makes of the times of a job's threads: how long it was stalled, and which weight it gets."""

import pytest

from paddock.confinement.sandbox.child.process_tree import Process, Sample
from paddock.confinement.sandbox.child.shares import ThreadTimes, find_nice, measure_load, measure_stall


@pytest.mark.parametrize(
    ("wanted_ms", "cpu_ms", "stalled_ms"),
    [
        ([], 0, 0),
        ([100], 100, 0),
        ([100], 9, 91),
        ([5], 0, 5),  # it slept for the rest
        ([100, 100], 100, 0),  # one thread ran while the other waited: no other job took anything
        ([100] * 20, 100, 0),
        ([100] * 20, 200, 0),
        ([100] * 20, 30, 70),
        ([100, 20], 30, 70),
        ([130], 9, 91),  # it began to wait before the window
    ],
)
def test_a_job_is_stalled_only_while_none_of_its_threads_runs(wanted_ms, cpu_ms, stalled_ms):
    assert measure_stall(wanted_ms, cpu_ms, 100) == stalled_ms


@pytest.mark.parametrize(
    ("load", "nice"), [(0, 0), (1, 0), (1.1, 0), (2, 3), (4, 6), (8, 9), (20, 13), (64, 19), (1000, 19)]
)
def test_more_threads_weigh_together_as_much_as_one(load, nice):
    assert find_nice(load) == nice


def spent(*wanted, session=1):
    return [ThreadTimes(cpu_ms, wait_ms, session) for cpu_ms, wait_ms in wanted]


def sample(*sessions):
    processes = [Process(f"/proc/{number}", 0, session, True) for number, session in enumerate(sessions, 1)]
    return Sample(tuple(processes), len(processes), 0, 0, 0)


@pytest.mark.parametrize(
    ("times", "running", "load"),
    [
        ([], [], (0, 0)),
        (spent((100, 0)), [1], (1, 1)),
        (spent((1, 0), (50, 0)), [], (0.51, 0.51)),  # twenty idle threads weigh nothing
        (spent((50, 50), (0, 100)), [1], (2, 1)),
        ([*spent((50, 50), session=1), *spent((10, 90), session=2)], [1, 2], (2, 2)),
        (spent((2, 1)) * 3, [1, 2, 3], (3, 3)),  # short-lived processes, each in a new session
    ],
)
def test_the_load_of_a_job_is_what_wants_a_processor(times, running, load):
    assert measure_load(sample(*running), times, 100) == pytest.approx(load)
