"""Nothing of a job outlives it, and its result is there soon after the limit.

How soon depends on the machine: the report waits for the kernel only for a short time, and counts what still lives.
`PADDOCK_KILL_RUNS=200 PADDOCK_KILL_LATE_MS=250` on a quiet one runs every program so often and holds each to what is
promised; places and programs are described in kill_driver.py and endless.py.
"""

import os

import pytest

RUNS = os.environ.get("PADDOCK_KILL_RUNS", "1")
PLACES = [
    ("root", "landlock"),
    ("user", "landlock"),
    ("no-userns", "landlock"),
    ("docker", "landlock"),
    ("root", "namespaces"),
    ("user", "namespaces"),
]
IS_QUIET = "PADDOCK_KILL_LATE_MS" in os.environ
LATE_MS = int(os.environ.get("PADDOCK_KILL_LATE_MS", "5000"))
PROGRAMS = 23


@pytest.mark.parametrize(("place", "tier"), PLACES)
def test_p26_s21_s22_p28_nothing_survives_and_results_are_in_time(drive, place, tier):
    report = drive("kill_driver.py", place, tier, RUNS)
    assert len(report) == PROGRAMS
    for name, runs in report.items():
        assert len(runs) == int(RUNS)
        for run in runs:
            assert run["as_expected"], (name, run)
            assert run["alive"] == [], (name, run)
            assert run["survivors"] == 0 or not IS_QUIET, (name, run)
            assert run["late_ms"] < LATE_MS, (name, run)
